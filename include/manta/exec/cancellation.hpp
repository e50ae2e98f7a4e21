// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>

#include <manta/base/export.hpp>
#include <manta/base/id.hpp>
#include <manta/exec/context.hpp>
#include <manta/exec/job.hpp>

// Cancelling a job, and what it called.
//
// Problem. Any future can be cancelled, and the children of a cancelled task with it; but a task
// must not keep a list of its children, nor a child a pointer to its parent, for the few cancels
// that ever happen.
//
// Idea. A child knows its parent's id. Cancelling a running job puts its id into a table of
// cancelled callers; a job looks whether its caller is in there when it is about to run (one load
// of a filter word when nothing was ever cancelled). Children that run already are found by their
// caller's id in the places where threads show what they run, and are cancelled in their turn.
//
//   the job is                    cancel does
//   waiting, or in a queue        withdraw: its future ends now, it never runs
//   an actor's call, not begun    the same; the actor drops it when it comes to it
//   running                       sets the cancel bit, requests its stop_token, enters its id
//   suspended (a coroutine)       as running, and resumes it with manta::cancelled
//   an alias                      cancels what it stands for
//   ready                         nothing
//
// A begun call of an actor is not claimed (actor_core.hpp), so: the runner writes needs = begun,
// then reads the word; the canceller sets the cancel bit, passes the heavy barrier, then reads
// needs. One sees the other; when both do, the claim decides.
//
// The same pattern finds running children: a thread shows what it runs, then reads the filter; the
// canceller enters the id, passes the heavy barrier, then looks at what is shown.
//
// Limits. The table keeps the last 32,768 cancelled callers at least, 65,536 at most; a child that
// was still queued when 32,768 more callers were cancelled runs. What is deeper than 256 jobs run
// in place on one stack is not seen by others. A task that blocks in something that is not manta's
// goes on until it looks.

namespace manta::inline v0::exec {

/// Whether this caller was cancelled with its children.
MANTA_API bool is_cancelled_caller(const base::id& caller) noexcept;

/// What a job fails with that is cancelled before it runs.
MANTA_API const error& cancelled_error() noexcept;

/// Cancels as the story says; false: it had ended. Any thread with a hold; takes locks for a short
/// while, and stop callbacks run on this thread.
MANTA_API bool cancel_job(job* j, bool with_children) noexcept;
/// Ends one that has not begun, a task or an actor's call; not its children. False: it has begun,
/// or has ended. The caller has a hold.
MANTA_API bool withdraw_job(job* j, const error& reason) noexcept;

/// Ends a job at its deadline with timed_out, whatever it does. The timer's thread.
MANTA_API void expire_job(job* j) noexcept;

/// Asks a claimed job to stop, as cancel_job does with one that runs.
MANTA_API void request_stop(job* j, bool with_children) noexcept;

/// Whether the running job was asked to stop. Its thread; false outside of jobs.
MANTA_API bool is_stop_requested(context& of) noexcept;
/// Its stop token; made at the first use. Its thread; an empty token outside of jobs.
MANTA_API std::stop_token stop_token_of(context& of);
/// The job that runs in `of` has ended: forgets its stop token.
MANTA_API void end_stop(context& of) noexcept;
/// What context::endings asks for, when its job has run or its coroutine ended.
void end_turns(context& of) noexcept;

/// Cancels every job there is, and those that come until the runtime starts anew, as if all callers
/// were cancelled with their children. What is in a line ends when its turn comes. Any thread; stop
/// callbacks run on it.
MANTA_API void cancel_all() noexcept;
/// Whether that was done, and no runtime has started since.
bool is_all_cancelled() noexcept;

/// Forgets what was cancelled; when a runtime starts.
void reset_cancellation() noexcept;

}  // namespace manta::inline v0::exec
