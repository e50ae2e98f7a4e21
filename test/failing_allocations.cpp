// SPDX-License-Identifier: Apache-2.0
#include "failing_allocations.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace manta_test {

constinit thread_local int fail_in = 0;
std::atomic<int> large_fails_in{0};

}  // namespace manta_test

#if MANTA_TEST_FAILS_ALLOCATIONS

namespace {

// As fail_in counts down, but for all threads.
bool is_large_that_fails(std::size_t bytes) {
  if (bytes < manta_test::large_allocation) return false;
  std::atomic<int>& left = manta_test::large_fails_in;
  int n = left.load();
  while (n > 0 && !left.compare_exchange_weak(n, n - 1)) {
  }
  return n == 1;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (manta_test::fail_in > 0 && --manta_test::fail_in == 0) throw std::bad_alloc();
  if (is_large_that_fails(bytes)) throw std::bad_alloc();
  const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
  void* const p = alignment <= alignof(std::max_align_t)
                      ? std::malloc(bytes == 0 ? 1 : bytes)
                      : std::aligned_alloc(alignment, size == 0 ? alignment : size);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t& /*form*/) noexcept {
  try {
    return allocate(bytes, alignof(std::max_align_t));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
// The array forms of the library call these; the sanitizers' own do not.
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t& form) noexcept {
  return operator new(bytes, form);
}
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t /*bytes*/) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t& /*form*/) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t& /*form*/) noexcept { std::free(p); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t /*bytes*/) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t /*alignment*/) noexcept { std::free(p); }
void operator delete(void* p, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(p);
}

#endif
