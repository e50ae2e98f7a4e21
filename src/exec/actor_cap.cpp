// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <mutex>

#include <fmt/format.h>

#include <manta/exec/actor_core.hpp>
#include <manta/exec/executor.hpp>

#include "actor_state.hpp"
#include "await_telling.hpp"

// What spawn's options say about an actor, and mailboxes with a cap.
//
// A place is taken before a call is made, so that a refused call costs its arguments nothing, and
// given back when the call begins or is refused. Who finds the mailbox full queues up and sleeps;
// who gives a place back hands it to the first in the queue. The sleeper counts itself in
// place_waiters before it looks at `taken` for the last time; the giver changes `taken` before it
// reads place_waiters: one sees the other.

namespace manta::inline v0::exec {

namespace {

bool try_take(rare_state& r) noexcept {
  std::uint32_t old = r.taken.load(std::memory_order_seq_cst);
  while (old < r.cap) {
    if (r.taken.compare_exchange_weak(old, old + 1, std::memory_order_seq_cst)) return true;
  }
  return false;
}

// Under places_mutex: hands places to who waits.
void hand_over(rare_state& r) noexcept {
  while (rare_state::place_waiter* const w = r.first_waiter) {
    if (r.is_open) {
      r.taken.fetch_add(1, std::memory_order_relaxed);
    } else if (!try_take(r)) {
      return;
    }
    r.first_waiter = w->after;
    if (r.first_waiter == nullptr) r.last_waiter = nullptr;
    r.place_waiters.fetch_sub(1, std::memory_order_seq_cst);
    w->sleep.signal();
  }
}

// False: it was given its place, under the lock.
bool leave_queue(rare_state& r, rare_state::place_waiter& me) noexcept {
  const std::lock_guard lock(r.places_mutex);
  rare_state::place_waiter* before = nullptr;
  rare_state::place_waiter* at = r.first_waiter;
  while (at != nullptr && at != &me) {
    before = at;
    at = at->after;
  }
  if (at == nullptr) return false;
  (before == nullptr ? r.first_waiter : before->after) = me.after;
  if (r.last_waiter == &me) r.last_waiter = before;
  r.place_waiters.fetch_sub(1, std::memory_order_seq_cst);
  return true;
}

}  // namespace

void actor_core::apply(const actor_options& asked) {
  const bool has_lanes = asked.max_concurrency > 1 || !asked.groups.empty();
  const bool is_isolated = asked.isolation || asked.enforce_memory;
  const bool is_rare = asked.name || has_lanes || asked.mailbox_cap != 0 || is_isolated;
  if (!is_rare && asked.max_restarts == 0) return;
  rare_state& r = make_rare();
  r.restarts = static_cast<std::uint32_t>(asked.max_restarts);
  r.isolation = asked.isolation;
  if (asked.enforce_memory) {
    r.memory_limit = static_cast<std::int64_t>(asked.memory_bytes.value_or(0));
  }
  if (asked.name) r.name = *asked.name;
  r.name_space = asked.name_space;
  r.cap = static_cast<std::uint32_t>(asked.mailbox_cap);
  r.on_full = asked.on_full;
  if (r.cap != 0) gate_.fetch_or(gate_capped, std::memory_order_relaxed);
  if (!has_lanes) return;
  r.lanes = std::make_unique<actor_lanes>();
  r.lanes->groups.resize(1 + asked.groups.size());
  r.lanes->groups[0].limit = asked.max_concurrency;
  for (std::size_t i = 0; i < asked.groups.size(); ++i) {
    r.lanes->groups[i + 1].name = asked.groups[i].name;
    r.lanes->groups[i + 1].limit = asked.groups[i].limit;
  }
  has_lanes_ = true;
}

std::uint16_t actor_core::group_index(const std::string& name) const {
  std::string known;
  if (has_lanes_) {
    const std::vector<actor_lanes::group>& groups = rare()->lanes->groups;
    for (std::size_t i = 1; i < groups.size(); ++i) {
      if (groups[i].name == name) return static_cast<std::uint16_t>(i);
      known += (known.empty() ? "" : ", ") + groups[i].name;
    }
  }
  raise(errc::invalid_argument,
        fmt::format("option group: asked \"{}\", the actor {} has {} it to spawn: .groups = "
                    "{{{{\"{}\", 4}}}}",
                    name, shown_name(),
                    known.empty() ? "no groups; leave the option unset, or give"
                                  : known + "; name one of those, or give",
                    name));
}

void actor_core::admit(const base::deadline& until) {
  rare_state& r = *rare();
  if (try_take(r)) return;
  const bool is_ending = (gate_.load(std::memory_order_acquire) & gate_refusing) != 0;
  if (r.on_full == full_policy::refuse && !is_ending) {
    raise(
        errc::mailbox_full,
        fmt::format("the mailbox of {} is full: {} calls wait, its cap is {}; call later, wait for "
                    "results before, or spawn it with a larger mailbox_cap",
                    shown_name(), r.cap, r.cap));
  }
  for (const context* c = this_thread.current; c != nullptr && !is_ending; c = c->outer) {
    if (c->actor != this) continue;
    raise(
        errc::self_wait,
        fmt::format("a method of {} calls it while its mailbox is full ({} calls): no place comes "
                    "free before the method ends; raise mailbox_cap, or use full_policy::refuse",
                    shown_name(), r.cap));
  }
  rare_state::place_waiter me;
  {
    const std::lock_guard lock(r.places_mutex);
    if (r.is_open) {
      r.taken.fetch_add(1, std::memory_order_relaxed);  // the call fails by itself
      return;
    }
    r.place_waiters.fetch_add(1, std::memory_order_seq_cst);
    (r.last_waiter == nullptr ? r.first_waiter : r.last_waiter->after) = &me;
    r.last_waiter = &me;
    hand_over(r);
  }
  awoken how = awoken::told;
  try {
    how = await_telling(me, until);
  } catch (...) {
    if (leave_queue(r, me)) throw;  // else it has its place
  }
  if (how == awoken::told || !leave_queue(r, me)) return;
  if (how == awoken::stopped) raise_stopped("a call that finds the mailbox full");
  raise(errc::timed_out,
        fmt::format("the mailbox of {} was full until the deadline ({} calls); give the call more "
                    "time, or the actor a larger mailbox_cap",
                    shown_name(), r.cap));
}

void actor_core::unadmit() noexcept { left_mailbox(1); }

void actor_core::left_mailbox(std::uint32_t calls) noexcept {
  if (!is_capped()) return;
  rare_state& r = *rare();
  r.taken.fetch_sub(calls, std::memory_order_seq_cst);
  if (r.place_waiters.load(std::memory_order_seq_cst) == 0) return;
  const std::lock_guard lock(r.places_mutex);
  hand_over(r);
}

// The actor ended: who waits goes on and finds its call refused.
void actor_core::open_places() noexcept {
  if (!is_capped()) return;
  rare_state& r = *rare();
  const std::lock_guard lock(r.places_mutex);
  r.is_open = true;
  hand_over(r);
}

}  // namespace manta::inline v0::exec
