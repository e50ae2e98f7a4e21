// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/timer.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace {

using manta::base::now;
using manta::exec::timer;
using manta::exec::timer_entry;
using namespace std::chrono_literals;

std::atomic<int> clock_of_fires{0};

struct alarm_entry : timer_entry {
  std::atomic<int> fired_as{0};
  bool may_fire = true;
  alarm_entry() {
    pin = [](timer_entry* self) noexcept { return static_cast<alarm_entry*>(self)->may_fire; };
    fire = [](timer_entry* self) noexcept {
      static_cast<alarm_entry*>(self)->fired_as = ++clock_of_fires;
    };
  }
};

// Keeps the timer's thread until it is let go.
struct holding_entry : timer_entry {
  std::atomic<bool> is_held{false};
  std::atomic<bool> may_go{false};
  holding_entry() {
    pin = [](timer_entry* /*self*/) noexcept { return true; };
    fire = [](timer_entry* self) noexcept {
      auto* const held = static_cast<holding_entry*>(self);
      held->is_held = true;
      held->may_go.wait(false);
    };
  }
};

}  // namespace

TEST_CASE("entries fire in the order of their times, whatever order they were armed in",
          "[timer]") {
  clock_of_fires = 0;
  manta_test::dice random(manta_test::run_seed());
  CAPTURE(manta_test::run_seed());
  std::vector<std::unique_ptr<alarm_entry>> alarms;
  // The timer's thread is kept in an entry of its own until all others are armed as they should be,
  // so that however slow this thread is, none fires meanwhile.
  holding_entry hold;
  timer::arm(hold, now());
  REQUIRE(manta_test::happens([&hold] { return hold.is_held.load(); }));
  const auto start = now();
  std::vector<int> rank;
  for (int i = 0; i < 500; ++i) {
    alarms.push_back(std::make_unique<alarm_entry>());
    rank.push_back(static_cast<int>(random.below(10000)));
    timer::arm(*alarms.back(), start + std::chrono::microseconds(rank.back()));
  }
  // A third is taken back, a third moved.
  for (std::size_t i = 0; i < alarms.size(); i += 3) CHECK(timer::disarm(*alarms[i]));
  for (std::size_t i = 1; i < alarms.size(); i += 3) {
    rank[i] = static_cast<int>(random.below(10000));
    timer::arm(*alarms[i], start + std::chrono::microseconds(rank[i]));
  }
  hold.may_go = true;
  hold.may_go.notify_one();
  REQUIRE(manta_test::happens([] { return timer::armed() == 0; }));
  REQUIRE(manta_test::happens([] { return clock_of_fires == 333; }));
  bool in_order = true;
  for (std::size_t i = 0; i < alarms.size(); ++i) {
    if (i % 3 == 0) CHECK(alarms[i]->fired_as == 0);
    for (std::size_t k = 0; k < alarms.size(); ++k) {
      if (i % 3 == 0 || k % 3 == 0 || rank[i] >= rank[k]) continue;
      in_order &= alarms[i]->fired_as < alarms[k]->fired_as;
    }
  }
  CHECK(in_order);
  timer::stop();
}

TEST_CASE("an entry that is taken back or not pinned does not fire", "[timer]") {
  clock_of_fires = 0;
  alarm_entry never;
  alarm_entry unpinned;
  alarm_entry last;
  unpinned.may_fire = false;
  timer::arm(never, now() + 1h);
  timer::arm(unpinned, now() + 1ms);
  timer::arm(last, now() + 2ms);
  REQUIRE(manta_test::happens([&last] { return last.fired_as != 0; }));
  CHECK(unpinned.fired_as == 0);
  CHECK(timer::disarm(never));
  CHECK_FALSE(timer::disarm(never));
  CHECK_FALSE(timer::disarm(last));
  timer::stop();
  timer::stop();
}
