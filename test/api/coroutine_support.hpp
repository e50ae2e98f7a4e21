// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// A future that is ready when the gate opens; one at a time.
struct held_future {
  scoped_gate gate;
  manta::future<int> future;
  explicit held_future(int x) {
    open_now = &gate;
    future = manta::remote<wait_for_gate>(x);
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

}  // namespace test
