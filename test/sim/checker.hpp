// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "life/membership.hpp"
#include "sim/cluster.hpp"

namespace sim {

/// How often it was asked whether something happened in time: of none nothing is known.
struct asked_times {
  int closed = 0;  // an end that a closed connection shows
  int silent = 0;  // one that silence shows
  int heard = 0;   // whether a member heard of another's end
};

/// The breaches of what a cluster promises, from a run's log alone; none: all is well.
///   1. an epoch is given once, and a head's is larger than all before it
///   2. who knows that a process has ended handles nothing more of it
///   3. a request is handled once
///   4. nobody ends who was not told to, and had no reason shortly before: cut off or stopped for
///      long, its connections reset, no head or no disk for it when it began, or no head for long
///   5. at the end those who live, and nobody else, are members to each of them, by one epoch,
///      alive and with the load that they have
///   6. who is drained leaves in time
///   7. while its head is well, a member whose process died has ended closed_grace later, one that
///      says nothing dead_after and a look later, and the others hear of it soon
///   8. who finds no head, or no place, gives up in time
std::vector<std::string> breaches(const outcome& of, const run_settings& with,
                                  asked_times* asked = nullptr);

}  // namespace sim
