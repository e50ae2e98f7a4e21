// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/spec/parcel.hpp>

// The bytes of arrays (manta/array.hpp), without their types.
//
// A block is written by one, then sealed, and from then on held by counting: in this process by
// array handles, values and messages under way. Where its bytes are, in a segment of this
// process's store, in another process's, or on the heap, is the business of src/node.
//
// Threads: any, for a block; one, for what is being made.

namespace manta::inline v0::node {

/// Smaller arrays go with a message to another node as bytes; larger ones may stay where they are
/// until they are read there.
inline constexpr std::size_t least_staying = std::size_t{1} << 20U;

/// Bytes that nobody changes any more. They stay where they are until the last hold goes.
class MANTA_API array_block {
 public:
  array_block(const array_block&) = delete;
  array_block& operator=(const array_block&) = delete;

  std::span<const std::byte> bytes() const noexcept {
    return {data_.load(std::memory_order_relaxed), size_};
  }
  void hold() noexcept { holds_.fetch_add(1, std::memory_order_relaxed); }
  /// False: the last hold has gone.
  bool try_hold() noexcept;
  void drop() noexcept {
    // Release: what this holder did with it comes before its end; acquire: for who ends it.
    if (holds_.fetch_sub(1, std::memory_order_acq_rel) == 1) end();
  }
  /// Whether it goes as bytes, and not as a reference, with a message to a process of this node.
  virtual bool is_copied() const noexcept { return false; }
  /// Whether that other node reads it in place, and gets a reference instead of bytes.
  virtual bool is_read_in(std::uint64_t /*node*/) const noexcept { return false; }
  /// Whether it may stay here, and that node gets its name, where its reader there can wait for it.
  virtual bool may_stay(std::uint64_t /*node*/) const noexcept { return false; }
  /// Whether its bytes are in another node still, so far as who reads it in `reader` can tell
  /// (node/rest.hpp). Then bytes() says how many there are, and not where.
  virtual bool is_away(std::uint64_t /*reader*/) const noexcept { return false; }
  /// What stands for it in a value that nobody reads, with a hold: that has no bytes, and keeps
  /// them from being lost but not in memory (node/rest.hpp). Null: there is none, it stays in
  /// memory.
  virtual array_block* at_rest() noexcept { return nullptr; }
  /// Whether it is such a stand-in.
  virtual bool is_at_rest() const noexcept { return false; }

 protected:
  /// With one hold.
  explicit array_block(std::span<const std::byte> bytes) noexcept
      : data_(bytes.data()), size_(bytes.size()) {}
  virtual ~array_block();
  /// Of one whose bytes have come.
  void lies_at(const std::byte* data) noexcept { data_.store(data, std::memory_order_relaxed); }
  /// Nobody holds it any more: deletes it.
  virtual void end() noexcept = 0;

 private:
  std::atomic<std::uint64_t> holds_{1};
  std::atomic<const std::byte*> data_;  // others may ask for the size while it comes
  const std::size_t size_;
};

/// Room for a block, which is given back when this goes unsealed.
class MANTA_API array_making {
 public:
  array_making(const array_making&) = delete;
  array_making& operator=(const array_making&) = delete;
  virtual ~array_making();
  /// Begins at a multiple of 64; of any content.
  std::span<std::byte> bytes() const noexcept { return bytes_; }
  /// The block, with one hold. Once. Throws object_lost, std::bad_alloc.
  virtual array_block* seal() = 0;

 protected:
  explicit array_making(std::span<std::byte> bytes) noexcept : bytes_(bytes) {}

 private:
  std::span<std::byte> bytes_;
};

/// Room for `bytes` bytes, 1 or more. Throws no_runtime, store_full, std::bad_alloc.
MANTA_API std::unique_ptr<array_making> make_array_room(std::uint64_t bytes);

/// Copies as many bytes as `to` has, quickly when they are many.
MANTA_API void fill_array(std::span<std::byte> to, const std::byte* from) noexcept;

/// Room for a block that came as bytes: in the store when it is large and there is room within 50
/// ms, else on the heap. Throws std::bad_alloc.
MANTA_API std::unique_ptr<array_making> make_array_copy(std::uint64_t bytes);

/// The block that came as a reference from another process, with a hold. Null: this process can't
/// know it. Throws std::bad_alloc, decode_failed, store_full, node_lost.
MANTA_API array_block* borrow_array(const spec::reference& came);

/// Has the bytes of all of these here that are in other nodes; waits until that time. False: some
/// are still to come then, and do. What has no room is waited for, too, up to
/// config::store_wait_ms. Throws node_lost, object_lost, store_full, cancelled (the runtime ends),
/// std::bad_alloc.
MANTA_API bool fetch_arrays(std::span<array_block* const> all, const base::deadline& until = {});
/// Throws object_lost: one that is to be written as bytes is not here.
[[noreturn]] MANTA_API void raise_array_away();

}  // namespace manta::inline v0::node
