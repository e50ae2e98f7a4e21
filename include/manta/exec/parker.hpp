// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>

namespace manta::inline v0::exec {

/// Where one thread sleeps until another calls signal. park, park_until, reset: the owner; signal:
/// any thread. A signal that comes first is not lost. Cost of signal: one exchange, and a futex
/// call only when the owner sleeps.
class MANTA_API parker {
 public:
  void park() noexcept;
  /// False when the deadline came first.
  bool park_until(const base::deadline& deadline) noexcept;
  void signal() noexcept;
  bool is_signalled() const noexcept { return state_.load(std::memory_order_acquire) == signalled; }
  void reset() noexcept { state_.store(idle, std::memory_order_relaxed); }

  // The parts of park, for an owner who sleeps on other words, too: begin; unless that is false, a
  // (private) futex wait while the word is `sleeping`; then end.
  static constexpr std::uint32_t sleeping = 1;
  bool begin_sleep() noexcept {
    std::uint32_t expected = idle;
    return state_.compare_exchange_strong(expected, sleeping, std::memory_order_acquire);
  }
  const std::atomic<std::uint32_t>& word() const noexcept { return state_; }
  void end_sleep() noexcept {
    std::uint32_t expected = sleeping;
    state_.compare_exchange_strong(expected, idle, std::memory_order_acquire);
  }

 private:
  static constexpr std::uint32_t idle = 0;
  static constexpr std::uint32_t signalled = 2;
  std::atomic<std::uint32_t> state_{idle};
};

/// Makes every running thread of the process pass a full memory barrier. With it, a thread that
/// publishes work and then looks for sleepers needs only a compiler barrier (light_barrier), since
/// the thread that goes to sleep pays for both. Where the system has no membarrier call, both sides
/// use a full barrier.
MANTA_API void heavy_barrier() noexcept;

namespace detail {
/// True where membarrier works; set before the first runtime starts.
extern MANTA_API std::atomic<bool> has_membarrier;
MANTA_API void full_barrier() noexcept;
}  // namespace detail

inline void light_barrier() noexcept {
  if (detail::has_membarrier.load(std::memory_order_relaxed)) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    detail::full_barrier();
  }
}

}  // namespace manta::inline v0::exec
