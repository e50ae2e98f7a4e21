// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include <manta/base/clock.hpp>

#include "base/chance.hpp"
#include "sched/backoff.hpp"

// How long a queue is searched for tasks that can go, when they could but for what they read.
//
// Problem. Whether a task's data is worth moving is known when it is written, which costs as much
// as to give it. A queue may have thousands of tasks that all stay for that, each millisecond.
// Idea. After some in a row the next are like them, so that node gets no more in this look; and
// when a whole look has found such ones and given none the next looks come later and later. They
// come: what stays for now may go when more is known of it.
// Pure: time and chance are given. Threads: externally synchronised.

namespace manta::inline v0::sched {

class vain_looks {
 public:
  static constexpr std::uint32_t most_in_a_row = 16;
  /// Longer, and who waits for data on its way to another node would lose more than that takes.
  static constexpr duration longest = std::chrono::milliseconds(16);

  /// Whether to look at all.
  bool is_time(base::time_point now) const noexcept { return now >= next_; }
  /// A look begins.
  void begin() noexcept { is_in_vain_ = has_given_ = false; }
  /// Another node's turn in it.
  void turn() noexcept { in_a_row_ = 0; }
  /// One that was looked at has gone; or it stays for other reasons than what it reads.
  void gave() noexcept {
    has_given_ = true;
    in_a_row_ = 0;
  }
  void stays() noexcept { in_a_row_ = 0; }
  /// It stays for that. True: the turn ends.
  bool stays_for_data() noexcept {
    is_in_vain_ = true;
    return ++in_a_row_ >= most_in_a_row;
  }
  /// The look ends.
  void end(base::time_point now, base::chance& by) noexcept {
    if (has_given_) pauses_.reset();
    if (is_in_vain_ && !has_given_) next_ = now + pauses_.next(by);
  }

 private:
  backoff pauses_{backoff::usual_first, longest};
  base::time_point next_{};
  std::uint32_t in_a_row_ = 0;
  bool is_in_vain_ = false;
  bool has_given_ = false;
};

}  // namespace manta::inline v0::sched
