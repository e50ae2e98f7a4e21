// SPDX-License-Identifier: Apache-2.0
// Tasks that run in other nodes than the one that made them: right values, from all of them,
// whatever becomes of the nodes meanwhile.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "cluster/network.hpp"

namespace cluster_share_test {

namespace {

using namespace std::chrono_literals;
using namespace cluster_test;  // NOLINT: the words of this folder
using Catch::Matchers::Contains;

const std::string sharer = MANTA_SHARER_PROGRAM;
const variables four{"MANTA_NODES=4"};

}  // namespace

TEST_CASE("what waits in the driver is run by all nodes", "[cluster][share]") {
  const site here;
  const outcome o = here.run({sharer, "spread", "400", "5"}, four);
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("spread: right, 4 processes"));
  CHECK(here.jobs().empty());
}

TEST_CASE("where nodes are not to share, and with little to do, tasks stay", "[cluster][share]") {
  const site here;
  const outcome alone =
      here.run({sharer, "spread", "100", "2"}, {"MANTA_NODES=4", "MANTA_SHARE=no"});
  CHECK_THAT(alone.out, Contains("spread: right, 1 processes"));
  const outcome few = here.run({sharer, "spread", "1", "2"}, four);
  CHECK_THAT(few.out, Contains("spread: right, 1 processes"));
}

TEST_CASE("every kind of task gives what it gives at home", "[cluster][share]") {
  const site here;
  for (const char* const what : {"nested", "delegating", "suspending", "arrays", "too-large",
                                 "handles", "failures", "names"}) {
    const outcome o = here.run({sharer, what, "300"}, four);
    CAPTURE(what, o.out, o.err);
    CHECK(o.status == 0);
    CHECK_THAT(o.out, Contains(std::string(what) + ": right"));
  }
}

TEST_CASE("keys and values are the same in all nodes", "[cluster][share]") {
  const site here;
  const outcome o = here.run({sharer, "keys", "300"}, four);
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out,
             Contains("keys: right, 4 processes") && Contains("keys written by 4 processes"));
}

TEST_CASE("a task in another node hears that it is cancelled", "[cluster][share]") {
  const site here;
  const outcome o = here.run({sharer, "cancels"}, four);
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("cancels: right"));
}

TEST_CASE("who writes an argument for long holds up no others' results", "[cluster][share]") {
  const site here;
  const outcome o = here.run({sharer, "slow-writer"}, {"MANTA_NODES=2", "MANTA_WORKERS=2"});
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("slow-writer: right, 2 processes"));
}

TEST_CASE("many that were asked to stop keep no others at home", "[cluster][share]") {
  const site here;
  const outcome o = here.run({sharer, "late", "400", "5"}, four);
  CAPTURE(o.out, o.err);
  CHECK_THAT(o.out, Contains("spread: right, 4 processes"));
}

TEST_CASE("what a killed or stopped node had runs again", "[cluster][share]") {
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM}) {
    CAPTURE(signal);
    const site here;
    variables more = four;
    more.emplace_back("MANTA_DEAD_AFTER_MS=1000");
    child job({sharer, "spread", "600", "5"}, here.with(more));
    REQUIRE(job.says("pid rank-3"));
    const auto pids = pids_in(job.so_far().out);
    std::this_thread::sleep_for(150ms);  // the fault's time: it has some
    kill(pids.at("rank-2"), signal);
    const outcome o = job.finish();
    CAPTURE(o.out, o.err);
    CHECK(o.status == 0);
    CHECK_THAT(o.out, Contains("spread: right"));
    kill(pids.at("rank-2"), SIGKILL);
  }
}

namespace {

std::string contents_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

enum class spreads { over_all, not_at_all };

// Runs tasks that await arrays of so many bytes, each of which is to run once. Not at all: but for
// one in ten, since a machine that stands still has short tasks look long for a moment.
std::string check_awaited(const std::vector<std::string>& what, const variables& with,
                          spreads how = spreads::over_all) {
  CAPTURE(what, with);
  const site here;
  const std::string log = here.path() + "/runs";
  std::vector<std::string> command{sharer};
  command.insert(command.end(), what.begin(), what.end());
  variables more = with;
  more.push_back("SHARER_LOG=" + log);
  const outcome o = here.run(command, more);
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains(what[0] + ": right, "));
  if (how == spreads::over_all) CHECK_THAT(o.out, Contains(" 4 processes"));
  const std::string mark = "at home: ";
  const std::size_t told = o.out.find(mark);
  REQUIRE(told != std::string::npos);
  const unsigned long own = std::stoul(o.out.substr(told + mark.size()));
  const unsigned long all = std::stoul(what[1]);
  if (how == spreads::not_at_all) CHECK(own * 10 >= all * 9);
  CHECK(count_of(contents_of(log), "\n") == all);
  return o.out;
}

const std::string small_bytes = "40000";
const std::string mapped_bytes = "400000";
const std::string large_bytes = "2097152";
const std::string larger_bytes = "24000000";

// That rank-2 has run some, as its log says.
bool has_run(const std::string& log, const std::map<std::string, pid_t>& pids) {
  const std::string its = " " + std::to_string(pids.at("rank-2")) + "\n";
  return happens([&] { return has(contents_of(log), its); });
}

}  // namespace

TEST_CASE("what awaits an array of the driver's is run by all nodes", "[cluster][share]") {
  for (const std::string& bytes : {mapped_bytes, large_bytes}) {
    check_awaited({"awaited", "400", "10", bytes}, four);
  }
}

// Small ones go with each task, large ones are fetched once by each node.
TEST_CASE("so it is where nodes can't map it, when tasks take long enough", "[cluster][share]") {
  variables more = four;
  more.emplace_back("MANTA_MAP_ARRAYS=no");
  for (const std::string& bytes : {small_bytes, mapped_bytes}) {
    check_awaited({"awaited", "400", "20", bytes}, more);
  }
  CHECK_THAT(check_awaited({"fetched", "400", "20", large_bytes}, more), Contains("fetched once"));
}

TEST_CASE("what awaits an array and asks for a cpu has those of all nodes", "[cluster][share]") {
  for (const char* const maps : {"MANTA_MAP_ARRAYS=yes", "MANTA_MAP_ARRAYS=no"}) {
    variables more = four;
    more.emplace_back("MANTA_WORKERS=2");
    more.emplace_back(maps);
    for (const std::string& bytes : {mapped_bytes, large_bytes}) {
      check_awaited({"asking", "200", "10", bytes}, more);
    }
  }
}

// Where it takes longer to fetch than they take, and can't be read in place.
TEST_CASE("what asks for a cpu stays with its own large array", "[cluster][share]") {
  const variables more{"MANTA_NODES=4", "MANTA_WORKERS=2", "MANTA_MAP_ARRAYS=no"};
  check_awaited({"asking-own", "20", "1", larger_bytes}, more, spreads::not_at_all);
}

// Who waits for it has what it asks for, so it can't wait for that here.
TEST_CASE("what asks for what its caller holds goes elsewhere with a large array",
          "[cluster][share]") {
  const site here;
  const outcome o = here.run(
      {sharer, "asking-held", "1", "1", larger_bytes},
      {"MANTA_NODES=2", "MANTA_WORKERS=2", "MANTA_MAP_ARRAYS=no", "MANTA_RESOURCES=thing:1"});
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("asking-held: right"));
}

// Of two that have it free. Their arrays can't be read in place.
TEST_CASE("what asks for amounts of another node goes to the one that made what it reads",
          "[cluster][share]") {
  const site here;
  const outcome o = here.run(
      {sharer, "asking-near", "1", "1", larger_bytes},
      {"MANTA_NODES=3", "MANTA_WORKERS=2", "MANTA_MAP_ARRAYS=no", "MANTA_RESOURCES=thing:1"});
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("asking-near: right"));
}

// Each node would fetch it for each of its tasks: it keeps an eighth of its store at most.
TEST_CASE("what is larger than a node keeps is not counted as there", "[cluster][share]") {
  variables more = four;
  more.emplace_back("MANTA_MAP_ARRAYS=no");
  check_awaited({"glancing", "1000", "1", larger_bytes}, more);
  more.emplace_back("MANTA_STORE_BYTES=64MiB");
  check_awaited({"glancing", "1000", "1", larger_bytes}, more, spreads::not_at_all);
}

TEST_CASE("many short tasks of one array don't wait there for it", "[cluster][share]") {
  variables more = four;
  more.emplace_back("MANTA_MAP_ARRAYS=no");
  more.emplace_back("MANTA_WORKERS=4");
  const std::string out = check_awaited({"many-short", "3000", "1", "64000000"}, more);
  CHECK_THAT(out, Contains("threads: few"));
}

// By who fetches them: see had_at_home in sharer_arrays.cpp.
TEST_CASE("tasks whose arrays can't be had elsewhere run at home", "[cluster][share]") {
  const site here;
  const std::string log = here.path() + "/runs";
  variables more = four;
  more.push_back("SHARER_LOG=" + log);
  const outcome o = here.run({sharer, "let-go", "300", "5", mapped_bytes}, more);
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("let-go: right, 1 processes"));
  const std::string runs = contents_of(log);
  const std::size_t tried = count_of("\n" + runs, "\n-1 ");
  CHECK(tried >= 3);
  CHECK(count_of(runs, "\n") == 300 + tried);
}

TEST_CASE("arrays that tasks make for each other go with them", "[cluster][share]") {
  for (const char* const maps : {"MANTA_MAP_ARRAYS=yes", "MANTA_MAP_ARRAYS=no"}) {
    for (const std::string& bytes : {mapped_bytes, large_bytes}) {
      const site here;
      variables more = four;
      more.emplace_back(maps);
      const outcome o = here.run({sharer, "chained", "40", "3", bytes}, more);
      CAPTURE(maps, bytes, o.out, o.err);
      CHECK(o.status == 0);
      CHECK_THAT(o.out, Contains("0 lost\nchained: right"));
    }
  }
}

TEST_CASE("what stayed in a lost node is lost typed, and all else comes", "[cluster][share]") {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    CAPTURE(signal);
    const site here;
    variables more = four;
    more.emplace_back("MANTA_MAP_ARRAYS=no");
    more.emplace_back("MANTA_DEAD_AFTER_MS=1000");
    const std::string log = here.path() + "/runs";
    more.push_back("SHARER_LOG=" + log);
    child job({sharer, "bereft", "60", "10", large_bytes}, here.with(more));
    REQUIRE(job.says("pid rank-3"));
    const auto pids = pids_in(job.so_far().out);
    CHECK(has_run(log, pids));
    kill(pids.at("rank-2"), signal);
    const outcome o = job.finish();
    CAPTURE(o.out, o.err);
    CHECK(o.status == 0);
    CHECK_THAT(o.out, Contains("chained: right"));
    CHECK_THAT(o.out, Contains("4 that stayed are lost"));
    kill(pids.at("rank-2"), SIGKILL);
  }
}

TEST_CASE("tasks whose arrays are on the disk give what they give with room", "[cluster][share]") {
  const site here;
  variables more = four;
  more.push_back("MANTA_SPILL_FOLDER=" + here.path());
  more.emplace_back("MANTA_STORE_BYTES=32MiB");
  for (const char* const maps : {"MANTA_MAP_ARRAYS=yes", "MANTA_MAP_ARRAYS=no"}) {
    more.emplace_back(maps);
    const outcome o = here.run({sharer, "awaited-from-disk", "60", "10", "2097152"}, more);
    CAPTURE(maps, o.out, o.err);
    CHECK(o.status == 0);
    CHECK_THAT(o.out, Contains("awaited-from-disk: right"));
    CHECK_THAT(o.out, !Contains("right, 1 processes"));  // those in memory leave
    more.pop_back();
  }
}

TEST_CASE("what awaited an array in a lost node runs again", "[cluster][share]") {
  for (const char* const maps : {"MANTA_MAP_ARRAYS=yes", "MANTA_MAP_ARRAYS=no"}) {
    for (const int signal : {SIGKILL, SIGSTOP, SIGTERM}) {
      CAPTURE(maps, signal);
      const site here;
      const std::string log = here.path() + "/runs";
      variables more = four;
      more.emplace_back(maps);
      more.emplace_back("MANTA_DEAD_AFTER_MS=1000");
      more.push_back("SHARER_LOG=" + log);
      // Most tasks end no earlier.
      const std::string is_killed = here.path() + "/killed";
      more.push_back("SHARER_UNTIL=" + is_killed);
      child job({sharer, "awaited", "200", "20", large_bytes}, here.with(more));
      REQUIRE(job.says("pid rank-3"));
      const auto pids = pids_in(job.so_far().out);
      CHECK(has_run(log, pids));
      kill(pids.at("rank-2"), signal);
      std::ofstream{is_killed} << "\n";
      const outcome o = job.finish();
      CAPTURE(o.out, o.err);
      CHECK(o.status == 0);
      CHECK_THAT(o.out, Contains("awaited: right"));
      kill(pids.at("rank-2"), SIGKILL);
    }
  }
}

TEST_CASE("a node that is asked to leave ends what it has for others first", "[cluster][share]") {
  const site here;
  const std::string log = here.path() + "/runs";
  variables more = four;
  more.push_back("SHARER_LOG=" + log);
  child job({sharer, "spread", "60", "100"}, here.with(more));
  REQUIRE(job.says("pid rank-3"));
  const auto pids = pids_in(job.so_far().out);
  // The fault's time: it has some, and more wait.
  const std::string its = " " + std::to_string(pids.at("rank-2")) + "\n";
  REQUIRE(happens([&] {
    std::ifstream file(log);
    return has(std::string{std::istreambuf_iterator<char>(file), {}}, its);
  }));
  kill(pids.at("rank-2"), SIGTERM);
  const outcome o = job.finish();
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("spread: right, 4 processes"));
  std::ifstream file(log);
  const std::string runs{std::istreambuf_iterator<char>(file), {}};
  CHECK(count_of(runs, "\n") == 60);  // none a second time
}

TEST_CASE("with spmd what is given to a rank that has ended comes back", "[cluster][share]") {
  const site here;
  variables more = four;
  more.emplace_back("MANTA_SPMD=yes");
  const outcome o = here.run({sharer, "early", "300", "5"}, more);
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK(count_of(o.out, "spread: right") == 3);
}

// Each takes the others for idle at first, and sends back what it is given.
TEST_CASE("of nodes that are all busy each task runs once", "[cluster][share]") {
  const site here;
  const std::string log = here.path() + "/runs";
  variables more = four;
  more.emplace_back("MANTA_SPMD=yes");
  more.emplace_back("MANTA_WORKERS=2");
  more.push_back("SHARER_LOG=" + log);
  const outcome o = here.run({sharer, "spread", "2000", "1"}, more);
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK(count_of(o.out, "spread: right") == 4);
  std::ifstream file(log);
  const std::string runs{std::istreambuf_iterator<char>(file), {}};
  CHECK(count_of(runs, "\n") == 4 * 2000);
  more.pop_back();
  for (const char* const what : {"nested", "delegating", "suspending", "arrays", "failures"}) {
    const outcome kind = here.run({sharer, what, "300"}, more);
    CAPTURE(what, kind.out, kind.err);
    CHECK(kind.status == 0);
    CHECK(count_of(kind.out, std::string(what) + ": right") == 4);
  }
}

TEST_CASE("a driver that is killed leaves nothing of its tasks", "[cluster][share]") {
  const site here;
  child job({sharer, "spread", "2000", "5"}, here.with(four));
  REQUIRE(job.says("pid rank-3"));
  const auto pids = pids_in(job.so_far().out);
  std::this_thread::sleep_for(150ms);  // the fault's time
  kill(job.pid(), SIGKILL);
  for (const auto& node : pids) {
    CAPTURE(node.first);
    CHECK(happens([&] { return node.first == "rank-0" || !is_there(node.second); }, 15s));
  }
}

TEST_CASE("tasks go between machines, encrypted", "[cluster][share][network]") {
  const site here;
  const network lan(3);
  const auto ranked = [&](int rank) {
    return here.with({"MANTA_RANK=" + std::to_string(rank), "MANTA_WORLD_SIZE=3",
                      "MANTA_ADDRESS=" + network::address(0) + ":7400"});
  };
  child second(lan.in(1, {sharer, "spread", "400", "5"}), ranked(1));
  child third(lan.in(2, {sharer, "spread", "400", "5"}), ranked(2));
  const outcome o = child(lan.in(0, {sharer, "spread", "400", "5"}), ranked(0)).finish();
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("spread: right, 3 processes"));
  CHECK(second.finish().status == 0);
  CHECK(third.finish().status == 0);
}

#ifdef MANTA_LEARNER_PROGRAM

namespace {

const std::string learner = MANTA_LEARNER_PROGRAM;
// The short one, or both: with MANTA_TEST_FULL.
bool learns_both() { return std::getenv("MANTA_TEST_FULL") != nullptr; }
std::vector<std::string> learning() {
  std::vector<std::string> out{learner};
  if (!learns_both()) out.emplace_back("--env=cartpole");
  return out;
}

void check_has_learned(const outcome& o) {
  CAPTURE(o.out, o.err);
  CHECK(o.status == 0);
  // One driver, whose nodes say nothing of their own.
  CHECK(count_of(o.out, "cartpole solved") == 1);
  if (learns_both()) CHECK(count_of(o.out, "pendulum solved") == 1);
}

}  // namespace

// With MANTA_NODES it does so in its own tests.
TEST_CASE("the example that learns does so on four nodes of mpirun", "[cluster][share][repeats]") {
  const site here;
  std::vector<std::string> ranks{"mpirun", "--oversubscribe", "-n", "4"};
  for (const std::string& each : learning()) ranks.push_back(each);
  check_has_learned(
      here.run(ranks, {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}));
  CHECK(here.jobs().empty());
}

TEST_CASE("the example that learns does so on three machines",
          "[cluster][share][network][repeats]") {
  const site here;
  const network lan(3);
  const auto ranked = [&](int rank) {
    return here.with({"MANTA_RANK=" + std::to_string(rank), "MANTA_WORLD_SIZE=3",
                      "MANTA_ADDRESS=" + network::address(0) + ":7400", "MANTA_CHECK=far"});
  };
  child second(lan.in(1, learning()), ranked(1));
  child third(lan.in(2, learning()), ranked(2));
  check_has_learned(child(lan.in(0, learning()), ranked(0)).finish());
  CHECK(second.finish().status == 0);
  CHECK(third.finish().status == 0);
}

#endif

}  // namespace cluster_share_test
