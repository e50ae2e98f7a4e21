// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

// When to stop hoping for an isolated worker that runs something.
//
// Workers may end before they have run anything: an object's constructor before main exits, or a
// limit of the machine stops them. The next one would end so, too, and who waits for a task is to
// hear of it soon. Or somebody kills them as fast as they begin, while the machine is busy: then
// the next one may live, so that is given time.
//
// Pure: deaths and results go in, in their order. Threads: externally synchronised.

namespace manta::inline v0::sched {

class early_deaths {
 public:
  using nanoseconds = std::chrono::nanoseconds;
  static constexpr int most = 8;  ///< in a row
  static constexpr nanoseconds longest = std::chrono::seconds(10);

  /// A worker has ended that had run nothing, at that time of a steady clock; was_killed: by
  /// SIGKILL, so not by itself.
  void died(bool was_killed, nanoseconds now) noexcept {
    if (in_a_row_++ == 0) first_ = now;
    if (!was_killed) ++by_themselves_;
    last_ = now;
  }
  /// One has run something.
  void ran() noexcept {
    if (in_a_row_ != 0) *this = {};
  }
  bool is_hopeless() const noexcept {
    return by_themselves_ >= most || (in_a_row_ >= most && last_ - first_ >= longest);
  }

 private:
  int in_a_row_ = 0;
  int by_themselves_ = 0;
  nanoseconds first_{0};
  nanoseconds last_{0};
};

}  // namespace manta::inline v0::sched
