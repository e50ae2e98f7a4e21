// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

// Where objects lie in the segments of one writer.
//
// Problem. Objects of a kilobyte and of many gigabytes come and go, in any order. A page that was
// written before takes the next object ten times faster than a new one. A segment can be given back
// only as a whole, and what somebody reads can't be moved.
//
// Idea. A large object has a segment of its own, which is kept when it ends and taken again by the
// next one of about that size. Smaller ones share segments:
//
//     segment 3   | a | free | b |    c    | free | d |...warm tail...|...cold tail.........|
//                                                     used            warm              bytes
//
// An object takes the smallest free block that fits, else the smallest tail, warm before cold; free
// neighbours join, and a free block at the end joins the tail. When the shared segments are less
// than half full, the sparsest is closed and its objects, which lie elsewhere then, are moved:
// into the largest tail, or a new segment that takes at least two such.
//
// Invariants. Blocks of a segment lie one after the other without a gap, no two free ones beside
// each other, the last one is live. As long as sparse() is followed until it has nothing more, and
// empty segments are dropped, shared ones have at most 2 x (bytes that live) + one full segment +
// those with something pinned; a segment of its own is at most an eighth larger than its object.
// Bytes are counted in whole units of 64.
//
// Pure: it knows numbers only; whoever uses it has the segments. Threads: one at a time. Cost: a
// few searches in trees of what is there, about 100 bytes of memory for each object and free block.

namespace manta::inline v0::store {

/// The next multiple of `to`. Sizes are at most allocator::most_bytes here.
constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to) noexcept {
  return (bytes + to - 1) / to * to;
}

/// Part of a segment.
struct place {
  std::uint32_t segment = 0;
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const place&, const place&) = default;
};

class allocator {
 public:
  static constexpr std::uint64_t unit = 64;  ///< a cache line
  static constexpr std::uint64_t usual_segment = std::uint64_t{64} << 20U;
  /// So that sizes can be rounded and added.
  static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 60U;

  /// An object as it is told who moves it: `tag` is what its maker gave.
  struct object {
    std::uint64_t tag = 0;
    place at;
  };

  /// `full_segment`: how large a shared one becomes, in whole MiB. The first has an eighth of that;
  /// what is larger than a quarter has a segment of its own.
  explicit allocator(std::uint64_t full_segment = usual_segment) noexcept
      : full_segment_(full_segment) {}
  std::uint64_t most_shared() const noexcept { return full_segment_ / 4; }

  /// What has to be added so that allocate(bytes) has room, in whole MiB if it is shared. Shared
  /// segments grow with what is there, so that a small program keeps little.
  std::uint64_t segment_for(std::uint64_t bytes) const noexcept;
  /// A new segment, of which nothing was written. Its number was never used before.
  void add(std::uint32_t segment, std::uint64_t bytes, std::uint64_t for_object);
  /// 1 to most_bytes, which are rounded up. Nothing: no segment has room.
  std::optional<place> allocate(std::uint64_t bytes, std::uint64_t tag);
  void release(const place& of);

  /// Nothing of this segment is moved until as many unpins.
  void pin(std::uint32_t segment) noexcept;
  void unpin(std::uint32_t segment) noexcept;

  /// The segment whose objects should move, if one should.
  std::optional<std::uint32_t> sparse() const;
  /// What lives in it; nothing new comes. It is empty when all of that is released.
  std::vector<object> close(std::uint32_t segment);
  /// It takes objects again.
  void reopen(std::uint32_t segment);

  /// The segment that has been empty for longest, for who wants room.
  std::optional<std::uint32_t> longest_empty() const;
  /// An empty one leaves.
  void drop(std::uint32_t segment);

  /// The next pages to populate, at most so many bytes, while shared tails have less than `ahead`
  /// of warm ones; and that they are.
  std::optional<place> cold(std::uint64_t ahead, std::uint64_t most) const;
  void warmed(const place& now);

  std::uint64_t live_bytes() const noexcept { return live_; }
  std::uint64_t reserved_bytes() const noexcept { return reserved_; }
  std::size_t segments() const noexcept { return segments_.size(); }
  /// Checks all that is stated above, but for bounds; for tests. Cost: linear.
  bool is_sound() const;

 private:
  struct block {
    std::uint64_t bytes = 0;
    std::uint64_t tag = 0;
    bool is_live = false;
  };
  struct state {
    std::uint64_t bytes = 0;
    std::uint64_t used = 0;  // blocks end here
    std::uint64_t warm = 0;  // pages below were written or populated; never less than used
    std::uint64_t live = 0;
    std::uint32_t pinned = 0;
    bool is_own = false;  // for one object
    bool is_closed = false;
    std::uint64_t emptied = 0;
    std::map<std::uint64_t, block> blocks;  // by their offset
  };
  using sized = std::pair<std::uint64_t, std::uint32_t>;  // bytes, segment
  struct free_block {
    std::uint64_t bytes;
    std::uint32_t segment;
    std::uint64_t at;
    friend auto operator<=>(const free_block&, const free_block&) = default;
  };

  std::optional<place> take_own(std::uint64_t bytes, std::uint64_t tag);
  std::optional<place> take_free(std::uint64_t bytes, std::uint64_t tag);
  std::optional<place> take_tail(std::uint64_t bytes, std::uint64_t tag);
  void release_block(state& in, const place& of);
  void list_tail(std::uint32_t segment, const state& of);
  void unlist_tail(std::uint32_t segment, const state& of);

  std::uint64_t full_segment_;
  std::map<std::uint32_t, state> segments_;
  std::set<free_block> free_;   // in shared segments that are open
  std::set<sized> tails_;       // of those, whole
  std::set<sized> warm_tails_;  // of those, what is warm
  std::set<sized> own_empty_;   // segments of large objects that ended
  std::set<sized> empty_;       // all that are: when, segment
  std::uint64_t live_ = 0;      // of all
  std::uint64_t reserved_ = 0;
  std::uint64_t shared_live_ = 0;
  std::uint64_t shared_reserved_ = 0;
  std::uint64_t turn_ = 0;
};

}  // namespace manta::inline v0::store
