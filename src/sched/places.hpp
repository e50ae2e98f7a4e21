// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <manta/base/clock.hpp>

#include "sched/link_paces.hpp"

// Which of several nodes gets something that is to lie spread, and where a task runs whose
// arguments lie in other nodes.
//
// Problem of the second. A task runs where it was made, but arrays in its arguments may have stayed
// in another node; it is small, and they are not.
// Idea. It goes where it would begin first: behind the line there, and when what it reads and is
// not there has come. Where the difference is not worth the trip it stays.
//
// What asks for amounts goes where those are free, and waits for no other node: of several with as
// much left the one with most of its data comes first (node_with_most).
//
// Pure: numbers in, a number out. Threads: any.

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

/// A node that could run a task.
struct data_place {
  std::uint64_t missing = 0;  ///< bytes that the task reads and that have to come there first
  duration wait{0};           ///< what it would wait there in line
  byte_pace pace = {};        ///< of those bytes
};

/// What is known of another node's line.
struct line_there {
  std::uint64_t queued = 0;   ///< as it has told, those that its workers are at, too
  std::uint64_t sent = 0;     ///< tasks that it has of this node, some of which it has told
  std::uint32_t workers = 1;  ///< 0 counts as 1
  duration task_time{0};      ///< zero: it has not told
};
/// What a task would wait in that line. Of a node that has not told it is taken that tasks take as
/// long as here; zero: nobody knows.
duration wait_in(const line_there& line, duration task_time_here) noexcept;

/// Less data moves no task: a MiB.
inline constexpr std::uint64_t least_followed = std::uint64_t{1} << 20U;

/// Where it is to run: the index in `others`, or others.size(): where it is. It goes only where
/// `least_followed` bytes less are missing than here, and where it begins earlier. Of several such
/// the one where it begins first; of equals the first.
std::size_t nearest_to_data(const data_place& here, std::span<const data_place> others) noexcept;

/// Data that lies in a node.
struct lying {
  std::uint64_t in = 0;  ///< 0: here
  std::uint64_t bytes = 0;
};
/// The other node where most of it lies, `least_followed` at least; of equals the first. 0: none.
/// Cost: quadratic.
std::uint64_t node_with_most(std::span<const lying> all) noexcept;

}  // namespace manta::inline v0::sched
