// SPDX-License-Identifier: Apache-2.0
#include "sched/backoff.hpp"

#include <cstdint>
#include <set>

#include <catch2/catch.hpp>

namespace backoff_test {

using manta::duration;
using manta::base::chance;
using manta::sched::backoff;

TEST_CASE("who is refused again and again waits twice as long each time", "[sched]") {
  chance by(7);
  backoff b;
  duration usual = backoff::usual_first;
  for (int i = 0; i < 20; ++i) {
    const duration pause = b.next(by);
    CHECK(pause >= usual / 2);
    CHECK(pause < usual + usual / 2);
    usual = usual * 2 < backoff::usual_longest ? usual * 2 : backoff::usual_longest;
  }
  b.reset();
  CHECK(b.next(by) < 2 * backoff::usual_first);
}

TEST_CASE("how long the first and the longest pause are is the caller's to say", "[sched]") {
  chance by(7);
  backoff b(std::chrono::milliseconds(400), std::chrono::seconds(1));
  CHECK(b.next(by) >= std::chrono::milliseconds(200));
  for (int i = 0; i < 10; ++i) {
    const duration pause = b.next(by);
    CHECK(pause >= std::chrono::milliseconds(400));
    CHECK(pause < std::chrono::milliseconds(1500));
  }
}

TEST_CASE("two that are refused at the same times come at different ones", "[sched]") {
  std::set<duration> seen;
  for (std::uint64_t seed = 1; seed <= 64; ++seed) {
    chance by(2 * seed);
    backoff b;
    for (int i = 0; i < 4; ++i) b.next(by);
    seen.insert(b.next(by));
  }
  CHECK(seen.size() > 32);
}

}  // namespace backoff_test
