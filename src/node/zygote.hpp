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
// Where threads run already the program's own file is started once more instead, and becomes the
// zygote before its main begins (early_main.cpp): what main set up is not in such workers. Nothing
// else is different: functions are known by their place in the file.
//
//   driver --- socket: spawn n (descriptors), kill n ---> zygote --fork--> worker n --fork--> ...
//          <-- spawned n pid, ended n status ------------    ^---- orphans are adopted ----'
//
// Limits. The image is that of the process when it was made, or of the file: libraries that are
// loaded later are not in the workers. One for the process: a later runtime makes a new one when
// there are no threads but the caller's, and uses the old one when there are. Threads: any, after
// start; start by one.

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
    enum class kind : std::uint32_t {
      spawned,
      ended,
      ready,  ///< of the zygote, first: 0, or threads that keep it from being one, as status
    } what = kind::spawned;
    std::uint64_t number = 0;
    pid_t pid = 0;
    int status = 0;  ///< as waitpid gives it
  };

  static zygote& global();

  /// Makes it, or tells the one that is there of the settings. unsupported: no process can be made,
  /// or there are threads and the program's file can't be started once more.
  result<void> start(const config& settings);
  /// The process whose addresses its workers have; 0: they have this one's.
  pid_t image() const noexcept { return image_.load(std::memory_order_relaxed); }
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
  result<void> start_again(const config& settings);
  void take(int socket, pid_t pid, pid_t image) noexcept;
  bool say_settings(int to, const config& settings) noexcept;

  std::mutex mutex_;
  int socket_ = -1;
  pid_t pid_ = 0;
  std::atomic<pid_t> image_{0};
  std::atomic<bool> is_dead_{false};
};

/// The life of a process that was started again to be the zygote of `driver`, at `socket`.
[[noreturn]] void run_zygote(int socket, pid_t driver) noexcept;

/// How a worker that has ended died, for people: "signal 11 (Segmentation fault)", "exit code 3".
std::string describe_end(int status);

/// A worker's life (isolated_worker.cpp).
[[noreturn]] void run_isolated_worker(const worker_seat& seat) noexcept;

}  // namespace manta::inline v0::node
