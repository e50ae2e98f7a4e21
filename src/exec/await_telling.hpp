// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/base/clock.hpp>
#include <manta/base/pause.hpp>
#include <manta/exec/executor.hpp>

namespace manta::inline v0::exec {

/// Waits until `me` is told (true) or the deadline: polls for about 2 us, since what is under way
/// on another core comes sooner than a thread falls asleep, then sleeps; a worker lends its core.
inline bool await_telling(thread_waiter& me, const base::deadline& deadline) {
  constexpr int looks_before_sleep = 64;
  for (int i = 0; i < looks_before_sleep; ++i) {
    if (me.sleep.is_signalled()) return true;
    base::pause();
  }
  return executor::sleep(me.sleep, deadline);
}

inline bool is_over(const base::deadline& deadline) noexcept {
  return deadline && *deadline <= base::now();
}

}  // namespace manta::inline v0::exec
