// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/node/array_block.hpp>

#include "base/id_hash.hpp"
#include "node/copy_list.hpp"

// Copies that this node has said to have, until who was told so has fetched them.
//
// Problem. Between the answer and the fetch, and between its chunks, whoever has the copy here may
// drop it, and who was told goes the way for nothing.
// Idea. It is held beside those, from the answer on until nobody has asked for it for a while. What
// is promised is kept: when there is no room for one more, it is refused, and none goes for it.
//
// Limits: own/copy_limits.hpp.
// Threads: any. Blocks are dropped without the lock.

namespace manta::inline v0::node {

class kept_copies {
 public:
  kept_copies() = default;
  kept_copies(const kept_copies&) = delete;
  kept_copies& operator=(const kept_copies&) = delete;
  ~kept_copies() { clear(); }

  /// Takes a hold of its own, if it has none of that id. `most`: bytes of all together. False:
  /// there is no room.
  bool keep(const base::id& id, array_block& block, base::time_point now,
            std::uint64_t most) noexcept;
  /// Whether one more of so many bytes has room.
  bool has_room(std::uint64_t bytes, std::uint64_t most) noexcept;
  /// With a hold; null: it is not kept.
  array_block* find(const base::id& id, base::time_point now) noexcept;
  /// Lets go of what nobody has asked for; when that is to be done again, if ever.
  base::deadline sweep(base::time_point now) noexcept;
  void clear() noexcept;

 private:
  using copies = copy_list<base::id>;

  bool has_room_now(std::uint64_t bytes, std::uint64_t most) const noexcept;

  std::mutex mutex_;
  copies all_;
  std::unordered_map<base::id, copies::iterator, base::id_hash> known_;
};

}  // namespace manta::inline v0::node
