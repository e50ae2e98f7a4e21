// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/deque.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <new>

namespace manta::inline v0::exec {

namespace {

constexpr std::size_t mapped_from_bytes = 64U * 1024U;

using slot = std::atomic<void*>;

// Large buffers come straight from the system, so that their pages can be returned while a slow
// thief may still read them: it then reads zero (invariant 4).
slot* make_slots(std::size_t capacity) {
  const std::size_t bytes = capacity * sizeof(slot);
  if (bytes < mapped_from_bytes) return new slot[capacity]();
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  return static_cast<slot*>(p);
}

void free_slots(slot* slots, std::size_t capacity) noexcept {
  const std::size_t bytes = capacity * sizeof(slot);
  if (bytes < mapped_from_bytes) {
    delete[] slots;
  } else {
    munmap(slots, bytes);
  }
}

}  // namespace

deque::deque(std::size_t capacity) { replace_buffer(capacity, 0, 0); }

deque::~deque() {
  retired_.push_back(buffer_.load(std::memory_order_relaxed));
  for (buffer* b : retired_) {
    free_slots(b->slots, b->mask + 1);
    delete b;
  }
}

deque::entry deque::pop_below(std::int64_t b) noexcept {
  // The store and the load must not change places: sequentially consistent, like the thief's pair.
  bottom_.store(b, std::memory_order_seq_cst);
  std::uint64_t t = top_.load(std::memory_order_seq_cst);
  if (b - index(t) < batch && may_batch_) {
    // A batch that was begun when the deque was deep may reach us: make it fail.
    while (!top_.compare_exchange_weak(t, t + tag_unit, std::memory_order_seq_cst)) {
    }
    t += tag_unit;
    may_batch_ = false;
    known_top_ = index(t);
    near_full_ = std::min(near_full_, deep - 1);
  }
  if (b < index(t)) {
    bottom_.store(b + 1, std::memory_order_release);
    return nullptr;
  }
  buffer* const ring = buffer_.load(std::memory_order_relaxed);
  entry e = ring->slots[static_cast<std::size_t>(b) & ring->mask].load(std::memory_order_relaxed);
  if (b > index(t)) return e;
  // The last entry: whoever moves the top has it.
  if (!top_.compare_exchange_strong(t, t + 1, std::memory_order_seq_cst)) e = nullptr;
  bottom_.store(b + 1, std::memory_order_release);
  return e;
}

bool deque::plan(plan_of_theft& theft) const noexcept {
  theft.top = top_.load(std::memory_order_seq_cst);
  const std::int64_t b = bottom_.load(std::memory_order_seq_cst);
  const std::int64_t size = b - index(theft.top);
  theft.count = 0;
  if (size <= 0) return true;
  const std::int64_t take = size >= deep ? std::min(batch, size / 2) : 1;
  buffer* const ring = buffer_.load(std::memory_order_acquire);
  for (std::int64_t i = 0; i < take; ++i) {
    const auto at = static_cast<std::size_t>(index(theft.top) + i) & ring->mask;
    entry e = ring->slots[at].load(std::memory_order_relaxed);
    if (e == nullptr) return false;
    theft.entries[static_cast<std::size_t>(i)] = e;
  }
  theft.count = static_cast<std::size_t>(take);
  return true;
}

bool deque::take(plan_of_theft& theft) noexcept {
  return top_.compare_exchange_strong(theft.top, theft.top + theft.count,
                                      std::memory_order_seq_cst);
}

std::size_t deque::steal(loot& into, bool& lost) noexcept {
  plan_of_theft theft;
  if (!plan(theft) || (theft.count > 0 && !take(theft))) {
    lost = true;
    return 0;
  }
  std::copy_n(theft.entries.begin(), theft.count, into.begin());
  return theft.count;
}

// Called when the size by a known top reaches near_full_: the deque got deep, or it may be full.
void deque::make_room(std::int64_t b) {
  known_top_ = index(top_.load(std::memory_order_acquire));
  const std::int64_t size = b - known_top_;
  const auto capacity =
      static_cast<std::int64_t>(buffer_.load(std::memory_order_relaxed)->mask + 1);
  if (size >= capacity) {
    replace_buffer(static_cast<std::size_t>(capacity) * 2, known_top_, b);
  }
  // From deep - 1 on, this push makes the deque one that a thief may take a batch from.
  if (size >= deep - 1) may_batch_ = true;
  const auto now = static_cast<std::int64_t>(buffer_.load(std::memory_order_relaxed)->mask + 1);
  near_full_ = may_batch_ ? now : std::min(deep - 1, now);
}

void deque::replace_buffer(std::size_t capacity, std::int64_t from, std::int64_t to) {
  auto next = std::make_unique<buffer>();
  retired_.reserve(retired_.size() + 2);
  next->slots = make_slots(capacity);
  next->mask = capacity - 1;
  buffer* const old = buffer_.load(std::memory_order_relaxed);
  for (std::int64_t i = from; i < to; ++i) {
    const auto at = static_cast<std::size_t>(i);
    next->slots[at & next->mask].store(old->slots[at & old->mask].load(std::memory_order_relaxed),
                                       std::memory_order_relaxed);
  }
  near_full_ = std::min(deep - 1, static_cast<std::int64_t>(capacity));
  // Release: a thief that reads the new buffer sees what was copied into it.
  buffer_.store(next.release(), std::memory_order_release);
  if (old != nullptr) retire(old);
}

void deque::retire(buffer* old) noexcept {
  const std::size_t bytes = (old->mask + 1) * sizeof(slot);
  if (bytes >= mapped_from_bytes) madvise(old->slots, bytes, MADV_DONTNEED);
  retired_.push_back(old);
}

void deque::shrink() noexcept {
  buffer* const ring = buffer_.load(std::memory_order_relaxed);
  const auto capacity = static_cast<std::int64_t>(ring->mask + 1);
  const std::size_t bytes = (ring->mask + 1) * sizeof(slot);
  const std::int64_t b = bottom_.load(std::memory_order_relaxed);
  // Not after every nap: only when a good part of the pages has been written since.
  if (bytes < mapped_from_bytes || b - last_shrink_ < capacity / 4 || !is_empty()) return;
  last_shrink_ = b;
  madvise(ring->slots, bytes, MADV_DONTNEED);
}

}  // namespace manta::inline v0::exec
