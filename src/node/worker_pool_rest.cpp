// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <manta/exec/cancellation.hpp>
#include <manta/exec/context.hpp>
#include <manta/node/carrier.hpp>
#include <manta/spec/error.hpp>

#include "node/reading_stop.hpp"
#include "node/worker_hand.hpp"
#include "node/worker_pool.hpp"

// Calls whose awaited arguments have arrays that are not in memory: node/rest.hpp.
//
// Problem. They come back from a disk, and may have to wait until others give their room up; that
// is told by messages, so who hears those must not wait for it. Or they come from another node,
// which may say nothing; who cancels such a call must not wait for that.
//
// Idea. A task keeps its place at the worker meanwhile, which holds the number of arrays that are
// brought back at a time down to what can run, and one thread of the node brings its arrays back
// and sends it. A call of an actor has to keep its order, so the actor's mailbox stands still
// meanwhile; a thread of the executor waits, and not who made the call or what it waits for.
//
// Who waits does so in the job's name: who cancels it ends the wait (exec/cancellation.hpp), and
// who waited ends the job. A task that is in line yet ends at once, by who cancels it. A
// construction does not follow who has called it, and is ended by who kills its actor.
//
// Limits: of tasks, the arrays of one at a time come back; who waits for another node keeps those
// behind it waiting, unless it is cancelled.

namespace manta::inline v0::node {

namespace {

exec::job_ref held(exec::job* j) noexcept {
  j->hold();
  return exec::job_ref(j);
}

// A wait in the name of a claimed job that has not begun.
class in_its_name {
 public:
  explicit in_its_name(const exec::job* j) noexcept : scope_(itself_) { itself_.running = j; }
  ~in_its_name() { exec::end_stop(itself_); }
  in_its_name(const in_its_name&) = delete;
  in_its_name& operator=(const in_its_name&) = delete;

 private:
  exec::context itself_;
  exec::context_scope scope_;
};

/// What a call or a construction of that actor waits for, while it lives: whatever becomes of the
/// actor's worker meanwhile, who kills the actor finds it.
class shown_wait {
 public:
  shown_wait(const exec::actor_core& of, exec::job* j) noexcept : of_(of), job_(j) {
    {
      const std::lock_guard lock(mutex);
      before_ = std::exchange(last, this);
    }
    if (of.is_stopping()) stop();  // before who kills it could find this
  }
  void stop() noexcept {
    stop_.ask();
    job_->ask_to_stop();
  }
  ~shown_wait() {
    const std::lock_guard lock(mutex);
    shown_wait** at = &last;
    while (*at != this) at = &(*at)->before_;
    *at = before_;
  }
  shown_wait(const shown_wait&) = delete;
  shown_wait& operator=(const shown_wait&) = delete;

  /// Null: of all actors.
  static void end(const exec::actor_core* of) {
    std::vector<exec::job_ref> calls;
    {
      const std::lock_guard lock(mutex);
      for (shown_wait* at = last; at != nullptr; at = at->before_) {
        if (of != nullptr && &at->of_ != of) continue;
        at->stop_.ask();
        if (at->job_->ops->origin == nullptr) continue;
        calls.push_back(held(at->job_));
      }
    }
    for (const exec::job_ref& one : calls) exec::request_stop(one.get(), false);
  }

 private:
  static constinit std::mutex mutex;
  static constinit shown_wait* last;

  const exec::actor_core& of_;
  exec::job* const job_;
  reading_stop stop_;  // of a construction, which has no token
  shown_wait* before_ = nullptr;
};
constinit std::mutex shown_wait::mutex;
constinit shown_wait* shown_wait::last = nullptr;

}  // namespace

// Of a flight that has begun and is not written.
void worker_pool::bring_back(const std::shared_ptr<hand>& to, exec::job* j, std::uint64_t number,
                             bool is_awaited) noexcept {
  {
    const std::lock_guard lock(mutex_);
    to->find(number)->is_in_line = true;
  }
  // False: it was ended in line.
  const auto comes_to_it = [this, to, number] {
    const std::lock_guard lock(mutex_);
    flight* const f = to->find(number);
    return f != nullptr && std::exchange(f->is_in_line, false);
  };
  try {
    restorer_->push([this, to, j, number, is_awaited, comes_to_it] {
      if (!comes_to_it()) return dispatch();
      try {
        const in_its_name its(j);
        carrier_of(j)->wake_arguments(j, true, 0);
      } catch (...) {
        fail_flight(*to, number, describe_current_exception(j->ops->function));
        dispatch();
        return;
      }
      if (send_to(to, j, number, is_awaited)) {
        to->down.bell();
      } else {
        dispatch();
      }
    });
  } catch (...) {
    if (!comes_to_it()) return;  // the job may be gone
    fail_flight(*to, number, describe_current_exception(j->ops->function));
  }
}

// What an actor that was killed or is lost waits for; null: what anything does, since the runtime
// ends.
void worker_pool::stop_waking(const exec::actor_core* of) noexcept {
  std::vector<exec::job_ref> tasks;
  try {
    shown_wait::end(of);
    if (of != nullptr) return;
    const std::lock_guard lock(mutex_);
    for (const auto& one : all_) {
      for (const flight& f : one->flights) {
        if (f.number == 0 || f.is_written) continue;
        tasks.push_back(held(f.job));
      }
    }
  } catch (const std::bad_alloc&) {
    // The rest of them waits until its arrays have come.
  }
  for (const exec::job_ref& one : tasks) {
    if (!take_back(one.get(), ended_error())) exec::request_stop(one.get(), false);
  }
}

// Who has made a call whose arguments may have to be waited for goes on, and may cancel it. One
// that was withdrawn does not wait.
bool worker_pool::must_not_wait(const exec::job* call) const noexcept {
  const carrier* const by = carrier_of(call);  // null: it came from a worker, with its arrays
  return by != nullptr && by->wake_arguments != nullptr && !call->is_claimed();
}

// Who asks has taken the mail and forwards nothing else meanwhile, so its arguments may be woken
// here, as they would be by who forwards it.
bool worker_pool::wakes_at_once(exec::job* call) noexcept {
  const carrier& by = *carrier_of(call);
  try {
    if (by.failure(call) != nullptr || by.wake_arguments(call, false, 0)) return true;
  } catch (...) {
    return true;  // who forwards it finds that, too
  }
  // Those before it left the bell to it.
  ring_for(*call->ops->origin(call).actor);
  return false;
}

// A call or a construction. `at`: where it goes; null: nowhere yet.
void worker_pool::wake_here(hand* at, const exec::actor_core& of, exec::job* j) {
  const carrier& by = *carrier_of(j);
  if (by.wake_arguments == nullptr || by.wake_arguments(j, false, 0)) return;
  if (at != nullptr) {
    // The calls before it have room that it may need, and may wait for the last of them to ring.
    const std::lock_guard lock(mutex_);
    at->down.bell();
  }
  let_others_order();  // what gives room up may be one of the next messages
  shown_wait shown(of, j);
  if (is_closing_.load()) shown.stop();  // likewise of who ends all of them
  if (j->ops->origin == nullptr) {
    by.wake_arguments(j, true, 0);  // a construction
    return;
  }
  const in_its_name its(j);
  by.wake_arguments(j, true, 0);
}

}  // namespace manta::inline v0::node
