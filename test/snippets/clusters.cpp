// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// Several processes, several machines. Most of it comes from the environment; see the README.

TEST_CASE("cluster: who is there") {
  const manta::runtime rt;  // alone: there are no others
  CHECK(rt.rank() == 0);
  CHECK(rt.size() == 1);
  for (const manta::node_info& one : rt.nodes()) {
    CHECK(one.role == manta::role_mode::driver);
    CHECK(one.standing == manta::node_standing::alive);
    CHECK(one.pid > 0);
    CHECK_FALSE(one.name.empty());
    CHECK_FALSE(one.host.empty());
    CHECK(one.queued == 0);  // tasks, as it said last
    CHECK(one.epoch == 0);   // it is a member of nothing
    CHECK(one.has.cpus == rt.workers());
    CHECK(one.labels.empty());  // those of MANTA_LABELS
  }
}

TEST_CASE("cluster: a program that starts its own nodes") {
  manta::config settings;
  settings.nodes = 4;             // or MANTA_NODES=4
  settings.spmd = false;          // main goes on in the driver alone
  settings.dead_after_ms = 5000;  // a node that is silent for so long is dead
  settings.drain_ms = 10'000;     // for a node that is asked to leave
  settings.join_ms = 20'000;
  CHECK(settings.nodes == 4);
}

TEST_CASE("cluster: a rank that nobody's launcher has started") {
  manta::config settings;
  settings.rank = 1;  // or MANTA_RANK, MANTA_WORLD_SIZE
  settings.world_size = 8;
  settings.job = "nightly";                    // the ranks find each other by its name ...
  settings.rendezvous = "/shared/rendezvous";  // ... in a folder that all machines see
  settings.share = false;                      // each runs what it has made itself
  settings.share_resources = false;            // and what asks for gpus does so, too
  settings.map_arrays = false;                 // and reads copies of others' arrays
  settings.member_name = "simulator-1";
  CHECK(settings.world_size > settings.rank);
}

TEST_CASE("cluster: a head, and who goes to it") {
  manta::config head;
  head.role = manta::role_mode::head;  // it outlives drivers
  head.listen = "0.0.0.0:7400";
  head.control = "/var/lib/manta";
  manta::config guest;
  guest.role = manta::role_mode::observer;  // or driver, node
  guest.address = "head.example.com:7400";
  guest.token_file = "/home/me/.config/manta/token";
  guest.insecure_plaintext = false;  // encrypted between machines
  CHECK(head.role != guest.role);
  CHECK(guest.role != manta::role_mode::node);
}

TEST_CASE("cluster: how a node stands") {
  const auto gets_work = [](const manta::node_info& one) {
    return one.standing != manta::node_standing::suspected &&  // silent for a while
           one.standing != manta::node_standing::draining;     // about to leave
  };
  CHECK(gets_work(manta::node_info{}));
}
