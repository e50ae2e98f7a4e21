// SPDX-License-Identifier: Apache-2.0
#include "repeats.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

// Whether a job is listed twice; exact, in linear time: a flag for each place where a job can lie,
// in pages of addresses. Jobs come from few slabs, so there are few pages. A loop over `wait` on a
// shrinking list would spend most of its time here, hence the first form: flags and not bits
// (neighbours would wait for each other's stores), no branch on them, all in registers. A list that
// has more pages goes to the second form: a hash table of pages, each a map of bits, which grows.
//
// Such a loop passes, again and again, what remains of a list that was looked at before. So a
// thread remembers the last list it found good, as addresses only: a list whose entries stand in
// that one, in the same order, has no repeats either, whatever has become of the jobs, and to
// compare runs of equal memory costs a fifth of looking at each.

namespace manta::inline v0::exec {

namespace {

using address = std::uintptr_t;
constexpr std::size_t page_places = 1024;

address place_of(job* j) noexcept { return reinterpret_cast<address>(j) / 64; }

// The first form. `done` is how many jobs it looked at before it ran out of pages.
class near_map {
 public:
  bool has_repeats(job* const* jobs, std::size_t n) {
    unsigned repeats = 0;
    while (done < n) {
      const address number = place_of(jobs[done]) / page_places;
      page* const flags = find(number);
      if (flags == nullptr) break;
      for (; done < n; ++done) {
        const address at = place_of(jobs[done]);
        if (at / page_places != number) break;
        flag& seen = (*flags)[at % page_places];
        repeats |= seen;
        seen = 1;
      }
    }
    return repeats != 0;
  }

  std::size_t done = 0;

 private:
  using flag = std::uint16_t;  // not a character type: those may alias everything
  static constexpr std::size_t most_pages = 64;
  using page = std::array<flag, page_places>;

  page* find(address number) noexcept {
    std::size_t i = 0;
    while (i < count_ && numbers_[i] != number) ++i;
    if (i == most_pages) return nullptr;
    if (i == count_) {
      numbers_[count_++] = number;
      pages_[i].fill(0);
    }
    return &pages_[i];
  }

  std::size_t count_ = 0;
  std::array<address, most_pages> numbers_;
  std::array<page, most_pages> pages_;  // each is cleared when it is first used
};

// The second form. Memory: 128 bytes for each 64 KiB of addresses that hold a job of the list.
class far_map {
 public:
  far_map() : table_(1024, empty) {}

  bool has_repeats(job* const* jobs, std::size_t n) {
    for (std::size_t i = 0; i < n;) {
      const address number = place_of(jobs[i]) / page_places;
      const std::size_t page = find(number);
      for (; i < n; ++i) {
        const address at = place_of(jobs[i]);
        if (at / page_places != number) break;
        std::uint64_t& word = bits_[page][at % page_places / 64];
        const std::uint64_t bit = std::uint64_t{1} << at % 64;
        if ((word & bit) != 0) return true;
        word |= bit;
      }
    }
    return false;
  }

 private:
  static constexpr std::uint32_t empty = ~std::uint32_t{0};

  std::size_t slot_of(address number) const noexcept {
    const std::uint64_t mixed = std::uint64_t{number} * 0x9e3779b97f4a7c15U;
    std::size_t at = static_cast<std::size_t>(mixed >> 32U) & (table_.size() - 1);
    while (table_[at] != empty && numbers_[table_[at]] != number) {
      at = (at + 1) & (table_.size() - 1);
    }
    return at;
  }
  std::size_t find(address number) {
    std::size_t at = slot_of(number);
    if (table_[at] != empty) return table_[at];
    if (2 * (numbers_.size() + 1) > table_.size()) {
      table_.assign(2 * table_.size(), empty);
      for (std::size_t i = 0; i < numbers_.size(); ++i) {
        table_[slot_of(numbers_[i])] = static_cast<std::uint32_t>(i);
      }
      at = slot_of(number);
    }
    table_[at] = static_cast<std::uint32_t>(numbers_.size());
    numbers_.push_back(number);
    bits_.push_back({});
    return numbers_.size() - 1;
  }

  std::vector<std::uint32_t> table_;  // of positions in the two below
  std::vector<address> numbers_;
  std::vector<std::array<std::uint64_t, page_places / 64>> bits_;
};

// The last list found good on this thread; entries before `first` are gone from it for good.
struct remembered_list {
  static constexpr std::size_t fewest = 32;  // below, looking at each is as fast
  static constexpr std::size_t most = 1024;
  static constexpr std::size_t most_missing = 64;  // in a row, until it counts as another list
  std::array<job*, most> jobs;
  std::size_t first;
  std::size_t count;
};
constinit thread_local remembered_list remembered{};

// How many entries of the two are equal from their beginning on.
std::size_t equal_run(job* const* a, job* const* b, std::size_t n) noexcept {
  constexpr std::size_t block = 64;
  constexpr std::size_t block_bytes = block * sizeof(std::uintptr_t);  // of pointers
  std::size_t i = 0;
  while (i + block <= n && std::memcmp(a + i, b + i, block_bytes) == 0) i += block;
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

bool is_rest_of_remembered(job* const* jobs, std::size_t n) noexcept {
  remembered_list& known = remembered;
  if (n < remembered_list::fewest || n > known.count - known.first) return false;
  std::size_t at = known.first;
  for (std::size_t i = 0; i < n;) {
    const std::size_t limit = std::min(known.count, at + remembered_list::most_missing);
    while (at < limit && known.jobs[at] != jobs[i]) ++at;
    if (at == limit) return false;
    if (i == 0) known.first = at;
    const std::size_t run =
        equal_run(jobs + i, known.jobs.data() + at, std::min(n - i, known.count - at));
    i += run;
    at += run;
  }
  return true;
}

void remember(job* const* jobs, std::size_t n) noexcept {
  if (n < remembered_list::fewest || n > remembered_list::most) return;
  remembered_list& known = remembered;
  std::copy_n(jobs, n, known.jobs.data());
  known.first = 0;
  known.count = n;
}

bool has_repeats(job* const* jobs, std::size_t n) {
  if (n < 2) return false;
  near_map near;
  if (near.has_repeats(jobs, n)) return true;
  return near.done < n && far_map().has_repeats(jobs, n);
}

}  // namespace manta::inline v0::exec
