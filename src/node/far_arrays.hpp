// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/node/array_block.hpp>
#include <manta/spec/parcel.hpp>

#include "base/id_hash.hpp"
#include "node/array_names.hpp"
#include "node/far_handles.hpp"
#include "node/neighbour.hpp"
#include "node/workbench.hpp"
#include "spec/cluster.hpp"

// Arrays that nodes of one machine read where they lie.
//
// Problem. An array goes to another node as a copy (decisions/0035), also where both could read the
// same memory. A reader that was given up may live on, and must never see something else there.
//
// Idea. A large array goes as a handle of its own: the descriptor of its segment in its owner's
// process, and the place in it. far_handles counts who has it, as with actors and futures; the
// owner holds the block as long as others count. The reader maps the segment once, below /proc
// (neighbour.hpp), and keeps a view block for each array.
//
//   owner: stored_block <-- lent {id} ~~~ message ~~~> view_block --> mapped_segment :reader
//          <------------------- released, when the last handle went ----
//
// What is lent is pinned in the owner's memory, so half of its store is the most that is mapped,
// but for what one message has together: what is more goes as a copy. What is fetched elsewhere
// (far_pulls.hpp) stays whatever else is lent; who has it takes it while that is more than half.
// Who has mapped a segment reads all of it whatever becomes of its owner. A reader that is given up
// may live, and may be handed more by others who have not heard: until its process has exited,
// nothing of what others had then, or were given since, is let go.
//
// A view may outlive its runtime, and the next one's nodes have the same numbers: it has that of
// its runtime, and is an array of this process alone in the next.
//
// Threads: as said at each. The mutex is taken before far_handles', never with it held.

namespace manta::inline v0::node {

class stored_block;

class far_arrays {
 public:
  static far_arrays& global();
  /// Smaller ones go as bytes: counting would cost more than the copy.
  static constexpr std::uint64_t least_lent = std::uint64_t{64} << 10U;

  /// Whether this process maps what others have, and lends. Answers what it says of its machine.
  std::uint64_t open(bool maps) noexcept;

  // The loop's thread.
  void begin();
  void joined(const spec::node_member& one) noexcept;
  /// It is no member any more.
  void gone(std::uint64_t node);

  // Any thread.
  /// Whether that node would read it in place, were it sent there.
  bool lends(const stored_block& block, std::uint64_t node) const noexcept;
  /// Whether what goes into a cell there stays here, and that node gets its name.
  bool keeps_for(std::uint64_t node) const noexcept;
  /// As lends, of a new one of that size.
  bool has_room(std::uint64_t bytes, std::uint64_t node) const noexcept;
  /// What all nodes call it; fills in its place. Until `on` is used for something else it is kept.
  /// Throws cancelled: the runtime ends. store_full, object_lost, std::bad_alloc.
  far_name name(workbench& on, placed_block& block, spec::reference& to);
  /// A message with these is about to be sent.
  void lends_out(std::span<const spec::reference> all) noexcept;
  /// The message that named it has been sent, or never will be.
  void named(const base::id& id) noexcept;
  /// Others have it no more.
  void freed(const base::id& id) noexcept;
  /// What others have of this node and could not read any more if it ended.
  struct stayed {
    std::size_t arrays = 0;
    std::uint64_t bytes = 0;
    std::set<std::uint64_t> in;  ///< who has them
  };
  stayed measure_stayed() const;
  /// Whether more than half of the store is lent.
  bool is_crowded() const noexcept;
  /// One of this node's that came back, with a hold; null: it is none.
  array_block* block_of(const base::id& id) noexcept;
  /// One of another node's that is mapped here, with a hold; null: it is not.
  array_block* view_named(const base::id& id) noexcept;
  /// One that came with the message which this thread reads, with a hold; null: none such did.
  /// Throws node_lost, decode_failed, store_full, cancelled, std::bad_alloc.
  array_block* borrow(const spec::reference& came);
  /// Lets go of what was held for processes that have exited by now. Cheap when there is none.
  void sweep() noexcept;
  bool keeps() const noexcept { return keeps_.load(std::memory_order_relaxed); }
  /// Nobody is lent anything from now on; before far_handles::close, whose counts go.
  void close() noexcept;

 private:
  class mapped_segment;
  class view_block;
  using neighbour_ptr = std::shared_ptr<const neighbour>;
  struct lent {
    placed_block* block = nullptr;
    std::uint32_t naming = 0;  // messages that are being written
    bool has_left = false;     // with one of them, at least
  };
  /// A member of this machine, also when it has ended.
  struct other {
    std::uint32_t pid = 0;
    neighbour_ptr is;  // null: it could not be opened, so far
  };
  /// Why a block of this node has a hold here.
  struct pin {
    base::id id = {};           // as which it is lent; none: it is not
    std::uint32_t reasons = 0;  // that it is lent, and each `kept` that has it
  };
  /// Blocks that these processes may still read.
  struct kept {
    std::vector<neighbour_ptr> by;
    std::unordered_set<placed_block*> blocks;
  };

  far_arrays() = default;
  bool may_lend(std::uint64_t bytes, std::uint64_t node, std::uint64_t most) const noexcept;
  bool lets_go(placed_block& of) noexcept;
  placed_block* end_if_unneeded(const base::id& id) noexcept;
  void keep_for(std::vector<neighbour_ptr> by);
  view_block* view_of(const spec::reference& came, const far_arrivals::one& from);
  std::shared_ptr<const mapped_segment> segment_of(std::uint64_t owner, std::uint64_t named);
  bool reaches(const view_block& block, std::uint64_t node) const noexcept;
  void left(const view_block& block) noexcept;

  std::uint64_t machine_ = 0;  // 0: neither maps nor lends
  mutable std::mutex mutex_;
  bool is_open_ = false;
  std::map<std::uint64_t, other> neighbours_;
  std::map<std::uint64_t, neighbour_ptr> living_;  // of these, members still: who may be lent to
  std::unordered_map<base::id, lent, base::id_hash> lent_;
  std::unordered_map<const array_block*, pin> pins_;
  std::atomic<std::uint64_t> pinned_bytes_{0};  // written under the mutex
  std::uint64_t last_ = 0;
  std::unordered_map<base::id, view_block*, base::id_hash> views_;  // no holds
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<const mapped_segment>> segments_;
  std::vector<kept> kept_;
  std::atomic<bool> keeps_{false};
};

}  // namespace manta::inline v0::node
