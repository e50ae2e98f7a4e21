// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace manta::inline v0::node {

/// What one node says to another of what it was given and is to stop: a task, or an actor's call.
struct stop_note {
  std::uint64_t number = 0;  ///< the low half of the id of the request that gave it
  // Of a task.
  std::uint64_t task_high = 0;
  std::uint64_t task_low = 0;
  std::uint32_t attempt = 0;
  bool with_children = false;
};

}  // namespace manta::inline v0::node
