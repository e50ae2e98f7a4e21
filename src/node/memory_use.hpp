// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <manta/exec/job.hpp>

// What a process uses, and what a task may.

namespace manta::inline v0::node {

/// Of a process, in bytes; zeros: it is gone, or has no pid yet.
struct memory_use {
  std::int64_t resident = 0;
  /// Of these, what no file and no store has: a task's own, and what its process had before.
  std::int64_t own = 0;
};
memory_use memory_use_of(std::int64_t pid) noexcept;

/// What a task may use beside what its worker had when it began; 0: no limit.
std::int64_t memory_limit_of(const exec::job& j) noexcept;

}  // namespace manta::inline v0::node
