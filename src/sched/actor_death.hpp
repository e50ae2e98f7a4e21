// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What becomes of an actor whose isolated worker has died, and of its calls.
//
// A call that had begun has cost the object its life, or may have, and is never run again. All
// others have not touched the object, and wait for the next one.
//
// Pure: what is known goes in, what is to be done comes out. Threads: immutable.

namespace manta::inline v0::sched {

struct actor_death {
  std::uint32_t restarts_left = 0;
  bool was_made = false;      ///< its constructor had run
  bool is_killed = false;     ///< it was asked to end at once
  bool is_left = false;       ///< it was asked to end after its calls
  bool has_waiting = false;   ///< calls that had not begun
  bool is_last_hour = false;  ///< the runtime ends

  /// Whether it is made anew. One that ends after its calls lives on for these alone.
  constexpr bool is_made_anew() const noexcept {
    if (restarts_left == 0 || !was_made || is_killed || is_last_hour) return false;
    return has_waiting || !is_left;
  }
};

/// What is known of the calls of an actor that begins them in their order.
struct calls_at_death {
  std::uint64_t begun = 0;    ///< the last that had begun
  std::uint64_t reading = 0;  ///< the one whose message was being read, by its classes' functions

  /// Whether the call of that number may have cost the life. With several at a time one with a
  /// number below the last may have waited at its group's limit: nobody knows.
  constexpr bool may_have_run(std::uint64_t number) const noexcept {
    return number <= begun || number == reading;
  }
};

}  // namespace manta::inline v0::sched
