// SPDX-License-Identifier: Apache-2.0
// Calls of actors that live in other nodes: far_actors.hpp.
#include <new>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/node/carrier.hpp>

#include "node/far_actors.hpp"
#include "node/far_ids.hpp"
#include "node/note_run.hpp"
#include "node/outgoing.hpp"
#include "node/passed_job.hpp"
#include "node/stop_note.hpp"
#include "node/trade.hpp"
#include "node/trip.hpp"
#include "spec/made_error.hpp"

namespace manta::inline v0::node {

error ended_there_error(const exec::actor_core& of) noexcept {
  if (const error* const why = of.loss()) return *why;
  return spec::made_error(errc::actor_lost, [&] {
    return fmt::format("the actor {} has ended; the call did not run", of.shown_name());
  });
}

// What the peers say of that node comes first; where they say nothing, it is `why`.
error far_actors::lost_error(const exec::actor_core& of, std::uint64_t node,
                             std::string_view why) const noexcept {
  return spec::made_error(errc::actor_lost, [&] {
    const peers* const by = peers_.load();
    std::string how = by == nullptr ? std::string() : by->how_lost(node);
    if (how.empty()) {
      how = why;
      const std::string name = by == nullptr ? std::string() : by->introduction_of(node).name;
      const bool is_named = name.empty() || how.find(name) != std::string::npos;
      if (!is_named) how += fmt::format(" (node {})", name);  // a member still
    }
    return fmt::format("the node of the actor {} is lost: {}", of.shown_name(), how);
  });
}

namespace {

bool is_of_the_end(const wire::result_view& came) noexcept {
  const auto* const why = std::get_if<wire::error_view>(&came.outcome);
  if (why == nullptr || why->chain.empty()) return false;
  const errc is = why->chain.front().code;
  return is == errc::actor_lost || is == errc::cancelled;
}

}  // namespace

bool far_actors::must_not_wait(const exec::job* call) const noexcept {
  const peers* const by = peers_.load();
  return !is_passed(call) && carrier_of(call)->wake_arguments != nullptr &&
         (trade::is_own_thread() || (by != nullptr && by->is_loop()));
}

void far_actors::forward(exec::actor_core* to, exec::job* call, bool /*has_more*/) noexcept {
  if (!call->try_claim()) {
    call->ops->drop_arguments(call);
    call->drop();
    to->ended_elsewhere();
    return;
  }
  try {
    send_call(to, call);
  } catch (...) {
    error why = describe_current_exception(call->ops->function);
    to->pin();
    call->fail(std::move(why), 1);
    to->ended_elsewhere();
    to->unpin();
  }
}

void far_actors::write_checked(workbench& on, exec::job* call, const base::id& actor,
                               const base::id& request) const {
  if (!is_open_.load()) exec::ended_error().raise();
  const bool is_unwanted =
      (call->word() & exec::job_bits::cancel) != 0 ||
      (exec::may_be_cancelled(call->parent) && exec::is_cancelled_caller(call->parent));
  if (is_unwanted) exec::cancelled_error().raise();
  if (is_passed(call)) {
    raise(errc::unsupported,
          "a task of an isolated worker called an actor of another node; call "
          "it from the driver, or from a task with isolation = threads");
  }
  if (const error* const inherited = carrier_of(call)->failure(call)) inherited->raise();
  write_call(on, call, actor, request);
}

// Throws nothing, for a call that is in the list already.
result<void> far_actors::send_noted(const base::id& request, workbench& on) noexcept {
  try {
    return far_handles::global().send(open_peers(peers_), request, on, peers::when_full::wait);
  } catch (...) {
    return error::out_of_memory();
  }
}

std::pair<std::uint64_t, std::uint64_t> far_actors::where_is(const exec::job* call) const noexcept {
  if (call->extra() == nullptr) return {};
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(call->extra()->number);
  if (found == calls_.end() || found->second.job != call) return {};
  return {found->second.node, found->first};
}

far_reader far_actors::reader_of(std::uint64_t node, std::uint64_t number) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(number);
  if (found == calls_.end() || found->second.node != node) return {};
  return far_reader(found->second.job);
}

void far_actors::end_call(std::uint64_t node, std::uint64_t number, const error& why) noexcept {
  if (const auto of = take_call(number, node)) fail(*of, why);
}

void far_actors::send_call(exec::actor_core* to, exec::job* job) {
  const borrowed_workbench on;
  base::id actor;
  call sent{.job = job, .core = to, .number = ++last_};
  {
    const std::lock_guard lock(mutex_);
    const auto* const seat = static_cast<const note*>(to->seat);
    if (seat == nullptr) ended_there_error(*to).raise();
    actor = seat->id;
    sent.node = seat->node;
  }
  const base::id request{line_about(peers::call, actor), sent.number};
  on->write_for(sent.node);
  write_checked(*on, job, actor, request);
  const outgoing::scope reading(sent.node, on->writer.size_bytes());
  job->extra()->number = sent.number;
  {
    const std::lock_guard lock(mutex_);
    if (to->seat == nullptr) ended_there_error(*to).raise();
    // close has waited for all that there were, call_back stopped them.
    if (!is_open_.load()) exec::ended_error().raise();
    calls_.emplace(sent.number, sent);
    to->pin();
    job->hold();  // it may end as soon as it is sent, or its node is lost
  }
  job->set(exec::job_bits::escaped);
  const result<void> is = send_noted(request, *on);
  if (!is) {
    if (const auto ours = take_call(sent.number, sent.node)) {
      fail(*ours, lost_error(*to, ours->node, is.error().message()));
    }
  } else if (is_open_.load()) {
    stop_if_cancelled(job);
  } else {
    say_stop(sent, true);  // call_back has told the others
  }
  job->drop();
}

// Meanwhile, when it could not be found yet.
void far_actors::stop_if_cancelled(exec::job* call) noexcept {
  const bool is_child =
      exec::may_be_cancelled(call->parent) && exec::is_cancelled_caller(call->parent);
  if (is_child) call->ask_to_stop();
  if ((call->word() & exec::job_bits::cancel) != 0) stop(call, is_child);
}

// Whoever takes it out of the list ends it.
std::optional<far_actors::call> far_actors::take_call(std::uint64_t number,
                                                      std::uint64_t node) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(number);
  if (found == calls_.end() || found->second.node != node) return std::nullopt;
  const call out = found->second;
  calls_.erase(found);
  if (!is_open_.load() && calls_.empty()) is_home_.notify_all();
  return out;
}

void far_actors::on_result(std::uint64_t from, std::uint64_t number,
                           const wire::message_view* read) noexcept {
  const std::optional<call> of = take_call(number, from);
  if (!of.has_value()) return;  // it is late
  const auto* const came = read == nullptr ? nullptr : std::get_if<wire::result_view>(&read->body);
  if (came != nullptr) return finish(*of, *came);
  fail(*of, error(errc::decode_failed, "what came instead of a result is no message"));
}

void far_actors::finish(const call& of, const wire::result_view& came) noexcept {
  exec::job* const j = of.job;
  // What was queued ends as what is queued here.
  const bool is_overtaken = !is_open_.load() && is_of_the_end(came);
  const error* const loss = came.may_repeat ? of.core->loss() : nullptr;
  std::uint64_t bits = 0;
  if (is_overtaken || loss != nullptr) {
    bits = fill_slot(j, is_overtaken ? exec::ended_error() : *loss);
  } else {
    note_run(*j, came);
    bits = fill_slot(j, came);
  }
  j->ops->drop_arguments(j);
  of.core->ended_elsewhere();  // before its future is ready: who has that may call at once
  j->finish(bits | exec::job_bits::claimed, 1);
  of.core->unpin();
}

void far_actors::fail(const call& of, const error& why) noexcept {
  of.core->ended_elsewhere();
  of.job->fail(why, 1);
  of.core->unpin();
}

// Of 0: all.
far_actors::calls far_actors::take_calls(std::uint64_t node) noexcept {
  calls out;
  const std::lock_guard lock(mutex_);
  for (auto at = calls_.begin(); at != calls_.end();) {
    const auto next = std::next(at);
    if (node == 0 || at->second.node == node) out.insert(calls_.extract(at));
    at = next;
  }
  if (!is_open_.load() && calls_.empty()) is_home_.notify_all();
  return out;
}

// ---- stops

void far_actors::stop(exec::job* call, bool with_children) noexcept {
  if (call->ops->origin == nullptr || call->extra() == nullptr) return;
  far_actors::call of;
  {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(call->extra()->number);
    if (found == calls_.end() || found->second.job != call) return;
    of = found->second;
  }
  say_stop(of, with_children);
}

void far_actors::stop_children() noexcept {
  std::vector<call> asked;
  try {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, one] : calls_) {
      const bool is_told = (one.job->word() & exec::job_bits::cancel) != 0;
      if (is_told || !exec::is_cancelled_caller(one.job->parent)) continue;
      asked.push_back(one);
      one.job->ask_to_stop();
    }
  } catch (const std::bad_alloc&) {
    // Those that are not told go on to their ends.
  }
  for (const call& one : asked) say_stop(one, true);
}

void far_actors::say_stop(const call& of, bool with_children) noexcept {
  try {
    const borrowed_workbench on;
    const stop_note said{.number = of.number, .with_children = with_children};
    send_order(of.node, peers::actor_order,
               wire::ask_view{wire::question::cancel_future, codec::encode(on->out, said)});
  } catch (...) {
    return;  // it goes on to its end
  }
}

}  // namespace manta::inline v0::node
