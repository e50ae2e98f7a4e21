// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <semaphore.h>

#include <csignal>

// SIGTERM and SIGINT in a process that serves others and has no main of its own to go on with: they
// ring a bell, which others may ring, too. A signal that the program has a handler for, or was
// started to ignore, stays what it is.
// Threads: wait by one; ring by any. One at a time in a process.

namespace manta::inline v0::node {

class end_signals {
 public:
  end_signals();
  end_signals(const end_signals&) = delete;
  end_signals& operator=(const end_signals&) = delete;
  ~end_signals();

  /// Until somebody rings or a signal comes: its number, or 0. A second signal does not wait: it
  /// ends the process with 128 and its number.
  int wait() noexcept;
  static void ring() noexcept;

 private:
  static void on_signal(int number) noexcept;

  struct taken {
    int number;
    bool is_ours = false;
  };
  taken taken_[2] = {{SIGTERM}, {SIGINT}};
};

}  // namespace manta::inline v0::node
