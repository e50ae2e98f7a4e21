// SPDX-License-Identifier: Apache-2.0
#include "node/copy_cache.hpp"

#include <iterator>
#include <new>

#include "own/copy_limits.hpp"

namespace manta::inline v0::node {

copy_cache& copy_cache::global() {
  static auto* const made = new copy_cache;
  return *made;
}

void copy_cache::drop(const entries& all) noexcept {
  for (const entry& one : all) one.block->drop();
}

// Under the mutex.
void copy_cache::take_out(entries::iterator which, entries& into) noexcept {
  known_.erase(which->of);
  const auto named = named_.find(which->named);
  if (named != named_.end() && named->second == which) named_.erase(named);
  bytes_ -= which->of.bytes;
  into.splice(into.end(), all_, which);
}

array_block* copy_cache::find(const key& of, base::time_point now) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(of);
  if (found == known_.end()) return nullptr;
  return use(found->second, now);
}

array_block* copy_cache::find_named(const base::id& id, base::time_point now) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = named_.find(id);
  return found == named_.end() ? nullptr : use(found->second, now);
}

// Under the mutex.
array_block* copy_cache::use(entries::iterator at, base::time_point now) noexcept {
  at->used = now;
  all_.splice(all_.end(), all_, at);
  at->block->hold();
  return at->block;
}

void copy_cache::keep(const key& of, array_block& block, base::time_point now, std::uint64_t most,
                      const base::id& named) noexcept {
  if (of.contents == 0 || of.bytes > most) return;
  entries over;
  try {
    const std::lock_guard lock(mutex_);
    if (known_.contains(of)) return;
    while (bytes_ + of.bytes > most) take_out(all_.begin(), over);
    entries one{entry{of, &block, now, named}};
    if (named != base::id{}) named_[named] = one.begin();
    try {
      known_.emplace(of, one.begin());
    } catch (const std::bad_alloc&) {
      named_.erase(named);
      throw;
    }
    block.hold();
    bytes_ += of.bytes;
    all_.splice(all_.end(), one);
  } catch (const std::bad_alloc&) {
    // The next call fetches it.
  }
  drop(over);
}

void copy_cache::touch(std::uint64_t owner, base::time_point now) noexcept {
  const std::lock_guard lock(mutex_);
  const auto end = all_.end();
  std::size_t left = all_.size();  // those that are moved come behind them
  for (auto at = all_.begin(); at != end && left > 0; --left) {
    const auto which = at++;
    if (which->of.owner != owner) continue;
    which->used = now;
    all_.splice(end, all_, which);
  }
}

base::deadline copy_cache::sweep(base::time_point now) noexcept {
  entries over;
  base::deadline due;
  {
    const std::lock_guard lock(mutex_);
    while (!all_.empty() && now - all_.front().used >= own::copy_limits::kept_for)
      take_out(all_.begin(), over);
    if (!all_.empty()) due = all_.front().used + own::copy_limits::kept_for;
  }
  drop(over);
  return due;
}

void copy_cache::clear() noexcept {
  entries over;
  {
    const std::lock_guard lock(mutex_);
    known_.clear();
    named_.clear();
    bytes_ = 0;
    over.swap(all_);
  }
  drop(over);
}

}  // namespace manta::inline v0::node
