// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <manta/node/kv_bytes.hpp>
#include <manta/spec/history.hpp>

// What manta::history asks the control store, without futures; in an isolated worker its node.
//
// Answers come once, on the journal's thread, after all that was told before is in the store; or at
// once, when no runtime runs. They must not throw. Threads: any.

namespace manta::inline v0::node {

/// Throws no_runtime.
std::string history_this_job();
void history_jobs(kv_answer<std::vector<job_record>> then);
void history_functions(const std::string& job, kv_answer<std::vector<std::string>> then);
void history_actors(kv_answer<std::vector<actor_record>> then);
void history_events(const std::string& job, std::size_t most,
                    kv_answer<std::vector<event_record>> then);

}  // namespace manta::inline v0::node
