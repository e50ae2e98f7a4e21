// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

// What lies on the heap of arrays that this process's store had no room for. How much may:
// own/room_limits.hpp.
// Threads: any.

namespace manta::inline v0::node {

/// Bytes of some, as long as they are here. They count from before their memory is taken.
class beside_store {
 public:
  beside_store() = default;
  /// Whatever there is already: came with a message.
  explicit beside_store(std::uint64_t bytes) noexcept : bytes_(bytes) {
    all_.fetch_add(bytes, std::memory_order_relaxed);
  }
  /// Of what is fetched: one array, or all that one reader wants. Nothing: they would be more than
  /// `most` with the others, which are there or of messages; where none is there that was fetched,
  /// than the machine has `available`, too.
  static std::optional<beside_store> take(std::uint64_t bytes, std::uint64_t most,
                                          std::int64_t (*available)() = machine_memory) noexcept;
  beside_store(beside_store&& other) noexcept
      : bytes_(std::exchange(other.bytes_, 0)), is_fetched_(other.is_fetched_) {}
  beside_store& operator=(beside_store&&) = delete;
  /// So many of them, which there are, for one of several arrays.
  beside_store split(std::uint64_t bytes) noexcept {
    beside_store out;
    bytes_ -= bytes;
    out.bytes_ = bytes;
    out.is_fetched_ = is_fetched_;
    return out;
  }
  std::uint64_t bytes() const noexcept { return bytes_; }
  ~beside_store() {
    if (bytes_ == 0) return;  // each small array ends here
    all_.fetch_sub(bytes_, std::memory_order_relaxed);
    if (is_fetched_) fetched_.fetch_sub(bytes_, std::memory_order_relaxed);
  }

 private:
  static std::int64_t machine_memory() noexcept;
  static inline std::atomic<std::uint64_t> all_{0};
  static inline std::atomic<std::uint64_t> fetched_{0};  // of them
  std::uint64_t bytes_ = 0;
  bool is_fetched_ = false;
};

}  // namespace manta::inline v0::node
