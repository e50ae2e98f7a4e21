// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/semaphore_core.hpp>

#include <manta/base/check.hpp>
#include <manta/exec/executor.hpp>

#include "await_telling.hpp"

namespace manta::inline v0::exec {

bool semaphore_core::attempt(std::size_t count) {
  if (far_ != nullptr) [[unlikely]]
    return far_->attempt(count);
  const std::lock_guard lock(mutex_);
  if (waiting_.front() != nullptr || free_ < count) return false;
  free_ -= count;
  return true;
}

bool semaphore_core::perform(std::size_t count, const base::deadline& deadline) {
  // One that is elsewhere is asked once: now, or to wait.
  const bool is_far = far_ != nullptr && !is_over(deadline);
  if (!is_far && attempt(count)) return true;
  if (is_over(deadline)) return false;
  thread_waiter me;
  permit_request request;
  request.count = count;
  request.tell = &me;
  awoken how = awoken::told;
  if (!enlist(request)) {
    try {
      how = await_telling(me, deadline);
    } catch (...) {
      if (withdraw(request)) throw;  // else it was told meanwhile
    }
  }
  if (how == awoken::told || !withdraw(request)) {
    if (request.failure != nullptr) std::rethrow_exception(request.failure);
    return true;
  }
  if (how == awoken::stopped) raise_stopped("acquire");
  return false;
}

bool semaphore_core::enlist(permit_request& r) noexcept {
  if (far_ != nullptr) [[unlikely]]
    return far_->enlist(r);
  const std::lock_guard lock(mutex_);
  if (waiting_.front() == nullptr && free_ >= r.count) {
    free_ -= r.count;
    return true;
  }
  waiting_.push_back(&r);
  return false;
}

bool semaphore_core::withdraw(permit_request& r) noexcept {
  if (far_ != nullptr) [[unlikely]]
    return far_->withdraw(r);
  const std::lock_guard lock(mutex_);
  if (!r.is_listed) return false;
  waiting_.remove(&r);
  grant();  // it may have stood in the way of smaller ones
  return true;
}

void semaphore_core::release(std::size_t count) noexcept {
  if (far_ != nullptr) [[unlikely]]
    return far_->release(count);
  const std::lock_guard lock(mutex_);
  free_ += count;
  MANTA_CHECK_VALUE(free_ <= total_, free_);
  grant();
}

std::size_t semaphore_core::available() const {
  if (far_ != nullptr) [[unlikely]]
    return far_->available();
  const std::lock_guard lock(mutex_);
  return free_;
}

void semaphore_core::grant() noexcept {
  for (permit_request* r = waiting_.front(); r != nullptr && r->count <= free_;
       r = waiting_.front()) {
    free_ -= r->count;
    waiting_.remove(r);
    waiter* const tell = r->tell;
    tell->fire(tell);  // after it the request may be gone
  }
}

}  // namespace manta::inline v0::exec
