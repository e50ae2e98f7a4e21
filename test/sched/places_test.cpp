// SPDX-License-Identifier: Apache-2.0
#include "sched/places.hpp"

#include <array>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

namespace places_test {

using manta::sched::least_full;
using manta::sched::place;

TEST_CASE("what lies spread goes where the fewest are for each worker", "[sched]") {
  CHECK(least_full(std::array{place{4, 0, 0}}) == 0);
  CHECK(least_full(std::array{place{1, 1, 0}, place{1, 0, 0}}) == 1);
  CHECK(least_full(std::array{place{4, 3, 0}, place{1, 1, 0}}) == 0);  // 3/4 < 1
  CHECK(least_full(std::array{place{4, 5, 0}, place{1, 1, 0}}) == 1);
  CHECK(least_full(std::array{place{0, 1, 0}, place{1, 0, 0}}) == 1);  // 0 counts as 1
}

TEST_CASE("among equals it goes where the least waits, then to the first", "[sched]") {
  CHECK(least_full(std::array{place{2, 2, 9}, place{1, 1, 4}, place{1, 1, 5}}) == 1);
  CHECK(least_full(std::array{place{2, 2, 8}, place{1, 1, 4}}) == 0);
}

TEST_CASE("many are spread by the workers that nodes have", "[sched]") {
  std::vector<place> all{{1, 0, 0}, {2, 0, 0}, {5, 0, 0}};
  for (int i = 0; i < 800; ++i) ++all[least_full(all)].actors;
  CHECK(all[0].actors == 100);
  CHECK(all[1].actors == 200);
  CHECK(all[2].actors == 500);
}

TEST_CASE("the largest numbers are compared as they are", "[sched]") {
  constexpr std::uint32_t most = UINT32_MAX;
  CHECK(least_full(std::array{place{most, most, 0}, place{most, most - 1, most}}) == 1);
}

}  // namespace places_test
