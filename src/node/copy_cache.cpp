// SPDX-License-Identifier: Apache-2.0
#include "node/copy_cache.hpp"

#include <new>

#include "own/copy_limits.hpp"

namespace manta::inline v0::node {

copy_cache& copy_cache::global() {
  static auto* const made = new copy_cache;
  return *made;
}

// Under the mutex.
void copy_cache::take_out(copies::iterator which, copies::entries& into) noexcept {
  known_.erase(which->name.of);
  const auto named = named_.find(which->name.named);
  if (named != named_.end() && named->second == which) named_.erase(named);
  all_.take_out(which, into);
}

array_block* copy_cache::find(const key& of, base::time_point now) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(of);
  return found == known_.end() ? nullptr : all_.give(found->second, now);
}

array_block* copy_cache::find_named(const base::id& id, base::time_point now) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = named_.find(id);
  return found == named_.end() ? nullptr : all_.give(found->second, now);
}

void copy_cache::keep(const key& of, array_block& block, base::time_point now, std::uint64_t most,
                      const base::id& named) noexcept {
  if (of.contents == 0 || of.bytes > most) return;
  copies::entries over;
  try {
    const std::lock_guard lock(mutex_);
    if (known_.contains(of)) return;
    while (all_.bytes() + of.bytes > most) take_out(all_.oldest(), over);
    copies::entries one{{{of, named}, &block, of.bytes, now}};
    if (named != base::id{}) named_[named] = one.begin();
    try {
      known_.emplace(of, one.begin());
    } catch (const std::bad_alloc&) {
      named_.erase(named);
      throw;
    }
    all_.add(one);
  } catch (const std::bad_alloc&) {
    // The next call fetches it.
  }
  copies::drop_all(over);
}

void copy_cache::touch(std::uint64_t owner, base::time_point now) noexcept {
  const std::lock_guard lock(mutex_);
  all_.use_all(now, [owner](const name& one) { return one.of.owner == owner; });
}

base::deadline copy_cache::sweep(base::time_point now) noexcept {
  constexpr duration kept_for = own::copy_limits::kept_for;
  copies::entries over;
  base::deadline due;
  {
    const std::lock_guard lock(mutex_);
    while (all_.has_unused(now, kept_for)) take_out(all_.oldest(), over);
    due = all_.due(kept_for);
  }
  copies::drop_all(over);
  return due;
}

void copy_cache::clear() noexcept {
  copies::entries over;
  {
    const std::lock_guard lock(mutex_);
    known_.clear();
    named_.clear();
    all_.take_all(over);
  }
  copies::drop_all(over);
}

}  // namespace manta::inline v0::node
