// SPDX-License-Identifier: Apache-2.0
#include "sched/places.hpp"

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

using manta::sched::is_worth_giving;
using manta::sched::moved_data;
using manta::sched::part_of;
using manta::sched::shared_data;
using manta::sched::worth_moving;

// Of a queue that takes a second, of tasks of 10 ms.
constexpr manta::sched::overflow_queue second{200, 2, 10ms};

TEST_CASE("what a task takes along is moved while one runs", "[sched]") {
  CHECK(is_worth_giving({}, second));
  CHECK(is_worth_giving({.bytes = worth_moving(10ms)}, second));
  CHECK_FALSE(is_worth_giving({.bytes = worth_moving(10ms) + 1}, second));
  CHECK_FALSE(is_worth_giving({.bytes = worth_moving(10ms), .missing = 8, .part = 1}, second));
  CHECK_FALSE(is_worth_giving({.missing = UINT64_MAX, .part = UINT64_MAX}, second));
  // Of what is fetched its part; and it has to come before its turn here.
  CHECK(is_worth_giving({.missing = 900'000'000, .part = 9'000'000}, second));
  CHECK_FALSE(is_worth_giving({.missing = 1'000'000'000, .part = 9'000'000}, second));
  // Nothing is known, and nothing waits.
  CHECK(is_worth_giving({.bytes = 1000}, {0, 2, 0ms}));
  CHECK_FALSE(is_worth_giving({.missing = 1000, .part = 1000}, {0, 2, 0ms}));
}

TEST_CASE("what many read is borne by all of them, and once by each node", "[sched]") {
  CHECK(part_of(100 * mib, 0, 0) == 100 * mib);
  CHECK(part_of(100 * mib, 1, 0) == 100 * mib);
  CHECK(part_of(100 * mib, 100, 0) == mib);
  CHECK(part_of(100 * mib, 100, 9) == 10 * mib);
  CHECK(part_of(100 * mib, 100, 99) == 100 * mib);
  CHECK(part_of(100 * mib, 100, UINT64_MAX) == 100 * mib);
  CHECK(part_of(UINT64_MAX, 1, UINT64_MAX) == UINT64_MAX);
  CHECK(part_of(UINT64_MAX, 1000, 0) <= UINT64_MAX / 999);
  moved_data what;
  what.add(100 * mib, {.is_there = true, .have = 1, .readers = 9});
  CHECK(what.missing == 0);
  what.add(100 * mib, {.is_there = false, .have = 0, .readers = 100});
  what.add(2 * mib, {});
  CHECK(what.missing == 102 * mib);
  CHECK(what.part == 3 * mib);
  what.add(UINT64_MAX, {});
  CHECK(what.missing == UINT64_MAX);
  CHECK(what.part == UINT64_MAX);
}

TEST_CASE("readers are told apart, and nodes that were given it lately have it", "[sched]") {
  shared_data all(400ms);
  const shared_data::data one{1, 5};
  manta::base::time_point now{1h};
  CHECK(all.look(one, 2, 100, now).readers == 1);
  CHECK(all.look(one, 2, 100, now).readers == 1);  // the same task once more
  CHECK(all.look(one, 3, 101, now).readers == 2);
  CHECK(all.look({1, 6}, 2, 100, now).readers == 1);  // another array
  CHECK(all.look({2, 5}, 2, 100, now).readers == 1);  // another one's
  all.gave(one, 2, now);
  const auto there = all.look(one, 2, 102, now + 300ms);
  CHECK((there.is_there && there.have == 1 && there.readers == 3));
  CHECK_FALSE(all.look(one, 3, 103, now + 300ms).is_there);
  CHECK(all.look(one, 3, 103, now + 300ms).have == 1);
  // It may be gone by then, and is if nobody has looked.
  CHECK_FALSE(all.look(one, 2, 104, now + 400ms).is_there);
  CHECK(all.look(one, 2, 104, now + 400ms).readers == 5);
  CHECK(all.look({7, 7}, 2, 100, now + 900ms).readers == 1);
  CHECK(all.look(one, 2, 105, now + 900ms).readers == 1);
  // What has no number is another one each time.
  all.gave({1, 0}, 2, now);
  CHECK_FALSE(all.look({1, 0}, 2, 100, now).is_there);
  CHECK(all.look({1, 0}, 2, 101, now).readers == 1);
  for (std::uint64_t i = 0; i < 2 * shared_data::most_readers; ++i) all.look(one, 2, i, now + 1s);
  CHECK(all.look(one, 2, 105, now + 1s).readers == shared_data::most_readers);
  all.clear();
  CHECK(all.look(one, 2, 105, now + 1s).readers == 1);
}

// As trade_overflow.cpp looks at them: one that stays for now is looked at again later.
TEST_CASE("a long queue of readers of one array goes to as many nodes as pays", "[sched]") {
  const auto nodes_of = [](std::uint64_t bytes, std::uint64_t tasks, bool is_shared) {
    shared_data all(400ms);
    const manta::base::time_point now{1h};
    std::uint64_t nodes = 0;
    for (int looks = 0; looks < 3; ++looks) {
      for (std::uint64_t task = 0; task < tasks; ++task) {
        const shared_data::data what{1, is_shared ? 1 : task + 1};
        const std::uint64_t to = 2 + task % 20;
        const auto found = all.look(what, to, task, now);
        moved_data moved{.bytes = 500};
        moved.add(bytes, found);
        if (!is_worth_giving(moved, second)) continue;
        nodes += found.is_there ? 0 : 1;
        all.gave(what, to, now);
      }
    }
    return nodes;
  };
  CHECK(nodes_of(100'000'000, 200, true) >= 15);
  CHECK(nodes_of(100'000'000, 40, true) >= 3);
  CHECK(nodes_of(100'000'000, 40, true) <= 4);
  CHECK(nodes_of(100'000'000, 8, true) == 0);
  CHECK(nodes_of(100'000'000, 200, false) == 0);  // each reads its own
  CHECK(nodes_of(9'000'000, 200, false) == 200);  // and that is moved while one runs
}

}  // namespace places_test
