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
  CHECK(pace.look(now, 46, 54, 2));
  CHECK(pace.task_time() == 600ms);
  CHECK_FALSE(pace.look(now += 1us, 46, 54, 2));
  // All slept, and the time is no task's.
  pace.rest();
  CHECK_FALSE(pace.look(now += 1h, 46, 54, 2));
  CHECK(pace.task_time() == 600ms);
  CHECK(pace.look(now += 1ms, 66, 34, 2));
  CHECK(pace.task_time() == 100us);
}

TEST_CASE("a task takes along what is there while it would run", "[overflow]") {
  const manta::duration few = worth_moving({});
  CHECK(few == 65536ns);
  CHECK(worth_moving(-1ms) == few);
  CHECK(worth_moving(10us) == few);
  CHECK(worth_moving(1ms) == 1ms);
  CHECK(worth_moving(2s) == 2s);
}

TEST_CASE("what would wait here for long is refused, but not a few long ones", "[sched]") {
  const overflow_settings with;
  CHECK(wait_of({100, 4, 1ms}) == 25ms);
  CHECK(wait_of({100, 4, 0ms}) == 0ns);
  CHECK(wait_of({100, 0, 1ms}) == 0ns);
  CHECK(wait_of({UINT64_MAX, 1, 1h}) > 1h);
  CHECK_FALSE(refuses(with, {80, 4, 1ms}));
  CHECK(refuses(with, {81, 4, 1ms}));
  CHECK_FALSE(refuses(with, {16, 4, 1h}));  // as many as two others give of such
  CHECK(refuses(with, {17, 4, 1h}));
  CHECK_FALSE(refuses(with, {1000, 4, 0ms}));  // nothing is known of them
  CHECK(rest_after(0ms) == 1ms);
  CHECK(rest_after(60ms) == 30ms);
  CHECK(rest_after(1h) == 250ms);
}

TEST_CASE("four tasks for each worker are enough that wait for their arrays", "[sched]") {
  using manta::sched::are_enough;
  CHECK_FALSE(are_enough(0, 1));
  CHECK_FALSE(are_enough(3, 1));
  CHECK(are_enough(4, 1));
  CHECK_FALSE(are_enough(63, 16));
  CHECK(are_enough(64, 16));
  CHECK_FALSE(are_enough(UINT32_MAX, UINT32_MAX));  // no product that ends below
}

// What bounds both: others' tasks never hold up this node's own for longer, and wait no longer.
TEST_CASE("what others give is in front of nobody for longer than is borne with", "[sched]") {
  const overflow_settings with;
  for (const manta::duration each :
       {manta::duration(10us), manta::duration(1ms), 3 * with.patience, manta::duration(10s)}) {
    for (const std::uint32_t workers : {1U, 4U, 64U}) {
      for (const std::uint64_t own : {0U, 10U, 10'000'000U}) {
        CAPTURE(each.count(), workers, own);
        // As many as there is no end of: all that are taken in.
        overflow_queue here{own, workers, each};
        std::uint64_t taken = 0;
        for (; taken < 1'000'000 && !refuses(with, here); ++taken) ++here.queued;
        REQUIRE(taken < 1'000'000);
        const auto of_long_ones = 2 * with.least_ahead * each;
        const auto longest = std::max(with.patience, of_long_ones) + each;
        CHECK(wait_of({taken, workers, each}) <= longest);
        if (taken > 0) CHECK(wait_of(here) <= longest);
        CHECK((own <= 10 || taken == 0));
      }
    }
  }
}

TEST_CASE("no more go than may, and those to all alike", "[sched]") {
  const std::vector<overflow_peer> idle{
      {.node = 1, .workers = 4}, {.node = 2, .workers = 4}, {.node = 3, .workers = 8}};
  const shares few = spread_overflow({.most = 32}, {10000, 4, 1ms}, idle);
  CHECK(given(few, 1) == 8);
  CHECK(given(few, 2) == 8);
  CHECK(given(few, 3) == 16);
  CHECK(sum(spread_overflow({.most = 3}, {10000, 4, 1ms}, idle)) == 3);
  CHECK(sum(spread_overflow({.most = 0}, {10000, 4, 1ms}, idle)) == 0);
  CHECK(sum(spread_overflow({.most = 1'000'000}, {10000, 4, 1ms}, idle)) == 16 * 11);
}

TEST_CASE("the window grows while all is taken, and shrinks while it is not", "[sched]") {
  overflow_window window(4);
  time_point now{1h};
  std::uint64_t went = 0;
  std::uint64_t back = 0;
  const auto give = [&](std::uint64_t most) {
    const std::uint64_t tasks = std::min(most, window.left(went));
    went += tasks;
    return tasks;
  };
  const auto look = [&] { window.look(now += 1ms, went, back); };
  look();
  CHECK(window.left(went) == 64);
  CHECK(give(1000) == 64);
  CHECK(give(1000) == 0);
  window.look(now + 999us, went, back);  // too soon
  CHECK(give(1000) == 0);
  std::uint64_t last = 64;
  for (int i = 0; i < 6; ++i) {
    look();
    CHECK(give(1'000'000) == 2 * last);
    last *= 2;
  }
  // All of it comes back, and again.
  back += last;
  look();
  CHECK(window.left(went) <= last / 2);
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t tasks = give(1'000'000);
    look();
    back += tasks;
  }
  CHECK(window.left(went) <= 8);
  CHECK(window.left(went) >= 4);  // each worker's place is looked for still
  // They are idle again.
  for (int i = 0; i < 12; ++i) {
    give(1'000'000);
    look();
  }
  CHECK(window.left(went) >= 4096);
  // What they took need not be what they would take: with little to give it is as at the start.
  for (int i = 0; i < 20; ++i) {
    give(1);
    look();
  }
  CHECK(window.left(went) == 64);
}

TEST_CASE("a look is at all of a few others, and at some of many", "[sched]") {
  CHECK(worth_looking_at(0) == 8);
  CHECK(worth_looking_at(20) == 20);
  CHECK(worth_looking_at(UINT64_MAX) == 64);
}

}  // namespace overflow_test
