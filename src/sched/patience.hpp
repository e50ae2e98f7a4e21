// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

// Whether who waits for results of workers may sleep until several have come.
//
// Problem. Where there are more threads than cores, a worker that wakes who waits loses its core
// to it: with tasks of a microsecond that is two switches for each result, or for a few.
// Idea. Who has just had many results in a short time is woken when a worker has sent a number of
// them or has nothing more to do, and looks by itself after a short time: who sends can't know how
// long its next task takes. Who has had few is woken by the first.
// Pure: time is given. Threads: one for each that waits.

namespace manta::inline v0::sched {

class patience {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// What a sleep may last that is ended by several results only.
  static constexpr std::chrono::microseconds longest{100};
  static constexpr std::uint64_t least_results = 8;
  static constexpr std::chrono::microseconds most_between{10};

  /// A message came.
  void had_one() noexcept { ++had_; }
  /// Who waits goes to sleep: whether the first result need not wake it. Counts over its sleeps,
  /// since who is woken by each result never has many at a time.
  bool decide(time_point now) noexcept {
    const auto passed = now - since_;
    if (had_ >= least_results) {
      return begin(now, passed <= static_cast<std::int64_t>(had_) * most_between);
    }
    if (passed > least_results * most_between) return begin(now, false);
    return is_patient_;
  }

 private:
  bool begin(time_point now, bool is_patient) noexcept {
    had_ = 0;
    since_ = now;
    is_patient_ = is_patient;
    return is_patient;
  }

  std::uint64_t had_ = 0;  // since then
  time_point since_{};
  bool is_patient_ = false;
};

}  // namespace manta::inline v0::sched
