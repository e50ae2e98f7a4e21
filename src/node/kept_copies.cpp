// SPDX-License-Identifier: Apache-2.0
#include "node/kept_copies.hpp"

#include <new>

#include "own/copy_limits.hpp"

namespace manta::inline v0::node {

bool kept_copies::keep(const base::id& id, array_block& block, base::time_point now,
                       std::uint64_t most) noexcept {
  const std::uint64_t bytes = block.bytes().size();
  const std::lock_guard lock(mutex_);
  if (const auto known = known_.find(id); known != known_.end()) {
    all_.use(known->second, now);
    return true;
  }
  if (!has_room_now(bytes, most)) return false;
  try {
    copies::entries one{{id, &block, bytes, now}};
    known_.emplace(id, one.begin());
    all_.add(one);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

// Under the mutex.
bool kept_copies::has_room_now(std::uint64_t bytes, std::uint64_t most) const noexcept {
  const bool is_small = all_.bytes() <= most && bytes <= most - all_.bytes();
  return is_small && all_.size() < own::copy_limits::most_for_others;
}

bool kept_copies::has_room(std::uint64_t bytes, std::uint64_t most) noexcept {
  const std::lock_guard lock(mutex_);
  return has_room_now(bytes, most);
}

array_block* kept_copies::find(const base::id& id, base::time_point now) noexcept {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(id);
  return known == known_.end() ? nullptr : all_.give(known->second, now);
}

base::deadline kept_copies::sweep(base::time_point now) noexcept {
  constexpr duration kept_for = own::copy_limits::kept_for_others;
  copies::entries over;
  base::deadline due;
  {
    const std::lock_guard lock(mutex_);
    while (all_.has_unused(now, kept_for)) {
      known_.erase(all_.oldest()->name);
      all_.take_out(all_.oldest(), over);
    }
    due = all_.due(kept_for);
  }
  copies::drop_all(over);
  return due;
}

void kept_copies::clear() noexcept {
  copies::entries over;
  {
    const std::lock_guard lock(mutex_);
    known_.clear();
    all_.take_all(over);
  }
  copies::drop_all(over);
}

}  // namespace manta::inline v0::node
