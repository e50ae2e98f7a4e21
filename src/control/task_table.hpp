// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>

#include "control/cluster_rows.hpp"
#include "control/store.hpp"

// Task records as a store has them: how to run again what an owner's objects came from.
//
// Problem. There are millions, most live for milliseconds, and a record written alone costs
// microseconds.
//
// Idea. Records are written many in one value. A value goes when all in it are over, and when half
// of its bytes are it is worth writing it again, under its own key, with what lives: so nothing
// depends on another value's being there. What came and went between two writes is never written.
// Who adds a record gets a ticket for it and looks it up by its id elsewhere, so that nothing is
// hashed here; and keeps what it has added, so that nothing is read.
//
//     add(a) add(b) write()         task/<owner>/0 = a b
//     remove(a) sparse() rewrite()  task/<owner>/0 = b
//     remove(b) write()             the value is deleted
//
// Invariants. What lies in the store is at most twice what lives, once sparse() has nothing more.
// Records and their bytes are within `most_bytes`: what does not fit is refused, and its maker says
// that what it made can't be made again. Which records live for their descendants says
// own/units.hpp.
//
// Pure: what is decided is in the batches of write(), to be committed in their order. About 30
// bytes of memory for each record that lives, kept for the next ones when it is over, and what is
// not written yet.
//
// Threads: one at a time.

namespace manta::inline v0::control {

struct task_row {
  base::id id;
  base::id parent;     ///< the nearest ancestor with a record; zero: none has
  std::string recipe;  ///< how it is run: an encoded message
};

/// Names a record that is in a table, or was; one that is made by default names none.
class task_ticket {
  friend class task_table;
  std::uint32_t slot = 0xffffffffU;
  std::uint32_t turn = 0;
};

class task_table {
 public:
  static constexpr std::size_t rows_in_a_value = 256;
  static constexpr std::size_t bytes_of_a_value = std::size_t{256} << 10U;
  static constexpr std::size_t bytes_of_a_row = 100;  ///< beside its recipe
  /// What goes again, when it could not be committed.
  static constexpr std::size_t bytes_of_a_batch = std::size_t{4} << 20U;

  using ticket = task_ticket;

  explicit task_table(const owner_id& owner, std::size_t most_bytes = std::size_t{1} << 30U);

  /// A record that is needed. store_full: beyond most_bytes, or larger than 8 MiB.
  /// invalid_argument: without an id.
  /// `known_as`: its maker's number for it, for sparse_value.
  result<ticket> add(task_row row, std::uint32_t known_as = 0);
  /// It is over.
  void remove(ticket of);
  bool contains(ticket of) const noexcept;

  /// What has changed since the last call, as batches of bytes_of_a_batch, or of one change that is
  /// more.
  std::vector<batch> write();

  /// A value half of which is over, and what lives there: to be given to rewrite(). None: the store
  /// has at most twice what lives. Each is named once.
  struct sparse_value {
    std::uint64_t number = 0;
    std::vector<ticket> rows;
    std::vector<std::uint32_t> known_as;  ///< the same
  };
  std::optional<sparse_value> sparse();
  /// The same records as they were added, in that order; those that are over, and about to be
  /// removed, without an id.
  void rewrite(const sparse_value& what, std::vector<task_row> rows);

  std::size_t size() const noexcept { return entries_.size() - free_.size(); }
  std::size_t bytes() const noexcept { return bytes_; }
  /// What the store has when all that was written is committed.
  std::size_t stored_bytes() const noexcept { return stored_; }
  /// How many were not taken for want of room.
  std::uint64_t refused() const noexcept { return refused_; }

 private:
  static constexpr std::uint32_t none = 0xffffffffU;
  static constexpr std::uint16_t nowhere = 0xffffU;

  struct entry {
    std::uint64_t value = 0;  // number of the value it is in
    std::uint32_t bytes = 0;  // of the recipe
    std::uint32_t turn = 0;   // how many had this slot before
    std::uint32_t known_as = 0;
    std::uint16_t at = nowhere;  // its place in the value
  };
  struct value {
    std::vector<std::uint32_t> slots;  // of its rows; none: it is over
    std::uint32_t live = 0;            // rows
    bool is_written = false;
    bool is_sparse = false;
    std::size_t live_bytes = 0;  // with bytes_of_a_row
    std::size_t bytes = 0;       // as it was written
  };
  // A value that is being filled; rows that are over have no id.
  struct draft {
    std::uint64_t number = 0;
    std::size_t bytes = 0;
    std::vector<task_row> rows;
  };

  std::string key(std::uint64_t number) const;
  std::uint32_t take_slot();
  void place(task_row row, std::uint32_t slot);
  void drop(const entry& of);
  void empty(draft& one, value& in);
  void settle(draft& one);

  std::string prefix_;
  std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  std::size_t stored_ = 0;  // bytes of all that is written
  std::uint64_t refused_ = 0;
  std::uint64_t next_ = 0;
  std::vector<entry> entries_;
  std::vector<std::uint32_t> free_;  // slots
  std::unordered_map<std::uint64_t, value> values_;
  std::deque<draft> drafts_;       // not written yet
  std::vector<change> rewritten_;  // the same
  std::vector<std::uint64_t> over_;
  std::deque<std::uint64_t> sparse_;
};

/// The records of a value. decode_failed.
result<std::vector<task_row>> read_tasks(std::string_view key, std::string_view bytes);
/// All records of an owner, also some that are over. Waits.
result<std::vector<task_row>> read_tasks(store& in, const owner_id& owner);

}  // namespace manta::inline v0::control
