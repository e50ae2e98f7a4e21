// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include <sys/types.h>

#include <manta/spec/config.hpp>
#include <manta/spec/error.hpp>

#include "wire/worker_line.hpp"

// The process that isolated workers are born from.
//
// Problem. A process with threads can't fork safely: a lock that another thread held is held for
// ever in the child. Starting the program anew for each worker costs its start, and needs its main
// to come to the runtime once more. And whatever a worker leaves behind, its children and theirs,
// has to go when it goes, and all of it when the driver dies.
//
// Idea. The runtime forks once, before it starts a thread: that child, the zygote, has one thread
// and does nothing but fork workers when it is asked to, which takes a millisecond, and say how
// they ended. It adopts what workers leave behind and kills it. It ends, and all of its children
// with it, when its socket closes or its parent dies.
//
//   driver --- socket: spawn n (descriptors), kill n ---> zygote --fork--> worker n --fork--> ...
//          <-- spawned n pid, ended n status ------------    ^---- orphans are adopted ----'
//
// Limits. The image is that of the process when it was made: libraries that are loaded later are
// not in the workers. One for the process: a later runtime makes a new one when there are no
// threads but the caller's, and uses the old one when there are. Threads: any, after start; start
// by one.

namespace manta::inline v0::node {

/// What a worker is born with. The descriptors are its own.
struct worker_seat {
  std::uint64_t number = 0;
  const config* settings = nullptr;  ///< of the runtime that made the zygote
  std::array<int, wire::worker_line::file_count> line{};
  int socket = -1;
  /// Pipes for what it prints: where standard output and error are written, and where each is read;
  /// -1: it has those of the zygote.
  std::array<int, 4> output{-1, -1, -1, -1};
};

class zygote {
 public:
  /// What it says: pid 0 is a worker that could not be made, with an errno as its status.
  struct report {
    enum class kind : std::uint32_t { spawned, ended } what = kind::spawned;
    std::uint64_t number = 0;
    pid_t pid = 0;
    int status = 0;  ///< as waitpid gives it
  };

  static zygote& global();

  /// Makes it where it can be made. unsupported: there are threads already, or no process can be
  /// made.
  result<void> start(const config& settings);
  /// Asks for a worker; its number is the caller's. The files stay the caller's. False: the zygote
  /// has died, or has too many orders before it just now.
  bool spawn(const worker_seat& seat) noexcept;
  /// SIGKILL.
  void kill(std::uint64_t number) noexcept;
  /// The next thing it said; nothing when it has not. Never waits.
  std::optional<report> next_report() noexcept;
  /// Whether it answers no more.
  bool is_dead() const noexcept { return is_dead_.load(std::memory_order_relaxed); }

 private:
  void forget() noexcept;

  std::mutex mutex_;
  int socket_ = -1;
  pid_t pid_ = 0;
  std::atomic<bool> is_dead_{false};
};

/// How a worker that has ended died, for people: "signal 11 (Segmentation fault)", "exit code 3".
std::string describe_end(int status);

/// A worker's life (isolated_worker.cpp).
[[noreturn]] void run_isolated_worker(const worker_seat& seat) noexcept;

}  // namespace manta::inline v0::node
