// SPDX-License-Identifier: Apache-2.0
#include "sched/spent_runs.hpp"

#include <catch2/catch.hpp>

namespace spent_runs_test {

using manta::sched::spent_runs;

TEST_CASE("what a call has spent is known until many others were noted", "[spent-runs]") {
  spent_runs spent(3);
  CHECK(spent.of(1) == 0);
  for (std::uint64_t task = 1; task <= 3; ++task) spent.note(task, 1);
  spent.note(1, 2);  // it is the last one now
  CHECK(spent.of(1) == 2);
  CHECK(spent.of(2) == 1);
  spent.note(4, 1);
  CHECK(spent.of(2) == 0);
  CHECK(spent.of(1) == 2);
  CHECK(spent.of(3) == 1);
  CHECK(spent.of(4) == 1);
  spent.note(2, 5);
  CHECK(spent.of(2) == 5);
  CHECK(spent.of(3) == 0);
}

TEST_CASE("of as many as there are none is lost before its turn", "[spent-runs]") {
  constexpr std::uint64_t most = 100;
  spent_runs spent(most);
  for (std::uint64_t task = 1; task <= 10 * most; ++task) {
    spent.note(task, 1);
    const std::uint64_t first = task <= most ? 1 : task - most + 1;
    for (std::uint64_t one = first; one <= task; ++one) REQUIRE(spent.of(one) == 1);
    REQUIRE(spent.of(first - 1) == 0);
  }
}

}  // namespace spent_runs_test
