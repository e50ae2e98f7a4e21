// SPDX-License-Identifier: Apache-2.0
#include "node/array_names.hpp"

namespace manta::inline v0::node {

namespace {
constinit thread_local array_tray* tray_here = nullptr;
}  // namespace

array_tray::array_tray() noexcept : outer_(std::exchange(tray_here, this)) {}

array_tray::~array_tray() {
  tray_here = outer_;
  for (const auto& [id, block] : all_) block->drop();
}

placed_block* array_tray::find(const base::id& id) noexcept {
  if (tray_here == nullptr) return nullptr;
  for (const auto& [known, block] : tray_here->all_) {
    if (known != id) continue;
    block->hold();
    return block;
  }
  return nullptr;
}

array_names& array_names::global() {
  static auto* const made = new array_names;
  return *made;
}

base::id array_names::name(placed_block* block) {
  const std::lock_guard lock(mutex_);
  if (block->id_ != base::id{}) return block->id_;
  const base::id id{array_mark, ++last_};
  by_id_.emplace(id, block);
  block->id_ = id;
  return id;
}

placed_block* array_names::set(placed_block* block, const base::id& id) {
  const std::lock_guard lock(mutex_);
  placed_block*& known = by_id_[id];
  // One that nobody holds any more is about to be forgotten.
  if (known != nullptr && known->try_hold()) return known;
  known = block;
  block->id_ = id;
  return nullptr;
}

placed_block* array_names::find(const base::id& id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  return found != by_id_.end() && found->second->try_hold() ? found->second : nullptr;
}

void array_names::forget(placed_block* block) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(block->id_);
  if (found != by_id_.end() && found->second == block) by_id_.erase(found);
}

}  // namespace manta::inline v0::node
