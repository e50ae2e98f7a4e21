// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <manta/exec/job.hpp>

namespace manta::inline v0::exec {

/// Whether a job is listed twice. Exact, in linear time and without an allocation for a list whose
/// jobs lie close together.
bool has_repeats(job* const* jobs, std::size_t n);

/// Whether the list is what remains of one that this thread remembered, so that it has neither
/// empty entries nor repeated ones. False says nothing. Cost: about 0.2 ns an entry.
bool is_rest_of_remembered(job* const* jobs, std::size_t n) noexcept;

/// Remembers a list that was found to have neither empty entries nor repeated ones.
void remember(job* const* jobs, std::size_t n) noexcept;

}  // namespace manta::inline v0::exec
