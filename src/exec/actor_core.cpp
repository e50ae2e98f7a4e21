// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/actor_core.hpp>

#include <mutex>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <manta/base/pause.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/outside.hpp>

#include "actor_state.hpp"
#include "spec/made_error.hpp"

// The mailbox: sending, holding back, and running what is in it.

namespace manta::inline v0::exec {

namespace {

// Looks at an empty inbox before the actor goes idle: about as long as a caller that got its answer
// needs to send the next call.
constexpr int polls_before_idle = 12;
// A caller who sends without waiting for answers, and a worker as fast as he: each mail would move
// the inbox's line to the worker and back, which takes longer than the call. So after this many
// takes in a row that brought a mail or two at once, the worker waits a moment before each look,
// while several come together. (Who waits for an answer has not sent his next call at once.)
constexpr int hurried_takes = 16;
constexpr int pauses_to_gather = 16;

error refusal(const job* call) noexcept {
  return spec::made_error(errc::cancelled, [call] {
    return fmt::format("the runtime ended before the call of {} began",
                       readable_name(call->ops->function));
  });
}

bool gives_turn_here(actor_core* a) noexcept {
  outside* const feeds = elsewhere.load(std::memory_order_acquire);
  return feeds != nullptr && feeds->gives_turn(a);
}

}  // namespace

// False when the actor is closed.
bool actor_core::push(job* mail) noexcept {
  const arrival how = insert(mail);
  if (how == arrival::first) schedule();
  return how != arrival::refused;
}

// Whoever got the turn has it taken: on a worker, or, where calls go on to another process or come
// from there, by who looks after that.
void actor_core::schedule() noexcept {
  if (is_elsewhere_) {
    forward_mails();
  } else if (!is_fed_here_ || !gives_turn_here(this)) {
    executor::resume(this);
  }
}

// The one whose mail is the first in an idle actor has to schedule it.
actor_core::arrival actor_core::insert(job* mail) noexcept {
  job* const idle = idle_mark();
  // Begins with a guess instead of a load, which would fetch the cache line once more.
  job* old = nullptr;
  for (;;) {
    if (old == closed_mark()) return arrival::refused;
    link_of(mail) = old == idle ? nullptr : old;
    // Release: the worker that takes the mail sees the call. Acquire: an idle actor's state was
    // written by the worker that ran it last, and passes through us to the next; a closed one's
    // end was written before.
    if (inbox_.compare_exchange_weak(old, mail, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
      break;
    }
  }
  return old == idle ? arrival::first : arrival::behind;
}

// Ending a call may make the next one ready, which is refused in its turn: a chain of them must not
// become a chain of calls, so inner ones are put behind the outermost's list. No lock may be held.
void actor_core::refuse(job* list) noexcept {
  if (list == nullptr) return;
  // By its turn the callers, and with them the handles, may be gone.
  for (job* call = list; call != nullptr; call = call->link()) pin();
  thread_local job** tail = nullptr;
  while (tail != nullptr && *tail != nullptr) tail = &(*tail)->link();
  if (tail != nullptr) {
    *tail = list;
    return;
  }
  while (list != nullptr) {
    job* const call = list;
    actor_core* const of = call->ops->origin(call).actor;
    job* rest = call->link();
    tail = &rest;
    of->left_mailbox(1);
    const error* const lost = of->lost_.load(std::memory_order_acquire);
    end_call(call, lost != nullptr ? *lost : refusal(call));
    of->unpin();
    list = rest;
  }
  tail = nullptr;
}

void actor_core::prepare_held() { make_rare(); }

void actor_core::send(job* call, std::uint64_t caller) noexcept {
  // Acquire: pairs with the release that ends a held call.
  if (gate_.load(std::memory_order_acquire) == 0) [[likely]] {
    if (push(call)) return;
    call->link() = nullptr;
    refuse(call);
  } else {
    send_slowly(call, caller);
  }
}

void actor_core::send_slowly(job* call, std::uint64_t caller) noexcept {
  const std::uint32_t gate = gate_.load(std::memory_order_acquire);
  if ((gate & gate_refusing) == 0) {
    if ((gate & gate_held) != 0) {
      call->needs.store(released, std::memory_order_relaxed);
      hold_back(call, caller);
      return;
    }
    if (push(call)) return;
  }
  call->link() = nullptr;
  refuse(call);
}

void actor_core::send_linked(job* call, std::uint64_t caller) noexcept {
  if (call->needs.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    send(call, caller);
    drop_handle();
  } else {
    hold_back(call, caller);
  }
}

// Behind the caller's other held calls; goes on at once when there are none and it is ready.
void actor_core::hold_back(job* call, std::uint64_t caller) noexcept {
  rare_state& r = *rare();
  add_handle();  // ours: the call that has the sender's may be run, and end the actor, meanwhile
  std::unique_lock lock(r.held_mutex);
  call->link() = nullptr;
  rare_state::list& list = r.held_of(caller);
  (list.last == nullptr ? list.first : list.last->link()) = call;
  list.last = call;
  // Who fails all that wait, as the actor ends, may have been at the list's end already.
  const bool is_late = is_stopping() || has_ended();
  if (is_late && list.next_to_fail == nullptr) list.next_to_fail = call;
  gate_.fetch_add(1, std::memory_order_relaxed);
  add_handle();
  const flushed sent = flush_held(caller);
  lock.unlock();
  if (sent.has_first) schedule();
  refuse(sent.refused);
  const error* const lost = lost_.load(std::memory_order_acquire);
  if (is_late && lost != nullptr) fail_rest(r, list, *lost);
  drop_handle();
}

void actor_core::arguments_ready(job* call, std::uint64_t caller) noexcept {
  flushed sent;
  {
    const std::lock_guard lock(rare()->held_mutex);
    call->needs.store(released, std::memory_order_relaxed);
    sent = flush_held(caller);
  }
  if (sent.has_first) schedule();
  refuse(sent.refused);
  drop_handle();
}

// Under held_mutex: sends the caller's held calls as far as they are ready. What ends calls, and so
// may come back here, is left to be done without the lock.
actor_core::flushed actor_core::flush_held(std::uint64_t caller) noexcept {
  flushed sent;
  job* last_refused = nullptr;
  rare_state::list& list = rare()->held_of(caller);
  job* before = nullptr;
  job* at = list.first;
  while (at != nullptr) {
    job* const call = at;
    at = call->link();
    if (call->ops->origin(call).caller != caller) {
      before = call;
      continue;
    }
    if (call->needs.load(std::memory_order_relaxed) != released) break;
    (before == nullptr ? list.first : before->link()) = at;
    if (list.last == call) list.last = before;
    if (list.next_to_fail == call) list.next_to_fail = at;
    const arrival how = insert(call);
    if (how == arrival::first) sent.has_first = true;
    if (how == arrival::refused) {
      call->link() = nullptr;
      (last_refused == nullptr ? sent.refused : last_refused->link()) = call;
      last_refused = call;
    }
    // Release, after the push: who sees no held calls may push directly behind this one.
    const std::uint32_t gate = gate_.fetch_sub(1, std::memory_order_acq_rel);
    if ((gate & gate_held) == 1 && (gate & gate_refusing) != 0) sent.has_first |= push_final();
    // Never the last: the caller of this function has one.
    handles_.fetch_sub(1, std::memory_order_acq_rel);
  }
  return sent;
}

void actor_core::begin(const error* reason) noexcept {
  has_object_ = reason == nullptr && !is_elsewhere_;
  if (reason != nullptr) construction_failed(*reason);
  unpin();  // never the last: the life has one
  drain();
}

// Ends a call that will not run, and takes over its hold. Its canceller may have ended it already
// (see cancellation.hpp), and left the rest to us.
void actor_core::end_call(job* call, const error& reason) noexcept {
  if (call->try_claim()) {
    call->fail(reason, 1);
    return;
  }
  executor::retract_search();  // users' destructors may take long
  call->ops->drop_arguments(call);
  call->drop();
}

// Why a call that finds its cancel bit does not run: who kills the actor sets it, too.
const error& actor_core::withdrawn_error() const noexcept {
  // Acquire: lost_ is there when the stop is seen (lose).
  const bool was_lost = stop_.load(std::memory_order_acquire);
  return was_lost ? *lost_.load(std::memory_order_acquire) : cancelled_error();
}

// No claim: a call is run by its actor alone, and only one thread runs that. It counts as claimed
// when it is finished, which spares the caller's cache line a trip. `rest` is what comes after it.
actor_core::outcome actor_core::run_call(job* call, job* rest, bool is_last) noexcept {
  // Release: who ends the actor meanwhile takes the rest, and has to see the calls in it.
  backlog_.store(rest, std::memory_order_release);
  running_.store(call, std::memory_order_release);
  call->needs.store(job::begun, std::memory_order_relaxed);
  light_barrier();  // pairs with the heavy ones of who ends the actor, and who cancels the call
  if (stop_.load(std::memory_order_relaxed)) [[unlikely]]
    return outcome::stopped;
  if (is_capped()) [[unlikely]]
    left_mailbox(1);
  if ((call->word() & job_bits::cancel) != 0) [[unlikely]] {
    end_turn(running_);
    end_call(call, withdrawn_error());
    return outcome::finished;
  }
  work_counters::add<std::uint64_t>(this_thread.queue->counters.actor_calls, 1);
  const bool is_finished =
      run_actor_call(call, {.actor = this, .shown = &running_, .is_last = is_last});
  return is_finished ? outcome::finished : outcome::suspended;
}

// A call was suspended: the actor waits for it. False: it has been completed already.
bool actor_core::park_turn() noexcept {
  // Release: who goes on sees what this runner did. Acquire: and the other way round.
  if (turn_.exchange(turn_parked, std::memory_order_acq_rel) != turn_completed) return true;
  turn_.store(0, std::memory_order_relaxed);
  return false;
}

// Runs the list, oldest first. False when the actor must not be touched again: its life is over, or
// it waits for a suspended call.
bool actor_core::run_mails(job* list, int& budget) noexcept {
  while (list != nullptr) {
    job* const next = link_of(list);  // the call's block may be gone after it ran
    if (list == this) {
      backlog_.store(next, std::memory_order_release);
      if (at_end_mail() == verdict::ended) return false;
      list = next;
      continue;
    }
    const bool is_last = next == nullptr && inbox_.load(std::memory_order_relaxed) == nullptr;
    const outcome how = run_call(list, next, is_last);
    if (how == outcome::stopped) {
      stopped(list);
      return false;
    }
    if (how == outcome::suspended && park_turn()) return false;
    if (is_stopping()) [[unlikely]] {
      stopped(nullptr);
      return false;
    }
    list = next;
    if (!executor::is_running()) budget = 1;  // what has not begun is cancelled by the end
    if (--budget == 0) return true;
  }
  return true;
}

job* actor_core::in_order(job* newest) noexcept {
  job* ordered = nullptr;
  while (newest != nullptr) {
    base::prefetch_for_write(newest);  // it is written when it is finished
    job* const next = link_of(newest);
    link_of(newest) = ordered;
    ordered = newest;
    newest = next;
  }
  return ordered;
}

// The new mails, oldest first; null when the actor went idle; the closed mark when it was ended.
// Stays for a moment, in which its worker counts as searching: a caller that waits for each answer
// sends the next call soon. `polls`: looks at an empty inbox before it does; what is left of them.
job* actor_core::take_new(int& polls) noexcept {
  for (;;) {
    // Exchange even to look: a load first would move the cache line twice.
    if (job* list = inbox_.exchange(nullptr, std::memory_order_acq_rel)) {
      executor::retract_search();
      return list == closed_mark() ? list : in_order(list);
    }
    if (--polls > 0) {
      // Not too often: each look takes the line from a caller that is about to write it.
      for (int i = 0; i < 3; ++i) base::pause();
      continue;
    }
    job* expected = nullptr;
    // Release: the next worker that runs the actor sees what this one did.
    if (inbox_.compare_exchange_strong(expected, idle_mark(), std::memory_order_acq_rel)) {
      return nullptr;
    }
  }
}

job* actor_core::take_paced(int& hurried) noexcept {
  const bool gathers = hurried >= hurried_takes && !is_fed_here_;
  for (int i = 0; gathers && i < pauses_to_gather; ++i) base::pause();
  const int most_polls = is_fed_here_ ? 1 : polls_before_idle;
  int polls = most_polls;
  job* const list = take_new(polls);
  const bool came_at_once = polls == most_polls && list != nullptr && list != closed_mark();
  if (!came_at_once) {
    hurried = 0;
  } else if (!gathers) {
    job* const second = link_of(list);
    hurried = second == nullptr || link_of(second) == nullptr ? hurried + 1 : 0;
  }
  return list;
}

void actor_core::drain() noexcept {
  if (is_elsewhere_) {
    drain_forwards();
    return;
  }
  if (is_stopping()) {
    stopped(nullptr);
    return;
  }
  if (has_lanes_) {
    drain_lanes();
    return;
  }
  int budget = calls_per_turn;
  int hurried = 0;
  job* list = backlog_.exchange(nullptr, std::memory_order_relaxed);
  for (;;) {
    if (list == nullptr) list = take_paced(hurried);
    if (list == nullptr) return;
    if (list == closed_mark()) {
      stopped(nullptr);
      return;
    }
    if (!run_mails(list, budget)) return;
    list = nullptr;
    if (budget == 0) {
      if (!is_fed_here_ || !gives_turn_here(this)) executor::yield(this);
      return;
    }
  }
}

// The actor's end is never among the mails up to `call`: a call is sent while there are handles.
bool actor_core::run_until(const job* call) noexcept {
  if (has_lanes_ || inbox_.load(std::memory_order_relaxed) != call) return false;
  job* list = backlog_.load(std::memory_order_relaxed);
  for (bool has_run = false; !has_run;) {
    if (list == nullptr) {
      list = inbox_.exchange(nullptr, std::memory_order_acq_rel);
      if (list == nullptr || list == closed_mark()) {  // it was ended meanwhile
        list = nullptr;
        break;
      }
      list = in_order(list);
    }
    if (list == this) break;  // void, or else its end: for a worker
    job* const next = list->link();
    has_run = list == call;
    const outcome how = run_call(list, next, false);
    if (how == outcome::suspended && park_turn()) return true;
    if (how == outcome::stopped) rejoin(list);
    if (is_stopping()) {
      executor::resume(this);  // a worker ends it
      return true;
    }
    list = next;
  }
  backlog_.store(list, std::memory_order_release);
  job* expected = nullptr;
  // Release: as in take_new.
  if (list != nullptr ||
      !inbox_.compare_exchange_strong(expected, idle_mark(), std::memory_order_acq_rel)) {
    executor::resume(this);
  }
  return true;
}

void actor_core::complete(job* call, std::uint64_t bits) noexcept {
  actor_core* const self = call->ops->origin(call).actor;
  if (self->has_lanes_) {
    self->complete_in_lane(call, bits);
    return;
  }
  self->end_turn(self->running_);
  finish_suspended(call, bits);
  // Its runner is gone, or has not come back yet from the run and then goes on itself.
  if (self->turn_.exchange(turn_completed, std::memory_order_acq_rel) != turn_parked) return;
  self->turn_.store(0, std::memory_order_relaxed);
  executor::resume(self);
}

void actor_core::finish_suspended(job* call, std::uint64_t bits) noexcept {
  if (bits == job_bits::aliased) {
    make_alias(call);
  } else {
    call->finish(bits | job_bits::claimed, 1);
  }
}

// Cancels the calls of a list, oldest first. True when the actor's end was among them.
bool actor_core::cancel_mails(job* list, const error& reason) noexcept {
  bool has_end = false;
  while (list != nullptr) {
    job* const next = link_of(list);
    has_end |= list == this;
    if (list != this) {
      left_mailbox(1);
      end_call(list, reason);
    }
    list = next;
  }
  return has_end;
}

// The scheduled entry came too late to be run: whoever waits for a call has to be told, or the
// workers would never end. The object stays for close_all.
void actor_core::abandon(const error& reason) noexcept {
  const bool has_pin = std::exchange(is_handed_on_, false);
  abandon_mails(reason);
  if (has_pin) unpin();
}

void actor_core::abandon_mails(const error& reason) noexcept {
  if (cancel_mails(backlog_.exchange(nullptr, std::memory_order_acq_rel), reason)) return;
  job* newest = inbox_.load(std::memory_order_acquire);
  while (newest != closed_mark() && newest != idle_mark()) {
    job* const then = newest == nullptr ? idle_mark() : nullptr;
    if (!inbox_.compare_exchange_weak(newest, then, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      continue;
    }
    if (then == idle_mark() || cancel_mails(in_order(newest), reason)) return;
    newest = inbox_.load(std::memory_order_acquire);
  }
}

// The construction is not to be. While the runtime runs there is no memory to queue it: the actor
// ends as if its constructor had failed.
void actor_core::abandon_start(const error& reason) noexcept {
  if (claim_start()) {
    if (executor::is_running()) {
      construction_failed(reason);
      stopped(nullptr);
    } else {
      abandon(reason);
    }
  }
  unpin();
}

}  // namespace manta::inline v0::exec
