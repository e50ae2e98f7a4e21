// SPDX-License-Identifier: Apache-2.0
//
// Task records as their owner writes them: added, needed for a while, removed, written 256 in a
// value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "control/ask.hpp"
#include "control/task_table.hpp"
#include "ours/control.hpp"

namespace bench {

class task_writer {
 public:
  // `live`: a record is removed when so many have come after it.
  task_writer(opened& to, std::size_t live, control::durability how)
      : to_(to), how_(how), needed_(live) {}

  void write(std::size_t records) {
    for (std::size_t i = 0; i < records; ++i) {
      const auto added =
          tasks_.add({id_of(next_), {}, value_of(next_)}, static_cast<std::uint32_t>(next_));
      check(added.has_value(), "there is room");
      control::task_table::ticket& oldest = needed_[next_ % needed_.size()];
      tasks_.remove(oldest);
      oldest = *added;
      if (++next_ % packed_records == 0) commit_some();
    }
    commit_some();
    to_.all.wait();
  }
  // The last record, as it was written.
  void check_last() {
    const auto rows = control::read_tasks(*to_.store, owner);
    check(rows.has_value() && !rows->empty(), "there are records");
    check(rows->back().id == id_of(next_ - 1) && rows->back().recipe == value_of(next_ - 1),
          "the last record");
  }

 private:
  inline static const control::owner_id owner{"bench", 1};

  static manta::base::id id_of(std::size_t n) { return {scatter(n), n + 1}; }
  void commit_some() {
    while (const auto value = tasks_.sparse()) {
      std::vector<control::task_row> rows;
      for (const std::uint32_t n : value->known_as) rows.push_back({id_of(n), {}, value_of(n)});
      tasks_.rewrite(*value, std::move(rows));
    }
    for (control::batch& one : tasks_.write()) {
      one.how = how_;
      commit(*to_.store, to_.all, std::move(one));
    }
  }

  opened& to_;
  const control::durability how_;
  std::vector<control::task_table::ticket> needed_;
  control::task_table tasks_{owner};
  std::size_t next_ = 0;
};

}  // namespace bench
