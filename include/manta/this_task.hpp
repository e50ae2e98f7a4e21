// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <manta/base/export.hpp>
#include <manta/base/id.hpp>

// What the running task knows about itself.

namespace manta::inline v0 {

/// A task's name to the engine: the same in every run that makes the same calls in the same order.
using task_id = base::id;

/// 32 hexadecimal digits.
MANTA_API std::string to_string(const task_id& id);

/// About the task, actor's method or constructor that runs on this thread, coroutines included.
/// Called on a thread of the driver the functions answer for that thread; each says how.
namespace this_task {

/// Whether a task, a method or a constructor runs here.
MANTA_API bool is_inside() noexcept;

/// The running task's id; a thread of the driver has one of its own. Throws no_runtime.
MANTA_API task_id id();

/// The name given in its options, else its function's; "driver" outside of tasks.
MANTA_API std::string name();

/// 0 for the first run, 1 for the first retry, and so on; 0 outside of tasks.
MANTA_API int attempt() noexcept;

/// Where it runs: the node's name in its cluster, or "local" where there is none, and in isolated
/// workers. "local" means this node in placements, too. Cost: a lock and a copy.
MANTA_API std::string node();

/// The indices of the GPUs that the running task or actor holds, ascending; empty when it asked for
/// none, and outside of tasks. Index 0 is the first GPU that the node's process sees, also where
/// the node has only others of them. A fraction is one index, shared with other fractions. In an
/// isolated worker CUDA_VISIBLE_DEVICES names these and no others while the task runs, so that CUDA
/// counts them from 0 there; it is empty for a task that asked for none, where the runtime has gpus
/// to give.
MANTA_API std::vector<int> gpus();

/// When it has to have ended, its own or an inherited deadline; nothing when it has none.
MANTA_API std::optional<std::chrono::steady_clock::time_point> deadline() noexcept;

/// A token that is asked to stop when the task is cancelled, its caller is, or its deadline passes.
/// Outside of tasks a token that never is. Callbacks registered with it run on the thread that
/// cancels and must be short. Cost: a lock; keep the token rather than asking again.
MANTA_API std::stop_token stop_token();

/// Whether the task was asked to stop; false outside of tasks. Two loads as a rule.
MANTA_API bool is_cancelled() noexcept;

/// Throws manta::cancelled when the task was asked to stop: the task then ends as cancelled.
MANTA_API void check();

/// Writes the text to stderr with the task's name, the first digits of its id and its attempt
/// before each of its lines; the lines of one call stay together, those of others never mix in.
MANTA_API void log(std::string_view text);

}  // namespace this_task
}  // namespace manta::inline v0
