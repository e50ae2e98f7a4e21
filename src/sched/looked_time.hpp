// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include <manta/base/clock.hpp>

// Time as far as somebody was there to look.
//
// Problem. Who is given so long to do something, and is killed else, may have had no chance: the
// machine, or the process that watches, stood still meanwhile, and the first look afterwards finds
// that all the time is over.
// Idea. Between two looks no more passes than a look's usual share: what stood still doesn't count.
// Times of one such clock are compared with each other only.
// Pure: time is given. Threads: externally synchronised.

namespace manta::inline v0::sched {

class looked_time {
 public:
  /// What passes between two looks at most.
  static constexpr duration most_between = std::chrono::milliseconds(50);

  /// A look at what is late.
  void look(base::time_point now) noexcept {
    const duration gap = now - looked_;
    if (looked_ != base::time_point{} && gap > most_between) uncounted_ += gap - most_between;
    looked_ = now;
  }
  base::time_point at(base::time_point now) const noexcept { return now - uncounted_; }

 private:
  base::time_point looked_{};
  duration uncounted_{};
};

}  // namespace manta::inline v0::sched
