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
  duration usual = backoff::first;
  for (int i = 0; i < 20; ++i) {
    const duration pause = b.next(by);
    CHECK(pause >= usual / 2);
    CHECK(pause < usual + usual / 2);
    usual = usual * 2 < backoff::longest ? usual * 2 : backoff::longest;
  }
  b.reset();
  CHECK(b.next(by) < 2 * backoff::first);
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
