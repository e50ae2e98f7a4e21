// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

#include <manta/base/sanitizers.hpp>
#include <manta/spec/config.hpp>

// What the tests of exec/ share: random numbers from a seed, and waiting for an event.

namespace manta_test {

using manta::config;
using manta::base::is_sanitized;

inline config with(int workers) {
  config c;
  c.workers = workers;
  return c;
}

/// `full` in a plain build, a part of it where everything is ten times as slow.
constexpr int scaled(int full) { return is_sanitized ? full / 10 : full; }

/// How often a test repeats what it does at random: `full` where MANTA_TEST_FULL is set.
inline int repeats(int usual, int full) {
  return std::getenv("MANTA_TEST_FULL") != nullptr ? full : scaled(usual);
}

/// The seed of this run: MANTA_TEST_SEED, or always the same. Say CAPTURE(seed) after it.
inline std::uint64_t run_seed() {
  const char* given = std::getenv("MANTA_TEST_SEED");
  return given == nullptr ? 20240607 : std::strtoull(given, nullptr, 10);
}

/// Random numbers (splitmix64): the same everywhere for one seed.
class dice {
 public:
  explicit dice(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  /// 0 to limit - 1.
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(next() % limit); }
  bool one_in(std::size_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

/// Waits until `is_true()`; false when that takes longer than anything here may.
template <class Predicate>
bool happens(Predicate is_true, std::chrono::seconds within = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace manta_test
