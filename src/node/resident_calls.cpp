// SPDX-License-Identifier: Apache-2.0
// Calls of actors that live here, by other nodes: resident_actors.hpp.
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/node/carrier.hpp>

#include "node/far_streams.hpp"
#include "node/resident.hpp"
#include "node/resident_actors.hpp"
#include "node/trip.hpp"
#include "node/visits.hpp"
#include "node/worker_facts.hpp"
#include "spec/made_error.hpp"

namespace manta::inline v0::node {

error node_leaves() noexcept {
  return spec::made_error(errc::actor_lost,
                          [] { return "the node of the actor has left the cluster"; });
}

error resident_actors::end_error(const base::id& actor) const noexcept {
  return spec::made_error(errc::actor_lost,
                          [&] { return how_ended(actor).message + "; the call did not run"; });
}

namespace {

base::id stream_of_call(const std::pair<std::uint64_t, std::uint64_t>& who) noexcept {
  return {who.first, far_streams::of_call(who.second)};
}

}  // namespace

void resident_actors::call(peers& by, const key& who, const wire::message_view* read) noexcept {
  if (!comes_in(who)) return;
  try {
    const auto* const asked = read == nullptr ? nullptr : std::get_if<wire::call_view>(&read->body);
    if (asked == nullptr) raise(errc::decode_failed, "a call that is none");
    const resident_ptr to = find(asked->actor);
    if (to == nullptr) end_error(asked->actor).raise();
    auto late = std::make_unique<late_answer>();
    late->in = this;
    late->by = &by;
    late->who = who;
    late->at = base::now();
    exec::job* const made = make_call(*asked, to->core);
    far_streams::global().open(by, stream_of_call(who), made);
    late->of = made;
    made->hold();
    const bool is_stopped = sits_down(who, made);
    late_answer::add(std::move(late));
    if (is_stopped) cancel_call(who, made, true);
    const std::uint64_t caller = made->ops->origin(made).caller;
    to->core->send(made, caller);
    made->drop();  // the future's, which nobody has
  } catch (...) {
    refuse_call(by, who, describe_current_exception("the message of a call"));
  }
}

// A generator ends where it is suspended, too.
void resident_actors::cancel_call(const key& who, exec::job* j, bool with_children) noexcept {
  if (!far_streams::global().stop(stream_of_call(who), with_children))
    exec::cancel_job(j, with_children);
}

// False: it was stopped in line, or its node is lost; who did that answers it.
bool resident_actors::comes_in(const key& who) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = visits_.find(who);
  return found != visits_.end() && std::exchange(found->second.is_in_line, false);
}

// True: it was stopped before it had a job.
bool resident_actors::sits_down(const key& who, exec::job* job) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = visits_.find(who);
  if (found == visits_.end()) return true;  // its node is lost
  found->second.job = job;
  job->hold();
  return found->second.is_stopped;
}

bool resident_actors::has_call(const exec::job* j) const noexcept {
  const std::lock_guard lock(mutex_);
  return has_job(visits_, j);
}

exec::job* resident_actors::call_of(std::uint64_t from, std::uint64_t number) const noexcept {
  const std::lock_guard lock(mutex_);
  return job_of_visit(visits_, {from, number});
}

void resident_actors::leaves(const key& who) noexcept {
  exec::job* job = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = visits_.find(who);
    if (found == visits_.end()) return;
    job = found->second.job;
    visits_.erase(found);
  }
  if (job != nullptr) job->drop();
  --open_calls_;
}

void resident_actors::answer_call(peers& by, const key& who, exec::job* ended,
                                  duration ran) noexcept {
  const std::optional<error> lost = far_streams::global().close(stream_of_call(who), ended);
  try {
    if (lost) lost->raise();
    exec::job* const end = ended->outcome();
    const bool has_failed = (end->word() & exec::job_bits::failed) != 0;
    if (has_failed && is_leaving_.load() && end->failure().code() == errc::cancelled) {
      node_leaves().raise();
    }
    const borrowed_workbench on;
    const base::id request{peers::result_of_call, who.second};
    on->write_for(who.first);
    if (!write_given_result(*on, ended, request, 0, ran)) {
      raise(errc::unsupported,
            fmt::format("{}: a handle inside of a value that is none of an actor, and no future, "
                        "can't come from another node yet; return the value itself, or have the "
                        "actor in this node",
                        readable_name(ended->ops->function)));
    }
    // False is of one that is gone.
    static_cast<void>(far_handles::global().send(by, request, *on, peers::when_full::wait));
    leaves(who);
  } catch (...) {
    refuse_call(by, who, describe_current_exception(ended->ops->function));
  }
}

void resident_actors::refuse_call(peers& by, const key& who, const error& why) noexcept {
  try {
    const borrowed_workbench on;
    const base::id request{peers::result_of_call, who.second};
    // Said apart from the call's own failures: it has not run, which its maker may know more of.
    const bool is_unrun = why.code() == errc::actor_lost;
    write_refusal(*on, {1, 1}, request, 0, why, {.runs_at_home = is_unrun});
    static_cast<void>(
        by.send_when_room(who.first, request, on->writer.pieces(), on->writer.size_bytes()));
  } catch (...) {
    // No memory: the call has no answer until one of the two nodes ends.
  }
  leaves(who);
}

}  // namespace manta::inline v0::node
