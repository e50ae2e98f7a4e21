// SPDX-License-Identifier: Apache-2.0
#include "sched/early_deaths.hpp"

#include <chrono>

#include <catch2/catch.hpp>

namespace early_deaths_test {

using manta::sched::early_deaths;
using namespace std::chrono_literals;

TEST_CASE("workers that end by themselves before they run anything are given up soon", "[sched]") {
  early_deaths seen;
  for (int i = 0; i < early_deaths::most; ++i) {
    CHECK_FALSE(seen.is_hopeless());
    seen.died(false, 1ms * i);
  }
  CHECK(seen.is_hopeless());
  seen.ran();
  CHECK_FALSE(seen.is_hopeless());
}

TEST_CASE("workers that are killed before they run anything are given time", "[sched]") {
  early_deaths seen;
  seen.died(true, 5s);
  for (int i = 0; i < 1000; ++i) seen.died(true, 5s + 1ms * i);
  CHECK_FALSE(seen.is_hopeless());
  seen.died(true, 5s + early_deaths::longest - 1ns);
  CHECK_FALSE(seen.is_hopeless());
  seen.died(true, 5s + early_deaths::longest);
  CHECK(seen.is_hopeless());
}

TEST_CASE("few deaths are no reason, however far from each other", "[sched]") {
  early_deaths seen;
  for (int i = 0; i < early_deaths::most - 1; ++i) seen.died(true, 100s * i);
  CHECK_FALSE(seen.is_hopeless());
  seen.ran();
  for (int i = 0; i < early_deaths::most; ++i) seen.died(true, 1000s + 1ms * i);
  CHECK_FALSE(seen.is_hopeless());
}

}  // namespace early_deaths_test
