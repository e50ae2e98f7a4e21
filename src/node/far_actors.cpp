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
#include "node/far_arrays.hpp"
#include "node/far_ids.hpp"
#include "node/note_run.hpp"
#include "node/outgoing.hpp"
#include "node/trade.hpp"
#include "node/trip.hpp"
#include "node/worker_monitors.hpp"
#include "spec/made_error.hpp"
#include "wire/views.hpp"

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

// Others may have handles to what this node has made: it is let go, and its calls are stopped.
void far_actors::call_back(bool at_once) noexcept {
  if (!is_open_.exchange(false)) return;
  std::vector<exec::actor_core*> living;
  std::vector<call> out;
  try {
    const std::lock_guard lock(mutex_);
    living.reserve(notes_.size());
    out.reserve(calls_.size());
    for (const auto& [id, one] : notes_) living.push_back(one->core);
    for (const auto& [number, one] : calls_) out.push_back(one);
    for (exec::actor_core* const one : living) one->pin();
    for (const auto& [id, one] : notes_) wake(*one);
  } catch (const std::bad_alloc&) {
    // Those that are not told end with this node.
  }
  for (const call& one : out) say_stop(one, true);
  for (exec::actor_core* const one : living) {
    one->lose_elsewhere(end_reason::runtime_ended, exec::ended_error());
    one->unpin();
  }
  if (!at_once) return;
  const calls left = take_calls(0);
  if (!left.empty()) outgoing::global().wait(0);
  for (const auto& [number, one] : left) fail(one, exec::ended_error());
}

void far_actors::close() noexcept {
  if (peers_.load() == nullptr) return;
  {
    std::unique_lock lock(mutex_);
    is_home_.wait(lock, [this] { return calls_.empty(); });
  }
  exec::actors_afar.store(nullptr);
  while (const note_ptr one = take_in(0)) {
    if (one->construction != nullptr) {
      outgoing::global().wait(one->node);
      one->construction->fail(exec::ended_error(), 1);
      one->construction->drop();
    }
    one->core->unpin();
  }
  peers_.store(nullptr);
}

// ---- made elsewhere

void far_actors::send_there(exec::actor_core* made, std::uint64_t node,
                            const actor_options* asked) {
  auto fresh = std::make_unique<note>();
  fresh->node = node;
  if (asked != nullptr) fresh->asked = spec::to_demand(*asked);
  if (asked != nullptr && asked->where.by == placement::rule::group) fresh->where = asked->where;
  fresh->lease = desk::global().lease(node, fresh->asked, fresh->where);
  fresh->core = made;
  const std::lock_guard lock(mutex_);
  fresh->id = far_actor_id(open_peers(peers_).epoch(), next_number());
  made->know_as({fresh->id, node, far_handles::global().run()});
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

std::uint64_t far_actors::next_number() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
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
  peers& by = open_peers(peers_);
  const borrowed_workbench on;
  base::id id;
  std::uint64_t node = 0;
  bool is_reserved = false;
  spec::demand asked;
  placement where;
  {
    const std::lock_guard lock(mutex_);
    const auto* const seat = static_cast<const note*>(of->seat);
    if (seat == nullptr) ended_there_error(*of).raise();
    id = seat->id;
    node = seat->node;
    is_reserved = seat->is_reserved;
    asked = seat->asked;
    where = seat->where;
  }
  const base::id request{line_about(is_reserved ? peers::construct : peers::spawn, id), ++last_};
  on->write_for(node);
  write_spawn(*on, *of, construction, id, request, &asked, where);
  const outgoing::scope reading(node, on->writer.size_bytes());
  {
    // Before it goes: its answer may come at once.
    const std::lock_guard lock(mutex_);
    auto* const seat = static_cast<note*>(of->seat);
    if (seat == nullptr) ended_there_error(*of).raise();
    seat->construction = construction;
    seat->is_sent = true;
  }
  if (!is_reserved) far_handles::global().has_made(id, node);
  const result<void> is = far_handles::global().send(by, request, *on, peers::when_full::wait);
  if (is) ++sent_;
  const std::lock_guard lock(mutex_);
  auto* const seat = static_cast<note*>(of->seat);
  if (seat == nullptr) return;  // who lost the node has ended it
  if (is) {
    seat->has_gone = true;
    return wake(*seat);
  }
  if (seat->construction == nullptr) return;  // as above
  seat->construction = nullptr;
  seat->is_sent = false;
  is.error().raise();
}

// It never left.
void far_actors::give_up(exec::actor_core* of, exec::job* construction, error why) noexcept {
  const note_ptr was = take_note_of(of);
  if (was != nullptr && was->is_reserved) {
    send_order(was->node, line_about(peers::release, was->id),
               wire::actor_end_view{was->id, end_reason::constructor_failed, why.message()});
  }
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
void far_actors::on_spawned(const wire::result_view& came) noexcept {
  exec::job* construction = nullptr;
  exec::actor_core* core = nullptr;
  bool has_begun = false;
  const bool has_failed = !std::holds_alternative<spec::parcel_view>(came.outcome);
  {
    const std::lock_guard lock(mutex_);
    if (note* const one = made_here(came.task)) {
      construction = std::exchange(one->construction, nullptr);
      has_begun = one->has_begun;
      core = one->core;
      if (has_failed && !has_begun) one->failure = construction_error(*core, came);
      core->pin();
    }
  }
  if (construction != nullptr) {
    note_run(*construction, came);
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
  note_ptr gone;
  farewell said;
  std::uint64_t node = 0;
  bool waits = false;
  bool counted = false;
  bool kills = false;
  {
    const std::lock_guard lock(mutex_);
    auto* const seat = static_cast<note*>(of->seat);
    if (seat == nullptr) return false;
    said.of = seat->id;
    said.next = std::exchange(farewells_, &said);
    node = seat->node;
    // Who kills it may come too late to find it.
    kills = how == exec::leaving::stopped && seat->is_sent && of->is_killed() &&
            !std::exchange(seat->is_kill_said, true);
    waits = seat->is_sent && peers_.load() != nullptr && (seat->is_made_here || seat->is_watched);
    counted = std::exchange(seat->counts, false);
    seat->is_left = true;
    wake(*seat);
    if (!waits) gone = unlist(seat);
  }
  if (kills) say_kill(node, said.of);
  if (how == exec::leaving::retired) {
    send_order(node, line_about(peers::release, said.of), wire::actor_end_view{said.of, {}, {}});
  }
  if (counted) far_handles::global().lost_core(said.of);
  part(said);
  if (gone != nullptr) of->unpin();  // the life has a pin
  return waits;
}

void far_actors::part(const farewell& over) noexcept {
  const std::lock_guard lock(mutex_);
  for (farewell** link = &farewells_; *link != nullptr; link = &(*link)->next) {
    if (*link != &over) continue;
    *link = over.next;
    return;
  }
}

void far_actors::kill(exec::actor_core* of) noexcept {
  base::id id;
  std::uint64_t node = 0;
  bool is_sent = false;
  {
    const std::lock_guard lock(mutex_);
    auto* const seat = static_cast<note*>(of->seat);
    if (seat != nullptr && (seat->is_sent || seat->is_reserved)) {
      if (!std::exchange(seat->is_kill_said, true)) id = seat->id;
      node = seat->node;
      is_sent = seat->is_sent;
    }
  }
  if (id != base::id{}) say_kill(node, id);
  if (is_sent) return;
  // One that was not made yet ends without being left.
  if (of->has_ended() && take_note_of(of) != nullptr) of->unpin();
}

// The object is gone.
void far_actors::end(note_ptr one, const actor_end& how, const error& why) noexcept {
  exec::actor_core* const core = one->core;
  if (!one->is_left) core->lose_elsewhere(how.reason, why);
  if (one->construction != nullptr) {
    outgoing::global().wait(one->node);
    one->construction->fail(why, 1);
    one->construction->drop();
  }
  if (one->is_left) core->end_elsewhere();
  core->unpin();
}

void far_actors::on_end(const wire::actor_end_view& said) noexcept {
  while (note_ptr one = take_of(said.actor)) {
    try {
      if (said.reason != end_reason::killed) {
        one->core->note_end({said.reason, std::string(said.message)});
      }
    } catch (const std::bad_alloc&) {
      // Then it is told what is known here.
    }
    end(std::move(one), {said.reason, {}}, end_error(said));
  }
}

void far_actors::lose(std::uint64_t node, const std::string& why) noexcept {
  while (note_ptr one = take_in(node)) {
    const error lost = lost_error(*one->core, node, why);
    end(std::move(one), {end_reason::process_lost, {}}, lost);
  }
  const calls lost = take_calls(node);
  outgoing::global().wait(node);
  for (const auto& [number, one] : lost) fail(one, lost_error(*one.core, node, why));
}

// ---- what is known of them

// Under the mutex. It may have been left, and have another one beside it whose handle came back.
far_actors::note* far_actors::made_here(const base::id& id) const noexcept {
  const auto [first, last] = notes_.equal_range(id);
  const auto at = std::find_if(first, last, [](const auto& of) { return of.second->is_made_here; });
  return at == last ? nullptr : at->second.get();
}

// Under the mutex.
far_actors::note_ptr far_actors::unlist(const note* one) noexcept {
  const auto [first, last] = notes_.equal_range(one->id);
  const auto at = std::find_if(first, last, [&](const auto& of) { return of.second.get() == one; });
  if (at == last) return nullptr;
  note_ptr out = std::move(at->second);
  notes_.erase(at);
  out->core->seat = nullptr;
  wake(*out);
  if (!out->is_made_here) return out;
  if (const auto in = living_.find(out->node); in != living_.end() && --in->second == 0) {
    living_.erase(in);
  }
  return out;
}

far_actors::note_ptr far_actors::take_note_of(const exec::actor_core* core) noexcept {
  note_ptr out;
  {
    const std::lock_guard lock(mutex_);
    const auto* const seat = static_cast<const note*>(core->seat);
    if (seat != nullptr) out = unlist(seat);
  }
  if (out != nullptr && out->counts) far_handles::global().lost_core(out->id);
  return out;
}

// One with that id; null: there is none any more.
far_actors::note_ptr far_actors::take_of(const base::id& id) noexcept {
  note_ptr out;
  {
    const std::lock_guard lock(mutex_);
    const auto found = notes_.find(id);
    if (found != notes_.end()) out = unlist(found->second.get());
  }
  if (out != nullptr && out->counts) far_handles::global().lost_core(out->id);
  return out;
}

// The same of those in a node; 0: in any.
far_actors::note_ptr far_actors::take_in(std::uint64_t node) noexcept {
  note_ptr out;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(
        notes_, [&](const auto& of) { return node == 0 || of.second->node == node; });
    if (found != notes_.end()) out = unlist(found->second.get());
  }
  if (out != nullptr && out->counts) far_handles::global().lost_core(out->id);
  return out;
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
        on_spawned(*came);
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
