// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/exec/job.hpp>

namespace manta::inline v0::exec {

/// What wait_many found: at least `count` jobs before position `end` are ready, and no more are
/// asked.
struct ready_prefix {
  std::size_t count = 0;
  std::size_t end = 0;
};

/// Waits until `wanted` of the n jobs are ready or the timeout is over. Throws invalid_argument for
/// null or repeated jobs and for wanted > n (but an empty list is answered whatever is wanted).
MANTA_API ready_prefix wait_many(job* const* jobs, std::size_t n, std::size_t wanted,
                                 const std::optional<duration>& timeout);

/// Waits until all are ready, one has failed, or the timeout is over; throws the failure, or
/// timed_out.
MANTA_API void wait_all_or_failure(job* const* jobs, std::size_t n, duration timeout);

}  // namespace manta::inline v0::exec
