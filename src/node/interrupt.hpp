// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include <semaphore.h>

#include <manta/spec/config.hpp>

// What SIGINT (Ctrl-C) does to a program with a runtime.
//
// Problem. By default the process ends where it stands: tasks save nothing, the record of the job
// says nothing, and the objects of main are not destroyed. A program wants to end in order, its
// user wants that it ends, and who started it wants to see why: exit code 130.
//
// Idea. The signal handler only rings a bell. A thread that does nothing else hears it, and has the
// runtime ended as its destructor would, with all that runs asked to stop. Who waits in main gets
// manta::cancelled, and main ends as it ends by any exception:
//
//   1st SIGINT --bell--> listener: a line on stderr, begins the end --> get() throws cancelled
//                          |    main returns, or calls exit:  an exit handler makes the code 130
//                          |    nobody catches:               the terminate handler waits for the
//                          |                                  runtime's end, then exits with 130
//                          +--> 5 s later the runtime still runs, or main has not come to its
//                               end: exits with 130
//   2nd SIGINT --> the handler exits with 130
//
// Whichever it is, what the process has in its job's folder goes first (leftovers.hpp).
//
// Invariants. Only a signal whose disposition is the default's is taken, and given back by the
// runtime's end, unless somebody else took it meanwhile, or an interruption is under way. After the
// first SIGINT the process makes no other runtime, and ends with code 130. A child that the program
// forked has the default.
//
// Limits. What never looks whether it is cancelled, and what blocks in a system call, is only ended
// after the 5 s. What main does after its runtime's destructor takes as long as it takes. Static
// objects made before the first runtime are not destroyed.

namespace manta::inline v0::node {

inline constexpr int interrupted_code = 130;  // 128 and the signal's number, as shells have it

/// Ends the process as exit does, but for the destructors of static objects: other threads may be
/// using those. Within 5 s, whoever holds the lock of a stream.
[[noreturn]] void leave_in_order(int code) noexcept;

/// For a process that serves others and is about to end: nobody waits for what it runs, which may
/// never look whether it is to stop. When `begins` has returned it has 5 s, then the process ends
/// at once with that code, and says so. `begins` is called by a thread of its own.
void limit_end(int code, void (*begins)() noexcept) noexcept;
/// It has ended by then: the limit is over.
void note_end_over() noexcept;

class interrupt {
 public:
  static interrupt& global();

  /// With a runtime that has begun; `end` ends it, on a thread of its own. Throws
  /// std::system_error: no thread can be started.
  void open(const config& settings, std::function<void()> end);
  /// By who ends the runtime, before that. True: it has ended, by an interruption.
  bool close() noexcept;
  /// An error when the process is being ended, and makes no other runtime.
  static result<void> check();

 private:
  enum class state : std::uint8_t { off, armed, interrupted };

  interrupt();
  void listen() noexcept;
  static bool is_interrupted() noexcept { return state_.load() == state::interrupted; }
  static void on_signal(int) noexcept;
  void listen_to_end() noexcept;
  void leave() noexcept;
  [[noreturn]] static void on_terminate() noexcept;
  static void on_exit() noexcept;

  static std::atomic<state> state_;  // all that the handler looks at, with the process
  sem_t bell_;
  std::function<void()> end_;
  std::thread listener_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_ended_ = false;   // the runtime, by an interruption
  bool is_leaving_ = false;  // main came to its end
};

}  // namespace manta::inline v0::node
