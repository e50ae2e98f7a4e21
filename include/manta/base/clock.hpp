// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <ctime>
#include <optional>

// Time as the engine uses it: steady, in nanoseconds. A deadline that is absent means "for ever".

namespace manta::inline v0 {

/// Every duration of the public interface converts to this.
using duration = std::chrono::nanoseconds;

namespace base {

/// A point in time; unaffected by changes of the clock on the wall.
using time_point = std::chrono::steady_clock::time_point;
/// Until when; nothing means for ever.
using deadline = std::optional<time_point>;

/// One clock read (23 ns on the reference machine).
inline time_point now() noexcept { return std::chrono::steady_clock::now(); }

/// now() + timeout, without overflow; a negative timeout is over at once.
inline time_point after(duration timeout) noexcept {
  const time_point start = now();
  if (timeout >= time_point::max() - start) return time_point::max();
  return start + timeout;
}

/// Whichever comes first.
inline deadline earlier(deadline one, deadline other) noexcept {
  if (!one.has_value() || (other.has_value() && *other < *one)) return other;
  return one;
}

/// As system calls take a time of CLOCK_MONOTONIC, which is the clock of time_point.
inline timespec to_timespec(time_point t) noexcept {
  const auto ns = std::chrono::nanoseconds(t.time_since_epoch()).count();
  timespec out{};
  out.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
  out.tv_nsec = static_cast<long>(ns % 1'000'000'000);
  return out;
}

}  // namespace base
}  // namespace manta::inline v0
