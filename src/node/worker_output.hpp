// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <manta/base/clock.hpp>

#include "node/output_lines.hpp"

// What isolated workers print, on its way to this process's standard output and error.
//
// Problem. Workers print whenever they like; a thread for each that listens would cost, and so
// would asking after each task. Yet what a task printed shall be there when its result is.
//
// Idea. Each worker has two pipes, and one thread sleeps on all of them; nothing wakes it unless
// somebody prints. Who takes a result whose worker says that there is text, or whose text is being
// read just now, reads it first (`settle`). A pipe that is full holds its writer up until it is
// read: nothing is lost. Which lines come out is decided by output_lines.hpp.
//
//   task -> fd 1, 2 -> pipe -+-> the thread that listens -----+-> lines -> stdout, stderr
//                            +-> who takes the task's result -+
//
// Threads: any, also while it is closed; open and close by one. Locks: mutex_, under which `who` is
// asked and lines are written; so it comes before those that `who` takes.

namespace manta::inline v0::node {

class worker_output {
 public:
  /// Who prints: the number and the name of what runs there; 0 and empty: nobody.
  struct speaker {
    std::uint64_t number = 0;
    std::string name;
    std::int64_t pid = 0;
  };
  using who = std::function<speaker(std::uint64_t worker)>;

  /// The text of one worker.
  class source {
   public:
    explicit source(std::uint64_t number) noexcept : worker(number) {}
    ~source();
    source(const source&) = delete;
    source& operator=(const source&) = delete;
    /// Whether text of it is being read, or has no line's end yet.
    bool is_unsettled() const noexcept { return is_unsettled_.load(std::memory_order_seq_cst); }

    const std::uint64_t worker;
    /// The page's `printed` when it was read last; the pool's.
    std::atomic<std::uint64_t> seen{0};

   private:
    friend class worker_output;
    std::array<int, 2> read_{-1, -1};
    std::atomic<bool> is_unsettled_{false};
    std::uint64_t part_of_ = 0;  // who began the line without an end; under mutex_
  };

  /// The worker's ends of two pipes, closed with this: as worker_seat::output.
  struct ends {
    ends() = default;
    ends(const ends&) = delete;
    ends& operator=(const ends&) = delete;
    ~ends();
    std::array<int, 4> files{-1, -1, -1, -1};
  };

  /// Throws std::system_error: no thread or descriptor.
  void open(who asked);
  bool is_open() const noexcept { return is_open_.load(std::memory_order_acquire); }
  /// Listens to a new worker. Null: no descriptor or memory is left, or it was closed.
  std::shared_ptr<source> add(std::uint64_t worker, ends& into) noexcept;
  /// Shows what there is to read, before the result of the task of that number is taken.
  void settle(source& of, std::uint64_t number) noexcept;
  /// The worker has ended: shows all that is left.
  void end(source& of) noexcept;
  /// Shows all there is, and listens no more. Harmless when not open. Others may still call `add`,
  /// `settle` and `end`, which do nothing then.
  void close() noexcept;

 private:
  void listen() noexcept;
  void read(source& of, std::size_t most_bytes);
  void end_locked(source& of);
  void show() noexcept;
  int sleep_time() const noexcept;
  void wake() const noexcept;

  std::atomic<bool> is_open_{false};
  who who_;
  int poll_ = -1;
  int wake_ = -1;
  std::thread thread_;
  std::mutex mutex_;
  // Under mutex_.
  std::unordered_map<std::uint64_t, std::shared_ptr<source>> sources_;
  output_lines lines_{std::chrono::seconds(5)};
  output_lines::lines ready_;
  std::vector<char> room_;
  bool has_timer_ = false;  // the thread sleeps not longer than the next window
  // The last of all; who comes after it, a thread that was making a worker when the runtime ended,
  // finds nothing to do.
  bool ends_ = true;
};

}  // namespace manta::inline v0::node
