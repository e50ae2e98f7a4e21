// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>

#include <manta/base/clock.hpp>
#include <manta/exec/job.hpp>

#include "node/workbench.hpp"
#include "own/copy_limits.hpp"
#include "sched/overflow.hpp"
#include "sched/shared_data.hpp"

// Arrays that a task awaits which goes of itself, or where amounts are free: trade_overflow.cpp.
//
// Problem. Tasks that await one array are many, and their node's queue is long; others should have
// some of them. To nodes that map this one's memory the array is a handle. Any other has to fetch
// it, once for all that it gets in a while (decisions/0050); and it may lie on the disk, or in a
// third node, for which the giver can't wait.
// Idea. What is not in memory stays, and is brought back by who runs it. Else the task is written
// as a placed one is, with names for what is large; what the other node would fetch by these names
// sched/shared_data.hpp weighs, which is told of each task that is written, given and sent back.
// What a node keeps is taken to be what this one would.
//
// Threads: any.

namespace manta::inline v0::node {

class surplus_data {
 public:
  static surplus_data& global();

  /// Of a claimed task whose arguments are ready: has their arrays in memory, and they can be
  /// written for any node. False: that would take time. Throws what reading them throws.
  static bool wakes(exec::job* j);
  /// Ends that, if it was begun.
  static void rest(exec::job* j) noexcept;

  /// A new runtime begins, or the last one has ended.
  void begin() noexcept;
  /// Of the task's message, which is written for on.goes_to: whether it is to go. Here it would
  /// wait in `line`. Throws std::bad_alloc.
  bool is_worth_giving(const workbench& on, const exec::job& j, const sched::overflow_queue& line);
  /// The same of one that has asked for amounts, which are free there.
  bool is_worth_sending(const workbench& on, const exec::job& j, duration task_time);
  /// It has gone.
  void gave(const workbench& on, const exec::job& j) noexcept;
  /// It was not run there.
  void came_back(std::uint64_t node, const exec::job& j) noexcept;
  void lost(std::uint64_t node) noexcept;
  void sweep(base::time_point now) noexcept;

 private:
  surplus_data() = default;
  sched::moved_data weigh(const workbench& on, const exec::job& j, std::uint64_t waiting);

  std::mutex mutex_;
  sched::shared_data shared_{own::copy_limits::taken_to_be_kept_for};
};

}  // namespace manta::inline v0::node
