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

#include "base/id_hash.hpp"
#include "node/array_names.hpp"
#include "node/worker_order.hpp"
#include "store/object_store.hpp"
#include "store/segment.hpp"
#include "wire/segment_shelf.hpp"

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
// A segment whose maker has given it back, and in which nothing lives any more, is left on a shelf
// for its next array (wire/segment_shelf.hpp), whose message is then all that the node hears of it.
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
  bool is_kept = false;  // the worker may use what was granted again
  store::holder who = 0;
};

class lent_arrays {
 public:
  /// The shelf on the page that both see; null: nothing is used again.
  explicit lent_arrays(std::uint64_t worker, wire::segment_shelf* shelf = nullptr);
  ~lent_arrays();
  lent_arrays(const lent_arrays&) = delete;
  lent_arrays& operator=(const lent_arrays&) = delete;

  /// A message that goes to the worker has this array, which somebody holds meanwhile: one more.
  /// Throws std::bad_alloc; give_back() takes back what it did then, too.
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
  /// Nothing lives in that segment any more: the worker may let it go. What was mapped here for it
  /// is unmapped by the caller.
  std::shared_ptr<const store::segment_view> segment_gone(std::uint64_t segment, int socket);
  /// The worker took that segment from the shelf, and has no use for it.
  void let_go(std::uint64_t segment);
  /// Sends an order, at once or with the next flush, in their order. `file` stays the caller's.
  void say(const worker_order& order, int file, int socket, std::string_view text = {});
  /// Orders that had no room in the socket.
  std::size_t late_count() const noexcept { return late_.size(); }
  /// Sends them.
  void flush(int socket) noexcept;
  /// All of it, when the worker is gone.
  std::vector<lent_array> leave() noexcept;

 private:
  struct late_order {
    worker_order order;
    store::descriptor file;
    std::string text;
  };
  /// A segment that the worker made and has given back, and may use again.
  struct kept_segment {
    std::shared_ptr<store::object_store> in;
    store::segment_id number = 0;  // there
    std::uint64_t bytes = 0;
    std::shared_ptr<const store::segment_view> view;
  };
  placed_block* adopt(lent_array& room, const spec::reference& came);
  std::unordered_map<std::uint64_t, kept_segment>::iterator taken(const base::id& what);
  lent_array* find(const base::id& what);

  const std::uint64_t worker_;
  wire::segment_shelf* const shelf_;
  std::unordered_map<base::id, lent_array, base::id_hash> by_id_;
  std::unordered_set<std::uint64_t> given_;                                             // segments
  std::unordered_map<std::uint64_t, std::shared_ptr<const store::segment_view>> came_;  // likewise
  std::unordered_map<std::uint64_t, kept_segment> kept_;                                // likewise
  std::deque<late_order> late_;
};

}  // namespace manta::inline v0::node
