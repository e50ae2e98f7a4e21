// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/exec/job.hpp>

#include "node/copy_cache.hpp"
#include "node/workbench.hpp"
#include "sched/overflow.hpp"
#include "sched/places.hpp"

// Arrays that a task awaits which goes of itself: trade_overflow.cpp.
//
// Problem. Tasks that await one array are many, and their node's queue is long; others should have
// some of them. To nodes that map this one's memory the array is a handle. Any other has to fetch
// it, once for all that it gets in a while (decisions/0050); and it may lie on the disk, or in a
// third node, for which the looker can't wait.
// Idea. What is not in memory stays, and is brought back by who runs it. Else the task is written
// as a placed one is, with names for what is large; what the other node would fetch by these names
// sched/places.hpp weighs, which is told of each task that is written and each that is given.
//
// Threads: the looker's, but for what is static.

namespace manta::inline v0::node {

class surplus_data {
 public:
  static surplus_data& global();

  /// Of a claimed task whose arguments are ready: has their arrays in memory, and they can be
  /// written for any node. False: that would take time. Throws what reading them throws.
  static bool wakes(exec::job* j);
  /// Ends that, if it was begun.
  static void rest(exec::job* j) noexcept;

  /// Of the task's message, which is written for on.goes_to: whether it is to go. Here it would
  /// wait in `line`. Throws std::bad_alloc.
  bool is_worth_giving(const workbench& on, const exec::job& j, const sched::overflow_queue& line);
  /// It has gone.
  void gave(const workbench& on) noexcept;
  /// A new runtime begins.
  void clear() noexcept { shared_.clear(); }

 private:
  surplus_data() = default;

  // Used last when it came at the earliest.
  sched::shared_data shared_{copy_cache::keep_for / 2};
};

}  // namespace manta::inline v0::node
