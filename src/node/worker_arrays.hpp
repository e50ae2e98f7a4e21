// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <manta/node/array_block.hpp>
#include <manta/spec/config.hpp>

#include "base/id_hash.hpp"
#include "node/array_names.hpp"
#include "node/order_line.hpp"
#include "store/segment.hpp"
#include "wire/worker_line.hpp"

// Arrays in an isolated worker; the node's side, and what is said between them: lent_arrays.hpp.
//
// What comes is read where it lies: the segment is mapped read-only, once, and stays mapped until
// the node says that nothing lives there any more. What is made here has a segment of its own each,
// for which the node is asked before, unless one that was used before is free again: those are kept
// mapped, and their names come back on a shelf (wire/segment_shelf.hpp). What is smaller than
// 64 KiB lies on the heap, and goes with messages as bytes, so that small arrays cost no
// descriptor.
//
// Threads: any. The lock is held for no call of others.

namespace manta::inline v0::node {

class worker_arrays {
 public:
  /// Smaller arrays that are made here travel as bytes.
  static constexpr std::uint64_t least_shared = std::uint64_t{64} << 10U;

  /// That of this process; null: it is no worker.
  static worker_arrays* here() noexcept;

  /// The way to the node.
  struct way {
    int socket = -1;
    std::uint64_t worker = 0;
    wire::worker_page* page = nullptr;  // `makes_actors` is set before the first array is made
    void* to = nullptr;
    /// Tells it that n handles are gone.
    void (*give_back)(void* to, const base::id& id, std::uint32_t n) noexcept = nullptr;
    /// Wakes who looks at the page there.
    void (*wake)(void* to) noexcept = nullptr;
  };
  worker_arrays(const way& node, const config& settings);

  /// By the thread that listens. False: the order is not about arrays.
  bool obey(came_order& came);

  /// Throws store_full, std::bad_alloc.
  std::unique_ptr<array_making> make(std::uint64_t bytes);
  /// In a segment, when there is room at once; null: there is none. Throws the same.
  std::unique_ptr<array_making> try_make(std::uint64_t bytes);
  /// Throws decode_failed, store_full, std::bad_alloc.
  array_block* borrow(const spec::reference& came);

 private:
  class block;
  class view_block;
  class own_block;
  class own_making;
  struct answer {
    bool is_there = false;
    std::uint64_t segment = 0;  // 0: there is no room
    std::string why;
  };
  /// Made here.
  struct own_segment {
    std::uint64_t name = 0;
    store::segment of;
    bool has_file = false;  // the node has its descriptor
  };
  std::unique_ptr<array_making> make_in(std::uint64_t segment, std::uint64_t bytes);
  std::unique_ptr<array_making> make_again(std::uint64_t bytes);
  base::id id_of(const own_segment& one) const noexcept;
  void put_away(own_segment one, std::uint32_t n, bool is_sent) noexcept;
  std::optional<own_segment> keep(own_segment one) noexcept;
  std::optional<own_segment> take_idle(std::uint64_t bytes) noexcept;
  std::optional<own_segment> remove_idle(std::uint64_t name) noexcept;
  void refuse(std::uint64_t name) noexcept;
  void drop_unknown() noexcept;
  std::uint64_t ask_room(std::uint64_t bytes);
  answer ask_once(std::uint64_t bytes);
  std::shared_ptr<const store::segment_view> view_of(std::uint64_t segment);
  block* find(const base::id& id);
  void remember(block* one) noexcept;
  void forget(block* one) noexcept;

  const way node_;
  const int wait_ms_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const store::segment_view>> views_;
  std::unordered_map<base::id, block*, base::id_hash> by_id_;  // no holds
  std::unordered_map<std::uint64_t, answer> asked_;            // by request
  std::uint64_t last_request_ = 0;
  // Made here, and no handle here is left; oldest first. Who has taken the name from the shelf has
  // the memory.
  std::vector<own_segment> idle_;
};

}  // namespace manta::inline v0::node
