// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <manta/base/id.hpp>

#include "life/membership.hpp"
#include "node/cluster_head.hpp"
#include "node/cluster_member.hpp"
#include "sim/disk.hpp"
#include "sim/network.hpp"
#include "sim/world.hpp"
#include "wire/courier.hpp"

// A cluster in simulated time: a head and members with everything that they have in a process
// (deciders, messages through schema and frames, couriers), but for sockets, disks and clocks. What
// the members do for each other and what happens to them is written into a log, which the checker
// (checker.hpp) reads without asking the engine anything.

namespace sim {

/// Broken builds, which the checker has to catch.
enum class plant {
  none,
  epoch_before_disk,  ///< the disk says "written" too early
  epoch_not_kept,     ///< the head does not find its last epoch again
  rows_not_kept,      ///< the head does not find its members again
  end_not_heard,      ///< a member that was declared dead goes on
  no_fence,           ///< what comes from one that has ended is handled
  new_ids,            ///< what has no answer yet is asked for again under another id
  too_impatient,      ///< silence kills after 1 s
  too_patient,        ///< silence does not kill
  news_not_repeated,  ///< a bulletin that is lost is never sent again
  no_new_connection,  ///< a member does not look for a head that is gone
  no_drain            ///< a member that is told to leave does not
};
constexpr int plants = static_cast<int>(plant::no_drain);

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
    reset  // its connections were
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
  enum class what { crash, start, stop, cut, cut_peers, reset, drain, head_crash, head_stop };
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
  std::size_t faults = 12;
  bool has_bad_network = true;  ///< messages are lost, repeated, late
  bool works = true;            ///< members send each other requests
  plant broken = plant::none;
};

/// What came of a run.
struct outcome {
  std::vector<entry> log = {};
  time_point end = {};
  /// At the end: the processes that live, and which processes each of them takes for members.
  std::map<std::uint64_t, std::map<std::uint64_t, std::uint64_t>> views = {};  // process -> epoch
  network::counts carried = {};
  std::uint64_t events = 0;
};

std::vector<fault> faults_of(const run_settings& with);
outcome run(const run_settings& with, const std::vector<fault>& faults);

}  // namespace sim
