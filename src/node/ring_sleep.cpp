// SPDX-License-Identifier: Apache-2.0
#include "node/ring_sleep.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace manta::inline v0::node {

namespace {

using namespace std::chrono_literals;

// The longest sleep where not all words can be waited for.
constexpr auto short_sleep = 1ms;

futex_waitv wait_for(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                     std::uint32_t flags) noexcept {
  futex_waitv out{};
  out.val = value;
  out.uaddr = reinterpret_cast<std::uintptr_t>(&word);
  out.flags = FUTEX_32 | flags;
  return out;
}

}  // namespace

ring_sleep::ring_sleep(exec::parker& p) noexcept : parker_(p) {}

void ring_sleep::add(wire::ring_reader& from, bool is_patient) noexcept {
  if (count_ == rings_.size()) {
    has_more_ = true;
    return;
  }
  rings_[count_++] = {&from, from.announce_sleep(is_patient)};
}

void ring_sleep::sleep(base::time_point until) noexcept {
  if (!parker_.begin_sleep()) return;
  std::array<futex_waitv, most + 1> words{};
  words[0] = wait_for(parker_.word(), exec::parker::sleeping, FUTEX_PRIVATE_FLAG);
  for (std::size_t i = 0; i < count_; ++i) {
    words[i + 1] = wait_for(rings_[i].ring->sleep_word(), rings_[i].said, 0);
  }
  if (has_more_) until = std::min(until, base::now() + short_sleep);
  const timespec at = base::to_timespec(until);
  const long status = syscall(SYS_futex_waitv, words.data(), count_ + 1, 0, &at, CLOCK_MONOTONIC);
  if (status < 0 && errno == ENOSYS) {
    const timespec soon = base::to_timespec(std::min(until, base::now() + short_sleep));
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &soon, nullptr);
  }
  parker_.end_sleep();
}

}  // namespace manta::inline v0::node
