// SPDX-License-Identifier: Apache-2.0
//
// What it costs a task that its start and end are written down.
#include <sys/resource.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <manta/manta.hpp>

#include "harness/measure.hpp"
#include "ours/control.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

constexpr double task_seconds = 20e-6;
constexpr std::size_t pairs = 15;

double work(std::size_t steps, double x) {
  for (std::size_t i = 0; i < steps; ++i) x = x * 1.0000001 + 1e-9;
  return x;
}

// How many steps take as long as a task is to take.
std::size_t steps_of_a_task() {
  constexpr std::size_t some = 100'000;
  std::vector<double> times;
  for (int i = 0; i < 21; ++i) {
    const double start = now_s();
    keep(work(some, i));
    times.push_back(now_s() - start);
  }
  return static_cast<std::size_t>(task_seconds / quantile(times, 0.5) * some);
}

// Of all threads of this process.
double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// CPU seconds of a runtime with its tasks, from its start to its end, which writes all of it down.
double cost_of(manta::event_mode events, bool on_disk, std::size_t tasks, std::size_t steps) {
  const temporary_folder where;
  manta::config with;
  with.workers = 2;
  with.events = events;
  if (on_disk) with.control = where.file("store");
  const double before = cpu_seconds();
  {
    const manta::runtime rt(with);
    std::vector<manta::future<double>> all;
    all.reserve(tasks);
    for (std::size_t i = 0; i < tasks; ++i) {
      all.push_back(manta::remote<work>(steps, static_cast<double>(i)));
    }
    for (auto& one : all) check(one.get() > 0, "a task's result");
  }
  return cpu_seconds() - before;
}

struct kind {
  const char* name;
  manta::event_mode events;
  bool on_disk;
};
constexpr kind kinds[] = {{"manta, failures only (default)", manta::event_mode::rare, false},
                          {"manta, in memory", manta::event_mode::all, false},
                          {"manta, on a disk", manta::event_mode::all, true}};

contestant events(const kind& who) {
  contestant c{events_cost, who.name, side::ours};
  c.start = [who](const plan& plan) -> body {
    const std::size_t tasks = plan.count(60'000);
    const std::size_t steps = steps_of_a_task();
    return [=](const turn&) {
      std::vector<double> without;
      std::vector<double> with;
      // In turns, so that the machine's moods meet both.
      for (std::size_t i = 0; i < pairs; ++i) {
        without.push_back(cost_of(manta::event_mode::none, who.on_disk, tasks, steps));
        with.push_back(cost_of(who.events, who.on_disk, tasks, steps));
      }
      return reading{.value = 100 * (quantile(with, 0.5) / quantile(without, 0.5) - 1),
                     .operations = static_cast<double>(2 * pairs * tasks)};
    };
  };
  return c;
}

}  // namespace

void add_our_control_events(suite& s) {
  for (const kind& who : kinds) s.add(events(who));
}

}  // namespace bench
