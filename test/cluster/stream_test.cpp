// SPDX-License-Identifier: Apache-2.0
// Generators in other nodes than their readers: all items in order and no more than the reader
// allows, whatever becomes of the nodes meanwhile.
#include <chrono>
#include <string>

#include "cluster/network.hpp"

namespace cluster_stream_test {

namespace {

using namespace std::chrono_literals;
using namespace cluster_test;  // NOLINT: the words of this folder
using Catch::Matchers::Contains;

const std::string settler = MANTA_SETTLER_PROGRAM;
const std::string sharer = MANTA_SHARER_PROGRAM;

void check_right(const outcome& o, const std::string& what) {
  CAPTURE(what, o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains(what + ": right"));
}

// Runs one of its programs, and sends that signal to rank-2 when it has said its pids.
void lose(const std::string& what, int signal) {
  CAPTURE(what, signal);
  const site here;
  child job({settler, what},
            here.with({"MANTA_NODES=4", dead_after(signal), "MANTA_DRAIN_MS=300"}));
  if (!job.says("pid rank-3")) {
    const outcome o = job.finish();
    FAIL("it ended, or was too slow, before its fault: " << o.out << o.err);
  }
  const pid_t lost = pids_in(job.so_far().out).at("rank-2");
  kill(lost, signal);
  check_right(job.finish(), what);
  kill(lost, SIGKILL);
}

}  // namespace

TEST_CASE("a generator in another node is as one at home", "[cluster][stream]") {
  const site here;
  const std::string items = has_tsan ? "5000" : "100000";
  check_right(here.run({settler, "streams", items}, {"MANTA_NODES=3"}), "streams");
  CHECK(here.jobs().empty());
}

TEST_CASE("the items of a generator elsewhere are copied where nothing is mapped",
          "[cluster][stream]") {
  const site here;
  check_right(here.run({settler, "streams", "1000"},
                       {"MANTA_NODES=3", "MANTA_WORKERS=2", "MANTA_MAP_ARRAYS=no"}),
              "streams");
}

TEST_CASE("generators that wait in a queue run in all nodes", "[cluster][stream]") {
  const site here;
  const outcome o = here.run({sharer, "generating", "200"}, {"MANTA_NODES=4"});
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("generating: right, 4 processes"));
}

TEST_CASE("a lost node's generators end with that as their last item", "[cluster][stream]") {
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM}) lose("dry-wells", signal);
}

TEST_CASE("generators end whose reader's node is lost", "[cluster][stream]") {
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM}) lose("unread", signal);
}

}  // namespace cluster_stream_test
