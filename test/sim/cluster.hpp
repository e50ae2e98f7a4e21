// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "life/membership.hpp"
#include "sim/network.hpp"
#include "sim/world.hpp"
#include "spec/cluster.hpp"

// A cluster in simulated time: a head and members with everything that they have in a process
// (deciders, messages through schema and frames, couriers), but for sockets, disks and clocks. What
// the members do for each other and what happens to them is written into a log, which the checker
// (checker.hpp) reads without asking the engine anything.

namespace sim {

/// Broken builds, which the checker has to catch.
enum class plant {
  none,
  epoch_before_disk,   ///< the disk says "written" too early
  epoch_not_kept,      ///< the head does not find its last epoch again
  rows_not_kept,       ///< the head does not find its members again
  end_not_heard,       ///< a member that was declared dead goes on
  no_fence,            ///< what comes from one that has ended is handled
  new_ids,             ///< what has no answer yet is asked for again under another id
  too_impatient,       ///< silence kills after 1 s
  too_patient,         ///< silence does not kill
  news_not_repeated,   ///< a bulletin that is lost is never sent again
  no_new_connection,   ///< a member does not look for a head that is gone
  no_drain,            ///< a member that is told to leave does not
  closed_not_at_once,  ///< a closed connection ends a member after 1 s
  silent_too_long,     ///< silence kills after 5 s
  ends_late,           ///< the others hear of an end 4 s late
  suspects_kept,       ///< who was suspected stays so
  loads_not_told,      ///< no load gets to the others
  failure_not_told,    ///< the disk says "written" to what it has lost
  no_limits,           ///< a process waits for a head for ever
  stop_not_noticed,    ///< a head that was stopped ends who lost its connection meanwhile at once
  resets_kill          ///< a connection that is reset ends a member as one that ends does
};
constexpr int plants = static_cast<int>(plant::no_limits);  // that storms show

/// What the log has.
struct entry {
  enum class what {
    head_began,
    head_ended,
    began,     // a process
    joined,    // it was given an epoch
    saw_end,   // it was told that `other` has ended
    accepted,  // it handled request `number` of `other`
    drained,   // it was told to leave
    left,      // it ended as it wished
    ended,     // it ended itself for another reason
    crashed,   // it was killed
    impaired,  // it can't be heard from here on: stopped, or cut off
    restored,
    reset,         // its connections were
    told_dead,     // the head has asked for its end to be written
    head_stopped,  // the same for the head, as impaired and restored
    head_went_on,
    disk_bad,  // slow, or refuses
    disk_good
  };
  what is;
  std::uint64_t process = 0;  // the low half of its id
  std::uint64_t other = 0;
  std::uint64_t epoch = 0;
  std::uint64_t number = 0;
  std::string why = {};
  time_point at = {};
};

/// One thing that happens to the cluster.
struct fault {
  enum class what {
    crash,
    start,
    stop,
    cut,
    cut_peers,
    reset,
    drain,
    head_crash,
    head_stop,
    disk_fail,
    disk_slow
  };
  static constexpr std::size_t kinds = 11;
  duration at{0};  // since the run began
  what is = what::crash;
  std::size_t whom = 0;
  std::size_t other = 0;
  duration lasts{0};
};
std::string show(const fault& of);

struct run_settings {
  std::uint64_t seed = 1;
  std::size_t nodes = 5;
  duration storm = std::chrono::seconds(20);
  duration calm = std::chrono::seconds(14);  ///< after it, when all is well
  std::size_t faults = 14;
  bool has_bad_network = true;  ///< messages are lost, repeated, late
  duration most_latency = std::chrono::milliseconds(2);
  /// A connection that its path ends is reset; else it ends as if its process had died.
  bool has_resets = true;
  bool works = true;  ///< members send each other requests
  plant broken = plant::none;
};

/// The settings of the members' patience, of which different seeds try different ones.
manta::life::membership_settings patience_of(const run_settings& with);

/// What a process knows of a member.
struct known_member {
  std::uint64_t epoch = 0;
  manta::spec::node_state is = manta::spec::node_state::alive;
  manta::spec::node_load load = {};
};
using view_of_members = std::map<std::uint64_t, known_member>;  // by process

/// What came of a run.
struct outcome {
  std::vector<entry> log = {};
  time_point end = {};
  /// At the end: the processes that live, and which processes each of them takes for members.
  std::map<std::uint64_t, view_of_members> views = {};
  std::map<std::uint64_t, manta::spec::node_load> loads = {};  // as they are
  network::counts carried = {};
  std::uint64_t events = 0;
};

std::vector<fault> faults_of(const run_settings& with);
outcome run(const run_settings& with, const std::vector<fault>& faults);

}  // namespace sim
