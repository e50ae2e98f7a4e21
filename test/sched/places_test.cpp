// SPDX-License-Identifier: Apache-2.0
#include "sched/places.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <manta/base/clock.hpp>

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

using manta::sched::data_place;
using manta::sched::least_followed;
using manta::sched::nearest_to_data;
using manta::sched::time_to_move;
using namespace std::chrono_literals;

constexpr std::uint64_t mib = std::uint64_t{1} << 20U;

TEST_CASE("a task goes where its data lies", "[sched]") {
  const data_place here{100 * mib, 0ms};
  CHECK(nearest_to_data(here, std::array{data_place{0, 0ms}}) == 0);
  CHECK(nearest_to_data(here, std::array{data_place{90 * mib, 0ms}, data_place{10 * mib, 0ms}}) ==
        1);
  CHECK(nearest_to_data(here, std::array{data_place{0, 0ms}, data_place{0, 0ms}}) == 0);
  CHECK(nearest_to_data(here, {}) == 0);  // nobody else
}

TEST_CASE("data that is small, or here, moves no task", "[sched]") {
  const std::array other{data_place{0, 0ms}};
  CHECK(nearest_to_data({0, 0ms}, other) == 1);
  CHECK(nearest_to_data({least_followed - 1, 1s}, other) == 1);
  CHECK(nearest_to_data({least_followed, 0ms}, other) == 0);
  // Some of it is there, and some here.
  CHECK(nearest_to_data({8 * mib, 0ms}, std::array{data_place{8 * mib, 0ms}}) == 1);
  CHECK(nearest_to_data({8 * mib, 0ms}, std::array{data_place{7 * mib + 1, 0ms}}) == 1);
  CHECK(nearest_to_data({8 * mib, 0ms}, std::array{data_place{7 * mib, 0ms}}) == 0);
  CHECK(nearest_to_data({8 * mib, 1s}, std::array{data_place{9 * mib, 0ms}}) == 1);
}

TEST_CASE("a long line is worth moving the data for", "[sched]") {
  const data_place here{8 * mib, 0ms};
  const auto moved = time_to_move(8 * mib);
  CHECK(nearest_to_data(here, std::array{data_place{0, moved - 1ns}}) == 0);
  CHECK(nearest_to_data(here, std::array{data_place{0, moved}}) == 1);
  CHECK(nearest_to_data({8 * mib, 1s}, std::array{data_place{0, 1s}}) == 0);
  CHECK(nearest_to_data(here, std::array{data_place{0, 1s}, data_place{mib, 1ms}}) == 1);
}

TEST_CASE("what its bytes take on their way is counted", "[sched]") {
  using manta::sched::byte_pace;
  constexpr byte_pace slow{100};
  constexpr byte_pace fast{0.1};
  // To wait a second for data that is here is less than to have 80 MiB come slowly, and more than
  // to have them come fast.
  const std::array other{data_place{0, 1s}};
  CHECK(nearest_to_data({80 * mib, 0ms, slow}, other) == 0);
  CHECK(nearest_to_data({80 * mib, 0ms, fast}, other) == 1);
  // Of two that lack as much the one by the faster way.
  const std::array two{data_place{8 * mib, 0ms, slow}, data_place{8 * mib, 0ms, fast}};
  CHECK(nearest_to_data({80 * mib, 0ms}, two) == 1);
  CHECK(nearest_to_data({9 * mib, 0ms, fast}, std::array{data_place{8 * mib, 0ms, slow}}) == 1);
}

TEST_CASE("what can't be moved as cheaply as a task lies where most of it does", "[sched]") {
  using manta::sched::lying;
  using manta::sched::node_with_most;
  CHECK(node_with_most({}) == 0);
  CHECK(node_with_most(std::array{lying{0, 9 * mib}}) == 0);
  CHECK(node_with_most(std::array{lying{3, least_followed - 1}}) == 0);
  CHECK(node_with_most(std::array{lying{0, 9 * mib}, lying{3, least_followed}}) == 3);
  CHECK(node_with_most(std::array{lying{3, mib}, lying{2, 2 * mib}, lying{3, 3 * mib}}) == 3);
  CHECK(node_with_most(std::array{lying{3, mib}, lying{2, 2 * mib}, lying{3, mib}}) == 3);
}

TEST_CASE("a line elsewhere is what was told or sent, less those at work", "[sched]") {
  using manta::sched::wait_in;
  CHECK(wait_in({12, 0, 2, 3ms}, 9ms) == 15ms);  // ten wait for two
  CHECK(wait_in({2, 0, 2, 3ms}, 9ms) == 0ms);    // all are at work
  CHECK(wait_in({0, 0, 2, 3ms}, 9ms) == 0ms);
  CHECK(wait_in({0, 12, 2, 3ms}, 9ms) == 15ms);      // it has not told yet
  CHECK(wait_in({12, 6, 2, 3ms}, 9ms) == 15ms);      // it has told of these
  CHECK(wait_in({12, 0, 2, 0ms}, 9ms) == 45ms);      // as long as here
  CHECK(wait_in({12, 0, 2, 0ms}, 0ms) == 0ms);       // nobody knows
  CHECK(wait_in({12, 0, 0, 3ms}, 9ms) == 33ms);      // no worker counts as one
  CHECK(wait_in({UINT64_MAX, 0, 1, 1s}, 0ms) > 1s);  // no sum that ends below
}

TEST_CASE("what is missing and what waits without bounds is compared as well", "[sched]") {
  constexpr auto ever = manta::duration::max();
  CHECK(nearest_to_data({UINT64_MAX, ever}, std::array{data_place{0, ever}}) == 0);
  CHECK(nearest_to_data({UINT64_MAX, 0ms}, std::array{data_place{UINT64_MAX, 0ms}}) == 1);
}

}  // namespace places_test
