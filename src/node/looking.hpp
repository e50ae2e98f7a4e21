// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include <manta/base/clock.hpp>

// Waiting for what nobody tells of.

namespace manta::inline v0::node {

/// Counted rather than timed: while this process is stopped it hears of nobody, and that is not the
/// end of anything.
struct looks {
  duration between = std::chrono::milliseconds(1);
  std::uint64_t most = UINT64_MAX;  ///< after the first one
};

/// Looks until is_so() is true, or as often as it may; the thread lends its core between two looks.
/// Throws what is_so() does. Not for the loop's thread.
void look_until(const looks& how, const std::function<bool()>& is_so);

}  // namespace manta::inline v0::node
