// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/block_pool.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "slab_pool.hpp"

// Defined by the AddressSanitizer's runtime when the program has it.
extern "C" __attribute__((weak)) void __asan_init();

namespace manta::inline v0::exec {

namespace {

constexpr std::size_t step = 64;
constexpr std::size_t largest = 1024;
constexpr std::size_t class_count = largest / step;
// How many other slabs are looked at before a new one is taken: bounds the cost of running dry.
constexpr int probes = 4;

struct block {
  block* next;
};

struct heap;

struct slab {
  heap* owner = nullptr;
  slab* next = nullptr;  // ring of the heap's slabs of one class
  slab* previous = nullptr;
  block* local = nullptr;
  std::uint32_t used = 0;
  std::uint32_t fresh = 0;  // blocks never handed out begin here
  std::uint32_t capacity = 0;
  std::uint32_t size_class = 0;
  alignas(64) std::atomic<block*> remote{nullptr};
};
constexpr std::size_t slab_header = sizeof(slab);
static_assert(slab_header == 128);

struct heap {
  slab* current[class_count] = {};
};

// Heaps of ended threads wait here for new threads.
struct heap_store {
  std::mutex mutex;
  std::vector<heap*> spare;
};
heap_store& heaps() {
  static auto* const store = new heap_store;
  return *store;
}

// Null until a thread's first block, and for ever where blocks come from elsewhere; so the fast
// paths ask one question.
constinit thread_local heap* my_heap = nullptr;
constinit thread_local int fail_in = 0;
constinit thread_local heap* set_aside = nullptr;  // while fail_in counts

struct heap_return {
  heap* mine = nullptr;
  ~heap_return() {
    my_heap = nullptr;
    if (mine == nullptr) return;
    const std::lock_guard lock(heaps().mutex);
    heaps().spare.push_back(mine);
  }
};

slab* slab_of(void* p) noexcept {
  return reinterpret_cast<slab*>(reinterpret_cast<std::uintptr_t>(p) & ~(slab_bytes - 1));
}

std::size_t class_of(std::size_t bytes) noexcept { return bytes == 0 ? 0 : (bytes - 1) / step; }

bool watched_by_asan() noexcept { return &__asan_init != nullptr; }

heap* adopt_heap() {
  thread_local heap_return guard;
  heap* found = nullptr;
  {
    const std::lock_guard lock(heaps().mutex);
    if (!heaps().spare.empty()) {
      found = heaps().spare.back();
      heaps().spare.pop_back();
    } else {
      heaps().spare.reserve(heaps().spare.capacity() + 1);  // so that giving it back can't fail
    }
  }
  if (found == nullptr) found = new heap;
  guard.mine = found;
  my_heap = found;
  return found;
}

void* take_from(slab* s) noexcept {
  if (s->local != nullptr) {
    block* b = s->local;
    s->local = b->next;
    ++s->used;
    return b;
  }
  if (s->fresh < s->capacity) {
    ++s->used;
    const std::size_t size = (s->size_class + 1) * step;
    return reinterpret_cast<char*>(s) + slab_header + size * s->fresh++;
  }
  return nullptr;
}

void collect_remote(slab* s) noexcept {
  if (s->remote.load(std::memory_order_relaxed) == nullptr) return;
  block* b = s->remote.exchange(nullptr, std::memory_order_acquire);
  while (b != nullptr) {
    block* next = b->next;
    b->next = s->local;
    s->local = b;
    --s->used;
    b = next;
  }
}

void unlink(slab* s) noexcept {
  s->next->previous = s->previous;
  s->previous->next = s->next;
}

void give_back(slab* s) noexcept {
  unlink(s);
  s->~slab();
  slab_pool::global().release(s);
}

slab* add_slab(heap* h, std::size_t size_class) {
  auto* s = new (slab_pool::global().acquire()) slab;
  s->owner = h;
  s->size_class = static_cast<std::uint32_t>(size_class);
  s->capacity = static_cast<std::uint32_t>((slab_bytes - slab_header) / ((size_class + 1) * step));
  slab* ring = h->current[size_class];
  if (ring == nullptr) {
    s->next = s->previous = s;
  } else {
    s->previous = ring;
    s->next = ring->next;
    ring->next->previous = s;
    ring->next = s;
  }
  h->current[size_class] = s;
  return s;
}

void* allocate_slow(heap* h, std::size_t size_class) {
  slab* s = h->current[size_class];
  if (s != nullptr) {
    collect_remote(s);
    for (int i = 0; i <= probes; ++i) {
      if (void* p = take_from(s)) {
        h->current[size_class] = s;
        return p;
      }
      s = s->next;
      collect_remote(s);
    }
    h->current[size_class] = s;  // the next search goes on from here
  }
  return take_from(add_slab(h, size_class));
}

void trim(heap* h) noexcept {
  for (slab*& current : h->current) {
    if (current == nullptr) continue;
    slab* const first = current;
    slab* s = first->next;
    while (s != first) {
      slab* next = s->next;
      collect_remote(s);
      if (s->used == 0) give_back(s);
      s = next;
    }
    collect_remote(first);
    if (first->used > 0) continue;
    current = first->next == first ? nullptr : first->next;
    give_back(first);
  }
}

}  // namespace

namespace {

heap* heap_of_thread() {
  if (fail_in == 0) return my_heap != nullptr ? my_heap : adopt_heap();
  if (set_aside == nullptr) set_aside = adopt_heap();
  my_heap = nullptr;
  return set_aside;
}

// What the fast path has no answer for.
[[gnu::noinline]] void* allocate_rarely(std::size_t bytes) {
  if (fail_in == 1) {
    testing::fail_allocation(0);
    throw std::bad_alloc();
  }
  if (fail_in > 0) --fail_in;
  if (bytes > largest || watched_by_asan()) {
    return ::operator new (bytes, std::align_val_t{step});
  }
  heap* const h = heap_of_thread();
  return allocate_slow(h, class_of(bytes));
}

[[gnu::noinline]] void free_rarely(void* p, std::size_t bytes) noexcept {
  if (bytes > largest || watched_by_asan()) {
    ::operator delete (p, std::align_val_t{step});
    return;
  }
  auto* b = static_cast<block*>(p);
  slab* s = slab_of(p);
  // Pairs with the acquire in collect_remote: what was written to the block is seen by its next
  // user.
  b->next = s->remote.load(std::memory_order_relaxed);
  while (!s->remote.compare_exchange_weak(b->next, b, std::memory_order_release,
                                          std::memory_order_relaxed)) {
  }
}

}  // namespace

void* allocate_block(std::size_t bytes) {
  heap* const h = my_heap;
  if (h == nullptr || bytes > largest) [[unlikely]]
    return allocate_rarely(bytes);
  if (slab* const s = h->current[class_of(bytes)]) [[likely]] {
    if (void* p = take_from(s)) [[likely]]
      return p;
  }
  return allocate_rarely(bytes);
}

void free_block(void* p, std::size_t bytes) noexcept {
  heap* const mine = my_heap;
  slab* const s = slab_of(p);
  if (mine == nullptr || bytes > largest || s->owner != mine) [[unlikely]] {
    free_rarely(p, bytes);
    return;
  }
  auto* const b = static_cast<block*>(p);
  b->next = s->local;
  s->local = b;
  if (--s->used == 0 && mine->current[s->size_class] != s) [[unlikely]]
    give_back(s);
}

void trim_blocks() noexcept {
  if (my_heap != nullptr) trim(my_heap);
}

void release_unused_blocks() noexcept {
  trim_blocks();
  {
    const std::lock_guard lock(heaps().mutex);
    for (heap* h : heaps().spare) trim(h);
  }
  slab_pool::global().release_pages();
}

block_usage usage_of_blocks() noexcept { return slab_pool::global().usage(); }

void testing::fail_allocation(int n) noexcept {
  // Without its heap the thread comes by where it is counted.
  if (set_aside == nullptr) set_aside = my_heap;
  fail_in = n;
  my_heap = n > 0 ? nullptr : std::exchange(set_aside, nullptr);
}

}  // namespace manta::inline v0::exec
