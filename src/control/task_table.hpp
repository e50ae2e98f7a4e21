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

// Task records with their lineage: how to run again what an owner's objects came from.
//
// Problem. A record is needed for as long as anything lives that could be lost and made again with
// it: its own result, or that of a descendant, since a child that is lost may be found only by
// running the parent. There are millions, most live for milliseconds, and a record written alone
// costs microseconds.
//
// Idea. The table knows of each record its parent and how many of its children are here. One that
// is released (nobody needs its own result) goes with the last child, and then maybe its parent,
// and so on. Records are written many in one value; a value goes when all in it are over, and when
// only a quarter of its bytes lives it is worth moving that elsewhere. What came and went between
// two writes is never written. Who adds a record gets a ticket for it and looks it up by its id
// elsewhere, so that nothing is hashed here.
//
//     add(a) add(b, child of a) write()      task/<owner>/0 = a b
//     release(a)                             a stays: b could need it
//     release(b) write()                     b goes, then a; the value is deleted
//
// Invariants. A record with a living descendant is here. What lies in the store is at most four
// times what lives, once sparse() has nothing more. Records and their bytes are
// within `most_bytes`: what does not fit is refused, and its maker says that what it made can't be
// made again.
//
// Pure: what is decided is in the batches of write(), to be committed in their order; one that
// can't be is committed again, before those that come after it. About 50 bytes of memory for each
// record that lives, kept for the next ones when it is over, and what is not written yet.
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

  using ticket = task_ticket;

  explicit task_table(const owner_id& owner, std::size_t most_bytes = std::size_t{1} << 30U);

  /// A record whose result is needed; `parent` is the ticket of row.parent, if that is here.
  /// store_full: beyond most_bytes, or larger than 8 MiB. invalid_argument: without an id.
  result<ticket> add(task_row row, ticket parent = {});
  /// Its own result is needed again: it is run once more.
  void need(ticket of);
  /// Nobody needs the result of this one itself.
  void release(ticket of);
  bool contains(ticket of) const noexcept;

  /// What has changed since the last call, as batches of 32 MiB at most.
  std::vector<batch> write();

  /// A value that is mostly over: read its key, and give what is there to move(). None: the store
  /// has no more than four times what lives. Each is named once. Read when what write() gave before
  /// is answered, or the value may not be there yet.
  struct sparse_value {
    std::uint64_t number = 0;
    std::string key;
  };
  std::optional<sparse_value> sparse();
  /// Moves what lives in a value. decode_failed: it is not what was written; it stays as it is.
  result<void> move(const sparse_value& from, std::string_view bytes);

  std::size_t size() const noexcept { return entries_.size() - free_.size(); }
  std::size_t bytes() const noexcept { return bytes_; }
  /// How many were not taken for want of room.
  std::uint64_t refused() const noexcept { return refused_; }

 private:
  static constexpr std::uint32_t none = 0xffffffffU;

  struct entry {
    std::uint64_t value = 0;      // number of the value it is in
    std::uint32_t parent = none;  // slot; a parent is here while a child is
    std::uint32_t children = 0;
    std::uint32_t bytes = 0;  // of the recipe
    std::uint32_t turn = 0;   // how many had this slot before
    std::uint32_t mark = 0;   // some of its id
    std::uint16_t at = 0;     // its place in the value
    bool is_released = false;
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
  std::deque<draft> drafts_;  // not written yet
  std::vector<std::uint64_t> over_;
  std::deque<std::uint64_t> sparse_;
};

/// The records of a value. decode_failed.
result<std::vector<task_row>> read_tasks(std::string_view key, std::string_view bytes);
/// All records of an owner, also some that are over; one that was being moved when its writer died
/// is there twice. Waits.
result<std::vector<task_row>> read_tasks(store& in, const owner_id& owner);

}  // namespace manta::inline v0::control
