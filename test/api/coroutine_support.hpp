// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>

#include <manta/exec/suspension.hpp>

#include "api/support.hpp"

// What the tests of coroutines and streams share.

namespace test {

inline gate* open_now = nullptr;
inline int wait_for_gate(int x) {
  static_cast<void>(open_now->wait());
  return x;
}

inline everywhere<std::atomic<std::size_t>> waiting;
/// In a coroutine around its co_await: what are_waiting() counts in other processes.
struct waits_here {
  waits_here() { ++*waiting; }
  waits_here(const waits_here&) = delete;
  waits_here& operator=(const waits_here&) = delete;
  ~waits_here() { --*waiting; }
};

inline everywhere<common_gate> held_gate;
inline int wait_for_held_gate(int x) {
  static_cast<void>(held_gate->wait());
  return x;
}

/// A future that is ready when the gate opens; one at a time.
struct held_future {
  common_gate& gate = *held_gate;
  manta::future<int> future;
  explicit held_future(int x) {
    gate.shut();
    *waiting = 0;
    future = manta::remote<wait_for_held_gate>(x);
  }
  held_future(const held_future&) = delete;
  held_future& operator=(const held_future&) = delete;
  // The task may not have come to the gate yet.
  ~held_future() {
    gate.open();
    if (future.valid()) static_cast<void>(future.try_get());
  }
};

template <class Condition>
bool eventually(Condition&& holds) {
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Waits until so many coroutines are suspended, or have been and have not ended.
inline bool are_suspended(std::size_t n) {
  return eventually([n] { return manta::exec::suspended_coroutines() == n; });
}

/// Waits until so many coroutines are suspended; of those in other processes, until so many have
/// come to where they are.
inline bool are_waiting(std::size_t n) {
  if (!in_processes()) return are_suspended(n);
  return eventually([n] { return *waiting == n; });
}

}  // namespace test
