// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <stdio_ext.h>
#include <unistd.h>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/node/carrier.hpp>

#include "node/actor_names.hpp"
#include "node/isolated_worker.hpp"
#include "node/memory_use.hpp"
#include "node/trip.hpp"
#include "spec/made_error.hpp"

// The actor of an isolated worker.
//
// Idea. It is an actor as in any process, with one handle that is its node's. Its calls come by the
// ring, so the main thread puts them into the mailbox, and runs them there itself when the ring is
// empty: one thread takes a call and answers it. What has more than one call at a time has them on
// the executor's threads.
//
//   ring -> call -> mailbox -> (main thread's turn) -> method -> result -> ring
//
// How it ends, whoever ended it, its end watcher says to the node.
//
// Threads: as isolated_worker.hpp says; the end by any.

namespace manta::inline v0::node {

struct isolated_worker::tenant : exec::end_watcher {
  isolated_worker* in = nullptr;
  exec::actor_core* core = nullptr;  // with a pin; its one handle is the node's
  base::id id;
};

namespace {

constexpr std::size_t most_early_kills = 64;

// The call that began last on this thread.
struct begun_call {
  std::uint64_t number = 0;
  base::time_point at;
};
constinit thread_local begun_call last_begun;

// As many threads as calls may run at a time: they are the actor's own business, so the number of
// cores is no limit; but a limit there has to be.
int threads_for(const wire::spawn_view& spawn) noexcept {
  constexpr std::uint64_t most = 64;
  std::uint64_t sum = 0;
  for (const wire::group_view& one : spawn.groups) sum += one.limit;
  return static_cast<int>(std::clamp<std::uint64_t>(sum, 1, most));
}

// As actor_core says it of one that has not begun.
error construction_error(const exec::actor_core& core, exec::job& construction) noexcept {
  return spec::made_error(errc::actor_lost, [&] {
    return fmt::format("the constructor of {} failed: {}", core.shown_name(),
                       construction.failure().message());
  });
}

}  // namespace

void isolated_worker::on_spawn(const wire::spawn_view& spawn, std::uint64_t number) noexcept {
  begun_task construction{.id = spawn.actor, .number = number, .at = base::now()};
  const neutral_caller nobody;
  if (spawn.options != nullptr && spawn.options->enforce_memory) {
    line_.page().actor_had.store(memory_use_of(getpid()).own, std::memory_order_release);
  }
  try {
    auto made = std::make_shared<tenant>();
    made->in = this;
    made->id = spawn.actor;
    made->tell = [](exec::end_watcher* w, const actor_end& how) noexcept {
      auto* const self = static_cast<tenant*>(w);
      self->in->on_own_end(self, how);
    };
    made->is_forgotten = [](exec::end_watcher* /*w*/) noexcept { return false; };
    made->give_up = [](exec::end_watcher* /*w*/) noexcept {};
    sight_.show(sight_.prepare(spawn.gpus));
    const made_actor actor = make_actor(spawn);
    made->core = actor.core;
    made->core->pin();
    construction.job = actor.construction;
    actor_end how;
    made->core->watch(made.get(), how);
    bool is_killed = false;
    {
      const std::lock_guard lock(mutex_);
      is_killed = early_kills_.erase(spawn.actor) > 0;
      lives_here_ = std::move(made);
    }
    actor_names::global().set(actor.core, spawn.actor);
    exec::executor::global().aim_at(threads_for(spawn));
    construction.job->hold();  // the answer's
    answer_when_ready(construction);
    if (is_killed) actor.core->kill();
  } catch (...) {
    const error failure = describe_current_exception("the message of an actor");
    const borrowed_workbench on;
    write_failure(*on, spawn.actor, {unique_, number}, failure);
    send(*on);
    // In a later life nobody waits for the construction.
    say_end(spawn.actor, end_reason::constructor_failed, failure.message());
    return;
  }
  // Not here: calls and what cancels them come while it runs, and have to be heard.
  {
    const std::lock_guard lock(mutex_);
    to_construct_ = construction.job;
  }
  main_sleep_.signal();
}

bool isolated_worker::serve_construction() noexcept {
  exec::job* next = nullptr;
  {
    const std::lock_guard lock(mutex_);
    next = std::exchange(to_construct_, nullptr);
  }
  if (next == nullptr) return false;
  ++depth_;
  next->ops->execute(next);
  --depth_;
  return true;
}

// With a pin; null: it is not here any more.
exec::actor_core* isolated_worker::pinned_tenant(const base::id& id) noexcept {
  const std::lock_guard lock(mutex_);
  if (lives_here_ == nullptr || lives_here_->id != id) return nullptr;
  lives_here_->core->pin();
  return lives_here_->core;
}

// On the thread that listens: a call that is to stop lies in the ring, maybe behind a method that
// runs for long, and has to end now. Not what came after it: that may name segments whose
// descriptors this thread has not heard of yet.
void isolated_worker::hear_calls_until(std::uint64_t number) noexcept {
  const auto is_ahead = [this, number] {
    const std::lock_guard lock(mutex_);
    return lives_here_ != nullptr && last_call_ < number;
  };
  try {
    while (is_ahead() && pump(doing::waits, nullptr) == came::something) {
    }
  } catch (...) {
    vanish();
  }
}

void isolated_worker::on_call(const wire::call_view& call, std::uint64_t number) noexcept {
  {
    const std::lock_guard lock(mutex_);
    last_call_ = std::max(last_call_, number);
  }
  begun_task begun{.id = call.actor, .number = number, .at = base::now()};
  exec::actor_core* const core = pinned_tenant(call.actor);
  const neutral_caller nobody;
  bool is_stopped = false;
  try {
    if (core == nullptr) raise(errc::actor_lost, "the actor has ended; the call did not run");
    line_.page().reading.store(number, std::memory_order_release);
    begun.job = make_call(call, core);
    line_.page().reading.store(0, std::memory_order_release);
    begun.job->extra()->number = number;
    begun.job->extra()->tells_begin = true;
    if (const auto stream = carrier_of(begun.job)->stream; stream != nullptr) {
      streams_.open(number, begun.job, stream(begun.job));
    }
    const std::lock_guard lock(mutex_);
    running_[number] = begun.job;
    is_stopped = early_stops_.erase(number) > 0;
  } catch (...) {
    line_.page().reading.store(0, std::memory_order_release);
    const error failure = describe_current_exception("the message of a call");
    const borrowed_workbench on;
    write_failure(*on, call.actor, {unique_, number}, failure);
    send(*on);
    if (core != nullptr) core->unpin();
    return;
  }
  answer_when_ready(begun);
  if (is_stopped) exec::cancel_job(begun.job, true);
  core->send(begun.job, begun.job->ops->origin(begun.job).caller);
  core->unpin();
}

// The node's handles go.
void isolated_worker::on_changes(const wire::changes_view& changes) noexcept {
  for (const wire::reference_change& one : changes.changes) {
    exec::actor_core* const core = pinned_tenant(one.object);
    if (core == nullptr) continue;
    if (one.kind == wire::change_kind::release) {
      for (std::uint32_t i = 0; i < one.count; ++i) core->drop_handle();
    }
    core->unpin();
  }
}

void isolated_worker::on_end_order(const wire::actor_end_view& end) noexcept {
  exec::actor_core* const core = pinned_tenant(end.actor);
  if (core == nullptr) return;
  try {
    core->retire();
  } catch (const std::bad_alloc&) {
    vanish();
  }
  core->unpin();
}

// Calls that have delegated outlive the actor: their answers come when they can.
void isolated_worker::tell_late_calls() noexcept {
  constexpr std::uint64_t open = exec::job_bits::aliased | exec::job_bits::ready;
  try {
    std::vector<std::uint64_t> late;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [number, call] : running_) {
        if ((call->word() & open) == exec::job_bits::aliased) late.push_back(number);
      }
    }
    for (const std::uint64_t number : late) {
      questions_.tell_of(wire::question::delegation, delegation_note{{0, number}, {}});
    }
  } catch (const std::bad_alloc&) {
    vanish();
  }
}

// By who ended it. All of its calls have had their answers, or have delegated.
void isolated_worker::on_own_end(tenant* of, const actor_end& how) noexcept {
  std::shared_ptr<tenant> was;
  {
    const std::lock_guard lock(mutex_);
    was = std::move(lives_here_);
  }
  if (__fpending(stdout) > 0) std::fflush(stdout);
  tell_late_calls();
  actor_names::global().forget(was->core);
  say_end(of->id, how.reason, how.message);
  was->core->unpin();
}

bool isolated_worker::gives_turn(exec::actor_core* to) noexcept {
  if (std::this_thread::get_id() != main_thread_) return false;
  if (depth_ > 0 && !is_giving_turn_) return false;
  turn_ = to;
  return true;
}

// A call that has run and has no answer is not to run once more, in whose process ever: the page
// says so before it runs.
void isolated_worker::began(std::uint64_t number) noexcept {
  last_begun = {number, base::now()};
  line_.page().begin_call(number);
}

// A call waits in its actor's mailbox first, which is no time of its own.
duration isolated_worker::time_of(const begun_task& task) noexcept {
  const bool is_here = last_begun.number == task.number;
  return base::now() - (is_here ? last_begun.at : task.at);
}

// Runs the calls that have come; false: there are none.
bool isolated_worker::serve_actor() noexcept {
  exec::actor_core* const next = std::exchange(turn_, nullptr);
  if (next == nullptr) return false;
  ++depth_;
  is_giving_turn_ = true;
  next->ops->execute(next);
  is_giving_turn_ = false;
  --depth_;
  if (__fpending(stdout) > 0) std::fflush(stdout);
  return true;
}

// On the thread that listens: the main one may be in a method for long.
// Actors of different makers have the same numbers, and one may live here after the other.
void isolated_worker::obey_kill(const base::id& actor) noexcept {
  exec::actor_core* core = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (lives_here_ == nullptr || lives_here_->id != actor) {
      if (early_kills_.size() >= most_early_kills) early_kills_.clear();
      early_kills_.insert(actor);
      return;
    }
    core = lives_here_->core;
    core->pin();
  }
  try {
    core->kill();
  } catch (const std::bad_alloc&) {
    vanish();
  }
  core->unpin();
  // What lies in the ring fails now, too.
  try {
    while (pump(doing::waits, nullptr) == came::something) {
    }
  } catch (...) {
    vanish();
  }
}

// ---- actors of other processes

void isolated_worker::construct(exec::actor_core* of, exec::job* construction) noexcept {
  std::uint64_t request = 0;
  const bool is_reserved = of->seat != nullptr;  // the node knows it by its name
  try {
    if (const error* const inherited = carrier_of(construction)->failure(construction)) {
      inherited->raise();
    }
    line_.page().makes_actors.store(1,
                                    std::memory_order_relaxed);  // before the first message of it
    const base::id id = actor_names::global().draw(of, unique_);
    const borrowed_workbench on;
    auto note = is_reserved ? nullptr : std::make_unique<mirror_note>(id);
    {
      const std::lock_guard lock(mutex_);
      if (note != nullptr) note->is_heard = false;
      if (note != nullptr) of->seat = note.release();
      constructions_[construction] = {of};
      of->pin();
    }
    request = note_request(construction);
    write_spawn(*on, *of, construction, id, {unique_, request});
    send(*on);
    bool is_watched = false;
    {
      const std::lock_guard lock(mutex_);
      if (auto* const heard = static_cast<mirror_note*>(of->seat)) {
        heard->is_heard = true;
        is_watched = !heard->is_watched && of->is_watched();
        heard->is_watched |= is_watched;
      }
    }
    if (is_watched) ask_end(of, id);
    // Calls that wait go first: whom their caller gives a handle then shall not overtake them.
    of->begin(nullptr);
    actor_names::global().told(of);
    constructed(construction);
  } catch (...) {
    const std::unique_ptr<mirror_note> note = take_note_of(of);
    error why = not_asked(construction, request);
    {
      const std::lock_guard lock(mutex_);
      if (constructions_.erase(construction) > 0) of->unpin();
    }
    actor_names::global().forget(of);
    if (is_reserved && note != nullptr) {
      say_end(note->id, end_reason::constructor_failed, why.message());
      give_back(note->id, note->came.load(std::memory_order_relaxed));
    }
    construction->fail(std::move(why), 1);
    of->kind().settle(of, construction);
  }
}

// Twice: its message was sent and its calls go; its answer has come. Whichever is later ends it.
void isolated_worker::constructed(exec::job* construction) noexcept {
  exec::actor_core* core = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = constructions_.find(construction);
    if (!std::exchange(found->second.is_half_done, true)) return;
    core = found->second.core;
    constructions_.erase(found);
  }
  if ((construction->word() & exec::job_bits::failed) != 0) {
    core->lose_elsewhere(end_reason::constructor_failed, construction_error(*core, *construction));
  }
  construction->drop();
  core->unpin();
}

void isolated_worker::forward(exec::actor_core* to, exec::job* call, bool /*has_more*/) noexcept {
  if (!call->try_claim()) {
    call->ops->drop_arguments(call);
    call->drop();
    return;
  }
  base::id actor;
  std::uint64_t request = 0;
  try {
    if ((call->word() & exec::job_bits::cancel) != 0) exec::cancelled_error().raise();
    if (const error* const inherited = carrier_of(call)->failure(call)) inherited->raise();
    const borrowed_workbench on;
    {
      // Another thread may end the actor here, and its note, at any time.
      const std::lock_guard lock(mutex_);
      const auto* const note = static_cast<const mirror_note*>(to->seat);
      if (note == nullptr) raise(errc::actor_lost, "the actor was not made; the call did not run");
      actor = note->id;
      request = number_request(call);
    }
    const exec::job_ref wished = wished_call(call);
    write_call(*on, call, actor, {unique_, request});
    send(*on);
    if (wished) futures_.sent(call, request);
  } catch (...) {
    call->fail(not_asked(call, request), 1);
  }
}

// What the node calls that actor, which is the caller's from here on; null: another thread has it.
std::unique_ptr<mirror_note> isolated_worker::take_note_of(exec::actor_core* of) noexcept {
  const std::scoped_lock lock(borrowing_actors(), mutex_);
  return std::unique_ptr<mirror_note>(static_cast<mirror_note*>(std::exchange(of->seat, nullptr)));
}

// What came goes back.
void isolated_worker::let_go(exec::actor_core* of) noexcept {
  const std::unique_ptr<mirror_note> note = take_note_of(of);
  if (note == nullptr) return;
  actor_names::global().forget(of);
  give_back(note->id, note->came.load(std::memory_order_relaxed));
}

// The last handle here went, or the actor is to end.
bool isolated_worker::leave(exec::actor_core* of, exec::leaving how) noexcept {
  const bool is_unneeded = how == exec::leaving::unneeded;
  base::id id;
  bool asks = false;
  bool waits = false;
  {
    const std::lock_guard lock(mutex_);
    auto* const note = static_cast<mirror_note*>(of->seat);
    if (note == nullptr) return false;
    id = note->id;
    if (note->is_heard && !note->is_over && (!is_unneeded || of->is_watched())) {
      asks = !note->is_watched && ends_asked_ < worker_monitors::most_open;
      waits = note->is_watched || asks;
      note->is_watched = waits;
      note->is_left = waits;
    }
  }
  if (how == exec::leaving::retired) say_end(id, end_reason::ended, {});
  if (asks) ask_end(of, id);
  if (is_unneeded || !waits) let_go(of);
  return waits;
}

void isolated_worker::kill(exec::actor_core* of) noexcept {
  base::id id;
  {
    const std::lock_guard lock(mutex_);
    const auto* const note = static_cast<const mirror_note*>(of->seat);
    if (note != nullptr && !note->is_over) id = note->id;
  }
  if (id != base::id{}) say_end(id, end_reason::killed, {});
  // One that has a name and was not made yet ends without being left.
  if (of->has_ended()) leave(of, exec::leaving::stopped);
}

// ---- ends of actors of other processes

void isolated_worker::watch(exec::actor_core* of) {
  base::id id;
  {
    const std::lock_guard lock(mutex_);
    auto* const note = static_cast<mirror_note*>(of->seat);
    if (note == nullptr || !note->is_heard || note->is_watched) return;
    if (ends_asked_ >= worker_monitors::most_open / 2) {
      raise(errc::store_full,
            fmt::format("monitor: an isolated worker waits for the ends of {} actors, which is the "
                        "most; let some of them end first",
                        ends_asked_));
    }
    note->is_watched = true;
    id = note->id;
  }
  ask_end(of, id);
}

// Once for each core that stands for that actor.
void isolated_worker::ask_end(exec::actor_core* of, const base::id& id) noexcept {
  of->pin();
  {
    const std::lock_guard lock(mutex_);
    ++ends_asked_;
  }
  try {
    questions_.ask<end_answer>(wire::question::actor_end, end_question{id.high, id.low},
                               kv_answer<end_answer>([this, of](const result<end_answer>& got) {
                                 on_watched_end(of, got);
                               }));
  } catch (...) {
    on_watched_end(of, describe_current_exception("monitor"));
  }
}

// By who found the answer in the ring. An error: there is no such actor, or no memory to ask.
void isolated_worker::on_watched_end(exec::actor_core* of, const result<end_answer>& got) noexcept {
  bool is_left = false;
  {
    const std::lock_guard lock(mutex_);
    --ends_asked_;
    auto* const note = static_cast<mirror_note*>(of->seat);
    is_left = note == nullptr || note->is_left;
    if (note != nullptr) note->is_over = got.has_value();
    if (note != nullptr && !got) note->is_watched = false;
  }
  if (got) of->note_end({static_cast<end_reason>(got->reason), got->message});
  if (is_left) {
    let_go(of);
    of->end_elsewhere();
  } else if (got) {
    end_as_told(of, *got);
  }
  of->unpin();
}

// It has ended, and nobody here asked for it.
void isolated_worker::end_as_told(exec::actor_core* of, const end_answer& said) noexcept {
  const auto reason = static_cast<end_reason>(said.reason);
  try {
    // As a kill here: one that was not made yet never is.
    if (reason == end_reason::killed) return of->kill();
    of->lose_elsewhere(reason, reason == end_reason::runtime_ended
                                   ? exec::ended_error()
                                   : error(errc::actor_lost, said.message));
  } catch (const std::bad_alloc&) {
    of->lose_elsewhere(reason, error::out_of_memory());
  }
}

// ---- handles

base::id isolated_worker::tenant_id() noexcept {
  const std::lock_guard lock(mutex_);
  return lives_here_ != nullptr ? lives_here_->id : base::id{};
}

// A message gives handles to the actor that lives here away: the node gets one for each.
void isolated_worker::lend_own(const workbench& on) noexcept {
  for (const spec::reference& one : on.references) {
    if (one.kind != spec::reference_kind::actor) continue;
    exec::actor_core* const core = pinned_tenant(one.what);
    if (core == nullptr) continue;
    core->add_handle_inside();
    core->unpin();
  }
}

void isolated_worker::give_back(const base::id& id, std::uint32_t n) noexcept {
  const borrowed_workbench on;
  const wire::reference_change gone{id, {1, unique_}, n, wire::change_kind::release};
  if (!on->writer.write({{unique_, 1}, 1, 0}, wire::changes_view{{&gone, 1}})) vanish();
  send(*on);
}

void isolated_worker::say_end(const base::id& actor, end_reason reason,
                              const std::string& message) noexcept {
  const borrowed_workbench on;
  const wire::actor_end_view said{actor, reason, message};
  if (!on->writer.write({{unique_, 1}, 1, 0}, said)) vanish();
  send(*on);
}

}  // namespace manta::inline v0::node
