// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include <mutex>
#include <utility>
#include <vector>

#include <manta/base/pause.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>

#include "actor_state.hpp"

// Several calls of one actor at a time.
//
// Problem. An actor may run up to n calls at once, and its groups of calls have limits of their
// own; the mailbox has one reader; a small call must not pay for n threads.
//
// Idea. The mailbox stays as it is: one worker drains it, but sorts the calls into their groups
// instead of running them. A group has at most `limit` lanes. A lane is a call that was put into
// the worker's queue like a task: who takes it runs it, and then the group's next waiting calls,
// one after the other, until none waits. So a call costs a queue entry only when a lane begins, and
// nobody counts calls: what is bounded is the lanes.
//
//   inbox --drainer--> group 0: waiting c7 c8 c9 ...   lanes: [c3] [c4]        limit 2
//                      group 1: waiting -              lanes: [c5]             limit 4
//
// A suspended call (a coroutine's) keeps its lane, but no thread. The end waits until nothing runs:
// the last lane that leaves finds what waits for it. The mail of the end it puts into the mailbox
// once more, behind the calls that came meanwhile (a method may call its own actor, whose drainer
// must not be gone by then); a killed actor takes no more mails, so that one it schedules.
//
// Invariants
//   1. active of a group: its lanes queued, running or suspended; never more than its limit.
//   2. calls wait in a group only while active == limit.
//   3. who leaves his lane does not touch the actor again, unless an end waits: then he pins it.
//   4. a suspended call is in `suspended`, or still shown by its lane; its completion finds it
//      there under the lock, before the call is finished.

namespace manta::inline v0::exec {

void short_lock::lock() noexcept {
  for (int spins = 0; is_locked_.exchange(true, std::memory_order_acquire); ++spins) {
    while (is_locked_.load(std::memory_order_relaxed)) {
      if (++spins < 64) {
        base::pause();
      } else {
        sched_yield();  // the holder lost its core
      }
    }
  }
}

void actor_lanes::list::add(job* call) noexcept {
  call->link() = nullptr;
  (last == nullptr ? first : last->link()) = call;
  last = call;
}

job* actor_lanes::list::pop() noexcept {
  job* const call = first;
  if (call == nullptr) return nullptr;
  first = call->link();
  if (first == nullptr) last = nullptr;
  return call;
}

std::size_t actor_lanes::group_of(job* call) noexcept {
  return static_cast<std::size_t>(call->ops->origin(call).caller >> actor_core::group_shift);
}

job* actor_lanes::admit_fresh() noexcept {
  list begin;
  const std::lock_guard lock(mutex);
  for (group& g : groups) {
    if (g.fresh.first != nullptr) {
      (g.waiting.last == nullptr ? g.waiting.first : g.waiting.last->link()) = g.fresh.first;
      g.waiting.last = g.fresh.last;
      g.fresh = {};
    }
    while (g.active < g.limit) {
      job* const call = g.waiting.pop();
      if (call == nullptr) break;
      ++g.active;
      ++busy;
      begin.add(call);
    }
  }
  return begin.first;
}

// Under the lock: a lane has finished a call.
actor_lanes::step actor_lanes::leave_lane(actor_core& a, std::size_t of) noexcept {
  group& g = groups[of];
  if (job* const next = g.waiting.pop()) return {next, lane_end::none};
  --g.active;
  if (--busy > 0 || waits == lane_end::none) return {};
  a.pin();
  return {nullptr, std::exchange(waits, lane_end::none)};
}

void actor_lanes::remove(lane* which) noexcept {
  lane** link = &lanes;
  while (*link != which) link = &(*link)->next;
  *link = which->next;
}

// Under the lock. Whether it was there.
bool actor_lanes::remove_suspended(job* call) noexcept {
  job** link = &suspended;
  while (*link != nullptr && *link != call) link = &(*link)->link();
  if (*link == nullptr) return false;
  *link = call->link();
  return true;
}

job* actor_lanes::take_waiting() noexcept {
  list all;
  const std::lock_guard lock(mutex);
  for (group& g : groups) {
    while (job* const call = g.waiting.pop()) all.add(call);
  }
  return all.first;
}

// Queues what begins; each entry is a lane.
void actor_core::start_lanes(job* calls) noexcept {
  while (calls != nullptr) {
    job* const call = calls;
    calls = call->link();
    executor::resume(call);
  }
}

void actor_core::drain_lanes() noexcept {
  actor_lanes& l = *rare()->lanes;
  for (int rounds = 0;;) {
    job* list = backlog_.exchange(nullptr, std::memory_order_relaxed);
    int polls = 1;
    if (list == nullptr) list = take_new(polls);
    if (list == nullptr) return;
    if (list == closed_mark()) {
      stopped(nullptr);
      return;
    }
    while (list != nullptr && list != this) {
      job* const call = list;
      list = call->link();
      l.groups[actor_lanes::group_of(call)].fresh.add(call);
    }
    const bool has_end = list == this;
    if (has_end) backlog_.store(end_link_, std::memory_order_release);
    start_lanes(l.admit_fresh());
    const bool is_over = has_end && are_lanes_over(lane_end::mail);
    if (is_over && at_end_mail() == verdict::ended) return;
    if (is_stopping()) {
      stopped(nullptr);
      return;
    }
    if (++rounds == calls_per_turn) {
      executor::yield(this);
      return;
    }
  }
}

// True when nothing runs. Else the last lane will find that the end waits.
bool actor_core::are_lanes_over(lane_end waits_as) noexcept {
  actor_lanes& l = *rare()->lanes;
  const std::lock_guard lock(l.mutex);
  l.waits = l.busy == 0 ? lane_end::none : waits_as;
  return l.busy == 0;
}

void actor_core::execute_call(job* call) noexcept { call->ops->origin(call).actor->run_lane(call); }

void actor_core::run_lane(job* call) noexcept {
  actor_lanes& l = *rare()->lanes;
  const std::size_t of = actor_lanes::group_of(call);
  actor_lanes::lane me;
  {
    const std::lock_guard lock(l.mutex);
    me.next = std::exchange(l.lanes, &me);
  }
  for (int budget = calls_per_turn;;) {
    const bool is_suspended = !run_in_lane(call, me.running);
    actor_lanes::step then;
    {
      const std::lock_guard lock(l.mutex);
      if (is_suspended && !std::exchange(me.is_completed, false)) {
        me.running.store(nullptr, std::memory_order_relaxed);
        call->link() = std::exchange(l.suspended, call);
        l.remove(&me);
        return;  // its completion goes on
      }
      then = l.leave_lane(*this, of);
      budget = executor::is_running() ? budget - 1 : 0;  // what has not begun is cancelled
      if (then.next == nullptr || budget == 0) l.remove(&me);
    }
    if (then.next == nullptr || budget == 0) {
      go_on(then);
      return;
    }
    call = then.next;
  }
}

// False: it was suspended, and may have gone on already.
bool actor_core::run_in_lane(job* call, std::atomic<job*>& shown) noexcept {
  shown.store(call, std::memory_order_release);
  call->needs.store(job::begun, std::memory_order_relaxed);
  light_barrier();  // pairs with the heavy ones of who ends the actor, and who cancels the call
  left_mailbox(1);
  if (is_stopping() || (call->word() & job_bits::cancel) != 0) [[unlikely]] {
    end_turn(shown);
    end_call(call, withdrawn_error());
    return true;
  }
  work_counters::add<std::uint64_t>(this_thread.queue->counters.actor_calls, 1);
  return run_actor_call(call, {.actor = this, .shown = &shown});
}

// A lane that is on no thread goes on with `then`, or was the last thing the end waited for.
void actor_core::go_on(const actor_lanes::step& then) noexcept {
  if (then.next != nullptr) {
    executor::resume(then.next);
  } else if (then.end != lane_end::none) {
    come_to_end(then.end);
  }
}

// By the last lane, with its pin.
void actor_core::come_to_end(lane_end how) noexcept {
  // After the end of the runtime close_all ends the object. A closed inbox has a stopped actor: who
  // closed it sees to its end.
  const bool is_ours = how == lane_end::stopped || insert(this) == arrival::first;
  if (is_ours && executor::is_running()) executor::resume(this);
  unpin();
}

void actor_core::complete_in_lane(job* call, std::uint64_t bits) noexcept {
  actor_lanes& l = *rare()->lanes;
  const std::size_t of = actor_lanes::group_of(call);
  bool was_parked = false;
  {
    const std::lock_guard lock(l.mutex);
    was_parked = l.remove_suspended(call);
    for (actor_lanes::lane* at = was_parked ? nullptr : l.lanes; at != nullptr; at = at->next) {
      if (at->running.load(std::memory_order_relaxed) != call) continue;
      at->running.store(nullptr, std::memory_order_relaxed);
      at->is_completed = true;
      break;
    }
  }
  pin();  // without the lane the actor may end
  finish_suspended(call, bits);
  if (was_parked) {
    actor_lanes::step then;
    {
      const std::lock_guard lock(l.mutex);
      then = l.leave_lane(*this, of);
    }
    go_on(then);
  }
  unpin();
}

// A lane's entry was taken out of the queue: the runtime has ended, or there was no memory for it.
void actor_core::cancel_call(job* call, const error& reason) noexcept {
  actor_core* const self = call->ops->origin(call).actor;
  if (!self->has_lanes_) {
    end_call(call, reason);
    return;
  }
  actor_lanes& l = *self->rare()->lanes;
  const std::size_t of = actor_lanes::group_of(call);
  actor_lanes::step then{call, lane_end::none};
  while (then.next != nullptr) {
    self->left_mailbox(1);
    end_call(then.next, reason);
    const std::lock_guard lock(l.mutex);
    then = l.leave_lane(*self, of);
  }
  if (then.end != lane_end::none) self->come_to_end(then.end);
}

bool actor_core::excludes(const job* running, job* awaited) const noexcept {
  if (!has_lanes_ || running->ops->origin == nullptr) return true;
  const std::size_t mine = actor_lanes::group_of(const_cast<job*>(running));
  const std::size_t other = actor_lanes::group_of(awaited);
  if (other == all_groups >> group_shift) return true;
  return mine == other && rare()->lanes->groups[mine].limit == 1;
}

// With a hold each, so that they can be asked to stop. Under life_mutex, with stop_ set: a call
// that is shown is not finished before that is given up.
std::vector<job_ref> actor_core::running_calls() noexcept {
  std::vector<job_ref> found;
  const auto add = [&found](job* call) {
    if (call == nullptr) return;
    call->hold();
    found.emplace_back(call);
  };
  try {
    found.reserve(1);
    add(running_.load(std::memory_order_acquire));
    if (!has_lanes_) return found;
    actor_lanes& l = *rare()->lanes;
    for (std::size_t room = 16;; room *= 2) {
      found.reserve(room);
      const std::lock_guard lock(l.mutex);
      if (static_cast<std::size_t>(l.busy) > room) continue;
      for (auto* at = l.lanes; at != nullptr; at = at->next) {
        add(at->running.load(std::memory_order_acquire));
      }
      for (job* at = l.suspended; at != nullptr; at = at->link()) add(at);
      return found;
    }
  } catch (const std::bad_alloc&) {
    return found;  // they are not asked, and end when they end
  }
}

}  // namespace manta::inline v0::exec
