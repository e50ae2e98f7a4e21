// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "node/worker_hand.hpp"
#include "node/worker_pool.hpp"

// What isolated workers did, for runtime::stats() and for tests, which see by it that work was not
// done elsewhere.

namespace manta::inline v0::node {

// With the lock held. How long it took is the worker's word.
void worker_pool::count(hand& of, duration ran) noexcept {
  ++of.results;
  of.busy += std::max(ran, duration{0});
  ++sum_.runs;
}

worker_pool::work worker_pool::work_of_all() {
  const std::lock_guard lock(mutex_);
  return sum_;
}

worker_pool::work worker_pool::work_since_open() {
  const std::lock_guard lock(mutex_);
  return {sum_.runs - sum_at_open_.runs, sum_.calls - sum_at_open_.calls,
          sum_.workers - sum_at_open_.workers};
}

std::vector<worker_pool::worker_part> worker_pool::work_of_each() {
  const std::lock_guard lock(mutex_);
  std::vector<worker_part> out;
  out.reserve(all_.size());
  for (const auto& one : all_) out.push_back({one->pid, one->results, one->busy});
  return out;
}

}  // namespace manta::inline v0::node
