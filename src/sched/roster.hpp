// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

// Which isolated worker gets the next task, and how many workers there should be.
//
// Problem. A worker that has nothing to do when its task ends waits for a hand-over (a microsecond
// awake, 40 asleep), so tasks are sent ahead; but what was sent ahead to a worker that is busy for
// long is late. A worker that waits for a task of its own must not keep the others from running.
//
// Idea. Each worker has a window: as many tasks as `ahead` takes at the average time of a task, at
// least one beside the running one, at most `most`. The next task goes to the worker with the
// fewest under way, the one with the lowest number among equals: in a program that waits for each
// task that is always the same worker, which is awake. A worker that is blocked gets nothing and
// does not count, so that another one may be started in its place; when it goes on there may be
// more than there should be, and those with the highest numbers get nothing until they are let go.
//
// Pure: events in, answers out; no clock, no processes. Threads: externally synchronised.
//
// Source: the window is the usual bandwidth-delay one; test/sched/roster_test.cpp has the model.

namespace manta::inline v0::sched {

class roster {
 public:
  using nanoseconds = std::chrono::nanoseconds;

  struct settings {
    std::size_t target = 1;    ///< workers that run at a time
    std::size_t limit = 4096;  ///< workers there may be, blocked ones too
    std::size_t most = 64;     ///< tasks under way on one worker
    nanoseconds ahead = std::chrono::microseconds(100);
  };
  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);

  explicit roster(const settings& with) : with_(with) {}

  // Workers have numbers; a number that was let go is used again.
  /// A worker was asked for; it has no tasks until it has joined.
  std::size_t start();
  void joined(std::size_t worker) noexcept;
  /// It has died or was let go. Its tasks are the caller's to place again.
  void left(std::size_t worker) noexcept;

  // Tasks.
  /// Who gets the next task; nobody: no window is open.
  std::size_t place() const noexcept;
  void sent(std::size_t worker) noexcept;
  /// One has ended, was taken back, or waits without being on the worker's stack.
  void taken_back(std::size_t worker) noexcept;
  /// So many of its tasks wait, below another one on its stack.
  void stacked(std::size_t worker, std::size_t tasks) noexcept;
  /// A task has taken so long.
  void ran(nanoseconds time) noexcept;
  /// It waits for another task, or no longer does.
  void blocked(std::size_t worker, bool is_blocked) noexcept;

  /// Whether another worker should be started for the tasks that wait.
  bool wants_worker() const noexcept;
  /// One that has nothing to do and is one too many; nobody: there is none.
  std::size_t surplus() const noexcept;
  /// Who has most tasks that have not begun, at least one; nobody: none has any. For an idle
  /// worker.
  std::size_t most_loaded() const noexcept;
  /// A worker that could get a task and has nothing to do.
  std::size_t idle() const noexcept;

  std::size_t under_way(std::size_t worker) const noexcept { return all_[worker].tasks; }
  bool is_blocked(std::size_t worker) const noexcept { return all_[worker].is_blocked; }
  std::size_t window() const noexcept;
  /// Workers that are there or are coming.
  std::size_t size() const noexcept { return size_; }

 private:
  struct member {
    std::size_t tasks = 0;
    std::size_t stacked = 0;  // of these
    bool is_there = false;
    bool has_joined = false;
    bool is_blocked = false;
  };
  static std::size_t load(const member& w) noexcept {
    return w.tasks > w.stacked ? w.tasks - w.stacked : 0;
  }
  bool is_open(const member& w) const noexcept { return w.has_joined && !w.is_blocked; }

  settings with_;
  std::vector<member> all_;
  std::size_t size_ = 0;
  std::size_t blocked_ = 0;
  std::int64_t average_ns_ = 20'000;  // until something is known
};

}  // namespace manta::inline v0::sched
