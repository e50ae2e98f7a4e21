// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include <manta/spec/resources.hpp>

#include "node/peers.hpp"

// Which node a placement names.

namespace manta::inline v0::node {

/// Looks until there() is true, for as long as who is asked for may not be known yet: 2 s. Throws
/// what there() does.
void wait_for_node(const std::function<bool()>& there);

/// The node that `where` (rule::node) asks for; 0: this one, or none where that is only a wish.
/// One that is not known is waited for, 2 s: others may have heard of it before this node does. One
/// that has ended is not.
/// Throws then infeasible, with the names that there are; and, when `is_open` ends, cancelled.
std::uint64_t node_named(const peers& among, const std::atomic<bool>& is_open,
                         const placement& where);

}  // namespace manta::inline v0::node
