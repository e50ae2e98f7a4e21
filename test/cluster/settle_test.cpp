// SPDX-License-Identifier: Apache-2.0
// Actors that live in other nodes than the one that made them: right answers in the right order,
// whatever becomes of the nodes meanwhile.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cluster/checks.hpp"
#include "cluster/lone_head.hpp"
#include "cluster/network.hpp"
#include "cluster/stopping.hpp"

namespace cluster_settle_test {

namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using namespace cluster_test;  // NOLINT: the words of this folder
using Catch::Matchers::Contains;

const variables four{"MANTA_NODES=4"};

// As lose, with several that are asked to leave, and have the time for it.
void leave_with(const std::string& what, const std::vector<std::string>& ranks,
                std::chrono::milliseconds after, const variables& with = {}) {
  CAPTURE(what);
  const site here;
  variables more = four;
  more.insert(more.end(), with.begin(), with.end());
  more.emplace_back("MANTA_MAP_ARRAYS=no");
  more.emplace_back("MANTA_DEAD_AFTER_MS=10000");  // who leaves is no dead one
  child job({settler, what}, here.with(more));
  const bool is_ready = job.says("pid rank-3");
  std::this_thread::sleep_for(after);  // as in lose
  for (const std::string& rank : ranks) {
    if (is_ready) kill(pids_in(job.so_far().out).at(rank), SIGTERM);
  }
  const outcome o = job.finish();
  check_right(o, what);
  CHECK_THAT(o.err, !Contains("have not fetched"));
}

}  // namespace

TEST_CASE("actors that are to lie spread live in all nodes", "[cluster][settle]") {
  const site here;
  const outcome o = here.run({settler, "spread"}, four);
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("spread: right, 4 processes"));
  CHECK(here.jobs().empty());
}

TEST_CASE("an actor lives in the node that was asked for", "[cluster][settle]") {
  const site here;
  const outcome o = here.run({settler, "places"}, four);
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("places: right, 4 processes"));
}

TEST_CASE("an actor elsewhere is as one at home", "[cluster][settle]") {
  const site here;
  for (const char* const what :
       {"failures", "ends", "values", "refusals", "limits", "stops", "names", "makers"}) {
    check_right(here.run({settler, what, "40"}, four), what);
  }
}

TEST_CASE("handles of actors go from any node to any", "[cluster][settle]") {
  const site here;
  for (const char* const what : {"handles", "holders", "ring"}) {
    check_right(here.run({settler, what, "40"}, four), what);
  }
}

TEST_CASE("weak handles go from any node to any, and keep nothing", "[cluster][settle]") {
  const site here;
  check_right(here.run({settler, "weak-handles"}, four), "weak-handles");
  CHECK(here.jobs().empty());
}

TEST_CASE("futures go from any node to any", "[cluster][settle]") {
  const site here;
  for (const char* const what : {"futures", "nomads"}) {
    check_right(here.run({settler, what, "20"}, four), what);
  }
}

TEST_CASE("values that are too long for one message go in parts", "[cluster][settle]") {
  const site here;
  const auto how =
      has_tsan ? std::vector{settler, "freight"s, "brief"s} : std::vector{settler, "freight"s};
  check_right(here.run(how, {"MANTA_NODES=3", "MANTA_MAP_ARRAYS=no"}), "freight");
}

TEST_CASE("long values go through the store to a node of the same machine", "[cluster][settle]") {
  const site here;
  const std::string how = has_tsan ? "brief" : "shared";
  const variables with{"MANTA_NODES=3", "MANTA_STORE_BYTES=1200MiB"};
  check_right(here.run({settler, "freight", how}, with), "freight");
}

TEST_CASE("arrays go from any node to any", "[cluster][settle]") {
  const site here;
  check_right(here.run({settler, "arrays"}, {"MANTA_NODES=3"}), "arrays");
  const std::string disk = here.path() + "/spilled";
  std::filesystem::create_directory(disk);
  const variables few{"MANTA_NODES=3", "MANTA_STORE_BYTES=40MiB", "MANTA_SPILL_FOLDER=" + disk};
  check_right(here.run({settler, "rested"}, few), "rested");
}

TEST_CASE("what is on the disk of one node is read from all", "[cluster][settle]") {
  for (const std::string maps : {"MANTA_MAP_ARRAYS=yes", "MANTA_MAP_ARRAYS=no"}) {
    CAPTURE(maps);
    const site here;
    const std::string disk = here.path() + "/spilled";
    std::filesystem::create_directory(disk);
    const variables few{"MANTA_NODES=3", "MANTA_STORE_BYTES=40MiB", "MANTA_SPILL_FOLDER=" + disk,
                        maps};
    check_right(here.run({settler, "rested-apart"}, few), "rested-apart");
    CHECK(std::filesystem::is_empty(disk));
  }
}

TEST_CASE("who holds more arrays of others than its store has room for has them whole, or is told",
          "[cluster][settle]") {
  const site here;
  const std::string disk = here.path() + "/spilled";
  std::filesystem::create_directory(disk);
  // What it can't have beside what it holds is store_full, each after that wait.
  const variables few{"MANTA_NODES=3", "MANTA_STORE_BYTES=40MiB", "MANTA_MAP_ARRAYS=no"};
  variables alone = few;
  alone.emplace_back("MANTA_STORE_WAIT_MS=3000");
  check_right(here.run({settler, "crowded"}, alone), "crowded");
  // Of two that wait one has that long to fetch, read and let go.
  alone.back() = "MANTA_STORE_WAIT_MS=" + std::string(manta_test::is_sanitized ? "8000" : "3000");
  check_right(here.run({settler, "crowded-values"}, alone), "crowded-values");
  variables with_disk = few;
  with_disk.insert(with_disk.end(), {"MANTA_STORE_WAIT_MS=500", "MANTA_SPILL_FOLDER=" + disk});
  check_right(here.run({settler, "crowded", "disk"}, with_disk), "crowded");
}

TEST_CASE("what nobody reads of a node that has lent its store is taken, or waits to be made",
          "[cluster][settle]") {
  const site here;
  const std::string disk = here.path() + "/spilled";
  std::filesystem::create_directory(disk);
  const variables few{"MANTA_NODES=2", "MANTA_STORE_BYTES=40MiB", "MANTA_MAP_ARRAYS=no"};
  variables patient = few;
  patient.emplace_back("MANTA_STORE_WAIT_MS=15000");
  check_right(here.run({settler, "hoarded"}, patient), "hoarded");
  variables brief = few;
  brief.emplace_back("MANTA_STORE_WAIT_MS=2000");
  check_right(here.run({settler, "hoarded-full"}, brief), "hoarded-full");
  variables with_disk = patient;
  with_disk.emplace_back("MANTA_SPILL_FOLDER=" + disk);
  check_right(here.run({settler, "hoarded", "disk"}, with_disk), "hoarded");
  CHECK(std::filesystem::is_empty(disk));
}

TEST_CASE("nodes of one machine read each other's arrays where they lie", "[cluster][settle]") {
  const site here;
  variables more{"MANTA_NODES=3", "MANTA_STORE_BYTES=64MiB"};
  check_right(here.run({settler, "neighbours"}, more), "neighbours");
  more.emplace_back("MANTA_MAP_ARRAYS=no");
  check_right(here.run({settler, "neighbours", "copied"}, more), "neighbours");
}

TEST_CASE("a large array that many calls are given is fetched once by their node",
          "[cluster][settle]") {
  const site here;
  check_right(here.run({settler, "given"}, {"MANTA_NODES=4", "MANTA_MAP_ARRAYS=no"}), "given");
}

TEST_CASE("an array that many nodes read leaves its maker for some of them alone",
          "[cluster][settle]") {
  const site here;
  // A copy is kept while those below its reader have it: of a store's eighth. Nobody is a dead one.
  const variables with{"MANTA_NODES=8", "MANTA_MAP_ARRAYS=no", "MANTA_STORE_BYTES=512MiB",
                       dead_after(SIGKILL)};
  check_right(here.run({settler, "broadcast"}, with), "broadcast");
}

TEST_CASE("a node is killed as others have an array from it that they read", "[cluster][settle]") {
  const site here;
  // As below.
  const variables with{"MANTA_NODES=8", "MANTA_MAP_ARRAYS=no", dead_after(SIGKILL)};
  check_right(here.run({settler, "broadcast-torn"}, with), "broadcast-torn");
}

TEST_CASE("the maker of an array is killed as its readers give it to each other",
          "[cluster][settle]") {
  const site here;
  const variables with{"MANTA_NODES=8", "MANTA_MAP_ARRAYS=no", "MANTA_STORE_BYTES=512MiB",
                       dead_after(SIGKILL)};
  check_right(here.run({settler, "broadcast-orphaned"}, with), "broadcast-orphaned");
}

TEST_CASE("who has made what a call was given is lost, and who was given it", "[cluster][settle]") {
  const site here;
  // Who was killed is known by its connections, and who is slow is no dead one.
  const variables with{"MANTA_NODES=4", "MANTA_MAP_ARRAYS=no", "MANTA_DEAD_AFTER_MS=15000"};
  check_right(here.run({settler, "given-lost"}, with), "given-lost");
}

TEST_CASE("keys are the cluster's at a head of its own, which is killed and started again",
          "[cluster][settle]") {
  lone_head with;
  child driver = with.driver("first", "keeps");
  REQUIRE(driver.says("it may be killed\n"));
  with.kill_and_restart();
  kill(driver.pid(), SIGUSR1);  // the head is back
  check_right(driver.finish(), "keeps");
  child later = with.driver("second", "finds");
  check_right(later.finish(), "finds");
  with.end();
}

TEST_CASE("a detached actor outlives its driver and the head, and later drivers find it",
          "[cluster][settle]") {
  lone_head with;
  child first = with.driver("first", "detaches");
  check_right(first.finish(), "detaches");
  with.kill_and_restart();
  child second = with.driver("second", "meets");
  check_right(second.finish(), "meets");
  with.end();
}

// At a runtime's end nothing is said any more as its actors end.
TEST_CASE("a head of its own has no claims of who has ended", "[cluster][settle]") {
  lone_head with;
  child first = with.driver("first", "named");
  REQUIRE(first.says("they are named\n"));
  CHECK(count_of(with.records("claim/"), "\n") == 4);
  kill(first.pid(), SIGUSR1);
  check_right(first.finish(), "named");
  std::string left;
  CHECK(happens([&] { return count_of(left = with.records("claim/"), "\n") == 1; }));
  CHECK_THAT(left, Contains("kept"));
  with.end();
}

// Its end was told while the head was away, or it is a row that a head should have dropped.
TEST_CASE("a name that a node has of which nobody hears is free after a while",
          "[cluster][settle]") {
  lone_head with;
  with.kill_and_haunt();
  child driver = with.driver("first", "haunted");
  check_right(driver.finish(), "haunted");
  with.end();
}

TEST_CASE("a large array of a result stays where it was made until it is read",
          "[cluster][settle]") {
  const site here;
  check_right(here.run({settler, "stays"}, {"MANTA_NODES=4", "MANTA_MAP_ARRAYS=no"}), "stays");
}

TEST_CASE("who waits for so long at most does so for an array that has stayed elsewhere, too",
          "[cluster][settle]") {
  const site here;
  const variables with{"MANTA_NODES=4", "MANTA_MAP_ARRAYS=no", "MANTA_DEAD_AFTER_MS=15000"};
  check_right(here.run({settler, "stayed-timed"}, with), "stayed-timed");
}

TEST_CASE("a task goes where the large arrays of its arguments lie", "[cluster][settle]") {
  const site here;
  const variables with{"MANTA_NODES=4", "MANTA_WORKERS=2", "MANTA_MAP_ARRAYS=no"};
  check_right(here.run({settler, "follows"}, with), "follows");
}

TEST_CASE("an array of an earlier runtime's node is none of the next one's", "[cluster][settle]") {
  const site here;
  check_right(here.run({settler, "heirlooms"}, {"MANTA_NODES=2"}), "heirlooms");
}

TEST_CASE("what runs elsewhere as the runtime ends finishes, and large results come",
          "[cluster][settle]") {
  const site here;
  check_right(here.run({settler, "lasts"}, {"MANTA_NODES=3"}), "lasts");
}

TEST_CASE("a task runs in the node that it asks for", "[cluster][settle]") {
  const site here;
  variables more = four;
  more.emplace_back("MANTA_WORKERS=2");
  check_right(here.run({settler, "postings"}, more), "postings");
}

TEST_CASE("a node whose name is known before it joins is waited for", "[cluster][settle]") {
  const site here;
  const std::string at = "127.0.0.1:" + free_port();
  child driver({settler, "heralds"}, here.with({"MANTA_LISTEN=" + at}));
  CHECK(driver.says("asks for it"));
  child late({settler, "heralds"},
             here.with({"MANTA_ADDRESS=" + at, "MANTA_MEMBER_NAME=late one"}));
  check_right(driver.finish(), "heralds");
  CHECK(late.finish().status == 0);
}

namespace {

// Four ranks with different things: settler_offers.cpp.
variables unlike(const site& here, int rank) {
  static const std::vector<variables> own{
      {"MANTA_GPUS=0"},
      {"MANTA_GPUS=2", "MANTA_RESOURCES=license:2", "MANTA_LABELS=kind=gpu"},
      {"MANTA_GPUS=0", "MANTA_LABELS=zone=b"},
      {"MANTA_GPUS=1", "MANTA_RESOURCES=tape:1", "MANTA_LABELS=zone=b"}};
  variables out{"MANTA_WORLD_SIZE=4",
                "MANTA_JOB=unlike",
                "MANTA_RENDEZVOUS=" + here.path(),
                "MANTA_RANK=" + std::to_string(rank),
                "MANTA_WORKERS=2",
                dead_after(SIGKILL)};
  for (const std::string& one : own.at(static_cast<std::size_t>(rank))) out.push_back(one);
  return here.with(out);
}

}  // namespace

TEST_CASE("tasks and actors go to nodes that have what they ask for", "[cluster][settle]") {
  const site here;
  child first({settler, "offers"}, unlike(here, 1));
  child second({settler, "offers"}, unlike(here, 2));
  child third({settler, "offers"}, unlike(here, 3));
  check_right(child({settler, "offers"}, unlike(here, 0)).finish(), "offers");
  for (child* const one : {&first, &second, &third}) CHECK(one->finish().status == 0);
}

TEST_CASE("nodes of one machine share its gpus, and no two have the same", "[cluster][settle]") {
  const site here;
  const variables some{"MANTA_NODES=3", "CUDA_VISIBLE_DEVICES=a,b,c,d,e"};
  check_right(here.run({settler, "cards"}, some), "cards");
}

TEST_CASE("bundles of placement groups lie in several nodes", "[cluster][settle]") {
  const site here;
  const variables with{"MANTA_NODES=4", "MANTA_WORKERS=2", "MANTA_GPUS=0"};
  for (const char* const what : {"groups", "rivals", "unplaced"}) {
    check_right(here.run({settler, what, "20"}, with), what);
  }
}

TEST_CASE("only the bundles of a lost node move", "[cluster][settle]") {
  const site here;
  child first({settler, "evicted"}, unlike(here, 1));
  child second({settler, "evicted"}, unlike(here, 2));
  child third({settler, "evicted"}, unlike(here, 3));
  child driver({settler, "evicted"}, unlike(here, 0));
  const bool is_ready = driver.says("pid rank-3");
  if (is_ready) kill(pids_in(driver.so_far().out).at("rank-3"), SIGKILL);
  check_right(driver.finish(), "evicted");
  CHECK(first.finish().status == 0);
  CHECK(second.finish().status == 0);
}

TEST_CASE("what only a lost node had is asked for in vain, and all else elsewhere",
          "[cluster][settle]") {
  const site here;
  child first({settler, "bereft"}, unlike(here, 1));
  child second({settler, "bereft"}, unlike(here, 2));
  child third({settler, "bereft"}, unlike(here, 3));
  child driver({settler, "bereft"}, unlike(here, 0));
  const bool is_ready = driver.says("pid rank-3");
  if (is_ready) kill(pids_in(driver.so_far().out).at("rank-3"), SIGKILL);
  check_right(driver.finish(), "bereft");
  CHECK(first.finish().status == 0);
  CHECK(second.finish().status == 0);
}

TEST_CASE("what no node has waits for one that joins", "[cluster][settle]") {
  const site here;
  const std::string at = "127.0.0.1:" + free_port();
  child driver({settler, "latecomers"}, here.with({"MANTA_LISTEN=" + at, "MANTA_GPUS=0"}));
  CHECK(driver.says("asks for it"));
  child late({settler, "latecomers"}, here.with({"MANTA_ADDRESS=" + at, "MANTA_MEMBER_NAME=late",
                                                 "MANTA_GPUS=1", "MANTA_LABELS=zone=late"}));
  const outcome o = driver.finish();
  check_right(o, "latecomers");
  CHECK_THAT(o.err, Contains("waits for a node that joins") && Contains("asked 1 gpus"));
  CHECK(late.finish().status == 0);
}

TEST_CASE("any node takes and finds names of actors in any node", "[cluster][settle]") {
  const site here;
  for (const char* const what : {"titles", "workers"}) {
    check_right(here.run({settler, what, "40"}, four), what);
  }
}

TEST_CASE("actors that are made, called and ended in any order", "[cluster][settle]") {
  const site here;
  check_right(here.run({settler, "storms", "400"}, four), "storms");
  CHECK(here.jobs().empty());
}

TEST_CASE("a lost node takes its actors along, and no others", "[cluster][settle]") {
  // The fault's time: calls are under way.
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM})
    lose("outlives", {.signal = signal, .after = 50ms});
}

TEST_CASE("what a lost node alone had ends, and what others have lives", "[cluster][settle]") {
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM})
    lose("heirs", {.signal = signal, .rank = "rank-1"});
}

TEST_CASE("a weak handle whose node is lost while it is asked gives nothing", "[cluster][settle]") {
  // The fault's time: it is asked.
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM})
    lose("weak-lost", {.signal = signal, .after = 50ms});
}

TEST_CASE("who asks for a future of a rank that has ended is told so", "[cluster][settle]") {
  const site here;
  check_right(here.run({settler, "partings"}, {"MANTA_NODES=2", "MANTA_SPMD=yes"}), "partings");
}

TEST_CASE("a lost node takes its futures along, and others' are freed", "[cluster][settle]") {
  lose("estates", {.after = 200ms});
}

TEST_CASE("a lost node's arrays are read on by who has them", "[cluster][settle]") {
  for (const int signal : {SIGKILL, SIGSTOP}) lose("legacies", {.signal = signal});
}

TEST_CASE("an array that stayed in a node is lost with it", "[cluster][settle]") {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    lose("stayed-lost", {.signal = signal, .with = {"MANTA_MAP_ARRAYS=no"}});
  }
}

TEST_CASE("a node dies while an array that stayed there is fetched", "[cluster][settle]") {
  // The fault's time.
  for (const auto after : {20ms, 100ms, 300ms}) {
    lose("stayed-torn", {.after = after, .with = {"MANTA_MAP_ARRAYS=no"}});
  }
}

TEST_CASE("an array of a lost node is read from another node that has a copy",
          "[cluster][settle]") {
  const variables with{"MANTA_MAP_ARRAYS=no", "MANTA_STORE_BYTES=512MiB"};
  for (const int signal : {SIGKILL, SIGSTOP}) lose("inherited", {.signal = signal, .with = with});
  lose("inherited-twice", {.with = with});
}

TEST_CASE("what has stayed in a node that is asked to leave is fetched first",
          "[cluster][settle]") {
  // The last one's fault comes while it is at it.
  leave_with("left-behind", {"rank-2"}, 0ms);
  leave_with("left-by-two", {"rank-1", "rank-2"}, 0ms);
  leave_with("left-reading", {"rank-2"}, 30ms);
}

TEST_CASE("what a leaving node has made is fetched although its readers wait for room",
          "[cluster][settle]") {
  // They stand in line when the fault comes, and for longer than it lasts.
  leave_with("left-crowded", {"rank-2"}, 500ms,
             {"MANTA_STORE_BYTES=40MiB", "MANTA_SPILL_FOLDER=none", "MANTA_STORE_WAIT_MS=30000",
              "MANTA_DRAIN_MS=10000"});
}

TEST_CASE("what has stayed in a rank that ends is fetched first", "[cluster][settle]") {
  const site here;
  const variables with{"MANTA_NODES=2", "MANTA_SPMD=yes", "MANTA_MAP_ARRAYS=no",
                       "MANTA_DRAIN_MS=5000"};
  for (const char* const what : {"left-by-rank", "left-over"}) {
    const outcome o = here.run({settler, what}, with);
    check_right(o, what);
    CHECK_THAT(o.err, !Contains("have not fetched"));
  }
}

TEST_CASE("a rank that ends has its results heard first", "[cluster][settle]") {
  const site here;
  const variables with{"MANTA_NODES=3", "MANTA_SPMD=yes", "MANTA_WORKERS=2",
                       "MANTA_DEAD_AFTER_MS=15000"};
  check_right(here.run({settler, "unheard"}, with), "unheard");
}

TEST_CASE("a node that leaves waits no longer than it may for who has its arrays",
          "[cluster][settle]") {
  const site here;
  variables more = four;
  for (const char* const one :
       {"MANTA_MAP_ARRAYS=no", "MANTA_DRAIN_MS=2000", "MANTA_DEAD_AFTER_MS=15000"}) {
    more.emplace_back(one);
  }
  child job({settler, "left-in-vain"}, here.with(more));
  const bool is_ready = job.says("pid rank-3");
  const pid_t stopped = is_ready ? pids_in(job.so_far().out).at("rank-3") : 0;
  if (is_ready) stop(stopped);
  if (is_ready) kill(pids_in(job.so_far().out).at("rank-2"), SIGTERM);
  if (is_ready) CHECK(job.says("it has left"));
  if (is_ready) kill(stopped, SIGCONT);
  const outcome o = job.finish();
  check_right(o, "left-in-vain");
  CHECK_THAT(o.err, Contains("rank-2 was to leave within 2000 ms, and does with 1 arrays"));
}

TEST_CASE("what a node that was given up may read is kept until it ends", "[cluster][settle]") {
  const site here;
  variables more = four;
  more.push_back(dead_after(SIGSTOP));
  more.emplace_back("MANTA_STORE_BYTES=64MiB");
  child job({settler, "ghosts"}, here.with(more));
  const bool is_ready = job.says("pid rank-3");
  const pid_t lost = is_ready ? pids_in(job.so_far().out).at("rank-2") : 0;
  if (is_ready) kill(lost, SIGSTOP);
  if (is_ready && job.says("given up")) kill(lost, SIGKILL);
  check_right(job.finish(), "ghosts");
}

TEST_CASE("a node dies while parts of long values are under way", "[cluster][settle]") {
  // The fault's time.
  for (const auto after : {30ms, 400ms}) {
    lose("wrecks", {.after = after, .with = {"MANTA_MAP_ARRAYS=no"}});
    lose("wrecks", {.after = after});
  }
}

TEST_CASE("a lost node's tasks fail where they may run nowhere else", "[cluster][settle]") {
  for (const int signal : {SIGKILL, SIGSTOP}) lose("desertions", {.signal = signal});
}

TEST_CASE("a lost node's names are free, and others' stay taken", "[cluster][settle]") {
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM})
    lose("widows", {.signal = signal, .rank = "rank-1"});
}

TEST_CASE("the actors that a lost node has made elsewhere end", "[cluster][settle]") {
  const site here;
  child job({settler, "orphans"}, here.with(four));
  const bool is_ready = job.says("pid rank-3");
  if (is_ready) kill(pids_in(job.so_far().out).at("rank-2"), SIGKILL);
  check_right(job.finish(), "orphans");
}

TEST_CASE("the end of main ends its actors elsewhere", "[cluster][settle]") {
  const site here;
  const auto start = std::chrono::steady_clock::now();
  check_right(here.run({settler, "unended"}, four), "unended");
  CHECK(std::chrono::steady_clock::now() - start < 20s);
  CHECK(here.jobs().empty());
}

TEST_CASE("actors live on other machines, encrypted", "[cluster][settle][network]") {
  const site here;
  const network lan(3);
  const auto ranked = [&](int rank) {
    return here.with({"MANTA_RANK=" + std::to_string(rank), "MANTA_WORLD_SIZE=3",
                      "MANTA_ADDRESS=" + network::address(0) + ":7400"});
  };
  child second(lan.in(1, {settler, "spread"}), ranked(1));
  child third(lan.in(2, {settler, "spread"}), ranked(2));
  const outcome o = child(lan.in(0, {settler, "spread"}), ranked(0)).finish();
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("spread: right, 3 processes"));
  CHECK(second.finish().status == 0);
  CHECK(third.finish().status == 0);
}

}  // namespace cluster_settle_test
