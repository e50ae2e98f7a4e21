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
  bool is_kept = lets_go;
  lies_at(as->bytes().data());
  {
    const std::lock_guard lock(all.mutex_);
    is_kept = is_kept && all.by_ != nullptr && counts();
    here_.store(as, std::memory_order_release);
    came_ = base::now();
    if (std::exchange(is_let_go_, is_let_go_ || lets_go)) lets_go = false;  // it was before
  }
  --all.away_;
  if (is_kept) {
    const std::uint64_t most = own::copy_limits::most_bytes(array_home::global().limit_bytes());
    copy_cache::global().keep({from_.owner, from_.contents, from_.bytes}, *as, base::now(), most,
                              from_.id);
  }
  if (lets_go && from_.run != 0) far_handles::global().lost_view(from_.id, from_.run);
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
  far_pulls::global().left(*this);
  if (array_block* const is = here()) {
    is->drop();
  } else {
    --far_pulls::global().away_;
  }
  if (!is_let_go_ && from_.run != 0) far_handles::global().lost_view(from_.id, from_.run);
  delete this;
}

}  // namespace manta::inline v0::node
