// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include <manta/node/array_block.hpp>
#include <manta/spec/config.hpp>

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

  /// Of the runtime that runs. Throws no_runtime, invalid_config.
  std::shared_ptr<store::object_store> store();
  /// Null as long as no array was made.
  std::shared_ptr<store::object_store> store_if_made() const;
  /// Bytes that the store may have.
  std::uint64_t limit_bytes() const;

 private:
  mutable std::mutex mutex_;
  bool is_open_ = false;
  store::object_store::settings settings_;
  std::shared_ptr<store::object_store> store_;
};

/// A block on the heap, which goes with messages as bytes.
std::unique_ptr<array_making> make_on_heap(std::uint64_t bytes);

}  // namespace manta::inline v0::node
