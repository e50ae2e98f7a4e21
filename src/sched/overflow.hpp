// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
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
// What others say of their queues is old: a quarter of a second, in a large cluster seconds. When
// many get much to do at once each takes the others for idle. So who has enough to do sends back
// what comes (refuses), and who is sent much back gives less: a window for all of them together,
// which doubles while all is taken and shrinks to almost nothing while it is not, as TCP's does.
// While it is small it is shared evenly, so that few others get much before they have answered.
//
// Of the best time in simulation (test/sim/spread.hpp; nodes of 4 workers, bursts of 400 tasks of
// 1 ms for each node), without that, and with it:
//
//   who makes them        8 nodes        100 nodes      1,000 nodes
//   all                   0.86  0.92     0.73  0.86     0.36  0.87
//   half of them          0.82  0.86     0.83  0.86     0.62  0.85
//   one in ten, or one    0.94  0.88     0.81  0.86     0.71  0.84
//
// Pure: numbers in, numbers out. Threads: externally synchronised.

namespace manta::inline v0::sched {

/// What a task takes here, from how many have ended since the last look.
class service_pace {
 public:
  /// `ran`: tasks that have ended so far; `queued`: those that wait now.
  /// True: task_time is of what ran since the look before.
  bool look(base::time_point now, std::uint64_t ran, std::uint64_t queued,
            std::uint32_t workers) noexcept;
  /// Nobody works from here on, until the next look: that time is no task's.
  void rest() noexcept { was_busy_ = false; }
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
  /// Where it would wait for longer, a task of another node goes back.
  duration patience = std::chrono::milliseconds(20);
  /// How many go at most, to all together.
  std::uint64_t most = UINT64_MAX;
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

/// How long what comes now waits here; zero: it is not known how long tasks take.
duration wait_of(const overflow_queue& here) noexcept;
/// Whether a task that another node gives of itself waits here for so long that it had better go
/// back.
bool refuses(const overflow_settings& with, const overflow_queue& here) noexcept;

/// Whether so many tasks of other nodes are being read here that one that may go back had better.
/// Each has a thread, and sleeps there until its arrays have come: some for each worker while
/// others run are enough; more would be threads for nothing.
bool are_enough(std::uint32_t reading, std::uint32_t workers) noexcept;

/// How long one that has sent a task back is left alone: half of what that would have waited there,
/// which where arrays are waited for is the patience of a line; a millisecond at least, and not
/// longer than until its load is told, or soon.
duration rest_after(duration wait) noexcept;

/// How many tasks may go to all others together, by what they have sent back.
class overflow_window {
 public:
  explicit overflow_window(std::uint32_t workers = 1) noexcept
      : usual_(std::uint64_t{first} * workers), least_(workers), size_(usual_) {}
  /// `given` and `refused`: so far.
  void look(base::time_point now, std::uint64_t given, std::uint64_t refused) noexcept;
  /// How many more may go before the next look.
  std::uint64_t left(std::uint64_t given) const noexcept {
    const std::uint64_t went = given - given_;
    return went < size_ ? size_ - went : 0;
  }

 private:
  static constexpr std::uint32_t first = 16;  // for each worker of this node
  std::uint64_t usual_;
  std::uint64_t least_;
  std::uint64_t size_;
  base::time_point since_{};
  std::uint64_t given_ = 0;    // until then
  std::uint64_t refused_ = 0;  // likewise
  // Of late: what came back now may have gone some looks ago.
  std::uint64_t went_lately_ = 0;
  std::uint64_t back_lately_ = 0;
};

/// How many others a look for so many tasks is worth: of a large cluster not so many that it takes
/// longer than there is between two looks.
std::size_t worth_looking_at(std::uint64_t tasks) noexcept;

/// The longest that it may take to move a task's arguments for it to go to another node: as long as
/// the task, and a little in any case. `task_time` zero: not known.
duration worth_moving(duration task_time) noexcept;

}  // namespace manta::inline v0::sched
