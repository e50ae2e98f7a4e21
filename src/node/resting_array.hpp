// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <manta/node/array_block.hpp>

#include "node/array_home.hpp"
#include "node/array_names.hpp"
#include "store/object_store.hpp"

// An array of the node's store, whether it is read or not.
//
//   handles of values that are read --> stored_block (pins the object) --hold--> resting_array
//   handles of values at rest ------------------------------------------hold--> resting_array
//
// With the last hold of the resting array the object is erased. There is at most one stored block
// that counts for it at a time; it comes and goes with its readers, and may lie somewhere else each
// time.
// Threads: any.

namespace manta::inline v0::node {

class stored_block;

class resting_array final : public array_block {
 public:
  resting_array(array_home::stored in, store::object_id id, std::uint64_t size) noexcept
      : array_block({}), in_(std::move(in)), id_(id), size_(size) {}
  bool is_at_rest() const noexcept override { return true; }
  array_block* at_rest() noexcept override { return nullptr; }

  const array_home::stored& home() const noexcept { return in_; }
  store::object_id id() const noexcept { return id_; }
  std::uint64_t size() const noexcept { return size_; }

  /// A block that pins it, made of what the store gave, with a hold; or the one that does already.
  /// Throws std::bad_alloc.
  stored_block* pinned(store::reading reads);
  /// The one that does already, with a hold; null: there is none.
  stored_block* if_pinned();
  /// By a block that ends.
  void left(const stored_block* block) noexcept;
  /// The disk has lost it: whoever asks again hears why.
  void note_lost(const error& why) noexcept;
  std::optional<error> lost() const;
  /// What all nodes call another node's array that this is a copy of; zero: it is none. Written
  /// under far_copies' mutex, by who has a hold.
  const base::id& named() const noexcept { return named_; }
  void note_named(const base::id& as) noexcept { named_ = as; }

 private:
  void end() noexcept override;

  base::id named_ = {};
  const array_home::stored in_;
  const store::object_id id_;
  const std::uint64_t size_;
  mutable std::mutex mutex_;
  stored_block* now_ = nullptr;  // no hold
  std::optional<error> lost_;
};

/// An object of this process's store, pinned.
class stored_block final : public placed_block {
 public:
  /// Takes a hold of `of`.
  stored_block(resting_array* of, store::object_store::located at, store::reading reads) noexcept;

  void name(spec::reference& to) override;
  spec::array_place place() const noexcept override { return place_; }
  int file() const noexcept override {
    return segment_ != nullptr ? segment_->file().number() : view_->file().number();
  }
  stored_object object() const noexcept override { return {of_->home().in, of_->id()}; }
  // Which store of this process, and which of its objects.
  std::uint64_t contents() const noexcept override {
    return (place_.segment >> 32U) << 40U | of_->id();
  }
  bool is_read_in(std::uint64_t node) const noexcept override;
  bool may_stay(std::uint64_t node) const noexcept override;
  array_block* at_rest() noexcept override {
    of_->hold();
    return of_;
  }

 private:
  void end() noexcept override;

  resting_array* const of_;
  std::shared_ptr<const store::segment> segment_;
  std::shared_ptr<const store::segment_view> view_;
  const spec::array_place place_;
  store::reading reads_;
};

/// A new object, which `reads` pins: its block, with a hold. Throws std::bad_alloc; the object is
/// erased then.
stored_block* make_stored_block(const array_home::stored& in, store::reading reads,
                                std::uint64_t size);

/// Pinned blocks for these, in their order, each with a hold; of one store. `waits`: for room and
/// the disk; else nothing where that would be needed. Throws store_full, object_lost,
/// std::bad_alloc.
std::optional<std::vector<array_block*>> wake_arrays(const std::vector<resting_array*>& all,
                                                     bool waits);

}  // namespace manta::inline v0::node
