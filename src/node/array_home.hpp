// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <manta/node/array_block.hpp>
#include <manta/spec/config.hpp>

#include "node/array_names.hpp"
#include "store/object_store.hpp"

// The arrays of this process, in its own store.
//
// The store is made when the first array is, with the settings of the runtime of that moment; a
// block keeps the store it is in, so that arrays outlive the runtime. A block pins its object as
// long as it is held: what has a handle stays in memory and where it is, and is never spilled.
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
  /// Segments in which nothing lives any more since it was asked last, by their keys; with isolated
  /// workers.
  std::vector<std::uint64_t> take_gone();

 private:
  void note_gone(std::uint64_t key) noexcept;

  mutable std::mutex mutex_;
  bool is_open_ = false;
  store::object_store::settings settings_;
  stored store_;
  std::uint64_t last_epoch_ = 0;
  bool has_workers_ = false;
  std::mutex gone_mutex_;  // taken with a store's lock held
  std::vector<std::uint64_t> gone_;
};

/// An array that a worker has made in a segment of its own, and the node has admitted: an object of
/// the store, with a hold, and known by that id. Null: there is no such room. Throws
/// std::bad_alloc.
placed_block* adopt_block(const std::shared_ptr<store::object_store>& in, store::segment_id segment,
                          const spec::array_place& place, store::holder by,
                          std::shared_ptr<const store::segment_view> view, const base::id& id);

/// Room in the store when there is some soon, and lately was; null: there is none. Throws
/// std::bad_alloc.
std::unique_ptr<array_making> try_make_array_room(std::uint64_t bytes);

/// A block on the heap, which goes with messages as bytes.
std::unique_ptr<array_making> make_on_heap(std::uint64_t bytes);

}  // namespace manta::inline v0::node
