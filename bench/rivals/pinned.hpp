// SPDX-License-Identifier: Apache-2.0
//
// Two processes on two cores, and the rows in which one sends and the other sends back.
#pragma once

#include <sched.h>

#include <chrono>
#include <memory>
#include <string>

#include "harness/measure.hpp"
#include "rivals/rows.hpp"

namespace bench {

// Pins this thread, and those it makes from now on, to the nth core that the process may use; to
// none where there are not so many.
inline void pin_to(int nth) {
  cpu_set_t may;
  if (sched_getaffinity(0, sizeof may, &may) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &may) || nth-- > 0) continue;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    sched_setaffinity(0, sizeof only, &only);
    return;
  }
}

// The rows of bench_link for who has `round_trip(messages)`; `make` starts the other process.
template <class Make>
void add_round_trips(suite& s, const std::string& name, side who, Make make) {
  contestant awake{link_one, name, who};
  awake.start = [make](const plan& p) -> body {
    auto echo = make();
    const std::size_t count = p.count(10'000);
    return [=](const turn&) {
      return latency(unit::microseconds, count, [&](std::size_t) { echo->round_trip(1); });
    };
  };
  s.add(std::move(awake));
  contestant rest{link_rest, name, who};
  rest.start = [make](const plan& p) -> body {
    auto echo = make();
    const std::size_t count = p.quick ? 5 : 300;
    return [=](const turn&) {
      return latency_after_pause(unit::microseconds, count, std::chrono::milliseconds(2),
                                 [&](std::size_t) { echo->round_trip(1); });
    };
  };
  s.add(std::move(rest));
  contestant many{link_many, name, who};
  many.start = [make](const plan& p) -> body {
    auto echo = make();
    const std::size_t count = p.count(100'000) / 100;
    return [=](const turn& t) { return rate(t, 100, count, [&] { echo->round_trip(100); }); };
  };
  s.add(std::move(many));
}

}  // namespace bench
