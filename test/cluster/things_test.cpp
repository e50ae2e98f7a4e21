// SPDX-License-Identifier: Apache-2.0
// Channels, semaphores and barriers that several nodes use: one home for each, whoever has a handle
// and whatever becomes of the nodes meanwhile.
#include <chrono>
#include <string>

#include "cluster/network.hpp"

namespace cluster_things_test {

namespace {

using namespace std::chrono_literals;
using namespace cluster_test;  // NOLINT: the words of this folder
using Catch::Matchers::Contains;

const std::string settler = MANTA_SETTLER_PROGRAM;

void check_right(const outcome& o, const std::string& what) {
  CAPTURE(what, o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains(what + ": right"));
}

// Runs one of its programs, and sends that signal to rank-2 when it has said its pids.
void lose(const std::string& what, int signal) {
  CAPTURE(what, signal);
  const site here;
  child job({settler, what}, here.with({"MANTA_NODES=4", "MANTA_WORKERS=4", dead_after(signal),
                                        "MANTA_DRAIN_MS=300"}));
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

TEST_CASE("a channel is one for all nodes that have a handle", "[cluster][things]") {
  const site here;
  check_right(here.run({settler, "channels"}, {"MANTA_NODES=3", "MANTA_WORKERS=2"}), "channels");
  CHECK(here.jobs().empty());
}

// Arrays that are mapped are in no message, and not waited for.
TEST_CASE("large items of a channel leave as there is room, and come back", "[cluster][things]") {
  const site here;
  check_right(here.run({settler, "bulky-things"},
                       {"MANTA_NODES=2", "MANTA_WORKERS=4", "MANTA_MAP_ARRAYS=no"}),
              "bulky-things");
}

TEST_CASE("semaphores and barriers count what all nodes do", "[cluster][things]") {
  const site here;
  check_right(here.run({settler, "semaphores"}, {"MANTA_NODES=3", "MANTA_WORKERS=4"}),
              "semaphores");
}

TEST_CASE("handles of channels, semaphores and barriers go on to any node", "[cluster][things]") {
  const site here;
  for (const char* const maps : {"MANTA_MAP_ARRAYS=yes", "MANTA_MAP_ARRAYS=no"}) {
    check_right(here.run({settler, "passed-things"}, {"MANTA_NODES=3", "MANTA_WORKERS=4", maps}),
                "passed-things");
  }
}

TEST_CASE("who uses a channel of a lost node is told so", "[cluster][things]") {
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM}) lose("lost-homes", signal);
}

TEST_CASE("what a lost node waited for is withdrawn, and its permits go back",
          "[cluster][things]") {
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM}) lose("lost-users", signal);
}

}  // namespace cluster_things_test
