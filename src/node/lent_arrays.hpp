// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/node/array_block.hpp>
#include <manta/spec/parcel.hpp>

#include "node/array_names.hpp"
#include "node/worker_order.hpp"
#include "store/object_store.hpp"
#include "store/segment.hpp"

// What one isolated worker has of arrays, as its node knows it.
//
// Problem. A worker reads arrays in the node's memory, makes others in its own, and may die at any
// moment. What it reads has to stay as long as it reads it; what it made has to stay when it dies;
// and nothing that it says of places and ids is to be believed.
//
// Idea. The node counts for each worker how often it has sent an array there and not had it back,
// as with handles of actors, and holds the block meanwhile. A worker gives all of that back in one
// message when its last handle goes. What a worker makes has been granted to it before: that counts
// as one, which the maker has. The descriptor of a segment goes by the socket, once, before the
// first message that has a place in it.
//
//   node: id -> count, block          worker: id -> times it came, mapping
//         --- segment 5 (descriptor) -->          socket, once
//         --- message with the array (+1) -->     ring
//         <-- release of n (-n) ---               ring, when the last handle went
//
//         <-- room for n bytes? ---               socket
//         --- yes: segment 9 (+1) -->             socket
//         <-- segment 9 (descriptor) ---          socket, before the first message with it
//         <-- message with the array ---          ring: now it is an object of the node's store
//
// Invariants. A block that a worker may read has a hold here. What a message from a worker names
// was lent or granted to it. With the worker all of this ends.
//
// Threads: one at a time (the pool's mutex); what is taken out ends without it.

namespace manta::inline v0::node {

/// What the node has for a worker because of one array. Gives it back when it ends, which takes the
/// store's lock.
class lent_array {
 public:
  lent_array() = default;
  lent_array(lent_array&& other) noexcept;
  lent_array& operator=(lent_array&& other) noexcept;
  ~lent_array();

  std::uint32_t count = 0;
  placed_block* block = nullptr;               // with a hold; null: granted, and not come yet
  std::shared_ptr<store::object_store> in{};   // where it is pinned or granted for the worker
  store::object_id pinned = 0;                 // there; 0: it is not
  std::optional<store::segment_id> granted{};  // there
  std::uint64_t granted_bytes = 0;
  store::holder who = 0;
};

class lent_arrays {
 public:
  explicit lent_arrays(std::uint64_t worker) noexcept : worker_(worker) {}
  lent_arrays(const lent_arrays&) = delete;
  lent_arrays& operator=(const lent_arrays&) = delete;

  /// A message that goes to the worker has this array, which somebody holds meanwhile: one more.
  /// Throws std::bad_alloc.
  void lend(const base::id& what, int socket);
  /// The worker has n fewer. False: nonsense. What ends by that is added to `ended`.
  bool give_back(const base::id& what, std::uint32_t n, std::vector<lent_array>& ended);
  /// Room for an array, which the worker may make in a segment of its own.
  void grant(lent_array room, std::uint64_t segment);
  /// The descriptor of such a segment. False: nonsense.
  bool file_came(std::uint64_t segment, store::descriptor file);
  /// Whether the array in a message from the worker can be looked at: its descriptor is here.
  bool has_file_of(const spec::reference& came) const;
  /// That array, with a hold; null: nonsense. Throws std::bad_alloc.
  placed_block* receive(const spec::reference& came);
  /// Nothing lives in that segment any more: the worker may let it go.
  void segment_gone(std::uint64_t segment, int socket);
  /// Sends an order, at once or with the next flush, in their order. `file` stays the caller's.
  void say(const worker_order& order, int file, int socket, std::string_view text = {});
  /// Sends what had no room in the socket.
  void flush(int socket) noexcept;
  /// All of it, when the worker is gone.
  std::vector<lent_array> leave() noexcept;

 private:
  struct late_order {
    worker_order order;
    store::descriptor file;
    std::string text;
  };
  placed_block* adopt(lent_array& room, const spec::reference& came);

  const std::uint64_t worker_;
  std::unordered_map<base::id, lent_array, array_names::hash> by_id_;
  std::unordered_set<std::uint64_t> given_;                                             // segments
  std::unordered_map<std::uint64_t, std::shared_ptr<const store::segment_view>> came_;  // likewise
  std::deque<late_order> late_;
};

}  // namespace manta::inline v0::node
