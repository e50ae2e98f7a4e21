// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
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

#include "node/array_names.hpp"
#include "node/order_line.hpp"
#include "store/segment.hpp"

// Arrays in an isolated worker; the node's side, and what is said between them: lent_arrays.hpp.
//
// What comes is read where it lies: the segment is mapped read-only, once, and stays mapped until
// the node says that nothing lives there any more. What is made here has a segment of its own each,
// for which the node is asked before; what is smaller than 64 KiB lies on the heap, and goes
// with messages as bytes, so that small arrays cost no descriptor.
//
// Threads: any. The lock is held for no call of others.

namespace manta::inline v0::node {

class worker_arrays {
 public:
  /// Smaller arrays that are made here travel as bytes.
  static constexpr std::uint64_t least_shared = std::uint64_t{64} << 10U;

  /// That of this process; null: it is no worker.
  static worker_arrays* here() noexcept;

  /// `give_back(to, id, n)` tells the node that n handles are gone. `is_making` is set before the
  /// first message that has an array which was made here.
  worker_arrays(int socket, std::uint64_t worker, const config& settings,
                void (*give_back)(void* to, const base::id& id, std::uint32_t n) noexcept, void* to,
                std::atomic<std::uint32_t>& is_making);

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
  std::unique_ptr<array_making> make_in(std::uint64_t segment, std::uint64_t bytes);
  std::uint64_t ask_room(std::uint64_t bytes);
  answer ask_once(std::uint64_t bytes);
  std::shared_ptr<const store::segment_view> view_of(std::uint64_t segment);
  block* find(const base::id& id);
  void remember(block* one) noexcept;
  void forget(block* one) noexcept;

  const int socket_;
  const std::uint64_t worker_;
  const int wait_ms_;
  void (*const give_back_)(void*, const base::id&, std::uint32_t) noexcept;
  void* const to_;
  std::atomic<std::uint32_t>& is_making_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const store::segment_view>> views_;
  std::unordered_map<base::id, block*, array_names::hash> by_id_;  // no holds
  std::unordered_map<std::uint64_t, answer> asked_;                // by request
  std::uint64_t last_request_ = 0;
};

}  // namespace manta::inline v0::node
