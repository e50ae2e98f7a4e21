// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <manta/exec/executor.hpp>

// The executor's own parts, shared by its three files: executor.cpp (start, stop, threads),
// worker.cpp (finding work) and wait.cpp (waiting for a job).

namespace manta::inline v0::exec {

/// One worker thread. Fields without a note: that thread only.
struct executor::worker {
  executor* owner = nullptr;
  work_queue* queue = nullptr;
  parker sleep;
  std::thread thread;
  int number = 0;
  bool is_searching = false;
  bool took_stale = false;  // the last look found an entry that its submitter runs
  bool is_parked = false;   // under the executor's mutex
  // Where the last look left another worker's only job to it; see is_about_to_go.
  work_queue* single_in = nullptr;
  std::int64_t single_at = 0;
  std::uint32_t random = 0;
  std::uint32_t ticks = 0;
  base::time_point busy_since{};
};

/// A queue common to all workers, for jobs of one priority other than normal. Any thread.
struct priority_lane {
  std::mutex mutex;
  std::deque<job*> jobs;  // under the mutex
  std::atomic<std::size_t> count{0};
};

struct executor::state {
  // Under the mutex: its thread has left.
  void disown(work_queue& queue) noexcept {
    queue.is_owned = false;
    owned_below[queue.is_worker ? 1 : 0] = 0;
  }

  // More threads than this system calls for would need a taller table, not a different design.
  static constexpr int max_queues = 32768;

  std::mutex mutex;
  // Under the mutex.
  executor_settings settings;
  std::vector<worker*> parked;  // newest last: it has the warmest cache
  std::vector<std::unique_ptr<worker>> workers;
  std::vector<std::unique_ptr<worker>> ended;  // threads that left; joined when somebody has time
  std::array<int, 2> owned_below{};  // [is_worker]: all such queues before that one are owned
  bool is_started = false;
  bool has_warned = false;
  std::uint64_t generations = 0;
  std::uint64_t wakes = 0;
  std::uint64_t lent = 0;

  // Any thread.
  std::array<std::atomic<work_queue*>, max_queues> queues{};
  std::atomic<int> queue_count{0};
  std::atomic<int> rich{0};  // the queue in which somebody has found work last
  std::atomic<int> thread_count{0};
  std::atomic<int> spin_us{50};
  std::atomic<bool> is_stopping{false};
  std::atomic<int> left{0};  // worker threads that are about to end
  int cores = 1;
  alignas(64) std::atomic<int> spinning_waiters{0};
  priority_lane low;
  priority_lane high;
};

}  // namespace manta::inline v0::exec
