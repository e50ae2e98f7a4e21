// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/block_pool.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <manta/base/sanitizers.hpp>

#include "exec/slab_pool.hpp"
#include "exec/support.hpp"

namespace {

using manta::exec::allocate_block;
using manta::exec::free_block;
using manta::exec::release_unused_blocks;
using manta::exec::slab_bytes;
using manta::exec::trim_blocks;
using manta::exec::usage_of_blocks;
using manta_test::dice;
using manta_test::run_seed;
using manta_test::scaled;

// With AddressSanitizer every block comes from operator new and the pool holds nothing.
constexpr bool has_slabs = MANTA_HAS_ASAN == 0;

struct owned_block {
  unsigned char* at = nullptr;
  std::size_t bytes = 0;
  unsigned char mark = 0;
};

owned_block take(std::size_t bytes, unsigned char mark) {
  const owned_block b{static_cast<unsigned char*>(allocate_block(bytes)), bytes, mark};
  std::memset(b.at, mark, bytes);
  return b;
}
// Whether the contents are still what take wrote.
bool give(const owned_block& b) {
  bool is_intact = true;
  for (std::size_t i = 0; i < b.bytes; ++i) is_intact &= b.at[i] == b.mark;
  free_block(b.at, b.bytes);
  return is_intact;
}
bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 64 == 0; }

std::size_t in_use() {
  const auto usage = usage_of_blocks();
  return usage.held_bytes - usage.unused_bytes;
}

// Everything the pool holds and does not need goes back.
void settle() {
  trim_blocks();
  release_unused_blocks();
}

}  // namespace

TEST_CASE("blocks of every size are aligned, whole and apart", "[block_pool]") {
  constexpr std::array<std::size_t, 12> sizes = {0,   1,    63,   64,   65,   127,
                                                 128, 1023, 1024, 1025, 4096, 100'000};
  for (const std::size_t bytes : sizes) {
    CAPTURE(bytes);
    std::vector<owned_block> blocks;
    for (int i = 0; i < 300; ++i) {
      blocks.push_back(take(bytes, static_cast<unsigned char>(i)));
      REQUIRE(is_aligned(blocks.back().at));
    }
    for (const owned_block& b : blocks) REQUIRE(give(b));
  }
}

TEST_CASE("random blocks never overlap and keep their contents", "[block_pool]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice random(seed);
  std::map<std::uintptr_t, std::size_t> live;  // address -> bytes
  std::vector<owned_block> blocks;
  std::size_t aim = 1000;
  for (int i = 0; i < scaled(200'000); ++i) {
    CAPTURE(i);
    if (random.one_in(5000)) aim = random.below(20'000);
    const bool grows = blocks.size() < aim ? !random.one_in(4) : random.one_in(4);
    if (grows || blocks.empty()) {
      const std::size_t bytes = random.one_in(50) ? 1025 + random.below(3000) : random.below(1025);
      const owned_block b = take(bytes, static_cast<unsigned char>(random.next()));
      const auto from = reinterpret_cast<std::uintptr_t>(b.at);
      const std::size_t extent = bytes == 0 ? 1 : bytes;
      const auto after = live.lower_bound(from);
      REQUIRE(is_aligned(b.at));
      if (after != live.end()) REQUIRE(from + extent <= after->first);
      if (after != live.begin()) {
        const auto before = std::prev(after);
        REQUIRE(before->first + before->second <= from);
      }
      live[from] = extent;
      blocks.push_back(b);
    } else {
      std::swap(blocks[random.below(blocks.size())], blocks.back());
      live.erase(reinterpret_cast<std::uintptr_t>(blocks.back().at));
      REQUIRE(give(blocks.back()));
      blocks.pop_back();
    }
    if (random.one_in(10'000)) trim_blocks();
    if (random.one_in(40'000)) release_unused_blocks();
  }
  for (const owned_block& b : blocks) REQUIRE(give(b));
}

TEST_CASE("the newest freed block of a size is handed out next", "[block_pool]") {
  if (!has_slabs) return;
  void* const first = allocate_block(200);
  free_block(first, 200);
  void* const second = allocate_block(256);
  CHECK(first == second);
  free_block(second, 256);
}

TEST_CASE("a burst's memory goes back", "[block_pool]") {
  settle();
  const std::size_t before = usage_of_blocks().held_bytes;
  std::vector<owned_block> blocks;
  for (int i = 0; i < 100'000; ++i) blocks.push_back(take(100, 1));
  if (has_slabs) {
    CHECK(in_use() >= 100'000 * 128);
    // What the slabs add to the blocks is little.
    CHECK(usage_of_blocks().held_bytes - before <= 100'000 * 128 * 102 / 100);
  }
  for (const owned_block& b : blocks) give(b);
  trim_blocks();
  if (has_slabs) CHECK(usage_of_blocks().unused_bytes >= 100'000 * 128 / 2);
  release_unused_blocks();
  CHECK(usage_of_blocks().held_bytes <= before);
  CHECK(usage_of_blocks().unused_bytes == 0);
}

TEST_CASE("one block alone keeps only its slab", "[block_pool]") {
  settle();
  const std::size_t before = usage_of_blocks().held_bytes;
  std::vector<owned_block> blocks;
  for (int i = 0; i < 20'000; ++i) blocks.push_back(take(64, 1));
  const owned_block kept = blocks[10'000];
  blocks.erase(blocks.begin() + 10'000);
  for (const owned_block& b : blocks) give(b);
  settle();
  if (has_slabs) CHECK(usage_of_blocks().held_bytes == before + slab_bytes);
  CHECK(give(kept));
  settle();
  CHECK(usage_of_blocks().held_bytes <= before);
}

TEST_CASE("blocks that other threads free are used again", "[block_pool]") {
  settle();
  const std::size_t before = in_use();
  std::size_t peak = 0;
  bool are_intact = true;
  for (int round = 0; round < 50; ++round) {
    std::vector<owned_block> blocks;
    for (int i = 0; i < 2000; ++i) blocks.push_back(take(300, static_cast<unsigned char>(i)));
    std::thread([&] {
      for (const owned_block& b : blocks) are_intact &= give(b);
    }).join();
    peak = std::max(peak, in_use());
  }
  CHECK(are_intact);
  // Two rounds' worth at most: 2000 blocks of 320 bytes are 10 slabs.
  if (has_slabs) CHECK(peak - before <= 2 * 11 * slab_bytes);
  settle();
  CHECK(in_use() <= before);
}

TEST_CASE("a thread's blocks outlive it and its heap serves the next thread", "[block_pool]") {
  settle();
  const std::size_t before = in_use();
  std::vector<owned_block> blocks;
  bool are_intact = true;
  for (int round = 0; round < 30; ++round) {
    std::thread([&] {
      for (const owned_block& b : blocks) are_intact &= give(b);
      blocks.clear();
      for (int i = 0; i < 1000; ++i) blocks.push_back(take(500, static_cast<unsigned char>(i)));
    }).join();
  }
  if (has_slabs) CHECK(in_use() - before <= 2 * 9 * slab_bytes);
  for (const owned_block& b : blocks) are_intact &= give(b);
  CHECK(are_intact);
  settle();
  CHECK(in_use() <= before);
}

TEST_CASE("many threads exchange blocks and every one stays intact", "[block_pool]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  settle();
  const std::size_t before = in_use();
  std::mutex mutex;
  std::vector<owned_block> pool;  // under mutex
  int broken = 0;                 // under mutex
  const auto trade = [&](std::uint64_t own_seed) {
    dice random(own_seed);
    std::vector<owned_block> mine;
    int bad = 0;
    for (int i = 0; i < scaled(30'000); ++i) {
      if (mine.size() < 100 || random.one_in(2)) {
        mine.push_back(take(random.below(1100), static_cast<unsigned char>(random.next())));
      } else {
        std::swap(mine[random.below(mine.size())], mine.back());
        bad += give(mine.back()) ? 0 : 1;
        mine.pop_back();
      }
      if (random.one_in(10)) {
        const std::lock_guard lock(mutex);
        std::swap(pool, mine);
      }
      if (random.one_in(5000)) trim_blocks();
      if (random.one_in(9000)) release_unused_blocks();
    }
    for (const owned_block& b : mine) bad += give(b) ? 0 : 1;
    const std::lock_guard lock(mutex);
    broken += bad;
  };
  for (int generation = 0; generation < 3; ++generation) {
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 4; ++t) threads.emplace_back(trade, seed + t);
    for (std::thread& t : threads) t.join();
  }
  for (const owned_block& b : pool) broken += give(b) ? 0 : 1;
  CHECK(broken == 0);
  settle();
  CHECK(in_use() <= before);
}

TEST_CASE("the n-th allocation can be made to fail, once", "[block_pool]") {
  manta::exec::testing::fail_allocation(3);
  const owned_block first = take(64, 1);
  const owned_block second = take(2000, 2);
  CHECK_THROWS_AS(allocate_block(64), std::bad_alloc);
  const owned_block fourth = take(64, 4);
  CHECK(give(first));
  CHECK(give(second));
  CHECK(give(fourth));

  manta::exec::testing::fail_allocation(1);
  manta::exec::testing::fail_allocation(0);
  CHECK(give(take(64, 5)));
}
