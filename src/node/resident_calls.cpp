// SPDX-License-Identifier: Apache-2.0
// Calls of actors that live here, by other nodes, and what these begin with: resident_actors.hpp.
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
#include "spec/own_node.hpp"

namespace manta::inline v0::node {

error node_leaves() noexcept {
  return spec::made_error(errc::actor_lost, [] {
    return fmt::format("the node of the actor, {}, has left the cluster", spec::name_of_own_node());
  });
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
  const auto* const asked = read == nullptr ? nullptr : std::get_if<wire::call_view>(&read->body);
  std::optional<reading_stop> reading(std::in_place);
  if (!comes_in(who, asked == nullptr ? base::id{} : asked->actor, &*reading)) return;
  resident_ptr to;
  try {
    if (asked == nullptr) raise(errc::decode_failed, "a call that is none");
    to = find(asked->actor);  // from here on its end finds this
    if (to == nullptr) end_error(asked->actor).raise();
    if (to->core->is_stopping()) reading->ask();  // before who kills it could find this
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
    reading.reset();
    late_answer::add(std::move(late));
    if (is_stopped) cancel_call(who, made, true);
    const std::uint64_t caller = made->ops->origin(made).caller;
    to->core->send(made, caller);
    made->drop();  // the future's, which nobody has
  } catch (...) {
    const error why = describe_current_exception("the message of a call");
    // What was not found was not waited for: its end may have stopped this, too.
    const bool is_stopped = to != nullptr && reading.has_value() && reading->is_asked();
    refuse_call(by, who, is_stopped ? stopped_error(*to) : why);
  }
}

// What is said of a call that was stopped while it was read: by who cancels it, or by its actor's
// end.
error resident_actors::stopped_error(const resident& of) const noexcept {
  const bool has_ended = find(of.id) == nullptr;
  if (!has_ended && !of.core->is_stopping()) return exec::cancelled_error();
  if (has_ended && is_leaving_.load()) return node_leaves();
  const error* const loss = of.core->loss();
  return loss != nullptr ? *loss : end_error(of.id);
}

// Also of one that was killed meanwhile: the construction finds that, and lets go of the core.
void resident_actors::construct(peers& by, std::uint64_t from, const wire::spawn_view& asked,
                                const resident_ptr& one) noexcept {
  if (one == nullptr) return;  // it could not be made: that is told
  reading_stop reading;
  show_reading(*one, &reading);
  try {
    auto late = std::make_unique<late_answer>();
    exec::job* const made = make_construction(asked, one->core);
    show_reading(*one, nullptr);
    late->in = this;
    late->by = &by;
    late->who = {from, 0};
    late->actor = asked.actor;
    late->of = made;
    made->hold();
    late_answer::add(std::move(late));
    made->ops->ready(made);
  } catch (...) {
    error why = describe_current_exception("the message of an actor");
    show_reading(*one, nullptr);
    if (reading.is_asked()) why = exec::cancelled_error();
    answer_spawn(by, from, asked.actor, &why);
    abandon_core(*one->core, why);
  }
}

// Null: it is read no longer. It may have been killed before.
void resident_actors::show_reading(resident& of, reading_stop* how) noexcept {
  const std::lock_guard lock(mutex_);
  of.reading = how;
  if (how != nullptr && of.core->is_stopping()) how->ask();
}

// Of one that was killed, or has ended: what is read for it waits for nothing any more.
void resident_actors::stop_readings(const resident& of) noexcept {
  const std::lock_guard lock(mutex_);
  if (of.reading != nullptr) of.reading->ask();
  if (being_read_ == 0) return;
  for (const auto& [who, one] : visits_) {
    if (one.reading != nullptr && one.actor == of.id) one.reading->ask();
  }
}

// A generator ends where it is suspended, too.
void resident_actors::cancel_call(const key& who, exec::job* j, bool with_children) noexcept {
  if (!far_streams::global().stop(stream_of_call(who), with_children))
    exec::cancel_job(j, with_children);
}

// False: it was stopped in line, or its node is lost; who did that answers it.
bool resident_actors::comes_in(const key& who, const base::id& actor, reading_stop* how) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = visits_.find(who);
  if (found == visits_.end() || !std::exchange(found->second.is_in_line, false)) return false;
  found->second.actor = actor;
  found->second.reading = how;
  if (how != nullptr) ++being_read_;
  if (how != nullptr && found->second.is_stopped) how->ask();  // before who stops it came to it
  return true;
}

// True: it was stopped before it had a job.
bool resident_actors::sits_down(const key& who, exec::job* job) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = visits_.find(who);
  if (found == visits_.end()) return true;  // its node is lost
  found->second.job = job;
  found->second.reading = nullptr;
  --being_read_;
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
    if (found->second.reading != nullptr) --being_read_;
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
