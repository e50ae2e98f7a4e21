// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  explicit looked_time(duration most_between) noexcept : most_between_(most_between) {}

  /// A look at what is late.
  void look(base::time_point now) noexcept {
    const duration gap = now - looked_;
    if (looked_ != base::time_point{} && gap > most_between_) uncounted_ += gap - most_between_;
    looked_ = now;
  }
  base::time_point at(base::time_point now) const noexcept { return now - uncounted_; }

 private:
  duration most_between_;
  base::time_point looked_{};
  duration uncounted_{};
};

}  // namespace manta::inline v0::sched
