// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>

// Things that have to happen at a time: deadlines.
//
// One thread for the process, started at the first use and ended with the runtime, sleeps until the
// earliest entry's time. Entries lie where their owners want and are linked by a heap of pointers,
// so that arming needs no memory of its own beyond the heap's.
//
// Invariants: (1) an entry is in the heap or not, by its index, under the timer's mutex; (2) `pin`
// is called under that mutex, so an owner that disarms before it goes is never fired afterwards
// unless pin kept it alive.
// Limits: accuracy is that of a futex wait, 50-100 us; firing costs the timer's thread, so what is
// fired must be short.

namespace manta::inline v0::exec {

/// One thing to happen. Owned by who arms it; disarm it before it goes.
struct timer_entry {
  /// Keeps what `fire` needs alive; false: too late, skip it. Under the timer's mutex: no other
  /// lock.
  bool (*pin)(timer_entry* self) noexcept = nullptr;
  /// Called on the timer's thread after pin; gives up what pin kept.
  void (*fire)(timer_entry* self) noexcept = nullptr;

 private:
  friend class timer;
  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);
  base::time_point at_{};
  std::size_t index_ = nowhere;
};

/// The process's timer. Any thread.
class MANTA_API timer {
 public:
  /// Fires `entry` once at `at`. Throws std::bad_alloc, std::system_error.
  static void arm(timer_entry& entry, base::time_point at);
  /// Takes it back. False: it was not armed, or is firing or has fired.
  static bool disarm(timer_entry& entry) noexcept;
  /// Ends the thread; armed entries stay unfired until somebody arms another one.
  static void stop() noexcept;
  /// Entries that are armed, for tests.
  static std::size_t armed() noexcept;

 private:
  struct state;
  static state& global();
  static void run(state& s) noexcept;
};

}  // namespace manta::inline v0::exec
