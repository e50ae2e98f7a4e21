// SPDX-License-Identifier: Apache-2.0
#include "sched/actor_death.hpp"

#include <catch2/catch.hpp>

namespace {

using manta::sched::actor_death;
using manta::sched::calls_at_death;

constexpr actor_death ordinary{.restarts_left = 1, .was_made = true, .has_waiting = true};

}  // namespace

TEST_CASE("an actor is made anew while it has restarts left", "[sched]") {
  CHECK(ordinary.is_made_anew());
  actor_death idle = ordinary;
  idle.has_waiting = false;
  CHECK(idle.is_made_anew());
  actor_death spent = ordinary;
  spent.restarts_left = 0;
  CHECK_FALSE(spent.is_made_anew());
}

TEST_CASE("an actor is not made anew before its constructor ran, when killed, or when all ends",
          "[sched]") {
  actor_death unmade = ordinary;
  unmade.was_made = false;
  CHECK_FALSE(unmade.is_made_anew());
  actor_death killed = ordinary;
  killed.is_killed = true;
  CHECK_FALSE(killed.is_made_anew());
  actor_death last = ordinary;
  last.is_last_hour = true;
  CHECK_FALSE(last.is_made_anew());
}

TEST_CASE("an actor that was let go is made anew for its last calls alone", "[sched]") {
  actor_death left = ordinary;
  left.is_left = true;
  CHECK(left.is_made_anew());
  left.has_waiting = false;
  CHECK_FALSE(left.is_made_anew());
}

TEST_CASE("calls up to the last that began, and one whose message was being read, may have run",
          "[sched]") {
  CHECK_FALSE(calls_at_death{}.may_have_run(1));
  constexpr calls_at_death had{.begun = 7, .reading = 9};
  CHECK(had.may_have_run(6));
  CHECK(had.may_have_run(7));
  CHECK_FALSE(had.may_have_run(8));
  CHECK(had.may_have_run(9));
  CHECK_FALSE(had.may_have_run(10));
}
