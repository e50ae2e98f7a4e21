// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <manta/base/clock.hpp>

// How much of a store is lent, and taken before it is read; what may lie beside it, on the heap;
// and how long who reads waits for room (decisions/0060, 0061).
//
// Problem. What is lent keeps its maker's store full, and what others take of it theirs: it is in
// the way of what they read. What has room in no store is on the heap, and never on the disk.
// Idea. Half of a store is for what is made and read there, unless the rest can go to a disk; as
// much as a store may have lies beside it. Beyond both is what one reader fetches alone, as far as
// the machine has memory: others would not help it by waiting.
//
// Pure: amounts and times are given. Threads: any.

namespace manta::inline v0::own {

struct room_limits {
  /// Bytes of a store that may be lent before those who have them are asked to take them.
  /// Neighbours map as much, and have copies of what is more.
  static constexpr std::uint64_t most_lent(std::uint64_t store_bytes) noexcept {
    return store_bytes / 2;
  }
  /// They are asked so often until they have.
  static constexpr duration between_pleas = std::chrono::milliseconds(100);
  /// A copy on the heap has come so long ago that no message names it as its maker's any more.
  static constexpr duration settled_after = std::chrono::seconds(1);

  /// Whether one that nobody reads yet is taken, beside `taken` bytes that are, or come.
  static constexpr bool may_take(std::uint64_t bytes, std::uint64_t taken,
                                 std::uint64_t store_bytes, bool has_disk) noexcept {
    const std::uint64_t most = has_disk ? store_bytes : store_bytes / 2;
    const std::uint64_t there = has_disk ? 0 : taken;  // the others go to the disk
    return there <= most && bytes <= most - there;
  }
  /// Whether several that one reader wants, all together so large, rest until each has come, and
  /// are pinned at once: two readers with a part each could wait for each other. Not where there is
  /// a disk: what has gone there comes back into the store only, however much room is beside it.
  static constexpr bool rest_together(std::uint64_t bytes, std::uint64_t store_bytes,
                                      bool has_disk) noexcept {
    return bytes <= store_bytes && !has_disk;
  }

  /// Whether so much lies beside a store where `lies` bytes do already.
  static constexpr bool has_room_beside(std::uint64_t bytes, std::uint64_t lies,
                                        std::uint64_t store_bytes) noexcept {
    return lies <= store_bytes && bytes <= store_bytes - lies;
  }
  /// The same of one array, or of all that one reader wants, where nothing else lies there that was
  /// fetched: the machine has so much `available`. As a segment of a store leaves some to others.
  static constexpr bool may_lie_alone(std::uint64_t bytes, std::int64_t available) noexcept {
    constexpr std::int64_t left_to_others = std::int64_t{64} << 20U;
    return available > left_to_others &&
           bytes <= static_cast<std::uint64_t>(available - left_to_others);
  }
};

/// How one reader waits for room: as who makes an array does, but a step at a time, so that what is
/// let go of beside the store, or that nobody reads any more, is seen.
class room_wait {
 public:
  /// Of who has another way, and of the first step.
  static constexpr duration soon = std::chrono::milliseconds(50);
  static constexpr duration longest_step = std::chrono::seconds(1);
  static constexpr duration between_steps = std::chrono::milliseconds(20);
  /// What rests in a store with a disk may be on its way there: so long only the store is asked.
  static constexpr duration store_alone = std::chrono::milliseconds(250);

  /// `longest` in all. A thread that others wait for may not wait.
  constexpr room_wait(base::time_point begun, duration longest, bool may_wait) noexcept
      : begun_(begun), longest_(longest), may_wait_(may_wait) {}

  /// Nor for more than half of a time limit: who asks again and again with a short one would never
  /// have what lies beside.
  constexpr bool is_early(base::time_point now, const base::deadline& until) const noexcept {
    duration most = std::min(longest_ / 2, store_alone);
    if (until && *until <= begun_) return false;
    if (until) most = std::min<duration>(most, (*until - begun_) / 2);
    return may_wait_ && now - begun_ < most;
  }
  /// When the step ends that begins now. Who has a time limit, however short, stands in line until
  /// then, or for a moment: else it would never have room where others have it soon.
  constexpr base::time_point step_end(base::time_point now,
                                      const base::deadline& until) const noexcept {
    if (!may_wait_) return now;
    const base::time_point end = begun_ + longest_;
    const base::time_point last = until ? std::min(*until, end) : end;
    const duration step = is_early(now, until) ? soon : longest_step;
    return std::min(now + step, std::max(last, begun_ + soon));
  }
  /// That there is no room is an answer.
  constexpr bool is_over(base::time_point now) const noexcept {
    return !may_wait_ || now - begun_ >= longest_;
  }

 private:
  base::time_point begun_;
  duration longest_;
  bool may_wait_;
};

}  // namespace manta::inline v0::own
