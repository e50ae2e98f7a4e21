// SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <utility>

#include <manta/exec/actor_core.hpp>

#include "actor_state.hpp"

// Every actor that exists, and how the runtime's end ends them.

namespace manta::inline v0::exec {

actor_core::registry& actor_core::registry::global() {
  static auto* const made = new registry;
  return *made;
}

void actor_core::registry::add(actor_core* a) {
  const std::lock_guard lock(mutex);
  a->next_ = first;
  if (first != nullptr) first->previous_ = a;
  first = a;
  ++count;
}

void actor_core::registry::remove(actor_core* a) {
  const std::lock_guard lock(mutex);
  if (first == a || a->previous_ != nullptr) unlink(a);
}

void actor_core::registry::unlink(actor_core* a) {
  if (a->previous_ != nullptr) a->previous_->next_ = a->next_;
  if (a->next_ != nullptr) a->next_->previous_ = a->previous_;
  if (first == a) first = a->next_;
  a->previous_ = a->next_ = nullptr;
  --count;
}

std::size_t actor_core::alive() noexcept {
  const std::lock_guard lock(registry::global().mutex);
  return registry::global().count;
}

// The end of the runtime.

void actor_core::close(const error& reason) noexcept {
  if (!claim_end()) return;
  job* const newest = inbox_.exchange(closed_mark(), std::memory_order_acq_rel);
  static_cast<void>(cancel_mails(backlog_.exchange(nullptr, std::memory_order_acq_rel), reason));
  if (has_lanes_) static_cast<void>(cancel_mails(rare()->lanes->take_waiting(), reason));
  if (newest != idle_mark() && newest != closed_mark()) {
    static_cast<void>(cancel_mails(in_order(newest), reason));
  }
  if (!is_stopping()) reason_ = end_reason::runtime_ended;
  dispose();
}

void actor_core::tell_of_end() noexcept {
  registry& all = registry::global();
  for (;;) {
    end_watcher* watchers = nullptr;
    {
      const std::lock_guard lock(all.mutex);
      for (actor_core* a = all.first; a != nullptr && watchers == nullptr; a = a->next_) {
        rare_state* const r = a->rare();
        if (r == nullptr) continue;
        const std::lock_guard inner(r->life_mutex);
        watchers = std::exchange(r->watchers, nullptr);
      }
    }
    if (watchers == nullptr) return;
    tell_all(watchers, {end_reason::runtime_ended, "the runtime ended before the actor did"});
  }
}

void actor_core::close_all(const error& reason) noexcept {
  registry& all = registry::global();
  for (;;) {
    actor_core* next = nullptr;
    {
      const std::lock_guard lock(all.mutex);
      next = all.first;
      if (next != nullptr) {
        all.unlink(next);
        next->pin();  // who ends it unlinks it first, and so comes behind us
      }
    }
    if (next == nullptr) return;
    next->close(reason);
    next->unpin();
  }
}

}  // namespace manta::inline v0::exec
