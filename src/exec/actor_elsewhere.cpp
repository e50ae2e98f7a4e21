// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <manta/exec/actor_core.hpp>
#include <manta/exec/block_pool.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/outside.hpp>

#include "actor_state.hpp"

// A core whose object is in another process.
//
// Problem. Calls have to get there in each caller's order, with no thread between the caller and
// the wire; and the core has to end as one with an object does: after its calls, once, told.
//
// Idea. The mailbox stays as it is. Who finds it idle takes the mails and gives each call to who
// runs things elsewhere, who sends it and finishes it when its answer is there. So a call is begun,
// as far as this core knows, when it was sent, and nothing is in its way here; what the object's
// process has not begun it refuses itself when the actor ends there. A call whose arguments have
// still to come, and that the caller's thread must not wait for, leaves the mailbox standing, and a
// worker goes on with it: that may wait, and all calls behind do.
//
//   end: the mail of the end, or a stop --> outside::leave --> (the object goes) --> end_elsewhere
//
// A place in a full mailbox is free again when the call begins there. The calls of one actor that
// were sent are begun in their order, `limit` at a time, so those are counted.

namespace manta::inline v0::exec {

bool asks_elsewhere() noexcept {
  const outside* const away = elsewhere.load(std::memory_order_acquire);
  return away != nullptr && away->asks_elsewhere;
}

void construct_elsewhere(actor_core* of, job* construction) noexcept {
  if (actor_host* const away = of->host()) {
    away->construct(of, construction);
    return;
  }
  of->lose_elsewhere(end_reason::runtime_ended, ended_error());
  construction->fail(ended_error(), 1);
  of->kind().settle(of, construction);
}

actor_host* actor_core::host() const noexcept {
  if (!is_elsewhere_) return nullptr;
  if (is_afar_) return actors_afar.load(std::memory_order_acquire);
  return elsewhere.load(std::memory_order_acquire);
}

void actor_core::is_here() noexcept {
  is_elsewhere_ = false;
  is_fed_here_ = true;
}

// The new mails, oldest first; null when the core is idle; the closed mark when it was ended.
job* actor_core::take_forwarded() noexcept {
  for (;;) {
    if (job* const list = inbox_.exchange(nullptr, std::memory_order_acq_rel)) {
      return list == closed_mark() ? list : in_order(list);
    }
    job* expected = nullptr;
    if (inbox_.compare_exchange_strong(expected, idle_mark(), std::memory_order_acq_rel)) {
      return nullptr;
    }
  }
}

namespace {

// The core that this thread, a worker, goes on for: it may wait for what a call needs. Only an
// address.
constinit thread_local const actor_core* goes_on_for = nullptr;

}  // namespace

// A worker goes on for who had forwarded enough, or must not wait.
void actor_core::drain_forwards() noexcept {
  const bool has_pin = std::exchange(is_handed_on_, false);
  if (is_stopping()) {
    stopped(nullptr);
  } else {
    const actor_core* const outer = std::exchange(goes_on_for, has_pin ? this : nullptr);
    forward_mails();
    goes_on_for = outer;
  }
  if (has_pin) unpin();
}

// By whoever found the core idle, also a caller: others that go on calling must not keep it here.
void actor_core::forward_mails() noexcept {
  int budget = calls_per_turn;
  job* list = backlog_.exchange(nullptr, std::memory_order_relaxed);
  for (;;) {
    if (list == nullptr) list = take_forwarded();
    if (list == nullptr) return;
    if (list == closed_mark() || is_stopping()) {
      if (list != closed_mark()) backlog_.store(list, std::memory_order_release);
      stopped(nullptr);
      return;
    }
    job* next = link_of(list);
    if (list == this) {
      backlog_.store(next, std::memory_order_release);
      if (at_end_mail() == verdict::ended) return;
      next = backlog_.exchange(nullptr, std::memory_order_relaxed);
    } else if (actor_host* const away = host(); away != nullptr && goes_on_for != this &&
                                                away->must_not_wait(list) &&
                                                !away->wakes_at_once(list)) {
      next = list;
      budget = 0;
    } else {
      --budget;
      forward(list, next != nullptr && budget > 0);
    }
    list = next;
    if (budget == 0) {
      backlog_.store(list, std::memory_order_release);
      pin();
      is_handed_on_ = true;
      executor::resume(this);
      return;
    }
  }
}

namespace {

// How many calls of the actor may run at a time.
std::uint32_t limit_of(const rare_state& r) noexcept {
  if (r.lanes == nullptr) return 1;
  std::uint32_t sum = 0;
  for (const actor_lanes::group& g : r.lanes->groups) sum += static_cast<std::uint32_t>(g.limit);
  return sum;
}

}  // namespace

void actor_core::forward(job* call, bool has_more) noexcept {
  if (is_capped()) {
    rare_state& r = *rare();
    if (r.sent_on.fetch_add(1, std::memory_order_acq_rel) < limit_of(r)) left_mailbox(1);
  }
  call->needs.store(job::begun, std::memory_order_relaxed);
  actor_host* const away = host();
  if (away == nullptr) {
    end_call(call, cancelled_error());
    ended_elsewhere();
    return;
  }
  away->forward(this, call, has_more);
}

void actor_core::ended_elsewhere() noexcept {
  if (!is_capped()) return;
  rare_state& r = *rare();
  if (r.sent_on.fetch_sub(1, std::memory_order_acq_rel) > limit_of(r)) left_mailbox(1);
}

void actor_core::end_elsewhere() noexcept { end_life(); }

void actor_core::stay_elsewhere() noexcept {
  if (at_end_mail() == verdict::goes_on) forward_mails();
}

bool actor_core::admit_from_afar() noexcept {
  rare_state& r = *rare();
  const std::uint32_t before = r.taken.fetch_add(1, std::memory_order_seq_cst);
  if (before < r.cap || r.on_full == full_policy::wait) return true;
  left_mailbox(1);
  return false;
}

mirror_core* mirror_core::make(const actor_ops* kind, bool afar) {
  auto* const made = new (allocate_block(sizeof(mirror_core))) mirror_core(kind);
  if (afar) made->lives_afar();
  static_cast<void>(made->claim_start());
  made->begin(nullptr);
  return made;
}

void actor_core::lose_elsewhere(end_reason why, error told) noexcept {
  if (lose(why, std::move(told))) finish_loss();  // else who stopped it sees to the end
}

void actor_core::finish_loss() noexcept {
  job* const newest = inbox_.exchange(closed_mark(), std::memory_order_acq_rel);
  if (newest != idle_mark() && newest != closed_mark()) fail_lost(in_order(newest));
  open_places();
  fail_held();
  if (newest == idle_mark()) schedule();
}

void actor_core::note_end(const actor_end& how) noexcept {
  try {
    rare_state& r = make_rare();
    const std::lock_guard lock(r.life_mutex);
    if (life_.load(std::memory_order_acquire) < phase::over) r.ended_there = how;
  } catch (const std::bad_alloc&) {
    // Then it is told what is known here.
  }
}

void actor_core::know_as(const known_actor& as) {
  rare_state& r = make_rare();
  auto fresh = std::make_unique<const known_actor>(as);
  const known_actor* none = nullptr;
  if (r.known_as.compare_exchange_strong(none, fresh.get(), std::memory_order_acq_rel)) {
    static_cast<void>(fresh.release());
  }
}

const known_actor* actor_core::known_as() const noexcept {
  const rare_state* const r = rare();
  return r != nullptr ? r->known_as.load(std::memory_order_acquire) : nullptr;
}

bool is_same_actor(const actor_core* a, const actor_core* b) noexcept {
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  const known_actor* const one = a->known_as();
  const known_actor* const other = b->known_as();
  return one != nullptr && other != nullptr && *one == *other;
}

std::uint32_t actor_core::restarts() const noexcept {
  const rare_state* const r = rare();
  return r != nullptr ? r->restarts : 0;
}

std::uint32_t actor_core::mailbox_cap() const noexcept {
  const rare_state* const r = rare();
  return r != nullptr ? r->cap : 0;
}

std::optional<isolation_mode> actor_core::isolation() const noexcept {
  const rare_state* const r = rare();
  return r != nullptr ? r->isolation : std::nullopt;
}

std::int64_t actor_core::memory_limit() const noexcept {
  const rare_state* const r = rare();
  return r != nullptr ? r->memory_limit : 0;
}

bool actor_core::refuses_when_full() const noexcept {
  const rare_state* const r = rare();
  return r != nullptr && r->on_full == full_policy::refuse;
}

void actor_core::each_group(void (*see)(void* to, const std::string& name, int limit),
                            void* to) const {
  if (!has_lanes_) return;
  for (const actor_lanes::group& g : rare()->lanes->groups) see(to, g.name, g.limit);
}

}  // namespace manta::inline v0::exec
