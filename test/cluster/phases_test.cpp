// SPDX-License-Identifier: Apache-2.0
// Nodes that are lost, or come back, in each phase of what they do for others: while they are given
// tasks, while these are written, run, are answered, and while what they had is let go of.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <utility>

#include "cluster/checks.hpp"

namespace cluster_phases_test {

namespace {

using namespace cluster_test;  // NOLINT: the words of this folder
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

// The program does that to one of its nodes itself, when its time has come.
outcome harmed(const std::string& what, int signal, const variables& with = {}) {
  CAPTURE(what, signal, with);
  const site here;
  variables more{"MANTA_NODES=4", dead_after(signal), "SETTLER_MARK=" + here.path() + "/mark"};
  more.insert(more.end(), with.begin(), with.end());
  const outcome o = here.run({settler, what, signal == SIGSTOP ? "stop" : "kill"}, more);
  check_right(o, what);
  CHECK(here.jobs().empty());
  return o;
}

}  // namespace

TEST_CASE("a node is lost while its driver submits tasks", "[cluster][phases]") {
  for (const int signal : {SIGKILL, SIGSTOP}) harmed("submits", signal);
}

TEST_CASE("a node is lost while the arguments of its tasks are written", "[cluster][phases]") {
  for (const int signal : {SIGKILL, SIGSTOP}) harmed("encodes", signal);
}

TEST_CASE("a node is lost while it writes results", "[cluster][phases]") {
  for (const int signal : {SIGKILL, SIGSTOP}) harmed("writes-back", signal);
}

TEST_CASE("a node that stands still with tasks of others, and goes on in time, ends each once",
          "[cluster][phases]") {
  harmed("thaws-in-time", SIGKILL, {"MANTA_WORKERS=2"});
}

TEST_CASE("a node that goes on too late has its tasks run elsewhere, and its results are not heard",
          "[cluster][phases]") {
  const outcome o = harmed("thaws-too-late", SIGSTOP, {"MANTA_WORKERS=2"});
  CHECK_THAT(o.err, Contains("rank-2: this process is no member of its cluster any more"));
}

TEST_CASE("a node is lost while all let go of what they have of each other", "[cluster][phases]") {
  for (const char* const maps : {"MANTA_MAP_ARRAYS=yes", "MANTA_MAP_ARRAYS=no"}) {
    harmed("lets-go", SIGKILL, {maps});
  }
  harmed("lets-go", SIGSTOP);
}

TEST_CASE("who lends handles is lost while they are on their way", "[cluster][phases]") {
  for (const char* const maps : {"MANTA_MAP_ARRAYS=yes", "MANTA_MAP_ARRAYS=no"}) {
    harmed("lost-on-its-way", SIGKILL, {maps});
  }
}

TEST_CASE("a constructor that crashes in another node takes its process along, and no other",
          "[cluster][phases]") {
  harmed("crashes", SIGKILL, {"MANTA_WORKERS=2"});
}

TEST_CASE("who waits for a large array that is fetched can be cancelled", "[cluster][phases]") {
  harmed("cancels-fetch", SIGKILL, {"MANTA_MAP_ARRAYS=no"});
}

TEST_CASE(
    "calls of actors and what goes to isolated workers are cancelled while arrays are fetched",
    "[cluster][phases]") {
  for (const char* const way : {"bulk", "messages"}) {
    CAPTURE(way);
    const site here;
    // The maker of the arrays says nothing through several checks, each of which may take 8 s.
    const variables with{"MANTA_NODES=4", "MANTA_MAP_ARRAYS=no", "MANTA_DEAD_AFTER_MS=60000"};
    check_right(here.run({settler, "cancels-calls", way}, with), "cancels-calls");
  }
}

TEST_CASE("a run that was lost with its node is in the history as a retry", "[cluster][phases]") {
  const site here;
  check_right(here.run({settler, "retold"}, {"MANTA_NODES=3", "MANTA_WORKERS=1", "MANTA_EVENTS=all",
                                             dead_after(SIGKILL)}),
              "retold");
}

TEST_CASE("a run that ended for what its node is, or as that left, is in the history as a retry",
          "[cluster][phases]") {
  const site here;
  check_right(here.run({settler, "told-at-home"},
                       {"MANTA_NODES=2", "MANTA_EVENTS=all", dead_after(SIGKILL)}),
              "told-at-home");
}

TEST_CASE("a runtime of several nodes leaves nothing behind, however often",
          "[cluster][phases][repeats]") {
  const site here;
  const int times = manta_test::repeats(40, 1'000);
  const outcome o =
      here.run({settler, "cycles", std::to_string(std::max(times, 6))}, {"MANTA_NODES=2"});
  check_right(o, "cycles");
  CHECK(here.jobs().empty());
}

namespace {

// Nobody is left of it, be it soon.
void check_gone(const std::map<std::string, pid_t>& pids) {
  CHECK(pids.size() == 4);
  for (const auto& [name, pid] : pids) {
    CAPTURE(name);
    CHECK(happens([pid = pid] { return !is_there(pid); }));
  }
}

// A job of four nodes that are busy with `what`, started with the words `by`.
struct busy_job {
  explicit busy_job(const std::string& what, std::vector<std::string> by = {},
                    variables more = {"MANTA_NODES=4"})
      : job(words_of(std::move(by), what), here.with(with_limit(std::move(more)))) {
    REQUIRE(job.says("busy\n"));
    pids = pids_in(job.so_far().out);
  }
  static std::vector<std::string> words_of(std::vector<std::string> by, const std::string& what) {
    by.insert(by.end(), {settler, what});
    return by;
  }
  static variables with_limit(variables more) {
    more.push_back(dead_after(SIGKILL));
    return more;
  }

  const site here;
  child job;
  std::map<std::string, pid_t> pids;
};

}  // namespace

TEST_CASE("SIGINT once ends a driver and its nodes in order", "[cluster][phases]") {
  busy_job all("interrupted");
  child& job = all.job;
  kill(job.pid(), SIGINT);
  const outcome o = job.finish();
  CAPTURE(o.out, o.err);
  CHECK(o.status == 130);
  CHECK_FALSE(o.is_killed);
  CHECK(all.here.jobs().empty());
  check_gone(all.pids);
}

// A terminal's: its signals go to all that it has begun, at once.
TEST_CASE("SIGINT once or twice to all of a job leaves nothing, whatever they run",
          "[cluster][phases]") {
  const auto [what, is_twice] =
      GENERATE(std::pair{"interrupted", true}, std::pair{"stubborn", true},
               std::pair{"stubborn", false}, std::pair{"detained", true});
  CAPTURE(what, is_twice);
  busy_job all(what);
  child& job = all.job;
  const auto start = std::chrono::steady_clock::now();
  kill(-job.pid(), SIGINT);
  REQUIRE(job.complains("a second SIGINT"));
  // Its nodes have left in order before the second one comes.
  if (std::string(what) == "detained")
    CHECK(happens([&] { return all.here.sockets().size() <= 2; }));
  if (is_twice) kill(-job.pid(), SIGINT);
  const outcome o = job.finish();  // reads until the last of them has ended
  CAPTURE(o.out, o.err);
  CHECK(o.status == 130);
  CHECK_FALSE(o.is_killed);
  CHECK(std::chrono::steady_clock::now() - start < 30s);
  check_gone(all.pids);
  CHECK(all.here.jobs().empty());
}

TEST_CASE("SIGINT twice to manta run ends its ranks soon, and they leave nothing",
          "[cluster][phases]") {
  const bool stands = GENERATE(false, true);
  CAPTURE(stands);
  busy_job all("stubborn", {tool, "run", "-n", "4", "--"}, {});
  child& job = all.job;
  kill(job.pid(), SIGINT);
  REQUIRE(job.complains("a second SIGINT"));
  const auto start = std::chrono::steady_clock::now();
  if (stands) stop(all.pids.at("rank-2"));
  kill(job.pid(), SIGINT);
  if (stands) {
    // The second one has been heard. Who stands is killed at the third one, or when the time is
    // over that they have: only a limit that a busy machine would miss could tell which it was.
    CHECK(happens([&] { return !is_there(all.pids.at("rank-0")); }));
    kill(job.pid(), SIGINT);
  }
  const outcome o = job.finish();  // reads until the last of them has ended
  CAPTURE(o.out, o.err);
  CHECK(o.status == 130);
  CHECK_FALSE(o.is_killed);
  CHECK(std::chrono::steady_clock::now() - start < 30s);
  if (!stands) CHECK_THAT(o.err, Contains("so this node ends without it"));
  check_gone(all.pids);
  CHECK(all.here.jobs().empty());
}

TEST_CASE("SIGINT twice ends a driver at once, and its nodes soon, whatever they run",
          "[cluster][phases]") {
  busy_job all("stubborn");
  child& job = all.job;
  kill(job.pid(), SIGINT);
  REQUIRE(job.complains("a second SIGINT"));
  const auto start = std::chrono::steady_clock::now();
  kill(job.pid(), SIGINT);
  const outcome o = job.finish();  // reads until the last of them has ended
  CAPTURE(o.out, o.err);
  CHECK(o.status == 130);
  CHECK_FALSE(o.is_killed);
  // What runs would go on for a minute.
  CHECK(std::chrono::steady_clock::now() - start < 30s);
  CHECK_THAT(o.err, Contains("so this node ends without it"));
  CHECK_FALSE(has(o.err, "so the program ends without it"));  // which comes after 5 s
  check_gone(all.pids);
  CHECK(all.here.jobs().empty());
}

}  // namespace cluster_phases_test
