// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <manta/exec/job.hpp>

// What a runtime in the check-copy mode gives the executor; see node/carrier.hpp.

namespace manta::inline v0::node {

/// Sends what a job ended with through a message: its value, or its error. exec::outcome_check.
std::uint64_t check_outcome(exec::job* j, std::uint64_t bits) noexcept;
/// The same after a random delay, which check_arguments makes, too.
std::uint64_t check_outcome_slowly(exec::job* j, std::uint64_t bits) noexcept;
/// Nothing is checked, but each call has an extra.
std::uint64_t pass_outcome(exec::job* j, std::uint64_t bits) noexcept;

}  // namespace manta::inline v0::node
