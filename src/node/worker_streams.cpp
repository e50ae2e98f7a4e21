// SPDX-License-Identifier: Apache-2.0
#include "node/worker_streams.hpp"

#include <new>
#include <utility>

#include "node/trip.hpp"

namespace manta::inline v0::node {

// Stands where the consumer waits. Lives until it has seen the end and was closed.
struct worker_streams::outlet : exec::waiter {
  worker_streams* in = nullptr;
  std::uint64_t number = 0;
  exec::stream_ref core;
  std::shared_ptr<outlet> itself;  // until the end
  std::optional<error> failure;    // the generator's thread's, until that has ended
};

void worker_streams::open(std::uint64_t number, exec::job* generator, exec::stream_core* of) {
  auto made = std::make_shared<outlet>();
  made->in = this;
  made->number = number;
  of->hold();
  made->core = exec::stream_ref(of);
  made->fire = [](exec::waiter* w) noexcept {
    auto* const self = static_cast<outlet*>(w);
    self->in->send_on(*self);
  };
  made->itself = made;
  of->add_outlet(made.get());  // nothing is there yet
  of->watch(generator);
  early was;
  {
    // From here on orders find it, which need its generator.
    const std::lock_guard lock(mutex_);
    open_.emplace(number, made);
    const auto found = early_.find(number);
    if (found != early_.end()) was = found->second;
    if (found != early_.end()) early_.erase(found);
  }
  if (was.credits != 0) of->taken_elsewhere(was.taken, was.credits);
  if (was.is_abandoned) of->abandon();
}

std::optional<error> worker_streams::close(std::uint64_t number) noexcept {
  decltype(open_)::node_type gone;
  {
    const std::lock_guard lock(mutex_);
    gone = open_.extract(number);
  }
  return gone.empty() ? std::nullopt : std::move(gone.mapped()->failure);
}

void worker_streams::send_on(outlet& from) noexcept {
  for (;;) {
    while (exec::job* const item = from.core->pull()) {
      send_item(from, item);
      item->drop();
    }
    if (from.core->is_drained()) {
      const std::shared_ptr<outlet> last = std::move(from.itself);
      return;
    }
    if (from.core->add_outlet(&from)) return;
  }
}

// What can't go ends its generator, with that error.
void worker_streams::send_item(outlet& from, exec::job* item) noexcept {
  if (from.failure) return;
  try {
    const borrowed_workbench on;
    static_cast<void>(write_item(*on, item, {worker_, from.number}));
    send_(to_, *on);
  } catch (...) {
    from.failure = describe_current_exception("the item of a stream");
    from.core->abandon();
  }
}

// Under the mutex: what was said of a generator that has not come, or has ended; null: no memory.
worker_streams::early* worker_streams::note(std::uint64_t number) noexcept {
  try {
    if (early_.size() >= most_early) early_.erase(early_.begin());
    return &early_[number];
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void worker_streams::flow(std::uint64_t number, std::uint64_t taken,
                          std::uint32_t credits) noexcept {
  exec::stream_ref of;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(number);
    if (found != open_.end()) {
      of = found->second->core;
    } else if (early* const noted = note(number)) {
      noted->taken = taken;
      noted->credits = credits;
    }
  }
  if (of) of->taken_elsewhere(taken, credits);
}

void worker_streams::abandon(std::uint64_t number) noexcept {
  exec::stream_ref of;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(number);
    if (found != open_.end()) {
      of = found->second->core;
    } else if (early* const noted = note(number)) {
      noted->is_abandoned = true;
    }
  }
  if (of) of->abandon();
}

bool worker_streams::cancel(std::uint64_t number) noexcept {
  exec::stream_ref of;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(number);
    if (found == open_.end()) return false;
    of = found->second->core;
  }
  of->cancel();
  return true;
}

}  // namespace manta::inline v0::node
