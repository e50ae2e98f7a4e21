// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include <manta/base/export.hpp>
#include <manta/exec/job.hpp>
#include <manta/spec/error.hpp>

// Rings of delegations, also those that go through several processes.
//
// Problem. A job whose run returned another one's future becomes its alias (job.hpp), and one that
// would close a ring fails, since it would wait for itself. A job that another process runs becomes
// an alias there, and its node would only see that it takes long: tasks in two processes that
// return each other's futures would wait for ever.
//
// Idea. The process that runs a job says what it delegated to (named_jobs::delegates), and its node
// notes that beside the job. Results still take their way as if nothing had been said; but who
// looks for a ring follows these notes as it follows aliases, and both are made under one lock, so
// that the last of a ring sees all others. It ends there with an error, which then goes round.
//
//   node:      A - - note - -> C          C - - note - -> A     the second note closes the ring
//   worker 1:  A --alias--> C's answer
//   worker 2:                             C --alias--> what A means there
//
// Invariant: aliases and notes of jobs that are not ready make no ring.
//
// Threads: any. Locks: delegation_mutex, then that of the notes, then those of named_jobs.

namespace manta::inline v0::exec {

/// Held while an alias or a note is made. No user's code is called under it.
std::mutex& delegation_mutex();

error delegation_cycle_error();

/// Whether `end`, which is no unresolved alias, stands for `goal` by notes and aliases. Under
/// delegation_mutex. Costs two loads for a job of this process alone.
bool leads_to(job* end, const job* goal) noexcept;

/// `from`, a claimed job with extra that another process runs, has delegated there to `to`. Ends
/// `from` if that closes a ring. With a hold of both.
MANTA_API void note_delegation(job* from, job* to) noexcept;
/// It runs once more, or has ended: answers what it had delegated to, which a user's destructor may
/// go with. Costs a load where there is none.
MANTA_API job_ref forget_delegation(job* from) noexcept;

/// Says what `from` stands for, if it is an unresolved alias: others have just got a name for it.
void tell_delegation_of(job* from) noexcept;
/// Says who stands for `to`: its node has just heard of it.
void tell_delegations_to(job* to) noexcept;

}  // namespace manta::inline v0::exec
