// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

// Segments that a worker made and in which nothing lives, for either side to take.
//
// Problem. Pages that were written before take the next array many times faster than new ones, so a
// worker should use its segments again. But they count in the node's store, which has to have them
// back when it has no room, from a worker that may be in the middle of anything.
//
// Idea. Their names lie on the page that both see. Who has a segment puts its name into a free
// place: the worker when nobody else ever had it, the node when its last object there has ended.
// Who takes the name out, by compare-and-swap, has the segment: the worker for its next array, the
// node to count it no more. So neither waits for the other, and there is no message.
//
// A worker that writes nonsense here spoils its own segments only: the node takes no name that it
// does not know as a segment of that worker.
//
// Threads: any, of both processes.

namespace manta::inline v0::wire {

class segment_shelf {
 public:
  static constexpr std::size_t places = 16;

  /// False: there is no place for it. `name` is not 0.
  bool put(std::uint64_t name) noexcept {
    return std::ranges::any_of(names_, [name](auto& one) {
      std::uint64_t free = 0;
      return one.load(std::memory_order_relaxed) == 0 &&
             one.compare_exchange_strong(free, name, std::memory_order_release,
                                         std::memory_order_relaxed);
    });
  }
  /// False: it is not there, or somebody else was first.
  bool take(std::uint64_t name) noexcept {
    return std::ranges::any_of(names_, [name](auto& one) { return swap_out(one, name); });
  }
  bool has(std::uint64_t name) const noexcept {
    return std::ranges::any_of(
        names_, [name](const auto& one) { return one.load(std::memory_order_relaxed) == name; });
  }
  /// What is in a place now; 0: nothing.
  std::uint64_t at(std::size_t place) const noexcept {
    return names_[place].load(std::memory_order_relaxed);
  }

  /// How often the worker took something: who looks twice sees whether it still does.
  void note_use() noexcept { uses_.fetch_add(1, std::memory_order_relaxed); }
  std::uint32_t uses() const noexcept { return uses_.load(std::memory_order_relaxed); }

 private:
  // Whoever put it there has let go of the segment before, which the taker has to see.
  static bool swap_out(std::atomic<std::uint64_t>& one, std::uint64_t name) noexcept {
    return one.load(std::memory_order_relaxed) == name &&
           one.compare_exchange_strong(name, 0, std::memory_order_acquire,
                                       std::memory_order_relaxed);
  }

  std::array<std::atomic<std::uint64_t>, places> names_{};
  std::atomic<std::uint32_t> uses_{0};
};

}  // namespace manta::inline v0::wire
