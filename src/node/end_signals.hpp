// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <semaphore.h>

#include <csignal>

// SIGTERM and SIGINT in a process that serves others and has no main of its own to go on with: they
// ring a bell, which others may ring, too. A signal that the program has a handler for, or was
// started to ignore, stays what it is.
//
// A terminal sends SIGINT to all nodes of a job with their driver, which ends at once by the second
// one; they then have its folder to remove, so another SIGINT is nothing to who has had one.
// Before it serves nothing has begun that could end in order. Who takes over from early_signals
// does so without a moment between in which the process ends by default.
// Threads: wait by one; ring by any. One at a time in a process.

namespace manta::inline v0::node {

class end_signals {
 public:
  end_signals();
  end_signals(const end_signals&) = delete;
  end_signals& operator=(const end_signals&) = delete;
  ~end_signals();

  /// Until somebody rings or a signal comes: last_number(). A second SIGTERM does not wait: it ends
  /// the process with 128 and its number, as does one after SIGINT.
  int wait() noexcept;
  /// Of the signal that came, or 0; SIGINT stays.
  static int last_number() noexcept;
  /// From now on that signal does what it does by default.
  void give_back(int number) noexcept;
  static void ring() noexcept;

 private:
  static void on_signal(int number) noexcept;

  struct taken {
    int number;
    bool is_ours = false;
  };
  taken taken_[2] = {{SIGTERM}, {SIGINT}};
};

/// The same two while a process comes up: they end it as they do by default, but what it has in its
/// job's folder goes first. One at a time in a process, from which end_signals and interrupt take
/// over.
class early_signals {
 public:
  /// Whether that signal ends the process, by default or as early_signals do.
  static bool may_be_taken(int number) noexcept;

  early_signals();
  early_signals(const early_signals&) = delete;
  early_signals& operator=(const early_signals&) = delete;
  ~early_signals();

 private:
  static bool is_ours(int number) noexcept;
  static void on_signal(int number) noexcept;
};

}  // namespace manta::inline v0::node
