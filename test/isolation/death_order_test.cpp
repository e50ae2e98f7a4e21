// SPDX-License-Identifier: Apache-2.0
// What a worker held is back, and what it asked for is over, before anybody hears of its death; who
// is ended by force takes nobody along; and what has begun there begins again only if it may.
#include <csignal>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "isolation/support.hpp"

namespace death_order_test {

namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using manta::future;
using test::comes_true;
using test::isolated;
using test::mixed;
using test::shared;
using test::shared_numbers;

constexpr auto in_process = manta::isolation_mode::processes;
const manta::options one_run{.isolation = in_process, .max_retries = 0};

int rounds(int usual) { return test::is_sanitized ? usual / 10 : usual; }

int dies_with_permit(const manta::semaphore& s) {
  const manta::permit held = s.acquire(1);
  raise(SIGKILL);
  return 0;
}
std::uint64_t arrives(const manta::barrier& b, bool dies) {
  // While this thread waits there.
  if (dies) {
    std::thread([] {
      std::this_thread::sleep_for(2ms);
      raise(SIGKILL);
    }).detach();
  }
  return b.arrive_and_wait().generation;
}

struct holder {
  int take(const manta::semaphore& s) {
    permits.push_back(s.acquire(1));
    return 1;
  }
  int die() {
    raise(SIGKILL);
    return 0;
  }
  int one() { return 1; }
  std::vector<manta::permit> permits;
};

int dies_with_actor(const std::string& name) {
  static const manta::actor<holder> kept = manta::spawn<holder>.with({.name = name})();
  manta::remote<&holder::one>(kept).get();
  raise(SIGKILL);
  return 0;
}

int takes_time(int us) {
  std::this_thread::sleep_for(std::chrono::microseconds(us));
  return us;
}
int obeys() {
  for (;;) manta::this_task::check();
}

struct slow {
  std::string nap(int us) {
    ++shared(1);
    takes_time(us);
    return std::string(100, 'x');
  }
};
int asks_and_dies(const manta::actor<slow>& of) {
  std::vector<future<std::string>> asked;
  for (int i = 0; i < 3; ++i) asked.push_back(manta::remote<&slow::nap>(of, 10000));
  // Until the first is under way: the others wait behind it.
  comes_true([] { return shared(1) != 0; });
  raise(SIGKILL);
  return 0;
}

int ends_its_worker() {
  raise(SIGKILL);
  return 0;
}
int ends_it_once() { return ++shared(0) == 1 ? ends_its_worker() : 0; }
manta::coroutine<int> begins_and_waits(std::size_t counts, manta::channel<int> for_what) {
  ++shared(counts);
  const auto came = co_await for_what.async_next();
  co_return came.value_or(0);
}
manta::options with_runs(int retries) { return {.isolation = in_process, .max_retries = retries}; }
int on_top_of(std::size_t counts) {
  ++shared(counts);
  return manta::remote<ends_it_once>().get();
}
int calls_what_is_below(std::size_t counts) {
  return manta::remote<on_top_of>.with(with_runs(0))(counts).get();
}

}  // namespace

TEST_CASE("a permit of a worker that died is back before its death is heard of",
          "[isolation][death_order]") {
  const manta::runtime rt(isolated());
  int held = 0;
  for (int i = 0; i < rounds(150); ++i) {
    const manta::semaphore s(1);
    CHECK_THROWS_AS(manta::remote<dies_with_permit>.with(one_run)(s).get(), manta::worker_lost);
    held += s.try_acquire(1) ? 0 : 1;
    const manta::semaphore t(1);
    const auto a = manta::spawn<holder>();
    manta::remote<&holder::take>(a, t).get();
    const auto told = manta::monitor(a);
    const auto dies = manta::remote<&holder::die>(a);
    if (i % 2 == 0) {
      CHECK_THROWS_AS(dies.get(), manta::actor_lost);
    } else {
      CHECK(told.get().reason == manta::end_reason::process_lost);
    }
    held += t.try_acquire(1) ? 0 : 1;
  }
  CHECK(held == 0);
}

TEST_CASE("the arrival of a worker that died is not taken for the next one's",
          "[isolation][death_order]") {
  const manta::runtime rt(isolated(4));
  for (int i = 0; i < rounds(60); ++i) {
    const manta::barrier b(3);
    CHECK_THROWS_AS(manta::remote<arrives>.with(one_run)(b, true).get(), manta::worker_lost);
    std::vector<future<std::uint64_t>> all;
    for (int k = 0; k < 3; ++k) all.push_back(manta::remote<arrives>(b, false));
    for (const auto& one : all) REQUIRE(one.get(test::patience) == 0);
  }
}

TEST_CASE("the name of an actor that is lost is free when its calls have failed",
          "[isolation][death_order]") {
  const manta::runtime rt(isolated());
  int taken = 0;
  int found = 0;
  const auto is_free = [](const std::string& name) {
    try {
      const auto a = manta::spawn<holder>.with({.name = name})();
      manta::remote<&holder::one>(a).get();
      manta::kill(a);
      return true;
    } catch (const manta::name_taken&) {
      return false;
    }
  };
  for (int i = 0; i < rounds(100); ++i) {
    const std::string name = "n" + std::to_string(i);
    {
      const auto a = manta::spawn<holder>.with({.name = name})();
      const auto dies = manta::remote<&holder::die>(a);
      const auto behind = manta::remote<&holder::one>(a);
      CHECK_THROWS_AS(behind.get(), manta::actor_lost);
      taken += is_free(name) ? 0 : 1;
    }
    const std::string other = "w" + std::to_string(i);
    CHECK_THROWS_AS(manta::remote<dies_with_actor>.with(one_run)(other).get(), manta::worker_lost);
    found += manta::find_actor<holder>(other) ? 1 : 0;
  }
  CHECK(taken == 0);
  CHECK(found == 0);
}

TEST_CASE("one that is ended by force takes nobody along", "[isolation][death_order]") {
  const manta::runtime rt(isolated());
  int lost = 0;
  for (int i = 0; i < rounds(120); ++i) {
    const auto stops = manta::remote<obeys>.with(one_run)();
    takes_time(i % 10 * 200);
    manta::cancel(stops, {.force = true});
    CHECK_THROWS_AS(stops.get(), manta::cancelled);
    std::vector<future<int>> others;
    for (int k = 0; k < 4; ++k) others.push_back(manta::remote<takes_time>.with(one_run)(300));
    for (const auto& one : others) {
      try {
        one.get();
      } catch (const manta::worker_lost&) {
        ++lost;
      }
    }
  }
  CHECK(lost == 0);
}

// Else it would do a second time what it has done, though it is not to blame.
TEST_CASE("what has begun beside a task that ends its worker begins again only if it may",
          "[isolation][death_order]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated(1));
  SECTION("suspended") {
    const manta::channel<int> c(2);
    const auto once = manta::remote<begins_and_waits>.with(with_runs(0))(1, c);
    const auto again = manta::remote<begins_and_waits>.with(with_runs(1))(2, c);
    REQUIRE(comes_true([] { return shared(1) == 1 && shared(2) == 1; }));
    // Its second run costs that one nothing either.
    CHECK_THROWS_AS(manta::remote<ends_its_worker>.with(with_runs(1))().get(), manta::worker_lost);
    std::string why = "nothing";
    try {
      once.get(test::patience);
    } catch (const manta::worker_lost& e) {
      why = e.what();
    }
    CHECK_THAT(why, Contains("signal 9") && Contains("in run 1 of 1"));
    REQUIRE(comes_true([] { return shared(2) > 1; }));
    c.send(7);
    CHECK(again.get(test::patience) == 7);
    CHECK(numbers[1] == 1);
  }
  SECTION("below it on its worker's stack") {
    const auto once = manta::remote<on_top_of>.with(with_runs(0))(1);
    CHECK_THROWS_AS(once.get(test::patience), manta::worker_lost);
    CHECK(numbers[1] == 1);
    numbers[0] = 0;
    CHECK(manta::remote<on_top_of>(2).get(test::patience) == 0);
    CHECK(numbers[2] == 2);
  }
  // Who has called it runs again, and asks for it anew.
  SECTION("below it, and called by what may") {
    CHECK_THROWS_AS(manta::remote<calls_what_is_below>(1).get(test::patience), manta::exception);
    CHECK(numbers[1] == 1);
  }
}

TEST_CASE("a worker that dies while its calls wait in an actor of the driver harms nobody",
          "[isolation][death_order]") {
  const shared_numbers numbers;
  const manta::runtime rt(mixed());
  for (int i = 0; i < rounds(20) + 2; ++i) {
    numbers[1] = 0;
    const auto a = manta::spawn<slow>();
    CHECK_THROWS_AS(manta::remote<asks_and_dies>.with(one_run)(a).get(), manta::worker_lost);
    CHECK(manta::remote<&slow::nap>(a, 1).get(test::patience).size() == 100);
  }
}

}  // namespace death_order_test
