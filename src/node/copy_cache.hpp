// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/node/array_block.hpp>

#include "base/id_hash.hpp"
#include "node/copy_list.hpp"

// Copies of other nodes' arrays that calls have been given lately.
//
// Problem. The same array goes with many calls to one node: the weights of a model, with each step.
// A copy that ends with the call that it came for would be fetched again for the next one.
// Idea. It is kept for a moment, by what its maker calls its contents: a number that it never gives
// to others. A call that names one which is here takes it, and nothing is fetched.
//
// Limits (own/copy_limits.hpp): those used least lately go first when there are more bytes than
// they may have; one that was not used for kept_for goes, too. Those of a lost node go as any
// others: they may be all that is left of what it has made (far_copies.hpp).
//
// Threads: any. Blocks are dropped without the lock.

namespace manta::inline v0::node {

class copy_cache {
 public:
  static copy_cache& global();

  struct key {
    std::uint64_t owner = 0;     ///< the node that has made it
    std::uint64_t contents = 0;  ///< what that calls them; 0: they have no number
    std::uint64_t bytes = 0;
    auto operator<=>(const key&) const = default;
  };
  /// With a hold; null: it is not here.
  array_block* find(const key& of, base::time_point now) noexcept;
  /// As find, by what all nodes called it when it came.
  array_block* find_named(const base::id& id, base::time_point now) noexcept;
  /// One that came, of which it takes a hold of its own. `most`: bytes of all together.
  void keep(const key& of, array_block& block, base::time_point now, std::uint64_t most,
            const base::id& named = {}) noexcept;
  /// Of a node that is lost: as if used now, since others may look for them.
  void touch(std::uint64_t owner, base::time_point now) noexcept;
  /// Lets go of what was not used for long; when that is to be done again, if ever.
  base::deadline sweep(base::time_point now) noexcept;
  void clear() noexcept;

 private:
  struct name {
    key of;
    base::id named = {};  // none: it is not found by it
  };
  using copies = copy_list<name>;

  void take_out(copies::iterator which, copies::entries& into) noexcept;

  std::mutex mutex_;
  copies all_;
  std::map<key, copies::iterator> known_;
  std::unordered_map<base::id, copies::iterator, base::id_hash> named_;
};

}  // namespace manta::inline v0::node
