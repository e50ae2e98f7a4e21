// SPDX-License-Identifier: Apache-2.0
#include "node/worker_monitors.hpp"

#include <utility>

#include <manta/codec/errors.hpp>

namespace manta::inline v0::node {

// In the list of the actor's core, which has a hold then.
struct worker_monitors::one : exec::end_watcher {
  one(worker_monitors& in, std::uint64_t asked, exec::actor_core* watched)
      : of(in.shared_from_this()), number(asked), core(watched) {
    tell = [](exec::end_watcher* w, const actor_end& how) noexcept {
      const std::shared_ptr<one> self = std::move(static_cast<one*>(w)->listed);
      self->of->told(*self, how);
    };
    is_forgotten = [](exec::end_watcher* /*w*/) noexcept { return false; };
    give_up = [](exec::end_watcher* w) noexcept {
      const std::shared_ptr<one> self = std::move(static_cast<one*>(w)->listed);
    };
    core->pin();
  }
  one(const one&) = delete;
  one& operator=(const one&) = delete;
  ~one() { core->unpin(); }

  void take_back() noexcept {
    if (core->unwatch(this)) listed.reset();
  }

  const std::shared_ptr<worker_monitors> of;
  const std::uint64_t number;
  exec::actor_core* const core;
  std::shared_ptr<one> listed;
};

// False: it was answered, or the worker is gone.
bool worker_monitors::unlist(std::uint64_t number) noexcept {
  all::node_type gone;  // ends without the lock
  const std::lock_guard lock(mutex_);
  gone = open_.extract(number);
  return !gone.empty();
}

void worker_monitors::told(one& by, const actor_end& how) noexcept {
  if (unlist(by.number)) tell_(by.number, how);
}

void worker_monitors::watch(std::uint64_t number, exec::actor_core* of) {
  const auto made = std::make_shared<one>(*this, number, of);
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    if (open_.size() >= most_open || !open_.emplace(number, made).second) {
      raise(errc::decode_failed, "more monitors than a worker has, or two of one number");
    }
  }
  made->listed = made;
  actor_end how;
  bool is_listed = false;
  try {
    is_listed = of->watch(made.get(), how);
  } catch (...) {
    made->listed.reset();
    unlist(number);
    throw;
  }
  if (!is_listed) {
    made->listed.reset();
    return told(*made, how);
  }
  // The worker, or the runtime, may have ended before it was in the core's list.
  bool is_open = false;
  {
    const std::lock_guard lock(mutex_);
    is_open = open_.contains(number);
  }
  if (!is_open) made->take_back();
}

void worker_monitors::end_with_runtime() noexcept {
  all ending;
  {
    const std::lock_guard lock(mutex_);
    ending.swap(open_);
  }
  for (const auto& [number, each] : ending) {
    each->take_back();
    tell_(number, {end_reason::runtime_ended, "the runtime ended before the actor did"});
  }
}

void worker_monitors::end() noexcept {
  all gone;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    gone.swap(open_);
  }
  for (const auto& [number, each] : gone) each->take_back();
}

}  // namespace manta::inline v0::node
