// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/spec/error.hpp>

#include "control/ask.hpp"
#include "control/rows.hpp"
#include "control/store.hpp"

// Tables of rows, each under a key of its own, and how they stay within bounds.
//
// Problem. Rows of what is over (nodes, actors, owners) are asked for afterwards: what became of
// it, is a late message from before its end? Kept for ever they fill any store.
//
// Idea. Whoever writes a table knows which keys it has: they are in memory, and no row has to be
// read for a decision. A row that has ended is kept for `keep_ended`. In a full table the row that
// ended first makes room for a new one; when all rows live, the new one is refused.
//
// Invariant: what is put leaves at most `most` rows, and none goes that lives. A row that has ended
// says when by its writer's clock.
//
// Pure: what is decided is added to a batch. When that batch can't be committed, the table is
// loaded again. About 150 bytes of memory for each row, 300 for one that has ended.
//
// Threads: one at a time.

namespace manta::inline v0::control {

struct table_limits {
  std::size_t most = 100'000;
  std::chrono::microseconds keep_ended = std::chrono::hours(24);
};

/// When a row's thing was over; none while it lives, and for rows that only live.
template <class Row>
std::optional<wall_time> end_of(const Row& row) {
  if constexpr (requires { row.ended; }) {
    return row.ended;
  } else {
    return std::nullopt;
  }
}

/// The rows whose keys begin with `prefix`, in the order of keys. Waits.
template <class Row>
result<std::vector<Row>> rows_with(store& in, std::string_view prefix) {
  const result<std::vector<record>> found = scan_all(in, std::string(prefix));
  if (!found) return found.error();
  std::vector<Row> rows;
  rows.reserve(found->size());
  for (const record& one : *found) {
    result<Row> row = read_row<Row>(one.key, one.value);
    if (!row) return row.error();
    rows.push_back(*std::move(row));
  }
  return rows;
}

template <class Row>
class table {
 public:
  explicit table(table_limits limits = {}) : limits_(limits) {}

  /// Forgets what it knew and learns which rows with this prefix the store has. Waits.
  result<void> load(store& in, std::string_view prefix) {
    const auto rows = rows_with<Row>(in, prefix);
    if (!rows) return rows.error();
    keys_.clear();
    ended_.clear();
    for (const Row& row : *rows) remember(key_of(row), end_of(row));
    return {};
  }

  /// Writes a row, new or not. store_full: the table is, with rows that live.
  result<void> put(batch& to, const Row& row) {
    const std::string key = key_of(row);
    while (!keys_.contains(key) && keys_.size() >= limits_.most) {
      if (ended_.empty()) {
        return error(errc::store_full, "control: no room for " + key + ": its table has " +
                                           std::to_string(limits_.most) +
                                           " rows, and all of them live");
      }
      erase(to, std::string(ended_.begin()->second));
      ++dropped_;
    }
    to.changes.push_back({change::kind::put, key, to_bytes(row)});
    remember(key, end_of(row));
    return {};
  }

  /// Takes a row away, if it is there.
  void erase(batch& to, const std::string& key) {
    if (forget(key)) to.changes.push_back({change::kind::del, key, {}});
  }

  /// Takes away what ended longer ago than `keep_ended`.
  void sweep(batch& to, wall_time now) {
    while (!ended_.empty() && now - ended_.begin()->first >= limits_.keep_ended) {
      erase(to, std::string(ended_.begin()->second));
    }
  }

  std::size_t size() const noexcept { return keys_.size(); }
  /// How many ended rows had to make room.
  std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  void remember(const std::string& key, std::optional<wall_time> end) {
    forget(key);
    if (end) ended_.emplace(*end, key);
    keys_.emplace(key, end);
  }
  bool forget(const std::string& key) {
    const auto known = keys_.find(key);
    if (known == keys_.end()) return false;
    if (known->second) ended_.erase({*known->second, key});
    keys_.erase(known);
    return true;
  }

  table_limits limits_;
  std::unordered_map<std::string, std::optional<wall_time>> keys_;
  std::set<std::pair<wall_time, std::string>> ended_;
  std::uint64_t dropped_ = 0;
};

}  // namespace manta::inline v0::control
