// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/actor_core.hpp>

#include <array>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <manta/base/pause.hpp>
#include <manta/exec/block_pool.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>

namespace manta::inline v0::exec {

namespace {

// Marks of the inbox; never dereferenced.
alignas(job) char marks[2];
job* const idle = reinterpret_cast<job*>(&marks[0]);
job* const closed = reinterpret_cast<job*>(&marks[1]);

// job::needs of a held call that may be sent.
constexpr std::int32_t released = -1;
// Calls an actor runs before it lets the worker's other jobs go first.
constexpr int calls_per_turn = 256;
// Looks at an empty inbox before the actor goes idle: about as long as a caller that got its answer
// needs to send the next call.
constexpr int polls_before_idle = 12;

}  // namespace

void execute_actor(job* self) noexcept { static_cast<actor_core*>(self)->drain(); }
void cancel_actor(job* self, const error& reason) noexcept {
  static_cast<actor_core*>(self)->abandon(reason);
}

namespace {

const job_ops activation_ops = {
    .execute = execute_actor,
    .run = nullptr,
    .ready = nullptr,
    .cancel = cancel_actor,
    .drop_arguments = nullptr,
    .drop_value = nullptr,
    .alias = nullptr,
    .origin = nullptr,
    .size = 0,
    .front = 0,
    .in_place = false,
    .function = "actor",
    .function_hash = 0,
};

}  // namespace

// Linked through the calls' own links, so that holding a call back needs no memory. Callers share a
// list when their numbers meet; each one's order is kept within it.
struct actor_core::held_calls {
  struct list {
    job* first = nullptr;
    job* last = nullptr;
  };
  std::mutex mutex;
  std::array<list, 8> lists;

  list& of(std::uint64_t caller) { return lists[caller % lists.size()]; }
};

struct actor_core::registry {
  std::mutex mutex;
  actor_core* first = nullptr;
  std::size_t count = 0;

  static registry& global() {
    static auto* const made = new registry;
    return *made;
  }
  void add(actor_core* a) {
    const std::lock_guard lock(mutex);
    a->next_ = first;
    if (first != nullptr) first->previous_ = a;
    first = a;
    ++count;
  }
  void remove(actor_core* a) {
    const std::lock_guard lock(mutex);
    unlink(a);
  }
  void unlink(actor_core* a) {
    if (a->previous_ != nullptr) a->previous_->next_ = a->next_;
    if (a->next_ != nullptr) a->next_->previous_ = a->previous_;
    if (first == a) first = a->next_;
    a->previous_ = a->next_ = nullptr;
    --count;
  }
};

actor_core::actor_core(const actor_ops* kind) : job(&activation_ops, 1), kind_(kind) {
  registry::global().add(this);
}

actor_core::~actor_core() {
  delete held_.load(std::memory_order_relaxed);
  delete lost_;
}

std::size_t actor_core::alive() noexcept {
  const std::lock_guard lock(registry::global().mutex);
  return registry::global().count;
}

void actor_core::free_block_of_core() noexcept {
  if (pins_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::size_t size = kind_->size;
  this->~actor_core();
  free_block(this, size);
}

void actor_core::drop_handle() noexcept {
  if (handles_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  push(this);  // a thread that is new here joins in resume
  free_block_of_core();
}

// False when the actor is closed.
bool actor_core::push(job* mail) noexcept {
  const arrival how = insert(mail);
  if (how == arrival::first) executor::resume(this);
  return how != arrival::refused;
}

// The one whose mail is the first in an idle actor has to schedule it.
actor_core::arrival actor_core::insert(job* mail) noexcept {
  // Begins with a guess instead of a load, which would fetch the cache line once more.
  job* old = nullptr;
  for (;;) {
    if (old == closed) return arrival::refused;
    link_of(mail) = old == idle ? nullptr : old;
    // Release: the worker that takes the mail sees the call. Acquire: an idle actor's state was
    // written by the worker that ran it last, and passes through us to the next.
    if (inbox_.compare_exchange_weak(old, mail, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
      break;
    }
  }
  return old == idle ? arrival::first : arrival::behind;
}

namespace {

error refusal(const job* call) noexcept {
  try {
    return error(errc::cancelled, fmt::format("the runtime ended before the call of {} began",
                                              readable_name(call->ops->function)));
  } catch (const std::bad_alloc&) {
    return error::out_of_memory();
  }
}

}  // namespace

// Ending a call may make the next one ready, which is refused in its turn: a chain of them must not
// become a chain of calls, so inner ones are put behind the outermost's list. No lock may be held.
void actor_core::refuse(job* list) noexcept {
  thread_local job** tail = nullptr;
  while (tail != nullptr && *tail != nullptr) tail = &(*tail)->link();
  if (tail != nullptr) {
    *tail = list;
    return;
  }
  while (list != nullptr) {
    job* const call = list;
    job* rest = call->link();
    tail = &rest;
    call->cancel_unclaimed(refusal(call));
    list = rest;
  }
  tail = nullptr;
}

void actor_core::prepare_held() {
  if (held_.load(std::memory_order_acquire) != nullptr) return;
  auto made = std::make_unique<held_calls>();
  held_calls* expected = nullptr;
  if (held_.compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel)) {
    static_cast<void>(made.release());
  }
}

void actor_core::send(job* call, std::uint64_t caller) noexcept {
  if (held_count_.load(std::memory_order_acquire) == 0) {
    if (push(call)) return;
    call->link() = nullptr;
    refuse(call);
  } else {
    call->needs.store(released, std::memory_order_relaxed);
    hold_back(call, caller);
  }
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
  held_calls& held = *held_.load(std::memory_order_acquire);
  add_handle();  // ours: the call that has the sender's may be run, and end the actor, meanwhile
  std::unique_lock lock(held.mutex);
  call->link() = nullptr;
  held_calls::list& list = held.of(caller);
  (list.last == nullptr ? list.first : list.last->link()) = call;
  list.last = call;
  held_count_.fetch_add(1, std::memory_order_relaxed);
  add_handle();
  const flushed sent = flush_held(caller);
  lock.unlock();
  if (sent.has_first) executor::resume(this);
  refuse(sent.refused);
  drop_handle();
}

void actor_core::arguments_ready(job* call, std::uint64_t caller) noexcept {
  flushed sent;
  {
    held_calls& held = *held_.load(std::memory_order_acquire);
    const std::lock_guard lock(held.mutex);
    call->needs.store(released, std::memory_order_relaxed);
    sent = flush_held(caller);
  }
  if (sent.has_first) executor::resume(this);
  refuse(sent.refused);
  drop_handle();
}

// Under held_calls::mutex: sends the caller's held calls as far as they are ready. What ends calls,
// and so may come back here, is left to be done without the lock.
actor_core::flushed actor_core::flush_held(std::uint64_t caller) noexcept {
  flushed sent;
  job* last_refused = nullptr;
  held_calls::list& list = held_.load(std::memory_order_relaxed)->of(caller);
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
    const arrival how = insert(call);
    if (how == arrival::first) sent.has_first = true;
    if (how == arrival::refused) {
      call->link() = nullptr;
      (last_refused == nullptr ? sent.refused : last_refused->link()) = call;
      last_refused = call;
    }
    // Release, after the push: who sees no held calls may push directly behind this one.
    held_count_.fetch_sub(1, std::memory_order_release);
    // Never the last: the caller of this function has one.
    handles_.fetch_sub(1, std::memory_order_acq_rel);
  }
  return sent;
}

void actor_core::begin(const error* reason) noexcept {
  has_object_ = reason == nullptr;
  if (reason != nullptr) {
    try {
      const std::string shown = name_ ? *name_ : readable_name(kind_->type);
      lost_ = new error(errc::actor_lost,
                        fmt::format("the constructor of {} failed: {}", shown, reason->message()));
    } catch (const std::bad_alloc&) {
      static error prepared = error::out_of_memory();
      lost_ = new (std::nothrow) error(prepared);
    }
  }
  drain();
}

// Its canceller claimed it and ended it, or leaves that to the actor.
void actor_core::drop_cancelled(job* call) noexcept {
  if (call->try_claim()) {
    call->fail(cancelled_error(), 1);
    return;
  }
  call->ops->drop_arguments(call);
  call->drop();
}

// No claim: a call is run by its actor alone, and only one thread runs that. It counts as claimed
// when it is finished, which spares the caller's cache line a trip.
void actor_core::run_call(job* call, bool is_last) noexcept {
  if (!has_object_) {
    call->fail(lost_ != nullptr ? *lost_ : error::out_of_memory(), 1);
    return;
  }
  call->needs.store(job::begun, std::memory_order_relaxed);
  light_barrier();  // pairs with the heavy one of who cancels it, see cancellation.hpp
  if ((call->word() & job_bits::cancel) != 0) [[unlikely]] {
    drop_cancelled(call);
    return;
  }
  work_counters::add<std::uint64_t>(this_thread.queue->counters.actor_calls, 1);
  run_claimed(call, {.drops = 1, .actor = this, .is_last = is_last});
}

// Runs the list, oldest first. False when the actor's life is over: it must not be touched again.
bool actor_core::run_mails(job* list, int& budget) noexcept {
  while (list != nullptr) {
    if (list == this) {
      finish_life();
      return false;
    }
    job* const next = list->link();  // the call's block may be gone after it ran
    const bool is_last = next == nullptr && inbox_.load(std::memory_order_relaxed) == nullptr;
    run_call(list, is_last);
    list = next;
    if (--budget == 0) break;
  }
  if (list != nullptr) backlog_ = list;
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

// The new mails, oldest first; null when the actor went idle. Stays for a moment, in which its
// worker counts as searching: a caller that waits for each answer sends the next call soon.
job* actor_core::take_new() noexcept {
  for (int polls = polls_before_idle;;) {
    // Exchange even to look: a load first would move the cache line twice.
    if (job* list = inbox_.exchange(nullptr, std::memory_order_acq_rel)) {
      executor::retract_search();
      return in_order(list);
    }
    if (--polls > 0) {
      // Not too often: each look takes the line from a caller that is about to write it.
      for (int i = 0; i < 3; ++i) base::pause();
      continue;
    }
    job* expected = nullptr;
    // Release: the next worker that runs the actor sees what this one did.
    if (inbox_.compare_exchange_strong(expected, idle, std::memory_order_acq_rel)) return nullptr;
  }
}

void actor_core::drain() noexcept {
  int budget = calls_per_turn;
  job* list = std::exchange(backlog_, nullptr);
  for (;;) {
    if (list == nullptr) list = take_new();
    if (list == nullptr) return;
    if (!run_mails(list, budget)) return;
    list = nullptr;
    if (budget == 0) {
      executor::yield(this);
      return;
    }
  }
}

// The actor's end is never among the mails up to `call`: a call is sent while there are handles.
bool actor_core::run_until(const job* call) noexcept {
  if (inbox_.load(std::memory_order_relaxed) != call) return false;
  job* list = std::exchange(backlog_, nullptr);
  for (bool has_run = false; !has_run;) {
    if (list == nullptr) list = in_order(inbox_.exchange(nullptr, std::memory_order_acq_rel));
    job* const next = list->link();
    has_run = list == call;
    run_call(list, false);
    list = next;
  }
  job* expected = nullptr;
  // Release: as in take_new.
  if (list == nullptr &&
      inbox_.compare_exchange_strong(expected, idle, std::memory_order_acq_rel)) {
    return true;
  }
  backlog_ = list;
  executor::resume(this);
  return true;
}

void actor_core::finish_life() noexcept {
  registry::global().remove(this);
  if (has_object_) kind_->destroy(this);
  free_block_of_core();
}

// Cancels the calls of a list, oldest first. True when the actor's end was among them.
bool actor_core::cancel_mails(job* list, const error& reason) noexcept {
  bool has_end = false;
  while (list != nullptr) {
    job* const next = link_of(list);
    has_end |= list == this;
    if (list != this) list->ops->cancel(list, reason);
    list = next;
  }
  return has_end;
}

job* actor_core::take_backlog() noexcept {
  job* const list = backlog_;
  if (list != nullptr) backlog_ = nullptr;
  return list;
}

// The scheduled entry came too late to be run: whoever waits for a call has to be told, or the
// workers would never end. The object stays for close_all.
void actor_core::abandon(const error& reason) noexcept {
  if (cancel_mails(take_backlog(), reason)) return;
  job* newest = inbox_.load(std::memory_order_acquire);
  while (newest != closed && newest != idle) {
    job* const then = newest == nullptr ? idle : nullptr;
    if (!inbox_.compare_exchange_weak(newest, then, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      continue;
    }
    if (then == idle || cancel_mails(in_order(newest), reason)) return;
    newest = inbox_.load(std::memory_order_acquire);
  }
}

void actor_core::close(const error& reason) noexcept {
  job* newest = inbox_.exchange(closed, std::memory_order_acq_rel);
  if (newest == idle) newest = nullptr;
  static_cast<void>(cancel_mails(take_backlog(), reason));
  static_cast<void>(cancel_mails(in_order(newest), reason));
  if (has_object_) kind_->destroy(this);
  has_object_ = false;
  free_block_of_core();
}

void actor_core::close_all(const error& reason) noexcept {
  registry& all = registry::global();
  for (;;) {
    actor_core* next = nullptr;
    {
      const std::lock_guard lock(all.mutex);
      next = all.first;
      if (next != nullptr) all.unlink(next);
    }
    if (next == nullptr) return;
    next->close(reason);
  }
}

}  // namespace manta::inline v0::exec
