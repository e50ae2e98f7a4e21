// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/node/array_block.hpp>
#include <manta/spec/parcel.hpp>

#include "base/id_hash.hpp"
#include "store/object_store.hpp"

// Which array an id means in this process; see lent_arrays.hpp for who counts what.
//
//   made by the node:    { mark,          a number of this process }
//   made by a worker w:  { mark | w,      the segment it has got for it }
//
// The mark tells them from the ids of actors, with which they share messages.
// Threads: any. A lock of its own, under which nothing of others is called.

namespace manta::inline v0::node {

constexpr std::uint64_t array_mark = std::uint64_t{1} << 63U;

constexpr bool is_array(const base::id& id) noexcept { return (id.high & array_mark) != 0; }

/// An object of this process's store; null: it is none.
struct stored_object {
  std::shared_ptr<store::object_store> in;
  store::object_id id = 0;
};

/// A block in a segment, so that it can be named to other processes.
class placed_block : public array_block {
 public:
  /// What others are told of it: fills in `what` and `place`. Throws what it has to.
  virtual void name(spec::reference& to) = 0;
  virtual spec::array_place place() const noexcept = 0;
  /// The descriptor of its segment, which is the block's.
  virtual int file() const noexcept = 0;
  virtual stored_object object() const noexcept { return {}; }
  /// What its maker calls its bytes, and never others; 0: they have no such number.
  virtual std::uint64_t contents() const noexcept { return 0; }

 protected:
  using array_block::array_block;
  ~placed_block() override = default;

 private:
  friend class array_names;
  base::id id_{};  // under array_names' lock; zero: it has none
};

/// The arrays that came with a message from a worker, in this thread, held until this ends.
class array_tray {
 public:
  array_tray() noexcept;
  ~array_tray();
  array_tray(const array_tray&) = delete;
  array_tray& operator=(const array_tray&) = delete;

  /// So that the next put() can't fail.
  void reserve_one() { all_.reserve(all_.size() + 1); }
  /// Takes a hold over.
  void put(const base::id& id, placed_block* block) { all_.emplace_back(id, block); }
  /// One of those, with a hold for the caller; null: there is none.
  static placed_block* find(const base::id& id) noexcept;

 private:
  std::vector<std::pair<base::id, placed_block*>> all_;
  array_tray* outer_;
};

class array_names {
 public:
  static array_names& global();

  /// The id of a block, drawn when it has none yet.
  base::id name(placed_block* block);
  /// Gives it one. Null; or the block that has that already, with a hold.
  placed_block* set(placed_block* block, const base::id& id);
  /// The block of that id, with a hold; null: there is none any more.
  placed_block* find(const base::id& id);
  /// By a block that nobody holds any more.
  void forget(placed_block* block) noexcept;

 private:
  std::mutex mutex_;
  std::unordered_map<base::id, placed_block*, base::id_hash> by_id_;  // no holds
  std::uint64_t last_ = 0;
};

}  // namespace manta::inline v0::node
