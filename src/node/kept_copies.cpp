// SPDX-License-Identifier: Apache-2.0
#include "node/kept_copies.hpp"

#include <new>

#include "own/copy_limits.hpp"

namespace manta::inline v0::node {

void kept_copies::drop(const entries& all) noexcept {
  for (const entry& one : all) one.block->drop();
}

// Under the mutex.
void kept_copies::use(entries::iterator at, base::time_point now) noexcept {
  at->used = now;
  all_.splice(all_.end(), all_, at);
}

bool kept_copies::keep(const base::id& id, array_block& block, base::time_point now,
                       std::uint64_t most) noexcept {
  const std::uint64_t bytes = block.bytes().size();
  const std::lock_guard lock(mutex_);
  if (const auto known = known_.find(id); known != known_.end()) {
    use(known->second, now);
    return true;
  }
  if (!has_room_now(bytes, most)) return false;
  try {
    entries one{entry{id, &block, bytes, now}};
    known_.emplace(id, one.begin());
    all_.splice(all_.end(), one);
  } catch (const std::bad_alloc&) {
    return false;
  }
  block.hold();
  bytes_ += bytes;
  return true;
}

// Under the mutex.
bool kept_copies::has_room_now(std::uint64_t bytes, std::uint64_t most) const noexcept {
  const bool is_small = bytes_ <= most && bytes <= most - bytes_;
  return is_small && all_.size() < own::copy_limits::most_for_others;
}

bool kept_copies::has_room(std::uint64_t bytes, std::uint64_t most) noexcept {
  const std::lock_guard lock(mutex_);
  return has_room_now(bytes, most);
}

array_block* kept_copies::find(const base::id& id, base::time_point now) noexcept {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(id);
  if (known == known_.end()) return nullptr;
  use(known->second, now);
  known->second->block->hold();
  return known->second->block;
}

base::deadline kept_copies::sweep(base::time_point now) noexcept {
  constexpr duration kept_for = own::copy_limits::kept_for_others;
  entries over;
  base::deadline due;
  {
    const std::lock_guard lock(mutex_);
    while (!all_.empty() && now - all_.front().used >= kept_for) {
      known_.erase(all_.front().id);
      bytes_ -= all_.front().bytes;
      over.splice(over.end(), all_, all_.begin());
    }
    if (!all_.empty()) due = all_.front().used + kept_for;
  }
  drop(over);
  return due;
}

void kept_copies::clear() noexcept {
  entries over;
  {
    const std::lock_guard lock(mutex_);
    known_.clear();
    bytes_ = 0;
    over.swap(all_);
  }
  drop(over);
}

}  // namespace manta::inline v0::node
