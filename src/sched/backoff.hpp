// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <manta/base/clock.hpp>

#include "base/chance.hpp"

// How long who was refused waits before it tries again.
//
// Twice as long each time, up to a limit; and between a half and one and a half of that, by chance,
// since two that want the same, and have it by halves, would else meet for ever.
// Pure: chance is given. Threads: externally synchronised.

namespace manta::inline v0::sched {

class backoff {
 public:
  /// As who meets a rival has it.
  static constexpr duration usual_first = std::chrono::milliseconds(2);
  static constexpr duration usual_longest = std::chrono::milliseconds(250);

  backoff() noexcept : backoff(usual_first, usual_longest) {}
  backoff(duration first, duration longest) noexcept : first_(first), longest_(longest) {}

  /// It was refused once more.
  duration next(base::chance& by) noexcept {
    pause_ = std::clamp<duration>(pause_ * 2, first_, longest_);
    constexpr std::int64_t parts = 256;
    const auto part = static_cast<std::int64_t>(by.next() % parts);
    return pause_ / 2 + pause_ * part / parts;
  }
  /// What comes now has nothing to do with what was refused.
  void reset() noexcept { pause_ = {}; }

 private:
  duration first_;
  duration longest_;
  duration pause_ = {};
};

}  // namespace manta::inline v0::sched
