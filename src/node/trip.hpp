// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <manta/base/clock.hpp>
#include <manta/exec/job.hpp>
#include <manta/node/carrier.hpp>
#include <manta/spec/error.hpp>

#include "node/workbench.hpp"

// A call's way into another process and its result's way back: jobs to messages and messages to
// jobs. Who sends them, and where to, is others' business.

namespace manta::inline v0::node {

/// A call that is being made, where calls run in isolated workers: it is marked as one of those.
/// Throws unsupported for what can't run there yet.
void send_away(exec::job* j, const carrier& by);

/// Writes the message of a claimed task whose arguments are ready. Throws encode_failed,
/// unsupported (what can't leave yet), std::bad_alloc.
void write_task(workbench& on, exec::job* j, const base::id& request);

/// A job of this process for a task that arrived: unclaimed, needs nothing, two holds. Throws
/// decode_failed, unknown_function, unsupported, std::bad_alloc.
exec::job* make_task(const wire::task_view& arrived);

/// The same for an actor that is to be made elsewhere, with the name `actor`, from its claimed
/// construction.
void write_spawn(workbench& on, const exec::actor_core& of, exec::job* construction,
                 const base::id& actor, const base::id& request);
/// The name and the options of a new actor, before it can be made; see worker_pool_asks.cpp.
void write_reservation(workbench& on, const exec::actor_core& of, const actor_options& asked,
                       const base::id& actor, const base::id& request);
/// The actor of such a message, which nobody knows yet: its object will be in this process.
made_actor make_actor(const wire::spawn_view& arrived);

/// The same for a claimed call of the actor's.
void write_call(workbench& on, exec::job* j, const base::id& actor, const base::id& request);
/// A job of this process for a call that arrived: unclaimed, two holds.
exec::job* make_call(const wire::call_view& arrived, exec::actor_core* to);

/// Writes the message of what a job of make_task ended with.
void write_result(workbench& on, exec::job* ended, const base::id& request, duration ran);
/// The same for a failure without a job.
void write_failure(workbench& on, const base::id& task, const base::id& request,
                   const error& failure);

/// Writes the answer to a question.
void write_answer(workbench& on, const base::id& request, const spec::parcel_view& value);

/// Puts what arrived into the slot of a claimed job, and answers the bits to finish it with.
std::uint64_t fill_slot(exec::job* j, const wire::result_view& arrived) noexcept;
/// The same with an error.
std::uint64_t fill_slot(exec::job* j, error failure) noexcept;

}  // namespace manta::inline v0::node
