// SPDX-License-Identifier: Apache-2.0
#include "node/far_actors.hpp"

#include <algorithm>
#include <new>
#include <span>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/node/carrier.hpp>

#include "node/desk.hpp"
#include "node/far_ids.hpp"
#include "node/passed_job.hpp"
#include "node/stop_note.hpp"
#include "node/trip.hpp"
#include "sched/places.hpp"
#include "spec/made_error.hpp"

namespace manta::inline v0::node {

namespace {

error end_error(const wire::actor_end_view& said) noexcept {
  return spec::made_error(errc::actor_lost, [&] { return std::string(said.message); });
}

error construction_error(const exec::actor_core& of, const wire::result_view& came) noexcept {
  const auto* const why = std::get_if<wire::error_view>(&came.outcome);
  const bool says = why != nullptr && !why->chain.empty();
  return spec::made_error(errc::actor_lost, [&] {
    return fmt::format("the constructor of {} failed: {}", of.shown_name(),
                       says ? why->chain.front().message : "its answer was no message");
  });
}

}  // namespace

far_actors& far_actors::global() {
  static auto* const made = new far_actors;
  return *made;
}

void far_actors::open(peers& with, std::uint32_t workers, bool all) {
  workers_ = std::max<std::uint32_t>(workers, 1);
  takes_all_ = all;
  peers_.store(&with);
  is_open_.store(true);
  exec::actors_afar.store(this, std::memory_order_release);
}

void far_actors::call_back(bool at_once) noexcept {
  if (!is_open_.exchange(false)) return;
  std::vector<note> living;
  try {
    const std::lock_guard lock(mutex_);
    living.reserve(notes_.size());
    for (const auto& [id, one] : notes_) {
      living.push_back(*one);
      one->core->pin();
    }
  } catch (const std::bad_alloc&) {
    // Those that are not told end with this node.
  }
  for (const note& one : living) {
    one.core->lose_elsewhere(end_reason::runtime_ended, exec::ended_error());
    if (one.is_sent) say_kill(one.node, one.id);
    one.core->unpin();
  }
  if (!at_once) return;
  for (const auto& [number, one] : take_calls(0)) fail(one, exec::ended_error());
}

void far_actors::close() noexcept {
  if (peers_.load() == nullptr) return;
  {
    std::unique_lock lock(mutex_);
    is_home_.wait(lock, [this] { return calls_.empty(); });
  }
  exec::actors_afar.store(nullptr);
  while (const note_ptr one = take_lost(0)) {
    if (one->construction != nullptr) {
      one->construction->fail(exec::ended_error(), 1);
      one->construction->drop();
    }
    one->core->unpin();
  }
  peers_.store(nullptr);
}

// ---- where they live

std::uint64_t far_actors::place(const actor_options* asked) {
  if (!is_open_.load()) return 0;
  const bool has_wish = asked != nullptr;
  const placement::rule by = has_wish ? asked->where.by : placement::rule::anywhere;
  std::uint64_t to = 0;
  if (by == placement::rule::spread) {
    to = least_full_node();
  } else if (by == placement::rule::node) {
    to = node_named(asked->where);
  } else if (by == placement::rule::anywhere && takes_all_) {
    to = peers_.load()->any(turn_++);
  }
  const bool is_isolated = has_wish && asked->isolation.has_value()
                               ? *asked->isolation == isolation_mode::processes
                               : exec::sends_all();
  if (to == 0 || !is_isolated) return to;
  if (by != placement::rule::node || asked->where.is_soft) return 0;
  raise(errc::unsupported,
        fmt::format("where: asked for an actor in an isolated worker of {}; isolated workers have "
                    "actors of their own node only; use isolation = threads for it",
                    *asked->where.node));
}

// 0: this one, or nobody's; then the desk says what is wrong.
std::uint64_t far_actors::node_named(const placement& where) const {
  const std::string& name = *where.node;
  if (name == desk::global().node_name()) return 0;
  std::string known = desk::global().node_name();
  for (const auto& [one, epoch] : peers_.load()->names()) {
    if (one == name) return epoch;
    known += ", " + one;
  }
  if (where.is_soft) return 0;
  raise(
      errc::infeasible,
      fmt::format("where: asked for the node \"{}\"; those that take actors are {}", name, known));
}

std::uint64_t far_actors::least_full_node() {
  std::vector<sched::place> places{{.workers = workers_}};
  std::vector<std::uint64_t> nodes{0};
  const std::vector<peers::member> others = peers_.load()->all();
  const std::size_t here = exec::actor_core::alive();  // and the cores of those elsewhere
  const std::lock_guard lock(mutex_);
  places.front().actors =
      static_cast<std::uint32_t>(here > notes_.size() ? here - notes_.size() : 0);
  for (const peers::member& one : others) {
    if (!one.takes_actors) continue;
    const auto found = living_.find(one.epoch);
    places.push_back({.workers = one.workers,
                      .actors = found == living_.end() ? 0 : found->second,
                      .queued = one.load.queued});
    nodes.push_back(one.epoch);
  }
  return nodes[sched::least_full(places)];
}

void far_actors::send_there(exec::actor_core* made, std::uint64_t node,
                            const actor_options* asked) {
  auto fresh = std::make_unique<note>();
  fresh->node = node;
  if (asked != nullptr) fresh->asked = spec::to_demand(*asked);
  fresh->core = made;
  const std::lock_guard lock(mutex_);
  fresh->id = far_actor_id(peers_.load()->epoch(), ++last_);
  note* const seat = fresh.get();
  ++living_[node];
  notes_.emplace(seat->id, std::move(fresh));
  made->lives_afar();
  made->seat = seat;
  made->pin();
}

std::uint64_t place_actor(const actor_options* asked) { return far_actors::global().place(asked); }

void send_actor(exec::actor_core* made, std::uint64_t node, const actor_options* asked) {
  try {
    far_actors::global().send_there(made, node, asked);
  } catch (...) {
    made->discard();
    throw;
  }
}

// ---- making one

void far_actors::construct(exec::actor_core* of, exec::job* construction) noexcept {
  try {
    if (!is_open_.load()) exec::ended_error().raise();
    const carrier& by = *carrier_of(construction);
    if (const error* const inherited = by.failure(construction)) inherited->raise();
    send_spawn(of, construction);
  } catch (...) {
    return give_up(of, construction, describe_current_exception(construction->ops->function));
  }
  begin(of);
}

void far_actors::send_spawn(exec::actor_core* of, exec::job* construction) {
  const borrowed_workbench on;
  base::id id;
  std::uint64_t node = 0;
  spec::demand asked;
  {
    const std::lock_guard lock(mutex_);
    const auto* const seat = static_cast<const note*>(of->seat);
    if (seat == nullptr) ended_there_error(*of).raise();
    id = seat->id;
    node = seat->node;
    asked = seat->asked;
  }
  const base::id request{line_about(peers::spawn, id), ++last_};
  on->goes_afar = true;
  write_spawn(*on, *of, construction, id, request, &asked);
  check_given_size(*on, construction->ops->function);
  {
    // Before it goes: its answer may come at once.
    const std::lock_guard lock(mutex_);
    auto* const seat = static_cast<note*>(of->seat);
    if (seat == nullptr) ended_there_error(*of).raise();
    seat->construction = construction;
    seat->is_sent = true;
  }
  const result<void> is =
      peers_.load()->send_when_room(node, request, on->writer.pieces(), on->writer.size_bytes());
  if (is) return;
  const std::lock_guard lock(mutex_);
  auto* const seat = static_cast<note*>(of->seat);
  if (seat == nullptr || seat->construction == nullptr) return;  // who lost the node has ended it
  seat->construction = nullptr;
  seat->is_sent = false;
  is.error().raise();
}

// It never left.
void far_actors::give_up(exec::actor_core* of, exec::job* construction, error why) noexcept {
  const note_ptr was = take_note_of(of);
  construction->fail(std::move(why), 1);
  of->kind().settle(of, construction);
  if (was != nullptr) of->unpin();
}

// Calls that wait go right behind.
void far_actors::begin(exec::actor_core* of) noexcept {
  of->begin(nullptr);
  std::optional<error> failure;
  base::id killed;
  std::uint64_t node = 0;
  {
    const std::lock_guard lock(mutex_);
    if (auto* const seat = static_cast<note*>(of->seat)) {
      seat->has_begun = true;
      failure = seat->failure;
      if (of->is_stopping()) killed = seat->id;
      node = seat->node;
    }
  }
  if (killed != base::id{}) say_kill(node, killed);
  if (failure) of->lose_elsewhere(end_reason::constructor_failed, *std::move(failure));
}

// The construction has its answer.
void far_actors::on_spawned(std::uint64_t from, const wire::result_view& came) noexcept {
  exec::job* construction = nullptr;
  exec::actor_core* core = nullptr;
  bool has_begun = false;
  const bool has_failed = !std::holds_alternative<spec::parcel_view>(came.outcome);
  {
    const std::lock_guard lock(mutex_);
    const auto found = notes_.find(came.task);
    if (found != notes_.end()) {
      note& one = *found->second;
      construction = std::exchange(one.construction, nullptr);
      has_begun = one.has_begun;
      core = one.core;
      if (has_failed && !has_begun) one.failure = construction_error(*core, came);
      core->pin();
    }
  }
  // This node has let go of it meanwhile, since that one seemed lost.
  if (core == nullptr && !has_failed) say_kill(from, came.task);
  if (construction != nullptr) {
    const std::uint64_t bits = fill_slot(construction, came);
    construction->ops->drop_arguments(construction);
    construction->finish(bits | exec::job_bits::claimed, 1);
    construction->drop();
  }
  if (core == nullptr) return;
  if (has_failed && has_begun) {
    core->lose_elsewhere(end_reason::constructor_failed, construction_error(*core, came));
  }
  core->unpin();
}

// ---- their ends

bool far_actors::leave(exec::actor_core* of, exec::leaving how) noexcept {
  base::id id;
  std::uint64_t node = 0;
  {
    const std::lock_guard lock(mutex_);
    auto* const seat = static_cast<note*>(of->seat);
    if (seat != nullptr && seat->is_sent && peers_.load() != nullptr) {
      seat->is_left = true;
      id = seat->id;
      node = seat->node;
    }
  }
  if (id == base::id{}) {
    if (take_note_of(of) != nullptr) of->unpin();  // the life has a pin
    return false;
  }
  // One that was stopped was told so when it was (kill, call_back), or has ended by itself: its
  // constructor has failed, and who kills it now would say so to the calls that wait.
  if (how == exec::leaving::retired) {
    send_order(node, line_about(peers::release, id),
               wire::actor_end_view{id, end_reason::ended, {}});
  } else if (how == exec::leaving::unneeded) {
    const wire::reference_change gone{id, {1, 1}, 1, wire::change_kind::release};
    send_order(node, line_about(peers::release, id), wire::changes_view{{&gone, 1}});
  }
  return true;
}

void far_actors::kill(exec::actor_core* of) noexcept {
  base::id id;
  std::uint64_t node = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto* const seat = static_cast<const note*>(of->seat);
    if (seat != nullptr && seat->is_sent) {
      id = seat->id;
      node = seat->node;
    }
  }
  if (id != base::id{}) return say_kill(node, id);
  // One that was not made yet ends without being left.
  if (of->has_ended() && take_note_of(of) != nullptr) of->unpin();
}

// The object is gone.
void far_actors::on_end(const wire::actor_end_view& said) noexcept {
  const note_ptr was = take_note(said.actor);
  if (was == nullptr) return;
  exec::actor_core* const core = was->core;
  try {
    if (said.reason != end_reason::killed) core->note_end({said.reason, std::string(said.message)});
  } catch (const std::bad_alloc&) {
    // Then it is told what is known here.
  }
  if (was->is_left) {
    core->end_elsewhere();
  } else {
    core->lose_elsewhere(said.reason, end_error(said));
  }
  core->unpin();
}

void far_actors::lose(std::uint64_t node, const std::string& why) noexcept {
  std::vector<note_ptr> lost;
  while (note_ptr one = take_lost(node)) {
    exec::actor_core* const core = one->core;
    if (!one->is_left) core->lose_elsewhere(end_reason::process_lost, lost_there_error(*core, why));
    if (one->construction != nullptr) {
      one->construction->fail(lost_there_error(*core, why), 1);
      one->construction->drop();
    }
    if (one->is_left) core->end_elsewhere();
    core->unpin();
  }
  for (const auto& [number, one] : take_calls(node)) fail(one, lost_there_error(*one.core, why));
}

// ---- what is known of them

far_actors::note_ptr far_actors::take_note(const base::id& id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = notes_.find(id);
  if (found == notes_.end()) return nullptr;
  note_ptr out = std::move(found->second);
  notes_.erase(found);
  out->core->seat = nullptr;
  if (const auto at = living_.find(out->node); at != living_.end() && --at->second == 0) {
    living_.erase(at);
  }
  return out;
}

far_actors::note_ptr far_actors::take_note_of(exec::actor_core* core) noexcept {
  base::id id;
  {
    const std::lock_guard lock(mutex_);
    if (const auto* const seat = static_cast<const note*>(core->seat)) id = seat->id;
  }
  return id == base::id{} ? nullptr : take_note(id);
}

// Of 0: any; null: there is none.
far_actors::note_ptr far_actors::take_lost(std::uint64_t node) noexcept {
  base::id id;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(
        notes_, [&](const auto& one) { return node == 0 || one.second->node == node; });
    if (found != notes_.end()) id = found->first;
  }
  return id == base::id{} ? nullptr : take_note(id);
}

// ---- messages

void far_actors::on_message(std::uint64_t from, const base::id& request,
                            const peers::kept_message& message) noexcept {
  const borrowed_workbench on;
  const neutral_caller nobody;
  const result<const wire::message_view&> read = on->reader.read(message.bytes);
  switch (peers::topic_of(request)) {
    case peers::result_of_call:
      return on_result(from, request.low, read ? &*read : nullptr);
    case peers::spawned:
      if (const auto* const came = read ? std::get_if<wire::result_view>(&read->body) : nullptr) {
        on_spawned(from, *came);
      }
      return;
    case peers::actor_end:
      if (const auto* const end = read ? std::get_if<wire::actor_end_view>(&read->body) : nullptr) {
        on_end(*end);
      }
      return;
    default:
      return;
  }
}

void far_actors::say_kill(std::uint64_t node, const base::id& actor) noexcept {
  send_order(node, peers::actor_order, wire::actor_end_view{actor, end_reason::killed, {}});
}

void far_actors::send_order(std::uint64_t node, std::uint64_t about,
                            const wire::body_view& what) noexcept {
  try {
    const borrowed_workbench on;
    const base::id request{about, ++last_};
    const result<void> written = std::visit(
        [&](const auto& body) {
          return on->writer.write({request, 1, 0}, body);
        },
        what);
    peers* const to = peers_.load();
    if (!written || to == nullptr) return;
    // False is of a node that is lost, with all that it has.
    static_cast<void>(
        to->send_when_room(node, request, on->writer.pieces(), on->writer.size_bytes()));
  } catch (...) {
    return;  // no memory: it lives until this node ends
  }
}

}  // namespace manta::inline v0::node
