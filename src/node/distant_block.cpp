// SPDX-License-Identifier: Apache-2.0
// The block of an array that lies in another node: far_pulls.hpp.
#include <cstdint>
#include <mutex>
#include <utility>

#include "node/array_home.hpp"
#include "node/copy_cache.hpp"
#include "node/far_copies.hpp"
#include "node/far_pulls.hpp"
#include "node/resting_array.hpp"
#include "own/copy_limits.hpp"

namespace manta::inline v0::node {

void distant_block::arrives(array_block* as) noexcept {
  far_pulls& all = far_pulls::global();
  bool lets_go = !as->is_copied();  // what has no name of its own here keeps its maker's
  lies_at(as->bytes().data());
  {
    const std::lock_guard lock(all.mutex_);
    here_.store(as, std::memory_order_release);
    came_ = base::now();
    if (std::exchange(is_let_go_, is_let_go_ || lets_go)) lets_go = false;  // it was before
  }
  --all.away_;
  keep_copy(*as);
  if (lets_go && from_.run != 0) far_handles::global().lost_view(from_.id, from_.run);
}

// For calls that are given it soon.
void distant_block::keep_copy(array_block& is) const noexcept {
  far_pulls& all = far_pulls::global();
  {
    const std::lock_guard lock(all.mutex_);
    if (is.is_copied() || all.by_ == nullptr || !counts()) return;
  }
  const std::uint64_t most = own::copy_limits::most_bytes(array_home::global().limit_bytes());
  copy_cache::global().keep({from_.owner, from_.contents, from_.bytes}, is, base::now(), most,
                            from_.id);
}

// On the heap nothing rests.
void distant_block::arrives_unread(array_block* as) noexcept {
  array_block* const rests = as->at_rest();
  if (rests == nullptr) return arrives(as);
  auto* const taken = static_cast<resting_array*>(rests);
  far_pulls& all = far_pulls::global();
  bool lets_go = false;
  {
    const std::lock_guard lock(all.mutex_);
    taken_.store(taken, std::memory_order_release);
    all.unread_bytes_ += from_.bytes;
    lets_go = !std::exchange(is_let_go_, true);
  }
  as->drop();
  if (from_.since == far_handles::global().run()) far_copies::global().rests(from_.id, *taken);
  if (lets_go && from_.run != 0) far_handles::global().lost_view(from_.id, from_.run);
}

void distant_block::wakes(array_block* as) noexcept {
  far_pulls& all = far_pulls::global();
  {
    const std::lock_guard lock(all.mutex_);
    if (here_.load(std::memory_order_relaxed) == nullptr) {
      lies_at(as->bytes().data());
      here_.store(as, std::memory_order_release);
      all.unread_bytes_ -= from_.bytes;
      as = nullptr;
    }
  }
  if (as != nullptr) return as->drop();  // another reader was first
  --all.away_;
  keep_copy(*here());
}

bool distant_block::counts() const noexcept {
  return from_.run != 0 && from_.run == far_handles::global().run();
}

bool distant_block::is_copied() const noexcept {
  const array_block* const is = here();
  return is != nullptr && is->is_copied();
}

bool distant_block::is_read_in(std::uint64_t node) const noexcept {
  const array_block* const is = here();
  return is != nullptr ? is->is_read_in(node) : node == from_.owner && counts();
}

bool distant_block::may_stay(std::uint64_t node) const noexcept {
  const array_block* const is = here();
  return is != nullptr ? is->may_stay(node) : counts();
}

bool distant_block::is_away(std::uint64_t reader) const noexcept {
  if (here() != nullptr) return false;
  if (taken() != nullptr) return true;  // its maker has let go
  const bool finds_it = reader == any_cell || reader == from_.owner;
  return !finds_it || !counts();
}

array_block* distant_block::at_rest() noexcept {
  array_block* const is = here();
  array_block* const out = is != nullptr ? is->at_rest() : nullptr;
  if (out != nullptr && from_.since == far_handles::global().run()) {
    far_copies::global().rests(from_.id, static_cast<resting_array&>(*out));
  }
  return out;
}

void distant_block::end() noexcept {
  far_pulls& all = far_pulls::global();
  all.left(*this);
  array_block* const is = here();
  resting_array* const rests = taken();
  if (is == nullptr) --all.away_;
  if (is == nullptr && rests != nullptr) {
    const std::lock_guard lock(all.mutex_);
    all.unread_bytes_ -= from_.bytes;
  }
  if (is != nullptr) is->drop();
  if (rests != nullptr) rests->drop();
  if (!is_let_go_ && from_.run != 0) far_handles::global().lost_view(from_.id, from_.run);
  delete this;
}

}  // namespace manta::inline v0::node
