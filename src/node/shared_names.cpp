// SPDX-License-Identifier: Apache-2.0
#include "node/shared_names.hpp"

#include <algorithm>
#include <utility>

namespace manta::inline v0::node {

shared_names& shared_names::global() {
  static auto* const made = new shared_names;
  return *made;
}

// Under the lock: those that were named and never left, and have ended.
void shared_names::sweep() {
  if (by_id_.size() < sweep_at_) return;
  std::erase_if(by_id_, [this](const auto& one) {
    if (one.second.lent != 0 || !one.second.owner.expired()) return false;
    const auto found = by_core_.find(one.second.thing.core);
    if (found != by_core_.end() && found->second == one.first) by_core_.erase(found);
    return true;
  });
  sweep_at_ = std::max<std::size_t>(64, by_id_.size() * 2);
}

base::id shared_names::name(const shared_thing& thing) {
  const std::lock_guard lock(mutex_);
  const auto found = by_core_.find(thing.core);
  if (found != by_core_.end()) {
    const auto known = by_id_.find(found->second);
    if (known != by_id_.end() && !known->second.owner.expired()) return found->second;
  }
  sweep();
  const base::id id{shared_mark, ++last_};
  entry made{thing, thing.owner, 0};
  made.thing.owner = nullptr;
  made.thing.id = {};
  by_id_.emplace(id, std::move(made));
  by_core_[thing.core] = id;
  return id;
}

std::optional<shared_thing> shared_names::find(const base::id& id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return std::nullopt;
  shared_thing out = found->second.thing;
  out.owner = found->second.owner.lock();
  if (out.owner == nullptr) return std::nullopt;
  return out;
}

// Somebody has a handle meanwhile.
void shared_names::lend(const base::id& id, std::uint32_t n) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  entry& e = found->second;
  if (e.lent == 0) e.thing.owner = e.owner.lock();
  e.lent += n;
}

void shared_names::give_back(const base::id& id, std::uint32_t n) {
  std::shared_ptr<void> gone;  // ends without the lock
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  entry& e = found->second;
  e.lent -= std::min<std::uint64_t>(n, e.lent);
  if (e.lent == 0) gone = std::move(e.thing.owner);
}

}  // namespace manta::inline v0::node
