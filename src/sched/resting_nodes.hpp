// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>

// Nodes that are given nothing until a time, each until its own.
//
// Problem. In a large cluster with much to do nearly all others rest at any time, and each look has
// to leave out those whose time is over: to walk over all of them was four fifths of what it takes
// to decide among a thousand nodes, since each lies elsewhere in memory.
// Idea. A heap has each node once, with the time that it had when it was put there. When that is
// over the node goes, or is put back if it has begun to rest anew.
//
// Pure: time is given. Threads: externally synchronised. Cost of n nodes: rest and each that is
// forgotten O(log n), is_resting O(1).

namespace manta::inline v0::sched {

class resting_nodes {
 public:
  /// Also one that rests already: from now on until that time. Throws std::bad_alloc.
  void rest(std::uint64_t node, base::time_point until) {
    const auto [at, is_new] = until_.try_emplace(node, until);
    at->second = until;
    if (!is_new) return;
    try {
      ends_.emplace(until, node);
    } catch (...) {
      until_.erase(at);
      throw;
    }
  }
  /// Those whose time is over are forgotten.
  void look(base::time_point now) noexcept {
    while (!ends_.empty() && ends_.top().first <= now) {
      const std::uint64_t node = ends_.top().second;
      ends_.pop();
      const auto at = until_.find(node);
      if (at->second <= now) {
        until_.erase(at);
      } else {
        ends_.emplace(at->second, node);  // there is room: one has just gone
      }
    }
  }
  bool is_resting(std::uint64_t node, base::time_point now) const noexcept {
    const auto at = until_.find(node);
    return at != until_.end() && at->second > now;
  }
  /// Those that rest, and of those whose time is over some that a look has not come to yet.
  std::size_t size() const noexcept { return until_.size(); }
  void clear() noexcept {
    until_.clear();
    ends_ = {};
  }

 private:
  using end = std::pair<base::time_point, std::uint64_t>;
  std::unordered_map<std::uint64_t, base::time_point> until_;
  std::priority_queue<end, std::vector<end>, std::greater<>> ends_;  // each of until_, once
};

}  // namespace manta::inline v0::sched
