// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include <manta/base/clock.hpp>

// How long a node waits for its own last words of an actor.
//
// Problem. Who makes a handle of a weak one asks the actor's home, behind all that this node has
// told it. What other threads here are still to tell it, be it calls or that a handle goes, comes
// later, and would make the answer wrong.
// Idea. It waits until they have. Not for ever: they may wait for the very thread that asks.

namespace manta::inline v0::own {

struct handle_limits {
  static constexpr duration between_looks = std::chrono::milliseconds(1);
  /// After the last one the home is asked all the same.
  static constexpr std::uint64_t most_looks = 1000;
};

}  // namespace manta::inline v0::own
