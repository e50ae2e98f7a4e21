// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/barrier_core.hpp>

#include <optional>

#include <manta/exec/executor.hpp>

#include "await_telling.hpp"

namespace manta::inline v0::exec {

void barrier_core::perform(barrier_party& me) {
  thread_waiter told;
  me.tell = &told;
  awoken how = awoken::told;
  if (!enlist(me)) {
    try {
      how = await_telling(told, std::nullopt);
    } catch (...) {
      if (withdraw(me)) throw;  // else it was told meanwhile
    }
    if (how != awoken::told && withdraw(me)) raise_stopped("arrive_and_wait");
  }
  if (me.failure != nullptr) std::rethrow_exception(me.failure);
}

bool barrier_core::enlist(barrier_party& p) noexcept {
  if (far_ != nullptr) [[unlikely]]
    return far_->enlist(p);
  const std::lock_guard lock(mutex_);
  p.generation = generation_;
  p.is_last = ++arrived_ == parties_;
  if (!p.is_last) {
    waiting_.push_back(&p);
    return false;
  }
  arrived_ = 0;
  ++generation_;
  while (barrier_party* const other = waiting_.pop_front()) {
    waiter* const tell = other->tell;
    tell->fire(tell);  // after it the party may be gone
  }
  return true;
}

bool barrier_core::withdraw(barrier_party& p) noexcept {
  if (far_ != nullptr) [[unlikely]]
    return far_->withdraw(p);
  const std::lock_guard lock(mutex_);
  if (!p.is_listed) return false;
  waiting_.remove(&p);
  --arrived_;
  return true;
}

}  // namespace manta::inline v0::exec
