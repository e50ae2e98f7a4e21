// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <manta/base/clock.hpp>

#include "sched/link_paces.hpp"

// What bytes take between nodes, as far as this one knows: sched/link_paces.hpp.
//
// Who fetches an array (far_pulls.hpp) measures what comes, and tells the node whose array it is
// (question::transfer_time), since that one decides what goes there. Who sends messages of a MiB
// and more measures, too, when they have come there.
//
// Threads: any. Cost of a question while nothing was measured: no lock. The mutex is the last.

namespace manta::inline v0::node {

/// What question::transfer_time tells; it has no answer.
struct transfer_note {
  std::uint64_t bytes = 0;
  std::uint64_t took_ns = 0;
};

class link_times {
 public:
  static link_times& global();

  /// A new runtime begins.
  void clear() noexcept;
  /// Whether something was measured.
  bool has_any() const noexcept { return has_any_.load(std::memory_order_relaxed); }
  /// What a byte takes from one node to another; 0: this one.
  sched::byte_pace of(std::uint64_t from, std::uint64_t to) const noexcept;
  /// The node is lost.
  void lost(std::uint64_t node) noexcept;

  // What is fetched from a node; as sched::arrivals. Throws std::bad_alloc.
  void begins(std::uint64_t node);
  void begins_again(std::uint64_t node) noexcept;
  /// What is to be said of it to that node, if anything.
  std::optional<sched::transfer> came(std::uint64_t node, std::uint64_t bytes) noexcept;
  std::optional<sched::transfer> ends(std::uint64_t node) noexcept;

  // What goes to a node: a message, by its number.
  void sends(std::uint64_t node, std::uint64_t number, std::uint64_t bytes) noexcept;
  /// It could not go.
  void unsent(std::uint64_t node, std::uint64_t number) noexcept;
  /// It has, whichever it is: of most nothing was noted. While none is under way: no lock.
  void has_come(std::uint64_t node, std::uint64_t number) noexcept;

  /// The loop's thread: that node tells of what it has fetched here. Nonsense changes nothing.
  void hear(std::uint64_t node, const transfer_note& said) noexcept;

 private:
  link_times() = default;
  void note(const sched::link& on, const sched::transfer& what, base::time_point now) noexcept;

  std::atomic<bool> has_any_{false};
  mutable std::mutex mutex_;
  sched::arrivals arrivals_;
  sched::arrivals leaving_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> sent_;  // bytes; of leaving_
  std::atomic<std::size_t> sent_count_{0};
  sched::link_paces paces_;
};

}  // namespace manta::inline v0::node
