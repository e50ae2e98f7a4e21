// SPDX-License-Identifier: Apache-2.0
// Channels, semaphores and barriers that several nodes use: one home for each, whoever has a handle
// and whatever becomes of the nodes meanwhile.
#include <string>

#include "cluster/checks.hpp"

namespace cluster_things_test {

namespace {

using namespace cluster_test;  // NOLINT: the words of this folder

const variables workers{"MANTA_WORKERS=4"};  // in each node

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

TEST_CASE("selects of all nodes send each item once, to whichever channel has room",
          "[cluster][things]") {
  const site here;
  check_right(here.run({settler, "selects"}, {"MANTA_NODES=3", "MANTA_WORKERS=4"}), "selects");
  CHECK(here.jobs().empty());
}

TEST_CASE("a select that sends to a channel of a lost node is told so", "[cluster][things]") {
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM}) {
    lose("lost-select-homes", {.signal = signal, .with = workers});
  }
}

TEST_CASE("a lost node's select has sent once or not at all, and its room is free",
          "[cluster][things]") {
  for (const int signal : {SIGKILL, SIGKILL, SIGSTOP, SIGTERM}) {
    lose("lost-selectors", {.signal = signal, .with = workers});
  }
}

TEST_CASE("isolated workers use channels, semaphores and barriers of other nodes",
          "[cluster][things]") {
  const site here;
  check_right(here.run({settler, "relayed-things"}, {"MANTA_NODES=3", "MANTA_WORKERS=4"}),
              "relayed-things");
  CHECK(here.jobs().empty());
}

TEST_CASE("isolated workers that use a channel of a lost node are told so", "[cluster][things]") {
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM}) {
    lose("lost-relayed", {.signal = signal, .with = workers});
  }
}

TEST_CASE("who uses a channel of a lost node is told so", "[cluster][things]") {
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM})
    lose("lost-homes", {.signal = signal, .with = workers});
}

TEST_CASE("what a lost node waited for is withdrawn, and its permits go back",
          "[cluster][things]") {
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM})
    lose("lost-users", {.signal = signal, .with = workers});
}

}  // namespace cluster_things_test
