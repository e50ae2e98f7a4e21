// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <manta/base/clock.hpp>
#include <manta/exec/job.hpp>
#include <manta/node/carrier.hpp>
#include <manta/spec/error.hpp>

#include "node/workbench.hpp"

// A call's way into another process and its result's way back: jobs to messages and messages to
// jobs. Who sends them, and where to, is others' business.

namespace manta::inline v0::node {

/// A task or call that is being made: is marked when it is to run in an isolated worker. Throws
/// what goes_elsewhere does, and check_leaves.
void send_away(exec::job* j, const carrier& by);
/// Throws unsupported for what can't run in another process yet.
void check_leaves(const carrier& by);

/// Writes the message of a claimed task whose arguments are ready. Throws encode_failed,
/// unsupported (what can't leave yet), std::bad_alloc.
void write_task(workbench& on, exec::job* j, const base::id& request);

/// A job of this process for a task that arrived: unclaimed, needs nothing, two holds. Throws
/// decode_failed, unknown_function, unsupported, std::bad_alloc. `here`: it asks this process for
/// what these options say; null: its sender has given it that.
exec::job* make_task(const wire::task_view& arrived, const options* here = nullptr);

/// The same for an actor that is to be made elsewhere, with the name `actor`, from its claimed
/// construction.
/// `asked`: what it asks for there; null: what its claim here was given.
void write_spawn(workbench& on, const exec::actor_core& of, exec::job* construction,
                 const base::id& actor, const base::id& request,
                 const spec::demand* asked = nullptr, const placement& where = {});
/// The name and the options of a new actor, before it can be made; see worker_pool_asks.cpp.
struct spawn_asked {
  const actor_options& options;
  const exec::job_ops& construction;
  std::optional<placement> there = {};  ///< of one in a group: what its node knows that by
};
void write_reservation(workbench& on, const exec::actor_core& of, const spawn_asked& what,
                       const base::id& actor, const base::id& request);
/// An actor with one handle and the job that constructs it, with two holds.
struct made_actor {
  exec::actor_core* core = nullptr;
  exec::job* construction = nullptr;
};
/// The actor of such a message, which nobody knows yet: its object will be in this process, with
/// what its node has given it.
made_actor make_actor(const wire::spawn_view& arrived);
/// The core of one whose object will be here, with one handle and with `claim`; its construction
/// may be made later.
exec::actor_core* make_resident(const wire::spawn_view& arrived,
                                std::unique_ptr<exec::resource_claim> claim);
/// Its core alone, also of a reservation; it holds `claim`.
exec::actor_core* make_core(const wire::spawn_view& arrived,
                            std::unique_ptr<exec::resource_claim> claim);
/// What constructs its object. Throws as make_task.
exec::job* make_construction(const wire::spawn_view& arrived, exec::actor_core* of);
/// Ends a core that nobody knows, with what it holds.
void drop_core(exec::actor_core* made) noexcept;
/// Ends one that is known, and will never be made: as actor_core::abandon_start, with what it
/// holds.
void abandon_core(exec::actor_core& of, const error& why) noexcept;

/// The same for a claimed call of the actor's.
void write_call(workbench& on, exec::job* j, const base::id& actor, const base::id& request);
/// A job of this process for a call that arrived: unclaimed, two holds.
exec::job* make_call(const wire::call_view& arrived, exec::actor_core* to);

/// Writes the message of a claimed task for another node (on.goes_to); its first one keeps it
/// meanwhile. False: it has handles that can't go there yet. Throws as write_task.
/// `under`: its nearest ancestor that has a record.
bool write_given(workbench& on, exec::job* j, const base::id& request, std::uint32_t attempt,
                 const base::id& under = {});
/// The same for what such a task ended with there. `given_as`: the number of the request.
bool write_given_result(workbench& on, exec::job* ended, const base::id& request,
                        std::uint32_t attempt, duration ran, std::uint64_t given_as = 0);
/// How it ends there instead.
struct way_back {
  bool runs_at_home = false;  ///< its first node can run it
  wire::result_view::sent_back why = wire::result_view::sent_back::unread;
  duration wait{};  ///< it went back unread, and would have waited so long
};
/// Instead of a result: why there is none.
void write_refusal(workbench& on, const base::id& task, const base::id& request,
                   std::uint32_t attempt, const error& why, const way_back& how,
                   std::uint64_t given_as = 0);

/// Writes the message of what a job of make_task ended with.
void write_result(workbench& on, exec::job* ended, const base::id& request, duration ran);
/// The same for a failure without a job.
void write_failure(workbench& on, const base::id& task, const base::id& request,
                   const error& failure);

/// Writes the message of what a generator yielded. False: it is for another node (on.goes_to), and
/// has handles that can't go there yet.
bool write_item(workbench& on, exec::job* item, const base::id& request);
/// An item of that generator's that arrived, with one hold; the error in it says why it could not
/// be read. Throws std::bad_alloc.
exec::job* make_item(const carrier& of, const wire::item_view& arrived);

/// Writes a question whose values are in `on.out`, which may have handles, and the answer to one.
/// `what`: who they are of, for messages.
void write_question(workbench& on, const base::id& request, wire::question asked, const char* what);
void write_answer(workbench& on, const base::id& request, const char* what);

/// Writes what any job ended with, whose values travel so, as an answer. Throws encode_failed,
/// unsupported, std::bad_alloc, and what writing the value throws.
void write_outcome(workbench& on, exec::job* ended, const carrier& values, const base::id& request);

/// Writes the answer to a question.
void write_answer(workbench& on, const base::id& request, const spec::parcel_view& value);

/// Puts what arrived into the slot of a claimed job, and answers the bits to finish it with.
std::uint64_t fill_slot(exec::job* j, const wire::result_view& arrived) noexcept;
/// The same with an error.
std::uint64_t fill_slot(exec::job* j, error failure) noexcept;

}  // namespace manta::inline v0::node
