// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "life/membership.hpp"
#include "sim/cluster.hpp"

namespace sim {

/// The breaches of what a cluster promises, from a run's log alone; none: all is well.
///   1. an epoch is given once, and a head's is larger than all before it
///   2. who knows that a process has ended handles nothing more of it
///   3. a request is handled once
///   4. nobody ends who was not crashed, cut off or stopped for long, reset or told to
///   5. at the end those who live, and nobody else, are members to each of them, by one epoch
///   6. who is drained leaves in time
std::vector<std::string> breaches(const outcome& of, const manta::life::membership_settings& with);

}  // namespace sim
