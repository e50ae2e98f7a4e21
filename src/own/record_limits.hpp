// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>

#include <manta/base/clock.hpp>

// What the records of tasks may take, of memory and of the store, and how often they are written.
//
// Problem. A record is for the day a node is lost. Until then it costs: each byte in the store is
// written to a disk or held in the head's memory, and most tasks are over within milliseconds.
// Idea. What is over before the next look is never written. The longer the time between looks, the
// less is written, and the more is missing when its node is lost.

namespace manta::inline v0::own {

struct record_limits {
  /// Of what a node tells: in the store, twice as much at most.
  static constexpr std::size_t told_bytes = std::size_t{32} << 20U;
  /// Of a node whose main calls, in its memory: a million records of small tasks.
  static constexpr std::size_t kept_bytes = std::size_t{256} << 20U;
  /// In the store, of all nodes together: a quarter of a store in memory.
  static constexpr std::size_t all_bytes = std::size_t{64} << 20U;

  /// Between two looks at what is to be written.
  static constexpr duration between_writes = std::chrono::milliseconds(400);
  /// Between two tries while the store can't be reached.
  static constexpr duration longest_pause = std::chrono::seconds(10);
  /// Failures in a row that are said: one that ends as the head does is none.
  static constexpr int many_failures = 3;
  /// What is taken at once: the units are locked meanwhile.
  static constexpr std::size_t taken_at_once = std::size_t{1} << 20U;
  /// Values that are written again in one turn, since half of each was over.
  static constexpr std::size_t sparse_at_once = 64;
  /// How long a node that leaves waits until the head is told.
  static constexpr duration longest_farewell = std::chrono::milliseconds(200);
};

}  // namespace manta::inline v0::own
