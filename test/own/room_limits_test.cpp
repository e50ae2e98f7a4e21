// SPDX-License-Identifier: Apache-2.0
#include "own/room_limits.hpp"

#include <chrono>
#include <cstdint>
#include <initializer_list>

#include <catch2/catch.hpp>

namespace manta_test::room_limits_test {

namespace {

using limits = manta::own::room_limits;
using manta::base::time_point;
using manta::own::room_wait;
using namespace std::chrono_literals;

constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
constexpr std::uint64_t huge = UINT64_MAX;
constexpr time_point start{1h};

}  // namespace

TEST_CASE("half of a store is lent before others are asked to take it", "[own]") {
  CHECK(limits::most_lent(40 * mib) == 20 * mib);
  CHECK(limits::most_lent(0) == 0);
  CHECK(limits::between_pleas < room_wait::longest_step);  // one at least while somebody waits
}

TEST_CASE("what nobody reads is taken up to half of a store, or what its disk has room for",
          "[own]") {
  CHECK(limits::may_take(20 * mib, 0, 40 * mib, false));
  CHECK(limits::may_take(8 * mib, 12 * mib, 40 * mib, false));
  CHECK_FALSE(limits::may_take(8 * mib, 12 * mib + 1, 40 * mib, false));
  CHECK_FALSE(limits::may_take(1, 21 * mib, 40 * mib, false));
  CHECK_FALSE(limits::may_take(huge, 12 * mib, 40 * mib, false));
  CHECK(limits::may_take(40 * mib, 400 * mib, 40 * mib, true));
  CHECK_FALSE(limits::may_take(40 * mib + 1, 0, 40 * mib, true));
}

TEST_CASE("several arrays rest together where the store has room for them and no disk", "[own]") {
  CHECK(limits::rest_together(40 * mib, 40 * mib, false));
  CHECK_FALSE(limits::rest_together(40 * mib + 1, 40 * mib, false));
  CHECK_FALSE(limits::rest_together(mib, 40 * mib, true));
}

TEST_CASE("as much as a store may have lies beside it, and alone what the machine has", "[own]") {
  CHECK(limits::has_room_beside(40 * mib, 0, 40 * mib));
  CHECK(limits::has_room_beside(8 * mib, 32 * mib, 40 * mib));
  CHECK_FALSE(limits::has_room_beside(8 * mib, 32 * mib + 1, 40 * mib));
  CHECK_FALSE(limits::has_room_beside(1, 48 * mib, 40 * mib));  // of messages it may be more
  CHECK_FALSE(limits::has_room_beside(huge, 1, 40 * mib));
  const auto available = static_cast<std::int64_t>(1024 * mib);
  CHECK(limits::may_lie_alone(960 * mib, available));
  CHECK_FALSE(limits::may_lie_alone(960 * mib + 1, available));
  CHECK_FALSE(limits::may_lie_alone(huge, INT64_MAX));
  for (const std::int64_t none :
       {INT64_MIN, std::int64_t{-1}, std::int64_t{0}, static_cast<std::int64_t>(64 * mib)}) {
    CHECK_FALSE(limits::may_lie_alone(1, none));
  }
}

TEST_CASE("a reader asks the store alone for a moment, and half of its wait at most", "[own]") {
  const room_wait line(start, 10s, true);
  CHECK(line.is_early(start, {}));
  CHECK(line.is_early(start + room_wait::store_alone - 1ns, {}));
  CHECK_FALSE(line.is_early(start + room_wait::store_alone, {}));
  const room_wait brief(start, 100ms, true);
  CHECK(brief.is_early(start + 50ms - 1ns, {}));
  CHECK_FALSE(brief.is_early(start + 50ms, {}));
  CHECK_FALSE(room_wait(start, 0ms, true).is_early(start, {}));
  // Who polls has what lies beside.
  CHECK(line.is_early(start + 49ms, start + 100ms));
  CHECK_FALSE(line.is_early(start + 50ms, start + 100ms));
  CHECK_FALSE(line.is_early(start, start));
  CHECK_FALSE(line.is_early(start, time_point::min()));
  CHECK(line.is_early(start + 200ms, time_point::max()));
}

TEST_CASE("a reader waits for room step by step, and as long as who makes an array", "[own]") {
  const room_wait line(start, 10s, true);
  CHECK(line.step_end(start, {}) == start + room_wait::soon);
  CHECK(line.step_end(start + 5s, {}) == start + 5s + room_wait::longest_step);
  CHECK(line.step_end(start + 9900ms, {}) == start + 10s);
  CHECK_FALSE(line.is_over(start + 10s - 1ns));
  CHECK(line.is_over(start + 10s));
  // However short, it is asked for for a moment.
  const room_wait none(start, 0ms, true);
  CHECK(none.step_end(start, {}) == start + room_wait::soon);
  CHECK(none.is_over(start));
}

TEST_CASE("a reader with a time limit is late by a moment once, however many arrays it wants",
          "[own]") {
  const room_wait line(start, 10s, true);
  CHECK(line.step_end(start + 400ms, start + 420ms) == start + 420ms);
  CHECK(line.step_end(start, start) == start + room_wait::soon);
  // The next of its arrays finds that over, and looks at what room there is.
  const time_point later = start + room_wait::soon;
  CHECK(line.step_end(later, start) <= later);
  CHECK(line.step_end(start + 500ms, start + 420ms) == start + 420ms);
}

TEST_CASE("a thread that others wait for stands in no line", "[own]") {
  const room_wait line(start, 10s, false);
  CHECK_FALSE(line.is_early(start, {}));
  CHECK(line.step_end(start, {}) == start);
  CHECK(line.is_over(start));
}

}  // namespace manta_test::room_limits_test
