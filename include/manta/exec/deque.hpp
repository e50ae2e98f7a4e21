// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <manta/base/export.hpp>

// A work-stealing deque of pointers that thieves can take from in batches.
//
// Problem. The owner pushes and pops at one end without any lock; thieves take from the other. With
// one thread submitting a million jobs, taking them one by one costs a thief two cache-line
// transfers each; a batch costs the same two.
//
// Idea. The deque of Chase and Lev (SPAA 2005, with the orders of Le et al., PPoPP 2013), in which
// a thief may take up to `batch` entries with one compare-and-swap. Their deque allows a thief one
// entry, because the owner pops without telling thieves unless it is at the last one. Here the
// owner tells them when it comes within `batch` of the top: it changes the tag beside the top
// index, which makes every compare-and-swap in flight fail.
//
//      top (thieves, oldest)                          bottom (owner, newest)
//        |                                               |
//   ... [ j7 j8 j9 ... j40 ] . . . . . . . . . . [ j90 ] .
//        \_ a thief's batch _/     no tag needed: more than `batch` away from top
//
// Invariants
//   1. A thief takes more than one entry only when it saw at least `deep` of them.
//   2. Whenever a thief can have seen `deep` entries since the last tag, may_batch_ is true. (push
//      sets it from a top that is never newer than the thief's, so the owner's estimate is higher.)
//   3. An owner that pops the entry at b without a compare-and-swap has read a top t after it wrote
//      bottom = b, and b - t >= batch, or b > t with may_batch_ false. A thief that took b would
//      have to have started from a top at or after t with bottom > b, which is older than the
//      write.
//   4. Slots hold no null. A thief that reads null read a buffer that was given up: it tries again.
// Limits: 2^48 pushes; a thief that sleeps between its two steps while the owner changes the tag an
// exact multiple of 65,536 times without any entry taken from the top would be deceived. Memory:
// grows by doubling; `shrink` returns the pages of a large buffer that is empty. The pages of a
// buffer that was outgrown are returned at once, its addresses when the deque ends, since a slow
// thief may still read it: together they are smaller than the present one. Tests: against a model,
// four threads stress, thread sanitizer.

namespace manta::inline v0::exec {

/// T is a pointer type. push, pop, shrink: owner thread only; steal, is_empty: any thread.
class MANTA_API deque {
 public:
  using entry = void*;
  static constexpr std::int64_t batch = 32;
  static constexpr std::int64_t deep = 2 * batch;
  using loot = std::array<entry, batch>;

  /// `capacity` to begin with, a power of two.
  explicit deque(std::size_t capacity = 256);
  ~deque();
  deque(const deque&) = delete;
  deque& operator=(const deque&) = delete;

  /// Throws std::bad_alloc when it has to grow and can't; the deque is unchanged then. `e` not
  /// null.
  void push(entry e) {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed);
    if (b - known_top_ >= near_full_) make_room(b);
    buffer* const ring = buffer_.load(std::memory_order_relaxed);
    ring->slots[static_cast<std::size_t>(b) & ring->mask].store(e, std::memory_order_relaxed);
    // Release: a thief that sees the new bottom sees the slot and what the entry points to.
    bottom_.store(b + 1, std::memory_order_release);
  }

  /// The newest entry, or null.
  entry pop() {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed) - 1;
    if (b < index(top_.load(std::memory_order_relaxed))) return nullptr;  // top only grows
    return pop_below(b);
  }

  /// Pops the newest entry when it is `e`. False: it is another one, or somebody was faster.
  bool pop_if(entry e) {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed) - 1;
    if (b < index(top_.load(std::memory_order_relaxed))) return false;
    const buffer& ring = *buffer_.load(std::memory_order_relaxed);
    const auto at = static_cast<std::size_t>(b) & ring.mask;
    return ring.slots[at].load(std::memory_order_relaxed) == e && pop_below(b) == e;
  }

  /// The newest entry's address for comparison only: it may have been taken, and freed, already.
  entry newest() const noexcept {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed) - 1;
    if (b < index(top_.load(std::memory_order_relaxed))) return nullptr;
    buffer* const ring = buffer_.load(std::memory_order_relaxed);
    return ring->slots[static_cast<std::size_t>(b) & ring->mask].load(std::memory_order_relaxed);
  }

  /// Takes the oldest entries, up to `batch` when there are many. Returns how many; `lost` is set
  /// when somebody else was faster, so that trying again makes sense.
  std::size_t steal(loot& into, bool& lost) noexcept;

  /// The two steps of steal, so that a test can stand between them. plan reads what could be taken;
  /// take has it, unless the deque changed in a way that makes the plan void.
  struct plan_of_theft {
    std::uint64_t top = 0;
    std::size_t count = 0;
    loot entries;
  };
  bool plan(plan_of_theft& theft) const noexcept;  // false: reread, an old buffer was seen
  bool take(plan_of_theft& theft) noexcept;

  /// Exact for the owner; for others what was true a moment ago.
  bool is_empty() const noexcept { return size() <= 0; }
  std::int64_t size() const noexcept {
    return bottom_.load(std::memory_order_relaxed) - index(top_.load(std::memory_order_relaxed));
  }

  /// Where the next entry goes: it changes whenever one is pushed or popped. For comparison.
  std::int64_t position() const noexcept { return bottom_.load(std::memory_order_relaxed); }

  /// Returns the pages of an empty deque's large buffer to the system.
  void shrink() noexcept;

 private:
  struct buffer {
    std::size_t mask;
    std::atomic<entry>* slots;
  };

  static constexpr std::uint64_t tag_unit = std::uint64_t{1} << 48U;
  static std::int64_t index(std::uint64_t top) noexcept {
    return static_cast<std::int64_t>(top & (tag_unit - 1));
  }

  entry pop_below(std::int64_t b) noexcept;
  void make_room(std::int64_t b);
  void replace_buffer(std::size_t capacity, std::int64_t from, std::int64_t to);
  void retire(buffer* old) noexcept;

  // Thieves' line.
  alignas(64) std::atomic<std::uint64_t> top_{0};
  // Owner's line, read by thieves.
  alignas(64) std::atomic<std::int64_t> bottom_{0};
  std::atomic<buffer*> buffer_{nullptr};
  // Owner's alone.
  alignas(64) std::int64_t known_top_ = 0;  // a top index read some time ago
  std::int64_t near_full_ = 0;              // size (by known_top_) at which push must look closer
  std::int64_t last_shrink_ = 0;
  bool may_batch_ = false;
  std::vector<buffer*> retired_;
};

}  // namespace manta::inline v0::exec
