// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <manta/base/clock.hpp>
#include <manta/exec/executor.hpp>

namespace manta::inline v0::exec {

/// How a wait ended.
enum class awoken : std::uint8_t {
  told,
  late,     ///< the deadline came first
  stopped,  ///< the task was cancelled, or the runtime ends; it may have been told as well
};

/// Waits until `me` is told, or the deadline: polls for about 2 us, since what is under way on
/// another core comes sooner than a thread falls asleep, then sleeps; a worker lends its core. A
/// task that is cancelled meanwhile, or whose runtime ends, stops waiting. For anything but `told`
/// the caller takes back what it waits for, under the lock under which it is told; when that fails
/// it was told. May throw std::bad_alloc.
awoken await_telling(thread_waiter& me, const base::deadline& deadline);

/// What a wait that was stopped throws.
[[noreturn]] void raise_stopped(const char* what);

/// The runtime ends: stops all waits of its workers, and those that begin later.
void stop_waits() noexcept;

inline bool is_over(const base::deadline& deadline) noexcept {
  return deadline && *deadline <= base::now();
}

}  // namespace manta::inline v0::exec
