// SPDX-License-Identifier: Apache-2.0
#include "sched/overflow.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace overflow_test {

namespace {

using namespace std::chrono_literals;
using manta::duration;
using namespace manta::sched;  // NOLINT: the words of this file

using manta::base::time_point;
using shares = std::vector<overflow_share>;

std::uint64_t given(const shares& all, std::uint64_t node) {
  const auto found = std::ranges::find(all, node, &overflow_share::node);
  return found == all.end() ? 0 : found->tasks;
}
std::uint64_t sum(const shares& all) {
  return std::accumulate(all.begin(), all.end(), std::uint64_t{0},
                         [](std::uint64_t n, const overflow_share& one) { return n + one.tasks; });
}

}  // namespace

TEST_CASE("what waits for less than the threshold stays", "[sched]") {
  const std::vector<overflow_peer> idle{{.node = 1, .workers = 4}};
  const overflow_settings with;
  CHECK(spread_overflow(with, {19, 2, 100us}, idle).empty());
  CHECK_FALSE(spread_overflow(with, {20, 2, 100us}, idle).empty());
  CHECK(spread_overflow(with, {0, 2, 1s}, idle).empty());
  CHECK(spread_overflow(with, {1000, 2, 0us}, idle).empty());     // nothing is known of them
  CHECK(spread_overflow(with, {1000000, 2, 5us}, idle).empty());  // too small to be worth it
  CHECK(spread_overflow(with, {1000, 2, 1ms}, {}).empty());
}

TEST_CASE("idle nodes get as much as their workers are of all", "[sched]") {
  overflow_settings with;
  with.ahead = 1h;
  with.most_ahead = 1U << 20U;
  const std::vector<overflow_peer> idle{{.node = 1, .workers = 2}, {.node = 2, .workers = 4}};
  const shares all = spread_overflow(with, {800, 2, 1ms}, idle);
  CHECK(given(all, 1) == 200);
  CHECK(given(all, 2) == 400);
  // One more than there are workers goes, though a part of it would be enough.
  CHECK(sum(spread_overflow(with, {1, 2, 1s}, idle)) == 1);
}

TEST_CASE("who has much to do gets nothing", "[sched]") {
  const overflow_settings with;
  const std::vector<overflow_peer> others{
      {.node = 1, .workers = 2, .waiting = 500, .task_time = 1ms},
      {.node = 2, .workers = 2, .waiting = 5, .task_time = 100ms},
      {.node = 3, .workers = 2, .waiting = 500, .task_time = 1us}};
  const shares all = spread_overflow(with, {100, 2, 1ms}, others);
  CHECK(given(all, 1) == 0);
  CHECK(given(all, 2) == 0);
  CHECK(given(all, 3) > 0);
  // Tasks from here are counted once, whatever it says.
  const std::vector<overflow_peer> ours{{.node = 1, .workers = 2, .waiting = 8, .sent = 8}};
  CHECK(given(spread_overflow(with, {100, 2, 1ms}, ours), 1) == 14);
}

TEST_CASE("nobody gets more than its window", "[sched]") {
  const overflow_settings with;
  const std::vector<overflow_peer> idle{{.node = 1, .workers = 3}};
  CHECK(sum(spread_overflow(with, {100000, 1, 1ms}, idle)) == 33);     // 10 ms, and one
  CHECK(sum(spread_overflow(with, {100000, 1, 10us}, idle)) == 1536);  // 512 each
  CHECK(sum(spread_overflow(with, {100000, 1, 1h}, idle)) == 6);
  const std::vector<overflow_peer> full{{.node = 1, .workers = 3, .sent = 6}};
  CHECK(spread_overflow(with, {100000, 1, 1h}, full).empty());
}

TEST_CASE("a share is never more than there is, and leaves no queue higher than before",
          "[sched]") {
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  manta_test::dice roll(seed);
  int moved = 0;
  const int runs = manta_test::repeats(20000, 1000000);
  for (int run = 0; run < runs; ++run) {
    overflow_queue here{roll.below(roll.one_in(2) ? 50 : 100000),
                        static_cast<std::uint32_t>(1 + roll.below(8)),
                        duration(roll.below(roll.one_in(2) ? 100000 : 2000000000))};
    std::vector<overflow_peer> others(roll.below(6));
    for (std::size_t i = 0; i < others.size(); ++i) {
      others[i] = {.node = i + 1,
                   .workers = static_cast<std::uint32_t>(1 + roll.below(8)),
                   .waiting = static_cast<std::uint32_t>(roll.below(200)),
                   .sent = static_cast<std::uint32_t>(roll.below(100)),
                   .task_time = duration(roll.below(5000000))};
    }
    const shares all = spread_overflow({}, here, others);
    REQUIRE(sum(all) <= here.queued);
    if (all.empty()) continue;
    ++moved;
    const double before = static_cast<double>(here.queued) / here.workers;
    for (const overflow_share& one : all) {
      REQUIRE(one.tasks > 0);
      const overflow_peer& to = others.at(one.node - 1);
      // In tasks of here; one that is begun with is one.
      REQUIRE(static_cast<double>(to.sent + one.tasks - 1) / to.workers <= before + 1e-6);
    }
  }
  CHECK(moved > runs / 10);
}

TEST_CASE("the pace is that of tasks that end while others wait", "[sched]") {
  service_pace pace;
  time_point now{1h};
  pace.look(now, 0, 0, 2);
  CHECK(pace.task_time() == 0ns);
  now += 10s;  // nothing was there to do
  pace.look(now, 0, 100, 2);
  CHECK(pace.task_time() == 0ns);
  now += 1ms;
  pace.look(now, 20, 80, 2);
  CHECK(pace.task_time() == 100us);
  now += 1ms;
  pace.look(now, 24, 76, 2);
  CHECK(pace.task_time() == 300us);  // few have ended: half of it is what was known
  now += 1ms;
  pace.look(now, 44, 56, 2);
  CHECK(pace.task_time() == 100us);
  // Long ones, none of which has ended: they take so long at least.
  for (int i = 0; i < 100; ++i) {
    now += 1ms;
    pace.look(now, 44, 56, 2);
    CHECK(pace.task_time() == (i < 2 ? duration(100us) : duration((i + 1) * 2ms)));
  }
  now += 900ms;
  pace.look(now, 46, 54, 2);
  CHECK(pace.task_time() == 600ms);
}

TEST_CASE("a task takes along what is there while it would run", "[overflow]") {
  const std::uint64_t few = worth_moving({});
  CHECK(few == 64U << 10U);
  CHECK(worth_moving(-1ms) == few);
  CHECK(worth_moving(10us) == few);
  CHECK(worth_moving(1ms) == 1'000'000);
  CHECK(worth_moving(2s) == 2'000'000'000);
}

}  // namespace overflow_test
