// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>

// What calls have cost that ended with their caller's worker.
//
// Problem. A call that ran on its caller's stack ends with it, and the next run of the caller makes
// it anew, under the same id. It must not have all its runs once more.
// Idea. What it has spent is noted by its id until it is called again, which may be never: past a
// limit the one that was noted longest ago is forgotten, and no others.
// Pure. Threads: externally synchronised.

namespace manta::inline v0::sched {

class spent_runs {
 public:
  explicit spent_runs(std::size_t most) noexcept : most_(most) {}

  /// That one has spent so many, whatever was noted before. Throws std::bad_alloc.
  void note(std::uint64_t task, std::uint32_t runs) {
    if (const auto known = by_task_.find(task); known != by_task_.end()) {
      known->second->runs = runs;
      in_order_.splice(in_order_.end(), in_order_, known->second);
      return;
    }
    const auto at = in_order_.insert(in_order_.end(), {task, runs});
    try {
      by_task_.emplace(task, at);
    } catch (...) {
      in_order_.erase(at);
      throw;
    }
    if (in_order_.size() <= most_) return;
    by_task_.erase(in_order_.front().task);
    in_order_.pop_front();
  }

  /// 0: nothing is known of it.
  std::uint32_t of(std::uint64_t task) const noexcept {
    const auto found = by_task_.find(task);
    return found == by_task_.end() ? 0 : found->second->runs;
  }

 private:
  struct entry {
    std::uint64_t task = 0;
    std::uint32_t runs = 0;
  };

  const std::size_t most_;
  std::list<entry> in_order_;  // as they were noted last
  std::unordered_map<std::uint64_t, std::list<entry>::iterator> by_task_;
};

}  // namespace manta::inline v0::sched
