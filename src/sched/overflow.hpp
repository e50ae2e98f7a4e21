// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <manta/base/clock.hpp>

// How much of a node's queue other nodes take: those where it waits least.
//
// Problem. A task that runs where it was made costs nothing beside itself; one that runs elsewhere
// has to be written, sent, read and answered. But a queue may be long, and others idle.
// Idea. What waits here is measured in time: tasks in the queue x what one takes / workers. Below a
// threshold nothing goes. Above it all queues are filled to one level, as water would, so that the
// last task ends everywhere at about the same time:
//
//      here    a    b    c
//       #
//       #
//     --#----.----.----#----- level          what lies above it here goes to a and b
//       #    #    .    #
//
// Nobody gets more at once than keeps it busy until the next look, so that what comes later can
// still go elsewhere: a window for each.
//
// Pure: numbers in, numbers out. Threads: externally synchronised.

namespace manta::inline v0::sched {

/// What a task takes here, from how many have ended since the last look.
class service_pace {
 public:
  /// `ran`: tasks that have ended so far; `queued`: those that wait now.
  void look(base::time_point now, std::uint64_t ran, std::uint64_t queued,
            std::uint32_t workers) noexcept;
  /// What one task takes on one worker; zero: nothing is known yet.
  duration task_time() const noexcept { return task_time_; }

 private:
  base::time_point since_{};
  std::uint64_t ran_ = 0;
  bool was_busy_ = false;
  duration task_time_{0};
};

struct overflow_settings {
  /// What waits here for less stays.
  duration threshold = std::chrono::milliseconds(1);
  /// Tasks that take less cost more to give away than to run.
  duration least_task = std::chrono::microseconds(10);
  /// How far ahead of its work another one is kept, and the most and least tasks for that, for each
  /// of its workers.
  duration ahead = std::chrono::milliseconds(10);
  std::uint32_t most_ahead = 512;
  std::uint32_t least_ahead = 2;
};

/// Another node.
struct overflow_peer {
  std::uint64_t node = 0;
  std::uint32_t workers = 1;
  std::uint32_t waiting = 0;  ///< tasks in its queue, as it said; those from here among them
  std::uint32_t sent = 0;     ///< tasks from here that it has not answered
  duration task_time{0};      ///< what one takes there, as it said
};

/// This one.
struct overflow_queue {
  std::uint64_t queued = 0;
  std::uint32_t workers = 1;
  duration task_time{0};
};

struct overflow_share {
  std::uint64_t node = 0;
  std::uint64_t tasks = 0;
};

/// How many of the tasks here go to whom; those that get none are not in it.
std::vector<overflow_share> spread_overflow(const overflow_settings& with,
                                            const overflow_queue& here,
                                            std::span<const overflow_peer> others);

/// The most bytes that a task's arguments may have for it to go to another node: those that are
/// there in the time that one task takes, and a few in any case. `task_time` zero: not known.
std::uint64_t worth_moving(duration task_time) noexcept;

}  // namespace manta::inline v0::sched
