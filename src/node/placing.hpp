// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <manta/spec/resources.hpp>

#include "node/peers.hpp"

// Which node a placement names.

namespace manta::inline v0::node {

/// The node that `where` (rule::node) asks for; 0: this one, or none where that is only a wish.
/// Throws infeasible with the names that there are.
std::uint64_t node_named(const peers& among, const placement& where);

}  // namespace manta::inline v0::node
