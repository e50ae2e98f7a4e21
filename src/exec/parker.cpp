// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/parker.hpp>

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <ctime>

#include <manta/base/pause.hpp>
#include <manta/base/sanitizers.hpp>

namespace manta::inline v0::exec {

namespace {

long futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value,
           const timespec* until) noexcept {
  return syscall(SYS_futex, word, operation, value, until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

// ThreadSanitizer keeps a signal until its thread comes to a call that it knows, which a raw system
// call is none of: who sleeps here for ever would never run the handler, of SIGINT say.
[[maybe_unused]] bool sleep_for_a_signal(std::atomic<std::uint32_t>* word, std::uint32_t value,
                                         const base::deadline& deadline) noexcept {
  constexpr std::chrono::milliseconds often{20};
  const base::time_point soon = base::now() + often;
  const timespec until = base::to_timespec(deadline ? std::min(soon, *deadline) : soon);
  const long status = futex(word, FUTEX_WAIT_BITSET_PRIVATE, value, &until);
  const bool is_late = status == -1 && errno == ETIMEDOUT;
  const timespec none{};
  nanosleep(&none, nullptr);  // one that it knows
  return !is_late || !deadline || *deadline > soon;
}

// Whether the deadline has not passed yet. steady_clock is CLOCK_MONOTONIC, which
// FUTEX_WAIT_BITSET takes as an absolute time.
bool sleep(std::atomic<std::uint32_t>* word, std::uint32_t value,
           const base::deadline& deadline) noexcept {
  if constexpr (MANTA_HAS_TSAN != 0) return sleep_for_a_signal(word, value, deadline);
  timespec until{};
  if (deadline) until = base::to_timespec(*deadline);
  const long status = futex(word, FUTEX_WAIT_BITSET_PRIVATE, value, deadline ? &until : nullptr);
  return status != -1 || errno != ETIMEDOUT;
}

bool register_membarrier() noexcept {
  const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  if (commands < 0 || (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return false;
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

}  // namespace

std::atomic<bool> detail::has_membarrier{register_membarrier()};

void detail::full_barrier() noexcept { base::full_barrier(); }

void heavy_barrier() noexcept {
  if (detail::has_membarrier.load(std::memory_order_relaxed)) {
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  } else {
    detail::full_barrier();
  }
}

void parker::park() noexcept { park_until(std::nullopt); }

bool parker::park_until(const base::deadline& deadline) noexcept {
  std::uint32_t expected = idle;
  if (!state_.compare_exchange_strong(expected, sleeping, std::memory_order_acquire)) return true;
  while (state_.load(std::memory_order_acquire) != signalled) {
    if (sleep(&state_, sleeping, deadline)) continue;
    expected = sleeping;
    return !state_.compare_exchange_strong(expected, idle, std::memory_order_acquire);
  }
  return true;
}

void parker::signal() noexcept {
  // Release: what was done before is seen by the owner when it wakes. The owner may be gone right
  // after the exchange; a futex wake on its old address is harmless.
  if (state_.exchange(signalled, std::memory_order_acq_rel) == sleeping) {
    futex(&state_, FUTEX_WAKE_PRIVATE, 1, nullptr);
  }
}

}  // namespace manta::inline v0::exec
