// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Bytes of memory that this process may use: the machine's, cut by the cgroup's limit (v1 and v2,
/// this group and its parents). Reads a few files; call it at start.
MANTA_API std::int64_t usable_memory();

/// The limit in bytes, found as in quota_cores; 0 when there is none.
MANTA_API std::int64_t limit_memory(const std::string& root, const std::string& membership);

/// Bytes that this process can still take before the kernel has to end somebody: what the machine
/// has available, cut by what is left of the cgroup's limit (v1 and v2, this group and its parents;
/// file pages that nobody used lately count as free). Changes at any moment. Reads a few files.
MANTA_API std::int64_t available_memory();

/// The same for cgroup files below `root`, a process whose /proc/self/cgroup text is `membership`,
/// and a text like /proc/meminfo's.
MANTA_API std::int64_t available_memory(const std::string& root, const std::string& membership,
                                        const std::string& meminfo);

/// Of memory that was just allocated, and is about to be filled: that large pages under it are
/// welcome, with which its first touch takes a fifth of the time (100 MB: 54 ms in pages of 4 KiB,
/// 12 ms in ones of 2 MiB). Nothing for less than 32 MiB, which malloc may have from what was used
/// before, and where the machine gives none. Cost: a system call for the large ones.
MANTA_API void welcome_large_pages(void* at, std::size_t bytes) noexcept;

/// GPUs that this process may use: the entries of CUDA_VISIBLE_DEVICES when that is set, else the
/// device files. Touches no driver.
MANTA_API int usable_gpus();

/// The same for `visible`, the variable's text (null when it is not set), and device files like
/// nvidia0 in the folder `devices`. CUDA ignores what follows the first entry that is no device
/// ("-1", an empty one), so that ends the count here, too.
MANTA_API int count_gpus(const char* visible, const std::string& devices);

/// The lowest address of the calling thread's stack, or null when it can't be told.
MANTA_API const char* stack_floor() noexcept;

}  // namespace manta::inline v0::base
