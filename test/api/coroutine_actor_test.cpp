// SPDX-License-Identifier: Apache-2.0
// Methods that wait with co_await and methods that yield: the actor's order, itself, its end.
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/coroutine_support.hpp"
#include "api/support.hpp"

namespace coroutine_actor_test {

namespace {

using test::are_waiting;
using test::eventually;
using test::held_future;

int twice(int x) { return 2 * x; }

test::everywhere<std::atomic<int>> yielded;

struct ledger {
  std::vector<std::string> lines;
  int running = 0;

  int write(std::string line) {
    lines.push_back(running == 0 ? std::move(line) : line + " meanwhile");
    return static_cast<int>(lines.size());
  }
  manta::coroutine<int> write_later(std::string line, manta::future<int> when) {
    ++running;
    int x = 0;
    {
      const test::waits_here here;
      x = co_await when;
    }
    --running;
    lines.push_back(line + std::to_string(x));
    co_return x;
  }
  manta::coroutine<int> sums(int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i) sum += co_await manta::remote<twice>(i);
    co_return sum;
  }
  manta::stream<std::string> read() {
    for (const std::string& line : lines) co_yield line;
  }
  manta::stream<int> endless() {
    for (int i = 0;; ++i) {
      *yielded = i + 1;
      co_yield i;
    }
  }
  manta::coroutine<int> asks(manta::actor<ledger> itself) {
    co_return co_await manta::remote<&ledger::write>(itself, "never");
  }
  std::vector<std::string> all() { return lines; }
};

}  // namespace

TEST_CASE("an actor's later calls wait for its suspended method",
          "[coroutine][anywhere][actors_home]") {
  for (const int n : {1, 2, 4}) {
    const manta::runtime rt(test::workers(n + 1));
    const auto a = manta::spawn<ledger>();
    held_future when(7);
    const auto first = manta::remote<&ledger::write_later>(a, "first", when.future);
    const auto second = manta::remote<&ledger::write>(a, "second");
    CHECK(are_waiting(1));
    CHECK(!second.is_ready());
    when.gate.open();
    CHECK(first.get() == 7);
    CHECK(second.get() == 2);
    const std::vector<std::string> expected{"first7", "second"};
    CHECK(manta::remote<&ledger::all>(a).get() == expected);
  }
}

TEST_CASE("methods that suspend often are as good as others", "[coroutine][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<ledger>();
  std::vector<manta::future<int>> sums;
  for (int i = 0; i < 200; ++i) {
    sums.push_back(manta::remote<&ledger::sums>(a, i % 7));
    sums.push_back(manta::remote<&ledger::write>(a, "x"));
  }
  for (std::size_t i = 0; i < sums.size(); i += 2) {
    const int n = static_cast<int>(i / 2 % 7);
    REQUIRE(sums[i].get() == n * (n - 1));
    REQUIRE(sums[i + 1].get() == static_cast<int>(i / 2) + 1);
  }
}

TEST_CASE("a method yields what its actor has", "[stream][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<ledger>();
  for (int i = 0; i < 200; ++i) manta::remote<&ledger::write>(a, std::to_string(i)).get();
  int i = 0;
  for (auto& f : manta::remote<&ledger::read>(a)) REQUIRE(f.get() == std::to_string(i++));
  CHECK(i == 200);
  {
    auto s = manta::remote<&ledger::endless>(a);
    for (int k = 0; k < 100; ++k) CHECK(s.next()->get() == k);
  }
  *yielded = 0;
  {
    const auto s = manta::remote<&ledger::endless>.with({.stream_credits = 5})(a);
    CHECK(eventually([] { return *yielded > 0 && *yielded < 100; }));  // the one before is over
    if (!test::in_processes() && !test::in_nodes()) CHECK(test::are_suspended(1));
    CHECK(eventually([] { return *yielded >= 5; }));
    CHECK(*yielded == 5);
  }
  // The actor is free again when the stream is gone.
  CHECK(manta::remote<&ledger::write>(a, "last").get() == 201);
}

TEST_CASE("a method that awaits its own actor's later call is told", "[coroutine][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<ledger>();
  CHECK_THROWS_AS(manta::remote<&ledger::asks>(a, a).get(), manta::self_wait);
}

TEST_CASE("the end of the runtime ends suspended methods before their actors",
          "[coroutine][anywhere][actors_home]") {
  manta::future<int> first;
  manta::future<int> second;
  test::held_gate->shut();
  const test::opens_at_end leaves(*test::held_gate);
  std::thread late;
  {
    const manta::runtime rt(test::two_workers());
    const auto never = manta::remote<test::wait_for_held_gate>(1);
    const auto a = manta::spawn<ledger>();
    first = manta::remote<&ledger::write_later>(a, "first", never);
    second = manta::remote<&ledger::write>(a, "second");
    CHECK(are_waiting(1));
    late = std::thread([] {
      static_cast<void>(are_waiting(0));
      test::held_gate->open();
    });
  }
  late.join();
  CHECK_THROWS_AS(first.get(), manta::cancelled);
  CHECK_THROWS_AS(second.get(), manta::cancelled);
}

}  // namespace coroutine_actor_test
