// SPDX-License-Identifier: Apache-2.0
#include "sched/places.hpp"

#include <algorithm>

#include "sched/overflow.hpp"

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

// Neither of `queued` and `sent` has all of the other. Those that its workers are at are no line.
duration wait_in(const line_there& line, duration task_time_here) noexcept {
  const std::uint32_t workers = std::max<std::uint32_t>(line.workers, 1);
  const std::uint64_t there = std::max(line.queued, line.sent);
  const bool is_told = line.task_time > duration::zero();
  return wait_of(
      {there > workers ? there - workers : 0, workers, is_told ? line.task_time : task_time_here});
}

namespace {

duration begins_after(const data_place& at) noexcept {
  return std::min(at.wait, time_to_move(UINT64_MAX)) + time_to_move(at.missing, at.pace);
}

bool is_nearer(const data_place& one, const data_place& here, duration first) noexcept {
  if (here.missing < least_followed || one.missing > here.missing - least_followed) return false;
  return begins_after(one) < first;
}

}  // namespace

std::uint64_t node_with_most(std::span<const lying> all) noexcept {
  std::uint64_t most = 0;
  std::uint64_t out = 0;
  for (const lying& first : all) {
    std::uint64_t bytes = 0;
    for (const lying& one : all) bytes += one.in == first.in ? one.bytes : 0;
    if (first.in == 0 || bytes < least_followed || bytes <= most) continue;
    most = bytes;
    out = first.in;
  }
  return out;
}

std::size_t nearest_to_data(const data_place& here, std::span<const data_place> others) noexcept {
  std::size_t best = others.size();
  duration first = begins_after(here);
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (!is_nearer(others[i], here, first)) continue;
    first = begins_after(others[i]);
    best = i;
  }
  return best;
}

}  // namespace manta::inline v0::sched
