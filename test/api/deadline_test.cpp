// SPDX-License-Identifier: Apache-2.0
// Deadlines of calls and scopes: the future ends then, whatever the work does.
#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "api/support.hpp"

namespace deadline_test {

using namespace std::chrono_literals;

namespace {

// What the tasks of one case share with it.
struct board {
  test::common_gate entered;
  test::common_gate release;
  std::atomic<int> ran{0};
};
test::everywhere<board> shown;

// The board of one case: as new when it begins, and nobody is held there when it ends.
struct own_board {
  own_board() {
    shown->entered.shut();
    shown->release.shut();
    shown->ran = 0;
  }
  own_board(const own_board&) = delete;
  own_board& operator=(const own_board&) = delete;
  ~own_board() { shown->release.open(); }
  board* operator->() const { return &*shown; }
};

int hold(int x) {
  shown->entered.open();
  shown->release.wait();
  return x;
}
int count_run(int x) {
  ++shown->ran;
  return x;
}
test::tracked hold_tracked() {
  shown->entered.open();
  shown->release.wait();
  return test::tracked(3);
}
bool throw_when_told() {
  while (!manta::this_task::is_cancelled()) std::this_thread::yield();
  throw std::runtime_error("told to stop");
}
bool wait_for_stop() {
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (!manta::this_task::is_cancelled()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}
bool stops(int /*x*/) { return wait_for_stop(); }
manta::future<bool> delegates() { return manta::remote<stops>(1); }

struct worker {
  int calls = 0;
  int hold_until_told() {
    shown->entered.open();
    shown->release.wait();
    wait_for_stop();
    return ++calls;
  }
  int add() { return ++calls; }
};

template <class T>
manta::errc code_of(const manta::future<T>& f) {
  const auto got = f.try_get(test::patience);
  return got ? manta::errc::task_error : got.error().code();
}

}  // namespace

// Of one node: another one is not busy, and runs it.
TEST_CASE("queued work ends at its deadline while the workers are busy, and never runs",
          "[deadline][anywhere][one_node]") {
  const own_board b;
  const manta::runtime rt(test::workers(1));
  const auto held = manta::remote<hold>(1);
  REQUIRE(b->entered.wait());
  const auto late = manta::remote<count_run>.with({.timeout = 5ms, .name = "late one"})(2);
  const auto dependent = manta::remote<count_run>(late);
  CHECK(code_of(late) == manta::errc::timed_out);
  CHECK(test::message_of<manta::timed_out>([&late] { late.get(); }).find("late one") !=
        std::string::npos);
  b->release.open();
  CHECK(held.get() == 1);
  CHECK(code_of(dependent) == manta::errc::timed_out);
  CHECK(b->ran == 0);
}

TEST_CASE("running work's future ends at the deadline, the result is dropped",
          "[deadline][anywhere]") {
  const own_board b;
  const int before = test::tracked::alive;
  {
    const manta::runtime rt(test::two_workers());
    CHECK(manta::remote<count_run>(1).get() == 1);  // somebody is there to begin it
    const auto f = manta::remote<hold_tracked>.with({.timeout = 5ms})();
    CHECK(code_of(f) == manta::errc::timed_out);
    CHECK(code_of(f) == manta::errc::timed_out);
    b->release.open();
  }
  CHECK(test::tracked::alive == before);
}

// What the work throws when it is asked to stop must not take the place of the error that is there.
TEST_CASE("work that throws after its deadline does not touch its future", "[deadline][anywhere]") {
  const manta::runtime rt(test::two_workers());
  CHECK(manta::remote<count_run>(1).get() == 1);  // somebody is there to begin it
  for (int i = 0; i < 10; ++i) {
    const auto f = manta::remote<throw_when_told>.with({.timeout = 1ms})();
    CHECK_THROWS_AS(f.get(), manta::timed_out);
    CHECK(code_of(f) == manta::errc::timed_out);
  }
}

TEST_CASE("work that ends in time is not touched by its deadline", "[deadline][anywhere]") {
  const own_board b;
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<int>> futures;
  for (int i = 0; i < 2000; ++i) {
    futures.push_back(manta::remote<count_run>.with({.timeout = test::patience})(i));
  }
  int sum = 0;
  for (const auto& f : futures) sum += f.get();
  CHECK(sum == 1999000);
  CHECK(b->ran == 2000);
}

TEST_CASE("deadlines that pass just when work ends leave one outcome", "[deadline][anywhere]") {
  const own_board b;
  const manta::runtime rt(test::two_workers());
  int odd = 0;
  for (int i = 0; i < 500; ++i) {
    const auto f =
        manta::remote<count_run>.with({.timeout = std::chrono::microseconds(1 + i % 150)})(i);
    const auto first = f.try_get(test::patience);
    const auto second = f.try_get();
    if (first.has_value() != second.has_value()) ++odd;
    if (first && first.value() != i) ++odd;
    if (!first && first.error().code() != manta::errc::timed_out) ++odd;
  }
  CHECK(odd == 0);
}

TEST_CASE("what waits for an argument ends at its deadline", "[deadline][anywhere]") {
  const own_board b;
  const manta::runtime rt(test::two_workers());
  const auto held = manta::remote<hold>(1);
  const auto f = manta::remote<count_run>.with({.timeout = 5ms})(held);
  CHECK(code_of(f) == manta::errc::timed_out);
  b->release.open();
  CHECK(held.get() == 1);
  CHECK(b->ran == 0);
}

// Of one node: elsewhere what it calls may end by the same deadline, and it with a value, before
// its own is noticed at home. In a worker, too: so it goes on until it is told to stop.
TEST_CASE("a task hands its deadline on to what it calls", "[deadline][anywhere][one_node]") {
  const own_board b;
  const manta::runtime rt(test::two_workers());
  CHECK(manta::remote<count_run>(1).get() == 1);  // somebody is there to begin it
  constexpr auto outer = [](int x) {
    const bool has_own = manta::this_task::deadline().has_value();
    const auto inner = manta::remote<stops>(x);  // no options: it inherits
    return has_own && !inner.try_get(test::patience).has_value() && wait_for_stop();
  };
  const auto f = manta::remote<outer>.with({.timeout = 10ms})(1);
  CHECK(code_of(f) == manta::errc::timed_out);
  const auto g = manta::remote<delegates>.with({.timeout = 10ms})();
  CHECK(code_of(g) == manta::errc::timed_out);
}

TEST_CASE("a scope gives its deadline to the calls in it and takes it back",
          "[deadline][anywhere]") {
  const own_board b;
  const manta::runtime rt(test::two_workers());
  const auto held = manta::remote<hold>(1);
  manta::future<int> inside;
  CHECK_FALSE(manta::this_task::deadline());
  {
    const manta::deadline_scope within(test::patience);
    const auto wide = manta::this_task::deadline();
    REQUIRE(wide);
    {
      const manta::deadline_scope narrow(5ms);
      CHECK(*manta::this_task::deadline() < *wide);
      const manta::deadline_scope no_wider(test::patience);
      CHECK(*manta::this_task::deadline() < *wide);
      inside = manta::remote<count_run>(held);
    }
    CHECK(manta::this_task::deadline() == wide);
  }
  CHECK_FALSE(manta::this_task::deadline());
  CHECK(code_of(inside) == manta::errc::timed_out);
  b->release.open();
  CHECK(held.get() == 1);
  CHECK_THROWS_AS(manta::deadline_scope(0ms), manta::invalid_argument);
}

namespace {

manta::coroutine<bool> scope_over_await(int x) {
  {
    const manta::deadline_scope within(test::patience);
    x += co_await manta::remote<count_run>(x);
    if (!manta::this_task::deadline()) co_return false;
  }
  co_return !manta::this_task::deadline() && x != 0;
}

}  // namespace

TEST_CASE("a scope in a coroutine ends where it ends, though it was suspended in it",
          "[deadline][coroutine][anywhere]") {
  const own_board b;
  const manta::runtime rt(test::workers(1));
  std::vector<manta::future<bool>> all;
  for (int i = 1; i <= 50; ++i) all.push_back(manta::remote<scope_over_await>(i));
  for (const bool each : manta::get(all)) CHECK(each);
}

TEST_CASE("calls of an actor end at their deadline, queued or running, the actor goes on",
          "[deadline][anywhere]") {
  const own_board b;
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<worker>();
  CHECK(manta::remote<&worker::add>(a).get() == 1);  // it is there to begin the next one
  const auto running = manta::remote<&worker::hold_until_told>.with({.timeout = 1s})(a);
  const auto queued = manta::remote<&worker::add>.with({.timeout = 10ms})(a);  // it is told first
  CHECK(code_of(running) == manta::errc::timed_out);
  CHECK(code_of(queued) == manta::errc::timed_out);
  b->release.open();
  // hold ran to its end, if the machine let it begin in time; the queued add never
  CHECK(manta::remote<&worker::add>(a).get() == (b->entered.is_open() ? 3 : 2));
}

TEST_CASE("timeouts that can't be are refused at the call", "[deadline][stays:refused]") {
  const manta::runtime rt(test::two_workers());
  CHECK_THROWS_AS(manta::remote<count_run>.with({.timeout = 0s})(1), manta::invalid_argument);
  CHECK_THROWS_AS(manta::remote<count_run>.with({.timeout = -1s})(1), manta::invalid_argument);
  const auto a = manta::spawn<worker>();
  CHECK_THROWS_AS(manta::remote<&worker::add>.with({.timeout = 0s})(a), manta::invalid_argument);
  CHECK_THROWS_AS(manta::remote<&worker::add>.with({.name = ""})(a), manta::invalid_argument);
}

}  // namespace deadline_test
