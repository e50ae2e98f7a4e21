// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <utility>

#include <manta/base/export.hpp>
#include <manta/exec/context.hpp>
#include <manta/exec/job.hpp>
#include <manta/spec/error.hpp>

// A coroutine that runs as a job, without its types: its turns, and where it is between them.
//
// Problem. A task that waits keeps a thread and its stack; ten thousand that wait keep ten
// thousand. A coroutine keeps its frame only, but then its job is nobody's: it has to be gone on
// with by who makes ready what it waits for, ended when the runtime ends, and found when it is
// cancelled.
//
// Idea. A coroutine that never suspends costs its frame and nothing else: it runs inside
// job_ops::run like any function. At its first suspension it gets a `suspension`: the caller's
// context moves there from the stack, the job's hold with it, and run answers 0. A suspension is a
// queue entry itself: what it waits for fires an await_node, which queues the suspension, and
// executing that is the next turn. One word says who may queue it:
//
//   phase          meaning                                    who leaves it
//   running        a turn is under way                        the turn: waiting, once all is said
//   waiting        suspended; the node is with what it        the node's fire: fired; an
//                  waits for                                  interruption: interrupted
//   fired          queued by the node, or the node fired      the next turn: running
//                  before the turn was over
//   interrupted    queued by an interruption; the node may    the node's fire: released
//                  fire yet
//   released       as interrupted; the node is no longer      the next turn
//                  used by anybody
//   + stop         sticky until the next co_await: it throws manta::cancelled
//   + doom         sticky: the next turn destroys the frames instead of going on
//
// Frames that await one another in one job form a list (leaf -> caller -> ... -> root). The turn
// runs them from a loop, one after the other, instead of letting one resume the other: so no depth
// of awaits needs stack, whatever the compiler and its settings are. (Symmetric transfer promises
// that only where the compiler makes tail calls, which GCC does from -O2 on.)
//
// Invariants
//   1. an entry is queued once per waiting: by the one whose compare-and-swap left `waiting`.
//   2. who interrupts never touches the frame; the turn takes the node off what it waits for.
//   3. a suspension is in the registry from its making until its job is about to be finished, so
//      what is found there under the lock is alive.
//   4. after the step to `waiting` neither the frame nor the suspension is touched by that turn.
//   5. a frame is destroyed by its turn, or by who took the entry out of the queue to end it.
// Limits: a block of 256 bytes per coroutine that suspends, from its first suspension to its end.

namespace manta::inline v0::exec {

class suspension;

/// The part of every promise that the engine knows: one frame of a coroutine.
struct coroutine_frame {
  std::coroutine_handle<> handle;
  /// The frame that awaits this one; null for the job's own.
  coroutine_frame* caller = nullptr;
  /// Where its owner, in the caller's frame, keeps it: emptied by who destroys it from outside.
  coroutine_frame** owner = nullptr;
};

/// Moves what a coroutine ended with into the job's slot, destroys the frame, and answers the bits
/// to finish the job with.
using settle_function = std::uint64_t (*)(job* j, coroutine_frame* root) noexcept;

/// One turn of a coroutine on this thread's stack, from a resumption to the next suspension.
struct coroutine_turn : turn_place {
  job* completes = nullptr;
  coroutine_frame* root = nullptr;
  settle_function settle = nullptr;
  bool keeps_arguments = false;
  /// Null until the coroutine suspends for the first time.
  suspension* strand = nullptr;
  /// The frame to go on with; null ends the turn.
  coroutine_frame* next = nullptr;
  /// The root has returned or thrown.
  bool is_finished = false;
  /// It is to be destroyed where it is: nobody wants what it makes.
  bool is_doomed = false;

  /// The turn of the coroutine that runs on this thread; only inside one.
  static coroutine_turn& current() noexcept { return *this_thread.current->turn; }
  /// Ends the present frame's part: the caller goes on, or the turn is over.
  static void leave(coroutine_frame& frame) noexcept {
    coroutine_turn& turn = current();
    turn.next = frame.caller;
    turn.is_finished = frame.caller == nullptr;
  }
};

/// Runs a coroutine as the claimed job `j` on this thread; answers as job_ops::run does, and the
/// job may be gone then. A null `root`: it could not be made, and the error is in the slot. Its
/// arguments are dropped already, or are kept for another run, which a failure may bring about.
MANTA_API std::uint64_t start_coroutine(job* j, coroutine_frame* root, settle_function settle,
                                        bool keeps_arguments) noexcept;

/// What a suspended coroutine leaves with what it waits for. Lives in the frame.
class MANTA_API await_node : public waiter {
 protected:
  await_node() noexcept { fire = &await_node::wake; }
  await_node(const await_node&) = delete;
  await_node& operator=(const await_node&) = delete;
  ~await_node() = default;

  /// First step of a suspension of `leaf`: from here the node may be given to what it waits for.
  /// Throws std::bad_alloc, and cancelled when the coroutine was asked to stop.
  void begin(coroutine_frame& leaf);
  /// The queue entry that firing it makes; for comparison only.
  job* entry() const noexcept;
  /// There is nothing to wait for: goes on.
  void withdraw() noexcept;
  /// Second step, when the node was given away. True: the turn is over, nothing may be touched.
  /// `remove` takes the node back; true when it will not be fired.
  template <class Remove>
  bool commit(Remove&& remove) {
    const std::uint32_t found = step_to_waiting();
    if (found == committed) return true;
    if (found == must_stop) take_back(remove);
    return left_early(found);
  }
  /// First step of a resumption. Throws cancelled when it was interrupted.
  template <class Remove>
  void resumed(Remove&& remove) {
    if (strand_ == nullptr) return;
    if (is_interrupted()) [[unlikely]] {
      take_back(remove);
      raise_cancelled();
    }
    strand_ = nullptr;
  }
  /// For the destructor of who has the node: it may be suspended still.
  template <class Remove>
  void give_up(Remove&& remove) noexcept {
    if (strand_ != nullptr && is_interrupted()) take_back(remove);
  }

 private:
  static constexpr std::uint32_t committed = 0;
  static constexpr std::uint32_t came_early = 1;
  static constexpr std::uint32_t must_stop = 2;

  static void wake(waiter* self) noexcept;
  std::uint32_t step_to_waiting() noexcept;
  /// Goes on without having suspended; true when the coroutine ends here instead.
  bool left_early(std::uint32_t found) noexcept;
  bool is_interrupted() const noexcept;
  bool has_fired() const noexcept;
  [[noreturn]] void raise_cancelled();
  static void pause_a_while(int round) noexcept;

  template <class Remove>
  void take_back(Remove&& remove) noexcept {
    // It may be being fired this moment, on another thread: then that is waited for.
    for (int round = 0; !has_fired() && !remove(); ++round) pause_a_while(round);
  }

  suspension* strand_ = nullptr;
};

/// Ends the present turn by destroying the frames, `leaf` the innermost: from its await_suspend.
MANTA_API void doom_turn(coroutine_frame& leaf) noexcept;

/// How a suspended coroutine is interrupted.
enum class interruption : std::uint8_t {
  stop,  ///< what it awaits throws manta::cancelled
  doom,  ///< its frames are destroyed, and its job fails with manta::cancelled
};

/// Interrupts the coroutine that completes `j`: at once when it is suspended, at its next
/// suspension when it runs and has suspended before. False when there is none such. Any thread.
MANTA_API bool interrupt_coroutine(const job* j, interruption how) noexcept;

/// Interrupts those that `is_meant` says, and gives a list of the ones that have to be
/// queued, by queue_interrupted, when the caller has left its locks.
MANTA_API suspension* interrupt_coroutines(bool (*is_meant)(const void* by, job& j,
                                                            const running_place& place),
                                           const void* by,
                                           interruption how = interruption::stop) noexcept;
MANTA_API void queue_interrupted(suspension* list) noexcept;

/// Calls `see` with where each one that has suspended is to be found; see cancellation.hpp.
MANTA_API void each_coroutine(void (*see)(void* to, const running_place& place), void* to) noexcept;

/// Ends every suspended coroutine with `reason`: no worker will go on with it.
MANTA_API void end_coroutines(const error& reason) noexcept;

/// From now on until spare_coroutines() those that are suspended end where they are, and others at
/// their next co_await: the runtime ends, but this process goes on for now. Any thread.
MANTA_API void doom_coroutines() noexcept;
MANTA_API void spare_coroutines() noexcept;

/// Whether the runtime is ending: coroutines that are woken meanwhile are kept for end_put_off.
MANTA_API void put_ends_off(bool is_on) noexcept;
/// Whether who ends the runtime will still look for what is queued, and for what is kept.
MANTA_API bool are_ends_put_off() noexcept;
/// Keeps the entry, if it is a coroutine's, while the runtime is ending. False: the caller ends it.
MANTA_API bool put_end_off(job* entry) noexcept;
/// Ends what was kept; no lock may be held. False: there was nothing.
MANTA_API bool end_put_off(const error& reason) noexcept;

/// Coroutines that have suspended and not ended, for tests.
MANTA_API std::size_t suspended_coroutines() noexcept;

}  // namespace manta::inline v0::exec
