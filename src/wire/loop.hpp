// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include <manta/spec/error.hpp>

// The thread that owns KJ, and with it all sockets.
//
// Problem: KJ's objects belong to one thread, and everybody sends. A wake through the kernel costs
// more than all the rest, and a thread that looks for ever takes a core from those that work.
// Idea: other threads put a function into a queue of ours and wake the thread only when it sleeps.
// While answers are awaited it looks at its sockets again and again, for `spin` after the last
// thing that happened; then, and when nothing is awaited, it sleeps in the kernel.
//
//   any thread: queue; fence; asleep? then wake         loop: asleep = 1; fence; queue empty? sleep
//
// The rest is in loop_core.hpp, the part with KJ in it.
// Threads: any, but for who destroys it, which is not the loop's own.

namespace manta::inline v0::wire {

class loop_core;

class loop {
 public:
  struct settings {
    /// How long to look without sleeping while answers are awaited. Takes the core for that long,
    /// which a node's workers, and those of others on its machine, have more use for.
    std::chrono::nanoseconds spin{0};
  };

  /// out_of_memory or store_full: there is no thread or no descriptor for it.
  static result<std::unique_ptr<loop>> start(const settings& how);
  loop(const loop&) = delete;
  loop& operator=(const loop&) = delete;
  /// Ends all links and listeners on it, and waits for its thread.
  ~loop();

  /// Has `work` run on its thread, in the order of the calls. False, and it does not run: the loop
  /// has ended, or will before.
  bool post(std::function<void()> work);
  /// Whether this is its thread.
  bool is_here() const noexcept;
  /// For what lives on it.
  const std::shared_ptr<loop_core>& core() const noexcept { return core_; }

 private:
  explicit loop(std::shared_ptr<loop_core> core) noexcept : core_(std::move(core)) {}

  std::shared_ptr<loop_core> core_;
  std::thread thread_;
};

}  // namespace manta::inline v0::wire
