// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include <manta/base/clock.hpp>
#include <manta/spec/resources.hpp>

#include "sched/link_paces.hpp"
#include "sched/overflow.hpp"

// What a task may take along that goes to another node of itself.
//
// Problem. A long queue goes to other nodes also when its tasks read arrays that lie here. Where
// these can't be read in place each node has to fetch them, and keeps them for a moment. Many tasks
// may read one, and then that is little for each of them; or each reads its own.
// Idea. What is fetched is borne by all that read it: (nodes that have it, and one more) x bytes /
// readers is the part of each. That, with what is in its message, has to be moved in the time that
// it takes; and what is fetched has to be there before the task would have begun here. Nobody knows
// how many read it: those that were looked at are told apart, and each that stays for now counts
// for the next.
//
// Nor does anybody say what a node has still. It has what it was given so lately that it keeps it
// in any case, and not before that can have come, so that nobody waits there meanwhile. What is
// more than a node keeps is fetched by each task, and so is what had to go for other data at once:
// each bears all of that.
//
// Pure: time is given. Threads: externally synchronised.

namespace manta::inline v0::sched {

/// What a node that is given a task has to fetch for it.
struct fetched_data {
  bool is_there = false;      ///< it has it already
  bool is_coming = false;     ///< it was given it, and can't have it yet
  std::uint64_t have = 0;     ///< nodes that have it, or are about to
  std::uint64_t readers = 1;  ///< tasks that read it, as far as is known
};
/// What a task takes to another node, in time.
struct moved_data {
  duration along{0};       ///< to move what it has with it
  duration missing{0};     ///< until what it reads, and is fetched there, has come
  duration part{0};        ///< what it has to bear of that
  bool is_coming = false;  ///< some of it is on its way there
  void add(std::uint64_t more, byte_pace pace, const fetched_data& as) noexcept;
};
/// What each of so many readers bears, when one node more than `have` fetches these bytes.
std::uint64_t part_of(std::uint64_t bytes, std::uint64_t readers, std::uint64_t have) noexcept;
/// Whether it is to go now, which would wait in that line here.
bool is_worth_giving(const moved_data& what, const overflow_queue& here) noexcept;
/// The same of one that has asked for amounts, and would wait here until some are free: nobody
/// knows how long. `task_time` zero: neither is that known.
bool is_worth_sending(const moved_data& what, duration task_time) noexcept;

/// Whether this node may be asked for its amounts instead, when it has them soon. Cores come back,
/// since who waits lends them; who has anything else may wait for this very task. A group's tasks
/// are where it is.
bool may_wait_for_them(const spec::demand& what, placement::rule where) noexcept;

/// What the tasks of a queue read, who reads it, and which nodes were given it so lately that they
/// have it still.
class shared_data {
 public:
  /// `kept_for`: what a node has fetched it has at least so much longer.
  explicit shared_data(duration kept_for) noexcept : kept_for_(kept_for) {}
  /// So many readers are told apart.
  static constexpr std::size_t most_readers = 1024;

  struct data {
    std::uint64_t owner = 0;
    std::uint64_t contents = 0;  ///< what that calls it; 0: nothing, and each is another one
    std::uint64_t bytes = 0;
    auto operator<=>(const data&) const = default;
  };
  struct reader {
    std::uint64_t task = 0;
    std::uint64_t waiting = UINT64_MAX;  ///< tasks that wait where it does: no more can read it
  };
  /// Nothing is known from here on. `most_kept`: bytes of all that a node keeps.
  void begin(std::uint64_t most_kept) noexcept;
  /// A task that reads it may go to that node. Throws std::bad_alloc.
  fetched_data look(const data& what, std::uint64_t node, const reader& by, base::time_point now);
  /// That one has gone, and what it reads takes so long. Throws std::bad_alloc.
  void gave(const data& what, std::uint64_t node, std::uint64_t task, base::time_point now,
            byte_pace pace = {});
  /// That node has sent it back, and has not read it, or could not.
  void came_back(std::uint64_t node, std::uint64_t task) noexcept;
  void lost(std::uint64_t node) noexcept;
  /// Forgets what nobody has looked at for long, and readers that were not seen any more. Often.
  void sweep(base::time_point now) noexcept;

  /// How much of it is known. For tests.
  std::size_t size() const noexcept { return all_.size(); }

 private:
  /// What a node was given.
  struct copy {
    base::time_point from{};   // it has come by then
    base::time_point until{};  // it is kept until then
    base::time_point used{};
    std::uint64_t task = 0;  // which brought its name there
    duration takes{};        // to come, behind what came before
  };
  using copies = std::map<std::uint64_t, copy>;  // by node
  struct one {
    base::time_point used{};
    base::time_point crowded_until{};  // a node had no room for it
    // Those that were seen since a sweep, and since the one before: others have run, or gone.
    std::unordered_set<std::uint64_t> readers;
    std::unordered_set<std::uint64_t> earlier;
    copies given;
    std::size_t count() const noexcept { return readers.size() + earlier.size(); }
  };
  struct node_of {
    std::uint64_t bytes = 0;      // of all that it has
    base::time_point comes_at{};  // the last of it
    // Of each copy::task, what it has brought; of all of them together, all that the node has.
    std::set<std::pair<std::uint64_t, data>> brought;
  };
  using items = std::map<data, one>;

  bool is_kept(const data& what) const noexcept;
  bool is_in_use(const copy& has, base::time_point now) const noexcept;
  one& use(const data& what, base::time_point now);
  void make_room(std::uint64_t node, const data& except, base::time_point now) noexcept;
  copies::iterator drop(const data& what, one& of, copies::iterator which) noexcept;
  void drop(std::uint64_t node, const data& what, bool comes_no_more) noexcept;

  duration kept_for_;
  std::uint64_t most_kept_ = UINT64_MAX;
  base::time_point swept_{};
  items all_;
  std::map<std::uint64_t, node_of> nodes_;
};

}  // namespace manta::inline v0::sched
