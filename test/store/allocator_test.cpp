// SPDX-License-Identifier: Apache-2.0
// Where objects lie: against a model, and how much more than what lives is reserved.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "constants.hpp"
#include "exec/support.hpp"
#include "store/allocator.hpp"

namespace {

using manta::store::allocator;
using manta::store::place;
using manta_test::dice;
using manta_test::kib;
using manta_test::mib;

// An allocator with its segments, as a store uses it, and what is in them: by object, and by place.
class user {
 public:
  allocator all;
  std::map<std::uint64_t, place> objects;
  std::map<std::uint32_t, std::uint64_t> segments;  // their bytes
  std::uint64_t moved_bytes = 0;

  std::uint64_t make(std::uint64_t bytes) {
    const std::uint64_t tag = next_++;
    put(tag, bytes);
    return tag;
  }
  void end(std::uint64_t tag) {
    all.release(objects.at(tag));
    objects.erase(tag);
  }
  // What a store does when it is asked for memory.
  void compact() {
    while (const auto from = all.sparse()) {
      for (const auto& [tag, at] : all.close(*from)) {
        REQUIRE(objects.at(tag) == at);
        put(tag, at.bytes);
        REQUIRE(objects.at(tag).segment != *from);
        all.release(at);
        moved_bytes += at.bytes;
      }
      drop(*from);
    }
  }
  void drop_empty() {
    while (const auto one = all.longest_empty()) drop(*one);
  }
  void drop(std::uint32_t segment) {
    REQUIRE(std::ranges::none_of(objects,
                                 [&](const auto& one) { return one.second.segment == segment; }));
    all.drop(segment);
    segments.erase(segment);
  }
  // No two objects share a byte, and all are inside.
  bool is_right() const {
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> ends;
    std::uint64_t live = 0;
    for (const auto& [tag, at] : objects) {
      ends[{at.segment, at.at}] = at.at + at.bytes;
      live += at.bytes;
      const auto in = segments.find(at.segment);
      if (in == segments.end() || at.at + at.bytes > in->second) return false;
      if (at.at % allocator::unit != 0) return false;
    }
    if (ends.size() != objects.size() || live != all.live_bytes()) return false;
    std::pair<std::uint32_t, std::uint64_t> before = {0, 0};  // a segment and where it goes on
    for (const auto& [from, to] : ends) {
      if (from.first == before.first && from.second < before.second) return false;
      before = {from.first, to};
    }
    return all.is_sound();
  }

 private:
  void put(std::uint64_t tag, std::uint64_t bytes) {
    auto at = all.allocate(bytes, tag);
    if (!at) {
      const std::uint32_t segment = next_segment_++;
      const std::uint64_t size = all.segment_for(bytes);
      REQUIRE(size >= bytes);
      all.add(segment, size, bytes);
      segments[segment] = size;
      at = all.allocate(bytes, tag);
      REQUIRE(at);
    }
    REQUIRE(at->bytes >= bytes);
    REQUIRE(at->bytes < bytes + allocator::unit);
    objects[tag] = *at;
  }

  std::uint64_t next_ = 1;
  std::uint32_t next_segment_ = 1;
};

std::uint64_t some_size(dice& roll) {
  switch (roll.below(8)) {
    case 0:
      return 1 + roll.below(64);
    case 1:
      return 1 + roll.below(20 * mib);  // some have a segment of their own
    case 2:
      return 1 + roll.below(2 * mib);
    default:
      return 1 + roll.below(300 * kib);
  }
}

}  // namespace

TEST_CASE("objects of any size never overlap, whatever comes and goes", "[store]") {
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  dice roll(seed);
  user u;
  std::vector<std::uint64_t> live;
  std::vector<std::uint32_t> pinned;
  for (int step = 0; step < 20000; ++step) {
    const bool is_shrinking = (step / 3000) % 2 == 1;
    const std::size_t what = roll.below(100);
    if (what < (is_shrinking ? 30U : 60U)) {
      live.push_back(u.make(some_size(roll)));
    } else if (what < 94 && !live.empty()) {
      std::swap(live[roll.below(live.size())], live.back());
      u.end(live.back());
      live.pop_back();
    } else if (what == 94) {
      u.compact();
    } else if (what == 95) {
      if (const auto one = u.all.longest_empty()) u.drop(*one);
    } else if (what == 96 && !live.empty()) {
      pinned.push_back(u.objects.at(live[roll.below(live.size())]).segment);
      u.all.pin(pinned.back());
    } else if (what == 97 && !pinned.empty()) {
      u.all.unpin(pinned.back());
      pinned.pop_back();
    } else if (what == 98) {
      if (const auto cold = u.all.cold(32 * mib, mib)) u.all.warmed(*cold);
    } else if (what == 99) {
      if (const auto one = u.all.sparse()) {  // begun, and given up
        u.all.close(*one);
        u.all.reopen(*one);
      }
    }
    if (step % 100 == 0) REQUIRE(u.is_right());
  }
  REQUIRE(u.is_right());
  for (const std::uint64_t tag : live) u.end(tag);
  CHECK(u.all.live_bytes() == 0);
  u.drop_empty();
  CHECK(u.all.reserved_bytes() == 0);
  CHECK(u.is_right());
}

// The pattern that ruins allocators which can't move: much comes, most of it goes, larger comes.
TEST_CASE("shared segments have at most twice what lives and one segment", "[store]") {
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  dice roll(seed);
  user u;
  std::vector<std::uint64_t> live;
  std::uint64_t made_bytes = 0;
  for (std::uint64_t size = 4 * kib; size <= allocator().most_shared(); size *= 2) {
    for (std::uint64_t bytes = 0; bytes < 400 * mib; bytes += size) {
      live.push_back(u.make(size - roll.below(size / 3)));
    }
    made_bytes += 400 * mib;
    // One of eight stays, all over the place.
    for (std::size_t i = 0; i < live.size(); ++i) {
      if (i % 8 == 0) continue;
      u.end(live[i]);
      live[i] = 0;
    }
    std::erase(live, 0U);
    u.compact();
    u.drop_empty();
    INFO("after objects of " << size << " bytes, " << u.all.live_bytes() << " live");
    CHECK(u.all.reserved_bytes() <= 2 * u.all.live_bytes() + allocator::usual_segment);
    CHECK(u.is_right());
  }
  CHECK(u.moved_bytes > 0);
  CHECK(u.moved_bytes < made_bytes);  // each byte moved was paid for by more that ended
}

TEST_CASE("what is pinned is not moved, and nothing else is held by it", "[store]") {
  user u;
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 400; ++i) all.push_back(u.make(mib));
  std::map<std::uint32_t, std::uint64_t> one_in;  // of each segment
  for (const std::uint64_t tag : all) one_in.emplace(u.objects.at(tag).segment, tag);
  REQUIRE(one_in.size() > 5);
  for (const std::uint64_t tag : all) {
    if (one_in.at(u.objects.at(tag).segment) != tag) u.end(tag);
  }
  const auto pinned = one_in.begin()->first;
  const place before = u.objects.at(one_in.at(pinned));
  u.all.pin(pinned);
  u.compact();
  CHECK(u.objects.at(one_in.at(pinned)) == before);
  CHECK(u.all.reserved_bytes() <=
        2 * u.all.live_bytes() + allocator::usual_segment + u.segments.at(pinned));
  u.all.unpin(pinned);
  u.compact();
  CHECK(u.all.reserved_bytes() <= 2 * u.all.live_bytes() + allocator::usual_segment);
}

TEST_CASE("pages that were written are taken first", "[store]") {
  user u;
  const std::uint64_t first = u.make(mib);
  const std::uint64_t second = u.make(mib);
  u.make(64);
  const place was = u.objects.at(first);
  u.end(first);
  const place small = u.objects.at(u.make(100));
  CHECK(small.segment == was.segment);
  CHECK(small.at == was.at);
  u.end(second);  // joins what is left of the first
  const place joined = u.objects.at(u.make(2 * mib - 128));
  CHECK(joined.at == was.at + 128);
}

TEST_CASE("a large object takes the segment of one that ended, if it is of about its size",
          "[store]") {
  user u;
  const std::uint64_t first = u.make(900 * mib);
  CHECK(u.segments.size() == 1);
  CHECK(u.all.reserved_bytes() == 900 * mib);
  u.make(kib);  // not into that of the large one
  CHECK(u.segments.size() == 2);
  u.end(first);
  const std::uint64_t second = u.make(890 * mib);
  CHECK(u.segments.size() == 2);
  u.end(second);
  u.make(700 * mib);  // would waste more than an eighth
  CHECK(u.segments.size() == 3);
  const auto idle = u.all.longest_empty();
  REQUIRE(idle);
  CHECK(u.segments.at(*idle) == 900 * mib);
  u.drop(*idle);
  CHECK_FALSE(u.all.longest_empty());
  CHECK(u.is_right());
}

TEST_CASE("a small program keeps a small segment", "[store]") {
  user u;
  u.make(150 * kib);
  CHECK(u.all.reserved_bytes() == allocator::usual_segment / 8);
  for (int i = 0; i < 4000; ++i) u.make(150 * kib);
  CHECK(u.segments.size() < 16);  // of 586 MiB
  CHECK_FALSE(u.all.allocate(0, 1));
  CHECK_FALSE(u.all.allocate(allocator::most_bytes + 1, 1));
  CHECK_FALSE(u.all.allocate(~std::uint64_t{0}, 1));
}

TEST_CASE("pages are populated ahead, and then taken", "[store]") {
  user u;
  u.make(150 * kib);
  std::uint64_t populated = 0;
  while (const auto next = u.all.cold(3 * mib, mib)) {
    CHECK(next->bytes <= mib);
    u.all.warmed(*next);
    populated += next->bytes;
  }
  CHECK(populated == 3 * mib);
  const std::uint64_t taken = u.make(mib);
  // A smaller tail that nobody has touched is left alone while a warm one has room.
  const std::uint64_t other = u.make(7 * mib + 512 * kib);  // in a segment of 30 MiB
  u.make(16 * mib);
  u.make(5 * mib + 512 * kib);
  REQUIRE(u.segments.size() == 2);
  CHECK(u.objects.at(u.make(256 * kib)).segment == u.objects.at(taken).segment);
  const auto more = u.all.cold(3 * mib, 8 * mib);
  REQUIRE(more);
  CHECK(more->segment == u.objects.at(other).segment);
  CHECK(more->bytes == mib);
  u.all.warmed({99, 0, 64});  // a segment that left meanwhile
  CHECK(u.is_right());
}
