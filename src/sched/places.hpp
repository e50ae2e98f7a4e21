// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// Which of several nodes gets something that is to lie spread.
//
// Pure: numbers in, an index out. Threads: any.

namespace manta::inline v0::sched {

/// A node that could have it.
struct place {
  std::uint32_t workers = 1;
  std::uint32_t actors = 0;  ///< that were put there already
  std::uint32_t queued = 0;  ///< tasks that wait there
};

/// The one with the fewest actors for each worker; of several such the one where the fewest tasks
/// wait for each worker; of several such the first. `of` has one at least. Cost: linear.
std::size_t least_full(std::span<const place> of) noexcept;

}  // namespace manta::inline v0::sched
