// SPDX-License-Identifier: Apache-2.0
#include "node/outgoing.hpp"

#include <algorithm>

namespace manta::inline v0::node {

outgoing& outgoing::global() {
  static auto* const made = new outgoing;  // threads of the user may outlive main
  return *made;
}

void outgoing::begin(std::uint64_t node) {
  const std::lock_guard lock(mutex_);
  nodes_.push_back(node);
}

void outgoing::end(std::uint64_t node) noexcept {
  {
    const std::lock_guard lock(mutex_);
    nodes_.erase(std::ranges::find(nodes_, node));
  }
  has_ended_.notify_all();
}

void outgoing::wait(std::uint64_t node) noexcept {
  std::unique_lock lock(mutex_);
  has_ended_.wait(lock, [this, node] {
    return node == 0 ? nodes_.empty() : std::ranges::find(nodes_, node) == nodes_.end();
  });
}

}  // namespace manta::inline v0::node
