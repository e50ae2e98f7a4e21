// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <sys/types.h>

#include <manta/base/clock.hpp>

// What isolated workers have done, for stats.

namespace manta::inline v0::node {

/// Tasks, calls of actors and constructors, of these the calls; and the processes made for it.
struct pool_work {
  std::uint64_t runs = 0;
  std::uint64_t calls = 0;
  std::uint64_t workers = 0;
};

/// The part of one worker.
struct worker_work {
  pid_t process = 0;  ///< 0: not known yet
  std::uint64_t runs = 0;
  duration busy{0};
};

}  // namespace manta::inline v0::node
