// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <manta/base/clock.hpp>
#include <manta/exec/parker.hpp>

#include "wire/ring.hpp"

// Sleeping until a message comes in one of several rings or a parker is signalled.
//
// Each ring is told that somebody sleeps, then looked at once more by the caller, then one system
// call waits for all words. Where the kernel has no such call (before Linux 5.16) it sleeps a
// millisecond at most and looks again.
// Threads: the parker's owner.

namespace manta::inline v0::node {

class ring_sleep {
 public:
  explicit ring_sleep(exec::parker& p) noexcept;
  ring_sleep(const ring_sleep&) = delete;
  ring_sleep& operator=(const ring_sleep&) = delete;

  /// Patient: only several messages end the sleep, or a sender that has no more.
  void add(wire::ring_reader& from, bool is_patient = false) noexcept;
  /// Returns at `until`, when a ring's bell rang, when the parker is signalled, or for no reason.
  void sleep(base::time_point until) noexcept;

 private:
  static constexpr std::size_t most = 127;  // of words, with the parker's 128
  exec::parker& parker_;
  struct asleep_on {
    wire::ring_reader* ring;
    std::uint32_t said;
  };
  std::array<asleep_on, most> rings_;
  std::size_t count_ = 0;
  bool has_more_ = false;
};

}  // namespace manta::inline v0::node
