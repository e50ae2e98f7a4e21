// SPDX-License-Identifier: Apache-2.0
#include "node/resident_actors.hpp"

#include <algorithm>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/resource_gate.hpp>
#include <manta/node/carrier.hpp>

#include "node/desk.hpp"
#include "node/errand.hpp"
#include "node/far_actors.hpp"
#include "node/far_ids.hpp"
#include "node/guest_actor.hpp"
#include "node/resident.hpp"
#include "node/trip.hpp"
#include "node/worker_facts.hpp"
#include "node/worker_monitors.hpp"

namespace manta::inline v0::node {

namespace {

// Then others have their turn.
constexpr int letters_at_once = 64;

bool is_call_of(const base::id& actor, std::span<const std::byte> message) noexcept {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message);
  const auto* const call = read ? std::get_if<wire::call_view>(&read->body) : nullptr;
  return call != nullptr && call->actor == actor;
}

}  // namespace

resident_actors& resident_actors::global() {
  static auto* const made = new resident_actors;
  return *made;
}

// ---- lines

void resident_actors::on_message(peers& by, std::uint64_t from, const base::id& request,
                                 const peers::kept_message& message,
                                 std::shared_ptr<far_arrivals> came) {
  const std::uint64_t topic = peers::topic_of(request);
  if (topic == peers::actor_order) return obey(by, from, message);
  resident_ptr settled;
  if (topic == peers::spawn) settled = settle_in(by, from, message);
  if (topic == peers::construct) settled = take_reserved(from, message);
  if (topic == peers::release) note_unwanted(message);
  if (topic == peers::call) {
    const std::lock_guard lock(mutex_);
    // No honest node makes one twice.
    if (!visits_.try_emplace({from, request.low}).second) return;
    ++open_calls_;
  }
  try {
    const key line{from, request.high >> peers::line_shift};
    put_in_line(by, line, {request, message, std::move(came), settled, {}});
  } catch (...) {
    if (topic == peers::call) leaves({from, request.low});
    if (settled != nullptr) abandon_core(*settled->core, error::out_of_memory());
    throw;
  }
}

void resident_actors::put_in_line(peers& by, const key& line, letter one) {
  bool has_reader = false;
  {
    const std::lock_guard lock(mutex_);
    auto& to = lines_[line];
    to.letters.push_back(std::move(one));
    has_reader = std::exchange(to.has_reader, true);
  }
  if (has_reader) return;
  try {
    run_errand([this, &by, line](bool runs) { read_line(by, line, runs); });
  } catch (...) {
    const std::lock_guard lock(mutex_);
    lines_[line].has_reader = false;  // the next one tries again
  }
}

// False: it is empty, and has no reader any more.
bool resident_actors::take_letter(const key& of, letter& into) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = lines_.find(of);
  if (found == lines_.end()) return false;
  if (found->second.letters.empty()) {
    lines_.erase(found);
    return false;
  }
  into = std::move(found->second.letters.front());
  found->second.letters.pop_front();
  return true;
}

// A worker's, or with `runs` false who ends the runtime.
void resident_actors::read_line(peers& by, const key& of, bool runs) noexcept {
  letter one;
  for (int i = 0; i < letters_at_once || !runs; ++i) {
    if (!take_letter(of, one)) return;
    if (runs) {
      read(by, of.first, one);
    } else {
      turn_away(by, of.first, one);
    }
    one = {};  // not under the mutex: what came with it may be the last
  }
  try {
    run_errand([this, &by, of](bool still) { read_line(by, of, still); });
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex_);
    if (const auto found = lines_.find(of); found != lines_.end()) found->second.has_reader = false;
  }
}

void resident_actors::read(peers& by, std::uint64_t from, const letter& one) noexcept {
  if (one.freed != nullptr) return;  // with what it holds
  const borrowed_workbench on;
  const neutral_caller nobody;
  const far_reading handles(one.came.get());
  const result<const wire::message_view&> read = on->reader.read(one.message.bytes);
  const wire::message_view* const message = read ? &*read : nullptr;
  if (peers::topic_of(one.request) == peers::call) {
    return call(by, {from, one.request.low}, message);
  }
  if (message == nullptr) return;
  if (const auto* const asked = std::get_if<wire::spawn_view>(&message->body)) {
    construct(by, from, *asked, one.settled);
  } else if (const auto* const end = std::get_if<wire::actor_end_view>(&message->body)) {
    end_asked(*end);
  } else if (const auto* const ask = std::get_if<wire::ask_view>(&message->body)) {
    hear_question(by, from, *ask);
  }
}

void resident_actors::hear_question(peers& by, std::uint64_t from,
                                    const wire::ask_view& asked) noexcept {
  if (asked.what != wire::question::actor_end) return;
  try {
    const auto of = codec::decode<end_question>(asked.with);
    watch(by, from, {of.high, of.low});
  } catch (...) {
    return;  // nonsense
  }
}

// This node's runtime has ended.
void resident_actors::turn_away(peers& by, std::uint64_t from, const letter& one) noexcept {
  const std::uint64_t topic = peers::topic_of(one.request);
  if (topic == peers::call && comes_in({from, one.request.low})) {
    return refuse_call(by, {from, one.request.low}, node_leaves());
  }
  if (topic != peers::spawn && topic != peers::construct) return;
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(one.message.bytes);
  const auto* const asked = read ? std::get_if<wire::spawn_view>(&read->body) : nullptr;
  if (asked == nullptr) return;
  const error why = node_leaves();
  answer_spawn(by, from, asked->actor, &why);
  if (one.settled != nullptr) abandon_core(*one.settled->core, exec::ended_error());
}

// ---- making one

// On the loop's thread: a core is nothing of the user's yet, and who is told of it next may call
// it.
// Null: it could not be made.
resident_actors::resident_ptr resident_actors::settle_in(peers& by, std::uint64_t from,
                                                         const peers::kept_message& message) {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message.bytes);
  const auto* const asked = read ? std::get_if<wire::spawn_view>(&read->body) : nullptr;
  if (asked == nullptr || maker_of(asked->actor) != from) return nullptr;
  const neutral_caller its_node(neutral_caller::of_node{from});
  resident_ptr one;
  try {
    far_handles::global().lend_to_maker(asked->actor, from);
    one = make(by, from, *asked);
    const std::lock_guard lock(mutex_);
    // Else it has ended already, with the runtime.
    if (one->self != nullptr) {
      residents_.emplace(asked->actor, one);
      names_.emplace(one->core, asked->actor);
    }
  } catch (...) {
    const error why = describe_current_exception("an actor's message");
    {
      // For its calls, which may be read before its maker is told.
      const std::lock_guard lock(mutex_);
      note_end(asked->actor, {end_reason::constructor_failed, why.message()});
    }
    refuse_spawn_soon(by, from, asked->actor, why);
  }
  static_cast<void>(by.send_anyway(from, {peers::known, asked->actor.low}, {}, 0));
  return one;
}

resident_actors::resident_ptr resident_actors::make(peers& by, std::uint64_t from,
                                                    const wire::spawn_view& asked) {
  const actor_options with = options_of(asked);
  placement where;
  if (asked.options != nullptr && asked.options->where.by == placement::rule::group) {
    const wire::placement_view& said = asked.options->where;
    where = desk::global().place_of_guest(from, said.group, said.bundle);
  }
  std::unique_ptr<exec::resource_claim> claim =
      exec::resource_gate::claim(spec::to_demand(with), where, true);
  exec::resource_claim* const held = claim.get();
  exec::actor_core* const core = node::make_resident(asked, std::move(claim));
  if (held != nullptr) held->holder = core;
  try {
    return note(by, core, asked.actor, from);
  } catch (...) {
    drop_core(core);
    throw;
  }
}

// One that was made for others has one handle, which is theirs.
resident_actors::resident_ptr resident_actors::note(peers& by, exec::actor_core* core,
                                                    const base::id& id, std::uint64_t from) {
  if (from != 0) core->know_as({id, by.epoch(), far_handles::global().run()});
  auto out = std::make_shared<resident>();
  core->pin();
  out->core = core;
  out->in = this;
  out->by = &by;
  out->from = from;
  out->id = id;
  out->tell = [](exec::end_watcher* w, const actor_end& how) noexcept {
    auto* const self = static_cast<resident*>(w);
    self->in->on_end(self, how);
  };
  out->is_forgotten = [](exec::end_watcher* /*w*/) noexcept { return false; };
  out->give_up = [](exec::end_watcher* w) noexcept {
    static_cast<void>(std::move(static_cast<resident*>(w)->self));
  };
  out->self = out;
  actor_end how;
  try {
    if (!core->watch(out.get(), how)) out->self = nullptr;
  } catch (...) {
    out->self = nullptr;
    throw;
  }
  if (from != 0) out->starts_lent();
  return out;
}

// ---- those of this node

base::id resident_actors::name(exec::actor_core* core) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = names_.find(core);
    if (found != names_.end()) return found->second;
  }
  peers* const by = by_.load();
  if (by == nullptr) exec::ended_error().raise();
  const std::uint64_t run = far_handles::global().run();
  const exec::known_actor* const before = core->known_as();
  if (before != nullptr && before->run == run) return before->id;  // it has ended
  const base::id id = far_actor_id(by->epoch(), far_actors::next_number());
  const resident_ptr one = note(*by, core, id, 0);
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(core);
  if (found != names_.end()) return found->second;
  try {
    if (one->self != nullptr) {  // else it has ended: nobody finds it
      residents_.emplace(id, one);
      names_.emplace(core, id);
    }
    core->know_as({id, by->epoch(), run});  // for good
  } catch (...) {
    unlist(*one);
    throw;
  }
  return id;
}

void resident_actors::hold(const base::id& actor) {
  if (const resident_ptr one = find(actor)) one->hold();
}

exec::actor_core* resident_actors::handle_of(const base::id& actor) noexcept {
  const resident_ptr one = find(actor);
  if (one == nullptr) return nullptr;
  one->core->add_handle_inside();
  return one->core;
}

exec::actor_core* resident_actors::try_handle_of(const base::id& actor) {
  const resident_ptr one = find(actor);
  return one != nullptr && one->core->try_add_handle(true) ? one->core : nullptr;
}

exec::actor_core* resident_actors::core_of(const base::id& actor) const noexcept {
  const resident_ptr one = find(actor);
  if (one == nullptr) return nullptr;
  one->core->pin();
  return one->core;
}

// What has come before this is read first, from whomever it is.
void resident_actors::freed(const base::id& actor) noexcept {
  const resident_ptr one = find(actor);
  if (one != nullptr) one->goes();
  try {
    std::shared_ptr<void> last(this, [this, one, actor](void*) {
      if (one != nullptr) one->give_back(false);
      forget_end(actor);
    });
    {
      const std::lock_guard lock(mutex_);
      for (auto& [of, line] : lines_) {
        if (of.second == line_of(actor)) line.letters.push_back({{}, {}, {}, {}, last});
      }
    }
    // Who has killed it and let go of it then has killed it.
    facts_line::of_ends().add([last = std::move(last)] {});  // not here: it may end the actor
  } catch (...) {
    return;  // no memory: it lives until this node ends
  }
}

// Unless it was lent once more meanwhile.
void resident_actors::forget_end(const base::id& actor) noexcept {
  if (far_handles::global().is_lent(actor)) return;
  const std::lock_guard lock(mutex_);
  ended_.erase(actor);
}

resident_actors::resident_ptr resident_actors::find(const base::id& actor) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = residents_.find(actor);
  return found == residents_.end() ? nullptr : found->second;
}

// Of a failure the end is told, too, behind this.
void resident_actors::answer_spawn(peers& by, std::uint64_t to, const base::id& actor,
                                   const error* failure) noexcept {
  try {
    const borrowed_workbench on;
    const base::id request{peers::spawned, ++last_};
    if (failure != nullptr) {
      write_failure(*on, actor, request, *failure);
    } else if (!on->writer.write({request, 1, 0}, wire::result_view{.task = actor})) {
      return;
    }
    static_cast<void>(by.send_when_room(to, request, on->writer.pieces(), on->writer.size_bytes()));
  } catch (...) {
    return;  // a failure is told by the end, and else nobody waits for it
  }
}

// The loop's thread, which can't wait until there is room.
void resident_actors::refuse_spawn_soon(peers& by, std::uint64_t to, const base::id& actor,
                                        const error& why) {
  facts_line::global().add([this, &by, to, actor, why] {
    answer_spawn(by, to, actor, &why);
    say_end(by, to, {actor, end_reason::constructor_failed, why.message()});
  });
}

// ---- ends

void resident_actors::watch(peers& by, std::uint64_t from, const base::id& actor) noexcept {
  try {
    {
      const std::lock_guard lock(mutex_);
      const auto found = residents_.find(actor);
      if (found != residents_.end()) return found->second->watchers.push_back(from);
    }
    const actor_end how = how_ended(actor);
    say_end(by, from, {actor, how.reason, how.message});
  } catch (const std::bad_alloc&) {
    return;  // it hears of it when this node ends
  }
}

void resident_actors::end_asked(const wire::actor_end_view& said) noexcept {
  const resident_ptr one = find(said.actor);
  if (one == nullptr) return;
  try {
    if (said.reason == end_reason::constructor_failed) {
      return give_up_reserved(*one, error(errc::actor_lost, std::string(said.message)), true);
    }
    one->core->retire();
  } catch (const std::bad_alloc&) {
    one->core->note_unwanted(false);  // it lives on
  }
}

// The loop's thread: who asks for a handle next gets none, whenever its end is seen to.
void resident_actors::note_unwanted(const peers::kept_message& message) const {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message.bytes);
  const auto* const end = read ? std::get_if<wire::actor_end_view>(&read->body) : nullptr;
  const resident_ptr one = end == nullptr ? nullptr : find(end->actor);
  if (one != nullptr) one->core->note_unwanted(true);
}

// The loop's thread.
void resident_actors::obey(peers& by, std::uint64_t from, const peers::kept_message& message) {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message.bytes);
  if (!read) return;
  if (const auto* const end = std::get_if<wire::actor_end_view>(&read->body)) {
    note_unwanted(message);
    return kill_soon(end->actor);
  }
  const auto* const asked = std::get_if<wire::ask_view>(&read->body);
  if (asked == nullptr || asked->what != wire::question::cancel_future) return;
  const auto said = codec::decode<stop_note>(asked->with);
  stop_soon(by, {from, said.number}, said.with_children);
}

void resident_actors::kill_soon(const base::id& actor) {
  const resident_ptr one = find(actor);
  if (one == nullptr) return;  // it has ended
  facts_line::of_ends().add([this, one] { kill(*one); });
}

// Its calls that are still in line fail with those in its mailbox: workers may all be at methods
// that do not end yet.
void resident_actors::kill(resident& one) noexcept {
  try {
    one.core->kill();
  } catch (const std::bad_alloc&) {
    one.core->note_unwanted(false);  // it lives on
    return;
  }
  stop_readings(one);
  std::vector<std::pair<key, peers::kept_message>> calls;
  try {
    const std::lock_guard lock(mutex_);
    for (const auto& [of, line] : lines_) {
      if (of.second != line_of(one.id)) continue;
      for (const letter& each : line.letters) {
        if (peers::topic_of(each.request) != peers::call) continue;
        calls.emplace_back(key{of.first, each.request.low}, each.message);
      }
    }
  } catch (const std::bad_alloc&) {
    // Who reads the line finds that it has ended.
  }
  const error* const loss = one.core->loss();
  // Who reads the line passes them.
  for (const auto& [who, message] : calls) {
    if (!is_call_of(one.id, message.bytes) || !comes_in(who)) continue;
    refuse_call(*one.by, who, loss != nullptr ? *loss : end_error(one.id));
  }
}

// One that is still in line never begins, and is answered at once.
void resident_actors::stop_soon(peers& by, const key& who, bool with_children) {
  exec::job* job = nullptr;
  bool is_in_line = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = visits_.find(who);
    if (found == visits_.end()) return;
    is_in_line = found->second.is_in_line;
    found->second.is_stopped = true;
    if (found->second.reading != nullptr) found->second.reading->ask();
    job = found->second.job;
    if (job != nullptr) job->hold();
  }
  // Not here: there may be no room for it. Should this not be done, who reads the line does it.
  if (is_in_line) {
    return facts_line::global().add([this, &by, who] {
      if (comes_in(who)) refuse_call(by, who, exec::cancelled_error());
    });
  }
  if (job == nullptr) return;
  // The line may be dropped with all that is in it.
  std::shared_ptr<exec::job> held(job, [](exec::job* of) { of->drop(); });
  facts_line::of_ends().add([who, held = std::move(held), with_children] {
    cancel_call(who, held.get(), with_children);
  });
}

// Under the mutex. For who has handles, and asks or calls it later.
void resident_actors::note_end(const base::id& actor, const actor_end& how) noexcept {
  try {
    ended_.insert_or_assign(actor, how);
  } catch (const std::bad_alloc&) {
    return;  // then it has just ended
  }
}

actor_end resident_actors::how_ended(const base::id& actor) const {
  const std::lock_guard lock(mutex_);
  const auto found = ended_.find(actor);
  if (found != ended_.end()) return found->second;
  return {end_reason::ended, "the actor has ended"};
}

// Whoever ended it; the object is gone.
void resident_actors::on_end(resident* of, const actor_end& how) noexcept {
  resident_ptr one;
  std::vector<std::uint64_t> told;
  std::uint64_t maker = 0;
  {
    const std::lock_guard lock(mutex_);
    one = std::move(of->self);
    maker = one->from;
    unlist(*one);
    told.swap(one->watchers);
    note_end(one->id, how);
  }
  stop_readings(*one);
  // It was killed before its construction came, which never will.
  if (one->is_reserved.exchange(false)) one->core->unpin();
  forget_end(one->id);  // or freed() does
  const bool is_lost = is_leaving_.load() && how.reason == end_reason::runtime_ended;
  const std::optional<error> leaves = is_lost ? std::optional(node_leaves()) : std::nullopt;
  const wire::actor_end_view said{one->id, is_lost ? end_reason::process_lost : how.reason,
                                  is_lost ? std::string_view(leaves->message()) : how.message};
  if (maker != 0) say_end(*one->by, maker, said);
  for (const std::uint64_t each : told) say_end(*one->by, each, said);
}

void resident_actors::say_end(peers& by, std::uint64_t to,
                              const wire::actor_end_view& said) noexcept {
  try {
    const borrowed_workbench on;
    const base::id request{peers::actor_end, ++last_};
    if (!on->writer.write({request, 1, 0}, said)) return;
    static_cast<void>(by.send_when_room(to, request, on->writer.pieces(), on->writer.size_bytes()));
  } catch (...) {
    return;  // no memory: its maker hears of it when one of the two nodes ends
  }
}

// The loop's thread. Nobody wants what its calls do; what it has made ends when nobody else has
// handles (far_handles.hpp).
void resident_actors::on_gone(peers& by, std::uint64_t node) noexcept {
  try {
    std::vector<key> stopped;
    std::vector<key> unread;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [who, one] : visits_) {
        if (who.first == node) (one.job != nullptr ? stopped : unread).push_back(who);
        if (who.first == node && one.reading != nullptr) one.reading->ask();
      }
    }
    for (const key& who : stopped) stop_soon(by, who, true);
    for (const key& who : unread) leaves(who);
    lose_reserved(node);
  } catch (...) {
    return;  // no memory: they go on to their ends
  }
}

}  // namespace manta::inline v0::node
