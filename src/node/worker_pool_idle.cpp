// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <memory>
#include <utility>

#include "node/worker_hand.hpp"
#include "node/worker_pool.hpp"
#include "node/zygote.hpp"

// Workers that have too little to do: they get what others wait for with, or go. Which ones, the
// roster says.

namespace manta::inline v0::node {

// A worker has nothing to do, and another one is busy for long with tasks behind it.
void worker_pool::help_idle() noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t idle = roster_.idle();
  const std::size_t loaded = roster_.most_loaded();
  const bool has_work = idle != sched::roster::nobody && loaded != sched::roster::nobody;
  for (const auto& one : hands_) {
    if (one == nullptr) continue;
    const bool is_slow = one->results == std::exchange(one->results_at_tick, one->results);
    if (has_work && one->number == loaded && is_slow && !has_pending()) take_back(*one);
  }
}

void worker_pool::let_surplus_go() noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t surplus = roster_.surplus();
  if (surplus == sched::roster::nobody) return;
  const std::shared_ptr<hand> one = hands_[surplus];
  if (one == nullptr || one->is_let_go || !one->off_stack.empty() || !one->asked.empty()) return;
  one->is_let_go = true;
  roster_.blocked(one->number, true);  // it gets nothing more
  zygote::global().kill(one->unique);
}

}  // namespace manta::inline v0::node
