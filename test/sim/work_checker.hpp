// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sim/work.hpp"

namespace sim::work {

/// How often something was asked that could have been otherwise.
struct asked_times {
  int freed = 0;           // things freed that had been with others
  int freed_in_doubt = 0;  // of these, after a node that had one has died
  int ran_again = 0;       // tasks
  int lost = 0;            // tasks and calls that ended because a node did
  int cancelled = 0;       // tasks
  int handled = 0;         // calls
  int full = 0;            // times that a node had nothing left
  int turns = 0;           // tasks let through while another node's waited for no more
  int placed = 0;          // bundles of groups in other nodes than their maker's
};

/// The breaches of what the work between nodes promises, from a run's log alone; none: all is well.
/// A node lives until it is killed, or the head says that it is dead.
///   1. what a living node has a handle of is not freed while its owner lives, nor is what comes
///   2. it is freed soon after the last handle, once
///   3. nobody runs more at a time than its node has, but for what is set aside there for groups;
///      and at the end it has all of that. A group that has its place has all of it
///   4. a task ends once, at who has asked: with a value or an error of its own when it has run,
///      cancelled when that was asked for, lost or infeasible when a node has died
///   5. it runs once, and as often again as it may
///   6. an actor handles each caller's calls in their order, each once and none left out
///   7. a call ends once: answered when it was handled, lost when the actor's node has died. So do
///      groups: when they are removed, or have no place any more
///   8. in a node's line, no other node's tasks get room twice there while one that asks for no
///      more waits, and its node gets none
///   9. at the end nothing is left in those who live (outcome::left)
std::vector<std::string> breaches(const outcome& of, const run_settings& with,
                                  asked_times* asked = nullptr);

}  // namespace sim::work
