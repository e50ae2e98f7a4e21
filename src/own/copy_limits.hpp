// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include <manta/base/clock.hpp>

// How long copies of other nodes' arrays are kept that nobody here needs just now, and how many.
//
// Problem. The next call may be given the same array, or never. What is kept for it is memory that
// the program has let go of.
// Idea. Calls of a loop come one after another: who hasn't used it for a moment is past that loop.
// Other nodes that were told of a copy whose maker is lost fetch it chunk by chunk: who hasn't
// asked for one for much longer than a chunk takes has all of it, or is lost.

namespace manta::inline v0::own {

struct copy_limits {
  /// After its last use. Who lets go of an array expects its memory back within a second.
  static constexpr duration kept_for = std::chrono::milliseconds(800);
  /// What another node has fetched and is not told of is taken to be there for so long: used last
  /// when it came at the earliest, and by half of that it is read.
  static constexpr duration taken_to_be_kept_for = kept_for / 2;
  /// All of them together, of a store of so many bytes: the larger part is for arrays that the
  /// program holds.
  static constexpr std::uint64_t most_bytes(std::uint64_t store_bytes) noexcept {
    return store_bytes / 8;
  }
  /// Of others that were told of it, after what they have asked for last. Of these there are
  /// most_bytes beside those.
  static constexpr duration kept_for_others = std::chrono::seconds(10);
  static constexpr std::size_t most_for_others = 1024;
  /// Arrays that are brought back from the disk for others at the same time.
  static constexpr std::size_t most_woken = 16;
};

}  // namespace manta::inline v0::own
