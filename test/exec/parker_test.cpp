// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/parker.hpp>

#include <atomic>
#include <chrono>
#include <thread>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace {

using manta::base::now;
using manta::exec::parker;
using manta_test::scaled;
using namespace std::chrono_literals;

}  // namespace

TEST_CASE("a signal that comes first is not lost", "[parker]") {
  parker p;
  CHECK_FALSE(p.is_signalled());
  p.signal();
  CHECK(p.is_signalled());
  p.park();
  CHECK(p.park_until(now() - 1s));  // it stays until reset
  p.reset();
  CHECK_FALSE(p.is_signalled());
}

TEST_CASE("a deadline that has passed ends the park at once", "[parker]") {
  parker p;
  CHECK_FALSE(p.park_until(now() - 1s));
  CHECK_FALSE(p.park_until(now()));
  CHECK_FALSE(p.park_until(std::chrono::steady_clock::time_point{}));
  CHECK_FALSE(p.park_until(now() + 1ms));
  p.signal();
  CHECK(p.park_until(now() - 1s));
}

TEST_CASE("the farthest deadline there is means to sleep", "[parker]") {
  parker p;
  std::thread other([&] { p.signal(); });
  CHECK(p.park_until(std::chrono::steady_clock::time_point::max()));
  other.join();
}

TEST_CASE("two threads that wake each other in turn never lose a signal", "[parker]") {
  const int rounds = scaled(20'000);
  parker ping;
  parker pong;
  int seen = 0;
  std::thread other([&] {
    for (int i = 0; i < rounds; ++i) {
      ping.park();
      ping.reset();
      ++seen;  // ordered by the signals
      pong.signal();
    }
  });
  int wrong = 0;
  for (int i = 0; i < rounds; ++i) {
    ping.signal();
    pong.park();
    pong.reset();
    wrong += seen == i + 1 ? 0 : 1;
  }
  other.join();
  CHECK(wrong == 0);
}

// What could break: a signal that meets the timeout is lost, which shows as a sleeper that never
// wakes.
TEST_CASE("a signal that meets the deadline is seen by this park or by the next", "[parker]") {
  parker p;
  std::atomic<int> round{0};
  const int rounds = scaled(5'000);
  std::thread other([&] {
    for (int i = 1; i <= rounds; ++i) {
      while (round.load() < i) std::this_thread::yield();
      p.signal();
    }
  });
  int timeouts = 0;
  for (int i = 1; i <= rounds; ++i) {
    round.store(i);
    while (!p.park_until(now() + std::chrono::microseconds(i % 20))) ++timeouts;
    p.reset();
  }
  other.join();
  CHECK_FALSE(p.is_signalled());
}

namespace {

// Each thread writes its flag, passes its barrier and reads the other's; counts the rounds in which
// neither saw the other.
int rounds_without_order(int rounds) {
  std::atomic<int> x{0};
  std::atomic<int> y{0};
  std::atomic<int> begun{0};
  std::atomic<int> ended{0};
  int seen_by_other = 0;
  int wrong = 0;
  std::thread other([&] {
    for (int i = 1; i <= rounds; ++i) {
      for (int spins = 0; begun.load() < i; ++spins) {
        if (spins > 1000) std::this_thread::yield();
      }
      y.store(i, std::memory_order_relaxed);
      manta::exec::light_barrier();
      seen_by_other = x.load(std::memory_order_relaxed);
      ended.store(i);
    }
  });
  for (int i = 1; i <= rounds; ++i) {
    begun.store(i);
    // A little later in each round, so that the two meet in some.
    for (int delay = i % 64; delay > 0; --delay)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    x.store(i, std::memory_order_relaxed);
    manta::exec::heavy_barrier();
    const int seen = y.load(std::memory_order_relaxed);
    while (ended.load() < i) std::this_thread::yield();
    wrong += seen != i && seen_by_other != i ? 1 : 0;
  }
  other.join();
  return wrong;
}

}  // namespace

TEST_CASE("of a heavy and a light barrier one side sees the other", "[parker]") {
  CHECK(rounds_without_order(scaled(100'000)) == 0);
}

TEST_CASE("the barriers order the two sides without membarrier, too", "[parker]") {
  auto& has_membarrier = manta::exec::detail::has_membarrier;
  const bool before = has_membarrier.exchange(false);
  CHECK(rounds_without_order(scaled(100'000)) == 0);
  has_membarrier.store(before);
}
