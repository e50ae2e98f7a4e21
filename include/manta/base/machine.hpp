// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include <manta/base/export.hpp>

// What the machine grants this process.

namespace manta::inline v0::base {

/// Cores that this process may use: the affinity mask, cut by the cgroup's CPU quota (v1 and v2,
/// this group and its parents), rounded up; at least 1. Reads a few files; call it at start.
MANTA_API int usable_cores();

/// The quota in whole cores (rounded up) from cgroup files below `root`, for a process whose
/// /proc/self/cgroup text is `membership`; 0 when there is none. Split out for its tests.
MANTA_API int quota_cores(const std::string& root, const std::string& membership);

/// The lowest address of the calling thread's stack, or null when it can't be told.
MANTA_API const char* stack_floor() noexcept;

}  // namespace manta::inline v0::base
