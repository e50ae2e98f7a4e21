// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>

// Hints to the processor, how long to spin at least, and a barrier.

namespace manta::inline v0::base {

/// Every waiter may spin this long, whatever else spins: most of what is under way ends sooner than
/// a thread falls asleep.
inline constexpr std::chrono::microseconds always_spin{2};

/// This thread is spinning.
inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// The cache line at `address` will be written soon: takes it from other cores meanwhile.
inline void prefetch_for_write(const void* address) noexcept {
#if defined(__x86_64__)
  // The builtin gives a read prefetch without -mprfchw; this is a no-op where it is not known.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

/// What this thread wrote before is seen by others before what it reads after: a read-modify-write
/// on a line of its own, a full barrier that the thread sanitizer understands as well.
inline void full_barrier() noexcept {
  thread_local std::atomic<int> own{0};
  own.fetch_add(1, std::memory_order_seq_cst);
}

}  // namespace manta::inline v0::base
