// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_set>

#include <manta/base/clock.hpp>

#include "sched/overflow.hpp"

// Which of several nodes gets something that is to lie spread, where a task runs whose arguments
// lie in other nodes, and what it may take along.
//
// Problem of the second. A task runs where it was made, but arrays in its arguments may have stayed
// in another node; it is small, and they are not.
// Idea. It goes where it would begin first: behind the line there, and when what it reads and is
// not there has come. Where the difference is not worth the trip it stays.
//
// A third problem. A long queue goes to other nodes also when its tasks read arrays that lie here;
// where these can't be read in place each node has to fetch them. Many tasks may read one, and then
// that is little for each of them; or each reads its own.
// Idea. What is fetched is borne by all that read it: (nodes that have it, and one more) x bytes /
// readers is the part of each. That, with what is in its message, has to be moved in the time that
// it takes; and what is fetched has to be there before the task would have begun here. Nobody knows
// how many read it: those that were looked at are told apart, and each that stays for now counts
// for the next.
//
// Pure: numbers in, an index out. Threads: any; shared_data: externally synchronised.

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

/// How long so many bytes take from node to node, at one a nanosecond, as worth_moving
/// (overflow.hpp) has it.
duration time_to_move(std::uint64_t bytes) noexcept;

/// Where it is to run: the index in `others`, or others.size(): where it is. It goes only where
/// `least_followed` bytes less are missing than here, and where it begins earlier. Of several such
/// the one where it begins first; of equals the first.
std::size_t nearest_to_data(const data_place& here, std::span<const data_place> others) noexcept;

/// What a node that is given a task has to fetch for it.
struct fetched_data {
  bool is_there = false;      ///< it has it already
  std::uint64_t have = 0;     ///< nodes that do
  std::uint64_t readers = 1;  ///< tasks that read it, as far as is known
};
/// What a task takes to another node.
struct moved_data {
  std::uint64_t bytes = 0;    ///< with it
  std::uint64_t missing = 0;  ///< that it reads, and that are fetched there
  std::uint64_t part = 0;     ///< what it has to bear of those
  void add(std::uint64_t more, const fetched_data& as) noexcept;
};
/// What each of so many readers bears, when one node more than `have` fetches these bytes.
std::uint64_t part_of(std::uint64_t bytes, std::uint64_t readers, std::uint64_t have) noexcept;
/// Whether it is to go, which would wait in that line here.
bool is_worth_giving(const moved_data& what, const overflow_queue& here) noexcept;

/// What the tasks of a queue read, who reads it, and which nodes were given it so lately that they
/// have it still. What nobody looks at for `kept_for` is forgotten.
class shared_data {
 public:
  explicit shared_data(duration kept_for) noexcept : kept_for_(kept_for) {}
  /// So many readers are told apart.
  static constexpr std::size_t most_readers = 1024;

  struct data {
    std::uint64_t owner = 0;
    std::uint64_t contents = 0;  ///< what that calls it; 0: nothing, and each is another one
    auto operator<=>(const data&) const = default;
  };
  /// A task that reads it may go to that node. Throws std::bad_alloc.
  fetched_data look(const data& what, std::uint64_t node, std::uint64_t task, base::time_point now);
  /// One has gone. Throws std::bad_alloc.
  void gave(const data& what, std::uint64_t node, base::time_point now);
  void clear() noexcept { all_.clear(); }

 private:
  struct one {
    base::time_point used{};
    std::unordered_set<std::uint64_t> readers;
    std::map<std::uint64_t, base::time_point> given;  // by node
  };
  one& use(const data& what, base::time_point now);

  duration kept_for_;
  base::time_point swept_{};
  std::map<data, one> all_;
};

}  // namespace manta::inline v0::sched
