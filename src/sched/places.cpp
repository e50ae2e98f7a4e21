// SPDX-License-Identifier: Apache-2.0
#include "sched/places.hpp"

#include <algorithm>

namespace manta::inline v0::sched {

namespace {

// a/x < b/y without a division; none is larger than 32 bits.
bool is_less(std::uint64_t a, std::uint64_t x, std::uint64_t b, std::uint64_t y) noexcept {
  return a * y < b * x;
}

}  // namespace

std::size_t least_full(std::span<const place> of) noexcept {
  std::size_t best = 0;
  for (std::size_t i = 1; i < of.size(); ++i) {
    const place& a = of[i];
    const place& b = of[best];
    const std::uint64_t x = std::max<std::uint32_t>(a.workers, 1);
    const std::uint64_t y = std::max<std::uint32_t>(b.workers, 1);
    const bool is_as_full =
        !is_less(a.actors, x, b.actors, y) && !is_less(b.actors, y, a.actors, x);
    const bool is_better =
        is_as_full ? is_less(a.queued, x, b.queued, y) : is_less(a.actors, x, b.actors, y);
    if (is_better) best = i;
  }
  return best;
}

}  // namespace manta::inline v0::sched
