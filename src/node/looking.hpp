// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include <manta/base/clock.hpp>

// Waiting for what nobody tells of.

namespace manta::inline v0::node {

/// Counted rather than timed: while this process is stopped it hears of nobody, and that is not the
/// end of anything.
struct looks {
  duration between = std::chrono::milliseconds(1);
  std::uint64_t most = UINT64_MAX;  ///< after the first one
};

/// Between two looks: the thread lends its core.
void nap_between(const looks& how) noexcept;

/// Looks until is_so() is true, or as often as it may. Throws what is_so() does. Not for the loop's
/// thread.
template <class Test>
void look_until(const looks& how, Test&& is_so) {
  for (std::uint64_t left = how.most; !is_so() && left > 0; --left) nap_between(how);
}

}  // namespace manta::inline v0::node
