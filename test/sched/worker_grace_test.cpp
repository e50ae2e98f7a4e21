// SPDX-License-Identifier: Apache-2.0
#include "sched/worker_grace.hpp"

#include <catch2/catch.hpp>

namespace worker_grace_test {

using namespace std::chrono_literals;
using manta::base::time_point;
using manta::sched::grace_times;
using manta::sched::worker_grace;

constexpr time_point start{1h};

// Looks as the pool does, each millisecond.
void look_until(worker_grace& of, time_point& now, time_point end) {
  for (; now <= end; now += 1ms) of.look(now);
}

TEST_CASE("who was asked is late when its time is over and not before", "[sched]") {
  const grace_times times;
  worker_grace g;
  time_point now = start;
  const time_point asked = g.asked(now);
  look_until(g, now, start + times.to_stop - 1ms);
  CHECK_FALSE(g.is_late_to_stop(asked));
  look_until(g, now, start + times.to_stop);
  CHECK(g.is_late_to_stop(asked));
  CHECK_FALSE(g.is_late_to_leave(asked));
  look_until(g, now, start + times.to_leave - 1ms);
  CHECK_FALSE(g.is_late_to_leave(asked));
  look_until(g, now, start + times.to_leave);
  CHECK(g.is_late_to_leave(asked));
}

TEST_CASE("who was not asked is never late", "[sched]") {
  worker_grace g;
  time_point now = start;
  look_until(g, now, start + 11s);
  for (const time_point none : {time_point{}, time_point::max()}) {
    CHECK_FALSE(g.is_late_to_stop(none));
    CHECK_FALSE(g.is_late_to_leave(none));
  }
}

TEST_CASE("what nobody watched takes no worker's time to stop", "[sched]") {
  worker_grace g;
  g.look(start);
  const time_point asked = g.asked(start + 1ms);
  g.look(start + 1h);
  CHECK_FALSE(g.is_late_to_stop(asked));
  // Asked after it: the hour is no part of its time, either.
  const time_point then = g.asked(start + 1h);
  time_point now = start + 1h + 1ms;
  look_until(g, now, start + 1h + 850ms);
  CHECK_FALSE(g.is_late_to_stop(then));
  look_until(g, now, start + 1h + 900ms);
  CHECK(g.is_late_to_stop(then));
  CHECK(g.is_late_to_stop(asked));
}

TEST_CASE("other times are kept as they are given", "[sched]") {
  worker_grace g({.to_stop = 20s, .to_leave = 5s, .between_looks = 2s});
  const time_point asked = g.asked(start);
  g.look(start);
  for (int i = 1; i <= 4; ++i) g.look(start + i * 2s);
  CHECK_FALSE(g.is_late_to_stop(asked));
  CHECK(g.is_late_to_leave(asked));  // eight seconds, all of them counted
  for (int i = 5; i <= 10; ++i) g.look(start + i * 2s);
  CHECK(g.is_late_to_stop(asked));
}

}  // namespace worker_grace_test
