// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <catch2/catch.hpp>

#include <manta/manta.hpp>

#include "isolation/support.hpp"

// Monitors that are made in isolated workers, of actors wherever they live. The shared numbers: 0:
// who watches, 1: objects that are gone, 2: a gate.

namespace monitor_test {

namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using manta::end_reason;
using test::comes_true;
using test::isolated;
using test::shared;
using test::shared_numbers;

struct subject {
  explicit subject(int first) {
    if (first < 0) throw std::invalid_argument("a negative beginning");
  }
  subject(const subject&) = delete;
  subject& operator=(const subject&) = delete;
  ~subject() {
    std::this_thread::sleep_for(50ms);  // who is told too early finds the object still there
    ++shared(1);
  }
  int pid() const { return getpid(); }
  int leaves() {
    manta::this_actor::exit();
    return 7;
  }
};

std::string text_of(const manta::future<manta::actor_end>& end) {
  const auto got = end.try_get(test::patience);
  if (!got) return "none: " + got.error().message();
  return std::string(to_string(got->reason)) + ": " + got->message +
         (shared(1) == 0 ? " (the object is there)" : "");
}

// Two monitors of one actor, and a third when it has ended. It is found, since an argument would
// be kept by the node as long as the task runs.
std::string watches(bool lets_go) {
  manta::actor<subject> a = manta::find_actor<subject>("looked at").value();
  const auto end = manta::monitor(a);
  const auto again = manta::monitor(a);
  if (lets_go) a = {};
  ++shared(0);
  const std::string text = text_of(end);
  if (text_of(again) != text) return "another: " + text_of(again);
  if (!lets_go && text_of(manta::monitor(a)) != text) return "late: " + text_of(manta::monitor(a));
  return text;
}

std::string end_after(void (*what)(manta::actor<subject>&), bool lets_go = false) {
  shared(0) = 0;
  shared(1) = 0;
  auto a = manta::spawn<subject>.with({.name = "looked at"})(1);
  manta::remote<&subject::pid>(a).get();
  const auto told =
      manta::remote<watches>.with({.isolation = manta::isolation_mode::processes})(lets_go);
  if (!comes_true([] { return shared(0) == 1; })) return "nobody watches";
  if (told.is_ready()) return "told too early: " + told.get();
  what(a);
  const auto got = told.try_get(2 * test::patience);
  return got ? *got : got.error().message();
}

void check_all_ends() {
  CHECK_THAT(end_after([](auto& a) { manta::kill(a); }),
             Contains("killed: ") && Contains("looked at was killed") && !Contains("is there"));
  CHECK_THAT(end_after([](auto& a) { manta::retire(a); }),
             Contains("ended: ") && Contains("looked at was retired") && !Contains("is there"));
  CHECK_THAT(end_after([](auto& a) { manta::remote<&subject::leaves>(a).get(); }),
             Contains("exited: ") && Contains("looked at has left") && !Contains("is there"));
  CHECK_THAT(end_after([](auto& a) { a = {}; }, true),
             Contains("ended: ") && Contains("its last handle") && !Contains("is there"));
}

}  // namespace

TEST_CASE("a task in a worker is told how an actor of another worker ends", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  check_all_ends();
}

TEST_CASE("a task in a worker is told how an actor of its node ends", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(test::mixed());
  check_all_ends();
}

TEST_CASE("a worker is told when the process of another worker's actor is killed", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  CHECK_THAT(end_after([](auto& a) { kill(manta::remote<&subject::pid>(a).get(), SIGKILL); }),
             Contains("process_lost: ") && Contains("signal 9") && Contains("max_restarts"));
}

namespace {

std::string watches_own(int restarts) {
  const auto a = manta::spawn<subject>.with({.max_restarts = restarts})(1);
  const auto end = manta::monitor(a);
  for (int life = 0; life <= restarts; ++life) {
    const int pid = manta::remote<&subject::pid>(a).get();
    if (end.is_ready()) return "told too early";
    kill(pid, SIGKILL);
    if (life == restarts) break;
    if (!comes_true([&] {
          const auto now = manta::remote<&subject::pid>(a).try_get(test::patience);
          return now && *now != pid;
        })) {
      return "it has no next life";
    }
  }
  return text_of(end);
}
std::string kills_own() {
  const auto a = manta::spawn<subject>(1);
  const auto before = manta::monitor(a);
  manta::remote<&subject::pid>(a).get();
  manta::kill(a);
  const std::string text = text_of(manta::monitor(a));
  return text_of(before) == text ? text : "another: " + text_of(before);
}
std::string retires_own() {
  const auto a = manta::spawn<subject>(1);
  manta::retire(a);
  return text_of(manta::monitor(a));
}
int comes_late(int n) {
  comes_true([] { return shared(2) != 0; });
  return n;
}
// The constructor's argument is not there when it is asked.
std::string watches_early(int first) {
  const auto a = manta::spawn<subject>(manta::remote<comes_late>(first));
  const auto end = manta::monitor(a);
  if (end.is_ready()) return "told too early";
  ++shared(0);
  if (first > 0 && manta::remote<&subject::leaves>(a).get(test::patience) != 7) return "no answer";
  return text_of(end);
}
int throws() { throw std::domain_error("no argument"); }
std::string watches_none() {
  const auto a = manta::spawn<subject>(manta::remote<throws>());
  return text_of(manta::monitor(a));
}

}  // namespace

TEST_CASE("a worker is told of the ends of actors that it made", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  for (const int restarts : {0, 2}) {
    CHECK_THAT(manta::remote<watches_own>(restarts).get(),
               Contains("process_lost: ") && Contains("signal 9"));
  }
  numbers[1] = 0;
  CHECK_THAT(manta::remote<kills_own>().get(),
             Contains("killed: ") && Contains("was killed") && !Contains("is there"));
  numbers[1] = 0;
  CHECK_THAT(manta::remote<retires_own>().get(),
             Contains("ended: ") && Contains("was retired") && !Contains("is there"));
}

TEST_CASE("a worker watches actors whose constructors wait or fail", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated(4));
  const auto told = manta::remote<watches_early>(1);
  const auto failed = manta::remote<watches_early>(-1);
  REQUIRE(comes_true([&] { return numbers[0] == 2; }));
  numbers[2] = 1;
  CHECK_THAT(told.get(), Contains("exited: ") && !Contains("is there"));
  CHECK_THAT(failed.get(), Contains("constructor_failed: ") && Contains("a negative beginning"));
  CHECK_THAT(manta::remote<watches_none>().get(),
             Contains("constructor_failed: ") && Contains("no argument"));
}

namespace {

// Of those with an even number, or an odd one, no constructor succeeds. How many good ones answer.
int makes_in_turn(int rounds, int odd) {
  int answered = 0;
  for (int i = 0; i < rounds; ++i) {
    const bool is_good = i % 2 == odd;
    const auto a = manta::spawn<subject>(is_good ? 1 : -1);
    if (is_good) answered += manta::remote<&subject::pid>(a).get(test::patience) > 0 ? 1 : 0;
    if (!is_good) static_cast<void>(manta::monitor(a).get(test::patience));
  }
  return answered;
}

}  // namespace

// Two makers number their actors alike, and one's may follow the other's in the same process.
TEST_CASE("what ends one actor ends no other with its number", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated(4));
  const int rounds = manta_test::scaled(60);
  const auto one = manta::remote<makes_in_turn>(rounds, 0);
  const auto two = manta::remote<makes_in_turn>(rounds, 1);
  CHECK(one.get() + two.get() == rounds);
}

namespace {

std::string watches_late(const manta::actor<subject>& a) { return text_of(manta::monitor(a)); }

}  // namespace

TEST_CASE("an end is told in a worker that asked when it was over", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<subject>(1);
  manta::kill(a);
  const auto end = manta::monitor(a).get(test::patience);
  CHECK_THAT(manta::remote<watches_late>(a).get(), Contains("killed: " + end.message));
}

namespace {

int dies_watching(const manta::actor<subject>& a) {
  const auto end = manta::monitor(a);
  ++shared(0);
  comes_true([] { return shared(2) != 0; });
  kill(getpid(), SIGKILL);
  return 0;
}

}  // namespace

TEST_CASE("a worker that dies watching leaves no watch at its node", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<subject>(1);
  const auto* const core = manta::detail::actor_access::core(a);
  for (int i = 0; i < 5; ++i) {
    numbers[0] = 0;
    numbers[2] = 0;
    const auto dies = manta::remote<dies_watching>.with({.max_retries = 0})(a);
    REQUIRE(comes_true([&] { return numbers[0] == 1; }));
    CHECK(comes_true([&] { return core->is_watched(); }));
    numbers[2] = 1;
    CHECK_THROWS_AS(dies.get(), manta::worker_lost);
    CHECK(comes_true([&] { return !core->is_watched(); }));
  }
  CHECK(manta::remote<&subject::pid>(a).get() > 0);
  manta::kill(a);
  CHECK(manta::monitor(a).get(test::patience).reason == end_reason::killed);
}

}  // namespace monitor_test
