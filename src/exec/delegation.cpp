// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/delegation.hpp>

#include <new>
#include <utility>

#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/named_jobs.hpp>

namespace manta::inline v0::exec {

namespace {

// Under it, and nothing else, notes are changed and read.
std::mutex& note_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

// What the work of `j` elsewhere delegated to, with a hold; null: nothing that is known.
job* noted_at(const job* j) noexcept {
  call_extra* const with = j->extra();
  if (with == nullptr || with->stands_for.load(std::memory_order_relaxed) == nullptr)
    return nullptr;
  const std::lock_guard lock(note_mutex());
  job* const noted = with->stands_for.load();
  if (noted != nullptr) noted->hold();
  return noted;
}

// What `j`, which is not ready, waits for in order to have the same outcome; with a hold.
job* next_of(job* j) noexcept {
  if (job* const noted = noted_at(j)) return noted;
  const named_jobs* const names = knows_names.load();
  return (j->word() & job_bits::named) != 0 && names != nullptr ? names->behind(j) : nullptr;
}

}  // namespace

std::mutex& delegation_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

error delegation_cycle_error() {
  return error(
      errc::invalid_argument,
      "delegation cycle: a task returned a future that waits for the task itself; return a value "
      "or a future of another task");
}

bool leads_to(job* end, const job* goal) noexcept {
  if (end == goal) return true;
  job_ref at(next_of(end));
  while (at) {
    at = job_ref(at->awaited());
    if (at.get() == goal) return true;
    if (at->is_ready()) return false;
    at = job_ref(next_of(at.get()));
  }
  return false;
}

void note_delegation(job* from, job* to) noexcept {
  bool is_ring = false;
  const job::destroy_later after;
  job_ref before;  // goes without the locks
  {
    const std::lock_guard guard(delegation_mutex());
    const job_ref end(to->awaited());
    if (from->is_ready() || end->is_ready()) return;
    is_ring = leads_to(end.get(), from);
    if (!is_ring) {
      const std::lock_guard lock(note_mutex());
      to->hold();
      before = job_ref(from->extra()->stands_for.exchange(to));
    }
  }
  if (is_ring) from->end_late(delegation_cycle_error());
}

job_ref forget_delegation(job* from) noexcept {
  call_extra* const with = from->extra();
  const bool has_note =
      with != nullptr && with->stands_for.load(std::memory_order_relaxed) != nullptr;
  if (!has_note) return job_ref();
  const std::lock_guard lock(note_mutex());
  return job_ref(with->stands_for.exchange(nullptr));
}

void tell_delegation_of(job* from) noexcept {
  const job::destroy_later after;
  const std::lock_guard guard(delegation_mutex());
  const job_ref end(from->awaited());
  if (end.get() != from && !end->is_ready()) knows_names.load()->delegates(from, end.get());
}

namespace {

void tell(job* from, job* end) noexcept {
  const named_jobs* const names = knows_names.load();
  if (names != nullptr && !end->is_ready()) names->delegates(from, end);
}

void fire_alias(waiter* w) noexcept {
  auto* node = static_cast<alias_node*>(w);
  node->self->finish(job_bits::ready, 1);
}

}  // namespace

// The chain stays short: what waited on `from` as an alias moves on to from's target, and aliases
// that nobody holds any more are dropped instead of moved, so a million tail calls need two jobs.
job_ref job::link_alias(job* from) noexcept {
  const std::lock_guard guard(delegation_mutex());
  job* const first = from->target();
  job* end = first->awaited();
  if (end->is_ready()) {  // a resolved alias is followed to what has the value
    job* const last = end->outcome();
    last->hold();
    end->drop();
    end = last;
  }
  first->drop();
  if (leads_to(end, from)) {
    end->drop();
    new (from->slot(1)) error(delegation_cycle_error());
    from->finish(job_bits::claimed | job_bits::ready | job_bits::failed, 1);
    return job_ref();
  }
  alias_node* const node = from->ops->alias(from);
  node->self = from;
  node->fire = fire_alias;

  waiter* moved = nullptr;
  from->lock();
  from->target() = end;
  waiter** link = &from->waiters_;
  while (*link != nullptr) {
    waiter* const w = *link;
    if (w->fire == fire_alias) {
      *link = w->next;
      w->next = moved;
      moved = w;
    } else {
      link = &w->next;
    }
  }
  const std::uint64_t before =
      from->word_.fetch_or(job_bits::aliased | job_bits::claimed, std::memory_order_acq_rel);
  from->unlock();
  job_ref cancelled;
  if ((before & job_bits::cancel) != 0) {
    end->hold();
    cancelled = job_ref(end);
  }

  while (moved != nullptr) {
    waiter* const next = moved->next;
    auto* other = static_cast<alias_node*>(moved);
    job* const alias = other->self;
    alias->lock();
    job* const passed = std::exchange(alias->target(), end);
    end->hold();
    alias->unlock();
    passed->drop();
    // A sole holder is the node itself: nobody will ever ask this alias.
    const bool is_forgotten = alias->is_unique();
    if (!is_forgotten) tell(alias, end);
    if (is_forgotten || !end->add_waiter(other)) alias->finish(job_bits::ready, 1);
    moved = next;
  }
  tell(from, end);
  if (!end->add_waiter(node)) from->finish(job_bits::ready, 1);
  return cancelled;
}

void make_alias(job* from) noexcept {
  const job::destroy_later after;
  // What it asked for it does not need to wait.
  if (call_extra* const with = from->extra()) with->entry_dropped();
  // It was cancelled while it ran; who cancels it from here on finds the alias.
  const job_ref target = job::link_alias(from);
  if (target) cancel_job(target.get(), true);
}

void tell_delegations_to(job* to) noexcept {
  const std::lock_guard guard(delegation_mutex());
  to->lock();  // who waits stays
  for (waiter* w = to->waiters_; w != nullptr; w = w->next) {
    if (w->fire == fire_alias) tell(static_cast<alias_node*>(w)->self, to);
  }
  to->unlock();
}

}  // namespace manta::inline v0::exec
