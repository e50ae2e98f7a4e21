// SPDX-License-Identifier: Apache-2.0
#include "sched/patience.hpp"

#include <chrono>

#include <catch2/catch.hpp>

namespace patience_test {

using manta::sched::patience;
using namespace std::chrono_literals;

// Many: as many as make who waits patient.
void give_many(patience& to) {
  for (std::uint64_t i = 0; i < patience::least_results; ++i) to.had_one();
}

TEST_CASE("who has many results in a short time waits for several", "[sched]") {
  const patience::time_point from{1h};
  patience p;
  CHECK_FALSE(p.decide(from));
  give_many(p);
  CHECK(p.decide(from + 20us));
  CHECK(p.decide(from + 30us));  // few since then, but no time has passed
}

TEST_CASE("who is woken by each of many results becomes patient, too", "[sched]") {
  patience::time_point now{1h};
  patience p;
  CHECK_FALSE(p.decide(now));
  bool was_patient = false;
  for (std::uint64_t i = 0; i < patience::least_results; ++i) {
    CHECK_FALSE(was_patient);
    p.had_one();
    was_patient = p.decide(now += 5us);
  }
  CHECK(was_patient);
}

TEST_CASE("results that take long, or do not come, end it", "[sched]") {
  const patience::time_point from{1h};
  constexpr auto most = patience::least_results * patience::most_between;
  patience p;
  p.decide(from);
  give_many(p);
  CHECK_FALSE(p.decide(from + most + 1us));
  give_many(p);
  CHECK(p.decide(from + 2 * most));
  p.had_one();
  CHECK_FALSE(p.decide(from + 3 * most + 1us));
  CHECK_FALSE(p.decide(from + 3 * most + 2us));
}

}  // namespace patience_test
