// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/network.hpp"
#include "sim/world.hpp"

// The work between nodes in simulated time: handles that are passed on, tasks that ask for
// resources and go to other nodes, groups that lie in several, and calls in their order, while
// nodes crash, stop and join. Each node has the deciders that it has in a process (own::references,
// sched::ledger and sched::line), and what one says to another is a message of the schema, in a
// request of a real courier. What node/ does between those it does with threads and jobs; here that
// is work_node.hpp's, as short as it can be.
//
// Who is a member is known by a list that each node hears in its order, some time later; how
// members come to agree on it is the other simulation's (cluster.hpp).

namespace sim::work {

using node_number = std::uint64_t;

/// Broken builds, which the checker has to catch.
enum class plant {
  none,
  // References.
  loans_not_told,       ///< who passes a handle on does not tell its owner
  loans_told_late,      ///< it does, behind what it gives back
  dead_counts_kept,     ///< what a dead node had counts for ever
  settles_early,        ///< "all is said" before what the dead one has sent was read
  holds_without_count,  ///< what came from a dead one is said, but not how often
  releases_too_few,     ///< of several that came one is given back
  unread_not_held,      ///< the last handle is given back while a message with one is not read
  unread_forgotten,     ///< handles that nobody reads are not given back
  dead_heard,           ///< what comes from one that has ended is taken in
  // Resources.
  guests_unasked,  ///< a task of another node runs without asking for room
  guests_kept,     ///< what a task holds is not given back when its node dies
  grants_kept,     ///< what was given of a lost node's stays given
  guests_in_turn,  ///< each task of another node has a turn of its own, as if it were a caller here
  // Groups.
  drops_not_said,    ///< what was set aside for a try that has failed stays so
  old_yes_taken,     ///< the answer to an earlier try counts for a later one
  opened_early,      ///< a group has its place when the first node has said yes
  makers_lost_kept,  ///< what was set aside for a node that is lost stays so
  // Ends.
  runs_again,          ///< a task that was lost runs again, whether it may or not
  ends_twice,          ///< a task that is cancelled ends here, and with its answer
  lost_not_ended,      ///< tasks of a lost node are waited for
  stops_not_answered,  ///< a task that is stopped in line has no answer
  lost_calls_kept,     ///< calls to a lost node are waited for
  refusals_forgotten,  ///< a task that was sent back is not run
  // Order.
  calls_pass_early,  ///< calls pass those that wait for news of a member
  calls_sent_again,  ///< a call without an answer is sent once more, as another one
  two_readers        ///< two threads read the calls of an actor
};
constexpr int plants = static_cast<int>(plant::two_readers);

/// How a task or a call has ended.
enum class ending : std::uint64_t { value = 1, failed, cancelled, lost, infeasible };

/// What the workload's log has.
struct entry {
  enum class what {
    joined,    // `node`, which has `amount` cpus
    crashed,   // it was killed
    declared,  // the head has said that it is dead; it may live on until it hears of it
    nonsense,  // what came from `other` was no message
    fault_began,
    fault_over,  // it has no more effect
    quiet,       // nothing new is begun
    all_let_go,  // nobody keeps a handle any more
    made,        // `thing`, with a handle at `node`
    copied,      // a handle more
    lent,        // a handle of it leaves for `other`, in message `number`
    got,         // it has come from there
    dropped,     // a handle less
    freed,       // the thing is gone
    asked,       // task `number`, which may run `amount` times more
    stop_asked,
    began,         // it runs at `node`, with `amount` cpus there
    waits,         // it does, in line at `node`, which `other` has asked (0: it is its own)
    let_through,   // likewise; `amount` is what it got there, 0: it is another node's
    left_line,     // likewise
    group_turn,    // a group of its own is let through at `node`
    over,          // it does so no longer
    ended,         // at who has asked: `how`
    grouped,       // group `number` is asked for, of `amount` cpus
    set_aside,     // `amount` cpus for it at `node`
    given_back,    // likewise
    group_placed,  // it has all of them
    group_ended,   // `how`
    called,        // call `number` by `caller` of the actor at `other`
    handled,       // at that one; by the caller at `other`
    answered,      // at the caller: `how`
    probed,        // `node` asks for all that it has: `number` is the task
  };
  what is;
  node_number node = 0;
  node_number other = 0;
  std::uint64_t thing = 0;
  std::uint64_t number = 0;
  std::uint64_t caller = 0;
  std::uint64_t amount = 0;
  std::uint64_t cpus = 0;  ///< thousandths: what a task asks for
  ending how = {};
  time_point at = {};
};

/// One thing that happens to a node.
struct fault {
  enum class what { crash, join, stop, slow, cut, reset };
  static constexpr std::size_t kinds = 6;
  duration at{0};  // since the run began
  what is = what::crash;
  std::size_t whom = 0;
  std::size_t other = 0;
  duration lasts{0};
};
std::string show(const fault& of);

struct run_settings {
  std::uint64_t seed = 1;
  std::size_t nodes = 4;
  std::size_t most_nodes = 8;
  duration storm = std::chrono::seconds(3);
  duration calm = std::chrono::seconds(6);  ///< after it, when all comes to its end
  std::size_t faults = 8;
  bool has_bad_network = true;  ///< messages are lost, repeated, late
  plant broken = plant::none;
};

/// What is left in a node at the end, in words; empty: nothing.
using left_overs = std::map<node_number, std::string>;

struct outcome {
  std::vector<entry> log = {};
  time_point end = {};
  left_overs left = {};
  network::counts carried = {};
  std::uint64_t events = 0;
};

std::vector<fault> faults_of(const run_settings& with);
outcome run(const run_settings& with, const std::vector<fault>& faults);

/// What all nodes see of the run.
struct stage {
  explicit stage(const run_settings& s) : with(s), time(s.seed * 2 + 1), net(time) {}

  const run_settings with;
  world time;
  network net;
  std::vector<entry> log = {};

  void note(entry one) {
    one.at = time.now();
    log.push_back(one);
  }
  bool is(plant broken) const { return with.broken == broken; }
};

inline std::string host_of(node_number node) { return "w" + std::to_string(node); }

}  // namespace sim::work
