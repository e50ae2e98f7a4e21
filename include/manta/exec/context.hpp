// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/base/id.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/parker.hpp>

// Who is calling: the execution context that names children and orders calls to actors, and what a
// thread keeps for the engine.

namespace manta::inline v0::exec {

class actor_core;
struct coroutine_turn;
struct work_queue;

/// A job that has called somebody as others see it, so that cancelling a task reaches its children:
/// the id of who called it, and its own. 0 for none. What is shown stays when the job has ended,
/// until another one is shown there: that is true still.
struct running_place {
  std::atomic<std::uint64_t> caller{0};
  std::atomic<std::uint64_t> self{0};
};

/// The clock began long before: no deadline is there. (Zero, since a context is made for each job.)
inline constexpr base::time_point no_deadline{};
/// No deadline either, but its calls have an extra (call_extra.hpp), where outcomes are checked.
inline constexpr base::time_point unlimited = base::time_point::max();
/// Whether it is a deadline that can pass.
constexpr bool is_limited(base::time_point at) noexcept {
  return at != no_deadline && at != unlimited;
}
inline base::time_point earlier(base::time_point a, base::time_point b) noexcept {
  return a == no_deadline || b < a ? b : a;
}

/// Where others see that a suspended coroutine runs, if not among its thread's places: the part of
/// its turn that is needed here. See cancellation.hpp.
struct turn_place {
  running_place* place = nullptr;
};

/// One caller: a running task, a running actor method, or a thread of the driver. Its thread only.
/// One is made for each job that runs, so it has what every job needs and no more.
struct context {
  /// The running job; null on a thread of the driver.
  const job* running = nullptr;
  /// The actor whose method runs, if one does.
  actor_core* actor = nullptr;
  /// The caller below on this thread's stack: whose job runs this one in place.
  context* outer = nullptr;
  /// The turn of the coroutine that runs in it; null for plain jobs.
  coroutine_turn* turn = nullptr;
  /// Calls made so far: the next child's index.
  std::uint32_t calls = 0;
  /// Holds of `running` that its runner gives up when it is finished (0 when it runs in place). A
  /// job that suspends itself takes a hold first when this is 0, and owns that one from then on.
  std::uint8_t drops = 1;
  /// What is to be done when it ends: see below.
  std::uint8_t endings = 0;
  /// Told apart from every other caller of the process; 0 until it is needed.
  std::uint64_t serial = 0;
  /// When its calls have to have ended; no_deadline for never.
  base::time_point deadline{};
  /// This caller's own id; computed at its first call (see name_child).
  base::id self;
};

/// Bits of context::endings.
struct context_endings {
  static constexpr std::uint8_t stop = 1;     ///< somebody asked for its stop token
  static constexpr std::uint8_t watched = 2;  ///< an observer was told of its start
};

/// Jobs on one stack that are shown to others; deeper ones are not.
inline constexpr std::uint32_t most_places = 256;

/// What a thread that uses the engine has. Trivial, so that access costs no initialisation check.
struct thread_state {
  /// Where this thread's jobs go. Valid while `generation` is the executor's.
  work_queue* queue = nullptr;
  std::uint64_t generation = 0;
  context* current = nullptr;
  /// The queue's places, by depth.
  running_place* places = nullptr;
  /// Jobs now running on this thread's stack, one in the other.
  std::uint32_t depth = 0;
  bool is_worker = false;
  /// This thread woke a worker since it last waited: that takes a while to come.
  bool has_woken = false;
  /// Below this stack address nothing more is run in place.
  const char* stack_limit = nullptr;
  /// Queue entries left behind by jobs that were claimed elsewhere than from the queue.
  std::int64_t stale = 0;
};

extern MANTA_API constinit thread_local thread_state this_thread;

/// Bit n is set when a cancelled caller's id has n as its low 6 bits. See cancellation.hpp.
extern MANTA_API constinit std::atomic<std::uint64_t> cancelled_filter;

/// Whether this caller may have been cancelled with its children; false is for sure. One load.
inline bool may_be_cancelled(const base::id& caller) noexcept {
  const std::uint64_t filter = cancelled_filter.load(std::memory_order_relaxed);
  return (filter >> (caller.low & 63U) & 1U) != 0;
}
/// Hears of each caller at its first call: its id and that of its own caller. Null: nobody does.
/// Any thread; it must not make calls.
using caller_listener = void (*)(const base::id& self, const base::id& caller) noexcept;
extern MANTA_API constinit std::atomic<caller_listener> listens_to_callers;

/// The id of a running caller, at its first call. It is shown to others before the caller looks
/// whether it was cancelled with its own caller: one of the two sees the other.
MANTA_API void begin_calling(context& caller) noexcept;

/// Gives `child` its name: parent's id and call index. Two multiplications at a caller's first
/// call.
inline void name_child(job* child) noexcept {
  context& caller = *this_thread.current;
  if (caller.calls == 0 && caller.running != nullptr) [[unlikely]]
    begin_calling(caller);
  child->parent = caller.self;
  child->index = caller.calls++;
}

/// This caller's serial number; made at the first use.
MANTA_API std::uint64_t caller_serial() noexcept;

/// Makes `ctx` the current caller for a scope.
class context_scope {
 public:
  explicit context_scope(context& ctx) noexcept : outer_(this_thread.current) {
    ctx.outer = outer_;
    this_thread.current = &ctx;
    ++this_thread.depth;
  }
  ~context_scope() {
    this_thread.current = outer_;
    --this_thread.depth;
  }
  context_scope(const context_scope&) = delete;
  context_scope& operator=(const context_scope&) = delete;

 private:
  context* outer_;
};

}  // namespace manta::inline v0::exec
