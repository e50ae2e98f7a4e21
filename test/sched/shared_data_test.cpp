// SPDX-License-Identifier: Apache-2.0
#include "sched/shared_data.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include <manta/base/clock.hpp>

#include "exec/support.hpp"

namespace shared_data_test {

using manta::sched::fetched_data;
using manta::sched::is_worth_giving;
using manta::sched::is_worth_sending;
using manta::sched::moved_data;
using manta::sched::part_of;
using manta::sched::shared_data;
using manta::sched::time_to_move;
using namespace std::chrono_literals;

constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
constexpr manta::duration kept_for = 400ms;
constexpr manta::duration ever = manta::duration::max();
constexpr manta::sched::byte_pace slow{100};  // 10 MB/s
constexpr manta::base::time_point start{1h};

// Of a queue that takes a second, of tasks of 10 ms.
constexpr manta::sched::overflow_queue second{200, 2, 10ms};

TEST_CASE("what a task takes along is moved while one runs", "[sched]") {
  CHECK(is_worth_giving({}, second));
  CHECK(is_worth_giving({.along = 10ms}, second));
  CHECK_FALSE(is_worth_giving({.along = 10ms + 1ns}, second));
  CHECK_FALSE(is_worth_giving({.along = 10ms, .missing = 8ns, .part = 1ns}, second));
  CHECK_FALSE(is_worth_giving({.missing = ever, .part = ever}, second));
  CHECK_FALSE(is_worth_giving({.along = ever, .missing = ever, .part = ever}, second));
  // Of what is fetched its part; and it has to come before its turn here.
  CHECK(is_worth_giving({.missing = 900ms, .part = 9ms}, second));
  CHECK_FALSE(is_worth_giving({.missing = 1s, .part = 9ms}, second));
  // Nothing is known, and nothing waits.
  CHECK(is_worth_giving({.along = 1us}, {0, 2, 0ms}));
  CHECK_FALSE(is_worth_giving({.missing = 1us, .part = 1us}, {0, 2, 0ms}));
  // Who is given it now would wait there.
  CHECK_FALSE(is_worth_giving({.along = 1us, .is_coming = true}, second));
}

TEST_CASE("what asks for amounts takes along what is moved while it runs", "[sched]") {
  CHECK(is_worth_sending({.missing = 1s, .part = 10ms}, 10ms));
  CHECK_FALSE(is_worth_sending({.missing = 10ms + 1ns, .part = 10ms + 1ns}, 10ms));
  CHECK_FALSE(is_worth_sending({.along = 5ms + 1ns, .missing = 8ns, .part = 5ms}, 10ms));
  CHECK(is_worth_sending({.along = 1us, .is_coming = true}, 10ms));
  CHECK(is_worth_sending({.missing = 1ms, .part = 1ms}, 0ms));  // nobody knows
  CHECK_FALSE(is_worth_sending({.missing = 1ms + 1ns, .part = 1ms + 1ns}, 0ms));
  CHECK_FALSE(is_worth_sending({.missing = 1ms, .part = 1ms}, 20us));
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
  // What it takes, by what a byte does on each way.
  moved_data what;
  what.add(100 * mib, {}, {.is_there = true, .have = 1, .readers = 9});
  CHECK(what.missing == 0ns);
  what.add(100 * mib, {}, {.have = 0, .readers = 100});
  what.add(2 * mib, {}, {});
  CHECK(what.missing == time_to_move(102 * mib));
  CHECK(what.part == time_to_move(3 * mib));
  what.add(mib, slow, {});
  CHECK(what.missing == time_to_move(202 * mib));
  CHECK(what.part == time_to_move(103 * mib));
  CHECK_FALSE(what.is_coming);
  what.add(100 * mib, {}, {.is_coming = true, .have = 1, .readers = 9});
  what.add(0, {}, {.is_there = true});
  CHECK((what.is_coming && what.missing == time_to_move(202 * mib)));
  what.add(UINT64_MAX, slow, {});
  what.add(UINT64_MAX, slow, {});
  CHECK(what.missing == time_to_move(UINT64_MAX));
  CHECK(what.part == time_to_move(UINT64_MAX));
}

TEST_CASE("readers are told apart until they have gone, or were not seen any more", "[sched]") {
  shared_data all(kept_for);
  const shared_data::data one{1, 5, mib};
  auto now = start;
  const auto readers = [&](const shared_data::data& of, std::uint64_t task) {
    return all.look(of, 2, {task}, now).readers;
  };
  CHECK(readers(one, 100) == 1);
  CHECK(readers(one, 100) == 1);  // the same task once more
  CHECK(all.look(one, 3, {101}, now).readers == 2);
  CHECK(readers({1, 6, mib}, 100) == 1);  // another array
  CHECK(readers({2, 5, mib}, 100) == 1);  // another one's
  // One that has gone reads it there, and so does one that comes back.
  all.gave(one, 2, 100, now);
  CHECK(readers(one, 101) == 1);
  CHECK(readers(one, 100) == 2);
  // No more than all that wait.
  CHECK(all.look(one, 2, {102, 2}, now).readers == 2);
  CHECK(all.look(one, 2, {102, 0}, now).readers == 1);
  CHECK(readers(one, 102) == 3);
  // Those that were seen since a sweep count until the next.
  now += kept_for / 2;
  all.sweep(now);
  CHECK(readers(one, 102) == 3);
  CHECK(readers(one, 103) == 4);
  now += kept_for / 2 - 1ns;
  all.sweep(now);  // too early: nothing is forgotten
  CHECK(readers(one, 103) == 4);
  now += 1ns;
  all.sweep(now);
  CHECK(readers(one, 103) == 2);
  // What nobody has looked at for long is new.
  now += kept_for;
  CHECK(readers(one, 103) == 1);
  for (std::uint64_t i = 0; i < 2 * shared_data::most_readers; ++i) readers(one, i);
  CHECK(readers(one, 105) == shared_data::most_readers);
  // What has no number is another one each time.
  all.gave({1, 0, mib}, 2, 100, now);
  CHECK_FALSE(all.look({1, 0, mib}, 2, {100}, now).is_there);
  CHECK(readers({1, 0, mib}, 101) == 1);
  all.begin(UINT64_MAX);
  CHECK(readers(one, 105) == 1);
}

TEST_CASE("a node has what it was given lately, from when it can have come", "[sched]") {
  shared_data all(kept_for);
  const shared_data::data one{1, 5, 100'000'000};  // 100 ms
  const auto at = [&](std::uint64_t node, manta::duration later) {
    return all.look(one, node, {100}, start + later);
  };
  all.gave(one, 2, 7, start);
  CHECK((at(2, 0ms).is_coming && !at(2, 0ms).is_there && at(2, 0ms).have == 1));
  CHECK((at(2, 99ms).is_coming && !at(2, 99ms).is_there));
  CHECK((at(2, 100ms).is_there && !at(2, 100ms).is_coming));
  CHECK((!at(3, 100ms).is_there && !at(3, 100ms).is_coming && at(3, 100ms).have == 1));
  // Those that it gets for nothing say nothing of how long it is kept.
  all.gave(one, 2, 8, start + 400ms);
  CHECK(at(2, 499ms).is_there);
  CHECK((!at(2, 500ms).is_there && at(2, 500ms).have == 0));
  // It is paid for again, and was read so lately that nobody waits for it.
  all.sweep(start + 500ms);
  all.gave(one, 2, 9, start + 500ms);
  CHECK(at(2, 500ms).is_there);
  CHECK(at(2, 899ms).is_there);
  CHECK_FALSE(at(2, 900ms).is_there);
  all.gave(one, 2, 9, start + 900ms);  // not for so long: it has to come once more
  CHECK(at(2, 999ms).is_coming);
  CHECK(at(2, 1000ms).is_there);
  // One after the other.
  all.begin(UINT64_MAX);
  all.gave({1, 6, 50'000'000}, 2, 7, start);
  all.gave(one, 2, 7, start);
  CHECK(at(2, 149ms).is_coming);
  CHECK(at(2, 150ms).is_there);
  // By a slow way it comes later, and is kept from then on.
  all.begin(UINT64_MAX);
  all.gave(one, 2, 7, start, slow);
  CHECK(at(2, 9999ms).is_coming);
  CHECK(at(2, 10000ms).is_there);
  CHECK(at(2, 10399ms).is_there);
}

TEST_CASE("what comes back, or is with a lost node, is not there", "[sched]") {
  shared_data all(kept_for);
  const shared_data::data one{1, 5, 1000};
  const auto later = start + 1ms;
  const auto is_there = [&](std::uint64_t node) {
    return all.look(one, node, {100}, later).is_there;
  };
  all.gave(one, 2, 7, start);
  all.gave(one, 2, 8, start);
  all.gave(one, 3, 9, start);
  all.came_back(2, 8);  // it had brought nothing
  all.came_back(3, 7);  // another node's
  CHECK((is_there(2) && is_there(3)));
  all.came_back(2, 7);
  CHECK((!is_there(2) && is_there(3)));
  all.gave(one, 2, 7, start);
  all.lost(3);
  all.lost(4);
  CHECK((is_there(2) && !is_there(3)));
  CHECK(all.look(one, 3, {100}, later).have == 1);
}

TEST_CASE("what came back takes its time along", "[sched]") {
  shared_data all(kept_for);
  all.begin(1'000'000'000);
  const shared_data::data large{1, 5, 100'000'000};  // a tenth of a second
  for (std::uint64_t task = 0; task < 100; ++task) {
    all.gave(large, 2, task, start);
    all.came_back(2, task);
  }
  all.gave(large, 2, 200, start);
  CHECK(all.look(large, 2, {201}, start + 99ms).is_coming);
  CHECK(all.look(large, 2, {202}, start + 101ms).is_there);
}

TEST_CASE("what a node does not keep is never there, and all of it is borne by each", "[sched]") {
  shared_data all(kept_for);
  all.begin(100);
  const auto is_new = [](const fetched_data& is) {
    return !is.is_there && !is.is_coming && is.have == 0 && is.readers == 1;
  };
  for (std::uint64_t task = 0; task < 10; ++task) {
    CHECK(is_new(all.look({1, 5, 101}, 2, {task}, start)));
    all.gave({1, 5, 101}, 2, task, start);
  }
  CHECK(is_new(all.look({1, 5, 101}, 2, {20}, start + 1ms)));
  CHECK(all.size() == 0);
  // Nor is what had to go at once for another one: 60 and 50 are more than it keeps.
  const shared_data::data first{1, 6, 60};
  const shared_data::data next{1, 7, 50};
  all.look(first, 2, {1}, start);
  CHECK(all.look(first, 2, {2}, start).readers == 2);
  all.gave(first, 2, 3, start);
  all.gave({1, 8, 40}, 2, 4, start + 1ms);
  CHECK(all.look(first, 2, {2}, start + 1ms).is_there);
  all.gave(first, 2, 5, start + 2ms);  // it is used later than the one of 40
  all.gave(next, 2, 6, start + 3ms);
  const auto soon = start + 4ms;
  CHECK(is_new(all.look({1, 8, 40}, 2, {2}, soon)));
  CHECK(is_new(all.look(first, 2, {2}, soon)));
  CHECK(all.look(next, 2, {2}, soon).is_there);
  CHECK(is_new(all.look(first, 3, {2}, soon)));  // who knows what others have to keep
  CHECK(all.look(first, 3, {2}, start + 3ms + kept_for).readers == 2);
  // What was not needed for so long has made room by then.
  all.begin(100);
  all.gave(first, 2, 3, start);
  all.look(first, 2, {1}, start + kept_for);
  all.gave(next, 2, 4, start + kept_for + 1ms);
  CHECK(all.look(first, 2, {2}, start + kept_for + 2ms).readers == 2);
}

TEST_CASE("what is not looked at is forgotten", "[sched]") {
  shared_data all(kept_for);
  for (std::uint64_t i = 1; i <= 100; ++i) all.look({1, i, mib}, 2, {i}, start);
  all.gave({1, 1, 1000}, 2, 1, start);
  CHECK(all.size() == 101);
  all.sweep(start + kept_for - 1ms);
  CHECK(all.size() == 101);
  all.sweep(start + 2 * kept_for);
  CHECK(all.size() == 0);
  // Its bytes are no node's any more.
  all.begin(1000);
  all.gave({1, 1, 1000}, 2, 1, start);
  all.sweep(start + 3 * kept_for);
  const auto then = start + 3 * kept_for;
  all.gave({1, 2, 600}, 2, 1, then);
  all.gave({1, 3, 400}, 2, 1, then);
  CHECK(all.look({1, 2, 600}, 2, {1}, then + 1ms).is_there);
  CHECK(all.look({1, 3, 400}, 2, {1}, then + 1ms).is_there);
}

TEST_CASE("what came back is what that task has brought to that node, and nothing else",
          "[sched]") {
  // A few data, tasks and nodes, so that each is met in each state; beside a list of who has what.
  struct held {
    shared_data::data what;
    std::uint64_t node = 0;
    std::uint64_t task = 0;
    manta::base::time_point until{};
  };
  const auto kept = kept_for + 500us;  // what it takes to come, some ns, is between two steps
  shared_data all(kept);
  std::vector<held> model;
  manta_test::dice roll(manta_test::run_seed());
  manta::base::time_point now = start;
  const auto number = [&](std::uint64_t most) { return 1 + roll.below(most); };
  for (int i = 0; i < 20'000; ++i) {
    now += std::chrono::milliseconds(roll.below(20));
    const std::uint64_t node = number(3);
    const std::uint64_t task = number(6);
    const shared_data::data what{1, number(5), number(2)};
    const auto known = std::ranges::find_if(
        model, [&](const held& one) { return one.node == node && one.what == what; });
    switch (roll.below(8)) {
      case 0:
        all.came_back(node, task);
        std::erase_if(model, [&](const held& one) { return one.node == node && one.task == task; });
        break;
      case 1:
        all.lost(node);
        std::erase_if(model, [&](const held& one) { return one.node == node; });
        break;
      case 2:
        all.sweep(now);  // of what counts no more
        break;
      default:
        all.gave(what, node, task, now, {0.001});
        if (known == model.end()) {
          model.push_back({what, node, task, now + kept});
        } else if (now >= known->until) {
          known->task = task;
          known->until = now + kept;
        }
    }
    const auto at = now + 1ms;
    std::set<std::uint64_t> have;
    for (const held& one : model) {
      if (one.what == what && at < one.until) have.insert(one.node);
    }
    REQUIRE(all.look(what, node, {task}, at).have == have.size());
  }
}

// As trade_overflow.cpp looks at them: one that stays for now is looked at again later.
TEST_CASE("a long queue of readers of one array goes to as many nodes as pays", "[sched]") {
  struct came_of_it {
    std::uint64_t fetched = 0;
    std::size_t tasks = 0;
  };
  const auto nodes_of = [](std::uint64_t bytes, std::uint64_t tasks, bool is_shared,
                           manta::sched::byte_pace pace = {}) {
    shared_data all(kept_for);
    manta::base::time_point now = start;
    came_of_it out;
    std::set<std::uint64_t> gone;
    for (int looks = 0; looks < 8; ++looks) {
      for (std::uint64_t task = 0; task < tasks; ++task) {
        if (gone.contains(task)) continue;
        const shared_data::data what{1, is_shared ? 1 : task + 1, bytes};
        const std::uint64_t to = 2 + task % 20;
        const auto found = all.look(what, to, {task}, now);
        moved_data moved{.along = 500ns};
        moved.add(bytes, pace, found);
        if (!is_worth_giving(moved, second)) continue;
        out.fetched += found.is_there ? 0 : 1;
        all.gave(what, to, task, now, pace);
        gone.insert(task);
      }
      now += 50ms;
      all.sweep(now);
    }
    out.tasks = gone.size();
    return out;
  };
  const came_of_it many = nodes_of(100'000'000, 200, true);
  CHECK((many.fetched >= 15 && many.fetched <= 20));  // once by each
  CHECK(many.tasks >= 150);
  const came_of_it some = nodes_of(100'000'000, 40, true);
  CHECK((some.fetched >= 3 && some.fetched <= 4));
  CHECK(nodes_of(100'000'000, 8, true).tasks == 0);
  CHECK(nodes_of(100'000'000, 200, false).tasks == 0);  // each reads its own
  CHECK(nodes_of(9'000'000, 200, false).tasks == 200);  // and that is moved while one runs
  // By a slow way not even the queue is worth it, by a fast one each may have its own.
  CHECK(nodes_of(100'000'000, 200, true, slow).tasks == 0);
  CHECK(nodes_of(9'000'000, 200, false, slow).tasks == 0);
  CHECK(nodes_of(100'000'000, 200, false, {0.05}).tasks == 200);
}

TEST_CASE("only cores that no group has are waited for here", "[sched]") {
  using manta::sched::may_wait_for_them;
  using rule = manta::placement::rule;
  const manta::spec::demand cores{2000, 0, 0, {}};
  CHECK(may_wait_for_them(cores, rule::anywhere));
  CHECK(may_wait_for_them(cores, rule::spread));
  CHECK_FALSE(may_wait_for_them(cores, rule::group));
  CHECK_FALSE(may_wait_for_them({1000, 1, 0, {}}, rule::anywhere));
  CHECK_FALSE(may_wait_for_them({0, 0, 1, {}}, rule::anywhere));
  CHECK_FALSE(may_wait_for_them({0, 0, 0, {{"license", 1}}}, rule::anywhere));
}

}  // namespace shared_data_test
