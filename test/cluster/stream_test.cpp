// SPDX-License-Identifier: Apache-2.0
// Generators in other nodes than their readers: all items in order and no more than the reader
// allows, whatever becomes of the nodes meanwhile.
#include <string>

#include "cluster/checks.hpp"

namespace cluster_stream_test {

namespace {

using namespace cluster_test;  // NOLINT: the words of this folder
using Catch::Matchers::Contains;

const std::string sharer = MANTA_SHARER_PROGRAM;

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
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM}) lose("dry-wells", {.signal = signal});
}

TEST_CASE("generators end whose reader's node is lost", "[cluster][stream]") {
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM}) lose("unread", {.signal = signal});
}

}  // namespace cluster_stream_test
