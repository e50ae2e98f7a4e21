// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <manta/exec/job.hpp>

namespace manta::inline v0::exec {

/// Whether a job is listed twice. Exact, in linear time and without an allocation for a list whose
/// jobs lie close together.
bool has_repeats(job* const* jobs, std::size_t n);

}  // namespace manta::inline v0::exec
