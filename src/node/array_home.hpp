// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/node/array_block.hpp>
#include <manta/spec/config.hpp>

#include "node/array_names.hpp"
#include "own/room_limits.hpp"
#include "store/object_store.hpp"
#include "wire/segment_shelf.hpp"

// The arrays of this process, in its own store.
//
// The store is made when the first array is, with the settings of the runtime of that moment; a
// block keeps the store it is in, so that arrays outlive the runtime. A block pins its object as
// long as it is held: what has a handle stays in memory and where it is. Values that nobody reads
// have stand-ins instead of handles (node/rest.hpp), so that their arrays can be spilled.
//
// Threads: any, between open and close.

namespace manta::inline v0::node {

class array_home {
 public:
  static array_home& global();

  void open(const config& settings);
  /// The store goes with its last array.
  void close() noexcept;

  /// The store, and what others call its segments: numbers of different stores differ.
  struct stored {
    std::shared_ptr<store::object_store> in;
    std::uint64_t epoch = 0;
    std::uint64_t key_of(store::segment_id segment) const noexcept {
      return epoch << 32U | segment;
    }
  };
  /// Of the runtime that runs. Throws no_runtime, invalid_config.
  stored store();
  /// Null as long as no array was made.
  std::shared_ptr<store::object_store> store_if_made() const;
  /// Bytes that the store may have.
  std::uint64_t limit_bytes() const;
  /// Segments in which nothing lives any more since it was asked last, by their keys, if there are
  /// isolated workers.
  std::vector<std::uint64_t> take_gone();
  /// A segment of another node's, which is such a one from now on.
  void forget_segment(std::uint64_t key) noexcept { note_gone(key); }

  /// Where a worker and the store leave that worker's segments for each other. It is taken away
  /// before it ends.
  void add_shelf(store::holder worker, wire::segment_shelf& shelf);
  void remove_shelf(const wire::segment_shelf& shelf) noexcept;
  /// What workers have not used for a while goes. To be called now and then; by one thread.
  void tidy_shelves(base::time_point now);
  /// How long who makes an array waits for room.
  duration store_wait() const;
  /// Whether what rests may go to the disk.
  bool has_disk() const;

 private:
  using idle_segments = std::vector<std::pair<store::segment_id, store::holder>>;
  struct worker_shelf {
    store::holder worker = 0;
    wire::segment_shelf* on = nullptr;
    std::uint32_t uses = 0;  // when it was tidied last
  };
  void note_gone(std::uint64_t key) noexcept;
  bool offer(std::uint64_t key, store::holder worker) noexcept;
  idle_segments take_back(std::uint64_t epoch);
  static void take_all(const worker_shelf& from, std::uint64_t epoch, idle_segments& into);

  mutable std::mutex mutex_;
  bool is_open_ = false;
  store::object_store::settings settings_;
  bool has_own_quota_folder_ = false;  // the user named it
  stored store_;
  std::uint64_t last_epoch_ = 0;
  std::mutex gone_mutex_;  // of what follows; taken with a store's lock held
  std::vector<std::uint64_t> gone_;
  std::vector<worker_shelf> shelves_;
  base::time_point next_tidy_{};
};

/// An array that a worker has made in a segment of its own, and the node has admitted: an object of
/// the store, with a hold, and known by that id. Null: there is no such room. Throws
/// std::bad_alloc.
placed_block* adopt_block(const std::shared_ptr<store::object_store>& in, store::segment_id segment,
                          const spec::array_place& place, store::holder by,
                          std::shared_ptr<const store::segment_view> view, const base::id& id);

/// Bytes of arrays that had stayed in other nodes and were fetched from there, so far.
std::uint64_t fetched_array_bytes() noexcept;
/// Bytes of arrays that others have fetched from here over connections of their own, so far.
std::uint64_t sent_array_bytes() noexcept;

/// As make_array_room, for what is on its way already: also while the runtime ends.
std::unique_ptr<array_making> wait_for_array_room(std::uint64_t bytes);

class beside_store;
/// Where an array may come that somebody is about to read.
struct read_room {
  /// Who has no other way stands in the store's line until then.
  base::time_point line_end{};
  /// Only the store is asked, if there is one.
  bool is_for_store = false;
  /// Room beside it that its reader has for this one and others: what is not in there has none.
  /// Null: it is asked for.
  beside_store* kept = nullptr;
};
/// In the store or, as much as own/room_limits.hpp says, beside it. Waits longer than it is told
/// while the machine has no memory for a segment that the store may have. Throws store_full,
/// std::bad_alloc.
std::unique_ptr<array_making> make_read_array(std::uint64_t bytes, const read_room& in);
/// One of another node that nobody reads yet: in the store, as that is now. Throws as that.
std::unique_ptr<array_making> make_taken_array(std::uint64_t bytes);

/// Room in the store when there is some soon, or within less, and lately was; null: there is none.
/// Throws std::bad_alloc.
std::unique_ptr<array_making> try_make_array_room(std::uint64_t bytes,
                                                  duration within = own::room_wait::soon);

/// A block on the heap, which goes with messages as bytes.
std::unique_ptr<array_making> make_on_heap(std::uint64_t bytes);

}  // namespace manta::inline v0::node
