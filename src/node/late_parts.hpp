// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

// Parts of arrays that were asked for, and that nobody wants any more: far_pulls.hpp.
//
// Problem. Who is asked for a part answers it, also when the fetch was given up meanwhile; were it
// forgotten, who cancels and asks again would have more under way than the other side takes.
// Idea. What is still to come of a fetch counts as under way until it has, or its node is lost.
//
// Threads: externally synchronised.

namespace manta::inline v0::node {

class late_parts {
 public:
  /// So many parts of that fetch are still to come from there. Throws std::bad_alloc.
  void add(std::uint64_t fetch, std::uint64_t node, std::uint64_t parts) {
    if (parts > 0) all_[fetch] = {node, parts};
  }
  /// One of them has come; of a fetch that is none of these nothing changes.
  void came(std::uint64_t fetch, std::uint64_t node) noexcept {
    const auto found = all_.find(fetch);
    if (found == all_.end() || found->second.node != node) return;
    if (--found->second.parts == 0) all_.erase(found);
  }
  /// None of that node comes any more.
  void lost(std::uint64_t node) noexcept {
    std::erase_if(all_, [node](const auto& one) { return one.second.node == node; });
  }
  void clear() noexcept { all_.clear(); }
  std::uint64_t under_way(std::uint64_t node) const noexcept {
    std::uint64_t sum = 0;
    for (const auto& [fetch, one] : all_) sum += one.node == node ? one.parts : 0;
    return sum;
  }

 private:
  struct still_to_come {
    std::uint64_t node = 0;
    std::uint64_t parts = 0;
  };
  std::map<std::uint64_t, still_to_come> all_;  // by the fetch's number
};

}  // namespace manta::inline v0::node
