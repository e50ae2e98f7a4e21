// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <manta/base/export.hpp>
#include <manta/future.hpp>
#include <manta/spec/history.hpp>

// manta::history: what this and earlier runs did, as far as the control store keeps it (the
// settings `control` and `events`). Everything that happened before a call is in its answer. All
// throw no_runtime; their futures fail with storage_failed or decode_failed when the store is
// damaged. Any thread. Cost: linear in what is found.

namespace manta::inline v0::history {

/// The runs, oldest first, this one last: the last 1,000.
MANTA_API future<std::vector<job_record>> jobs();

/// The name of this run in job_record::id. Throws no_runtime.
MANTA_API std::string this_job();

/// The functions that the job's program could call remotely, by their readable names, sorted; empty
/// for a job that is not known.
MANTA_API future<std::vector<std::string>> functions(const std::string& job);

/// The actors that have a name now, in the order of namespaces and names.
MANTA_API future<std::vector<actor_record>> actors();

/// What happened to tasks, actors' calls and constructors of a job, oldest first: of its last
/// 262,144 events at least the last `most`.
MANTA_API future<std::vector<event_record>> events(const std::string& job,
                                                   std::size_t most = 10000);

}  // namespace manta::inline v0::history
