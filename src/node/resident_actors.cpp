// SPDX-License-Identifier: Apache-2.0
#include "node/resident_actors.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <variant>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/resource_gate.hpp>
#include <manta/node/carrier.hpp>

#include "node/errand.hpp"
#include "node/far_ids.hpp"
#include "node/guest_actor.hpp"
#include "node/trip.hpp"
#include "node/worker_facts.hpp"

namespace manta::inline v0::node {

namespace {

// Then others have their turn.
constexpr int letters_at_once = 64;

error no_such_actor() { return {errc::actor_lost, "the actor has ended; the call did not run"}; }
error node_leaves() { return {errc::actor_lost, "the node of the actor has left the cluster"}; }

}  // namespace

/// One of them. Lives as long as it is known, or its core's watcher.
struct resident_actors::resident : exec::end_watcher {
  resident_actors* in = nullptr;
  peers* by = nullptr;
  std::uint64_t from = 0;
  base::id id;
  exec::actor_core* core = nullptr;  // with a pin
  std::atomic<bool> has_handle{true};
  resident_ptr self;  // while its end is to come

  ~resident() {
    drop_handle();
    core->unpin();
  }
  void drop_handle() noexcept {
    if (has_handle.exchange(false)) core->drop_handle();
  }
};

resident_actors& resident_actors::global() {
  static auto* const made = new resident_actors;
  return *made;
}

// ---- lines

void resident_actors::on_message(peers& by, std::uint64_t from, const base::id& request,
                                 const peers::kept_message& message) {
  const std::uint64_t topic = peers::topic_of(request);
  if (topic == peers::actor_order) return obey(by, from, message);
  const std::uint64_t line = request.high >> peers::line_shift;
  if (topic == peers::call) {
    const std::lock_guard lock(mutex_);
    // No honest node makes one twice.
    if (!visits_.try_emplace({from, request.low}).second) return;
    ++open_calls_;
  } else if (topic == peers::spawn) {
    const std::lock_guard lock(mutex_);
    coming_.emplace(far_actor_id(from, line), false);
  }
  try {
    put_in_line(by, {from, line}, {request, message});
  } catch (...) {
    if (topic == peers::call) leaves({from, request.low});
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
  }
  one = {};
  try {
    run_errand([this, &by, of](bool still) { read_line(by, of, still); });
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex_);
    if (const auto found = lines_.find(of); found != lines_.end()) found->second.has_reader = false;
  }
}

void resident_actors::read(peers& by, std::uint64_t from, const letter& one) noexcept {
  const borrowed_workbench on;
  const neutral_caller nobody;
  const result<const wire::message_view&> read = on->reader.read(one.message.bytes);
  const wire::message_view* const message = read ? &*read : nullptr;
  if (peers::topic_of(one.request) == peers::call) {
    return call(by, {from, one.request.low}, message);
  }
  if (message == nullptr) return;
  if (const auto* const asked = std::get_if<wire::spawn_view>(&message->body)) {
    spawn(by, from, *asked);
  } else if (const auto* const gone = std::get_if<wire::changes_view>(&message->body)) {
    for (const wire::reference_change& each : gone->changes) release(each.object);
  } else if (const auto* const end = std::get_if<wire::actor_end_view>(&message->body)) {
    retire(end->actor);
  }
}

// This node's runtime has ended.
void resident_actors::turn_away(peers& by, std::uint64_t from, const letter& one) noexcept {
  if (peers::topic_of(one.request) == peers::call) {
    if (comes_in({from, one.request.low})) {
      refuse_call(by, {from, one.request.low}, node_leaves());
    }
    return;
  }
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(one.message.bytes);
  const auto* const asked = read ? std::get_if<wire::spawn_view>(&read->body) : nullptr;
  if (asked != nullptr) refuse_spawn(by, from, asked->actor, node_leaves());
}

// ---- making one

resident_actors::resident_ptr resident_actors::make(peers& by, std::uint64_t from,
                                                    const wire::spawn_view& asked,
                                                    exec::job*& construction) {
  const actor_options with = options_of(asked);
  std::unique_ptr<exec::resource_claim> claim =
      exec::resource_gate::claim(spec::to_demand(with), {}, true);
  exec::resource_claim* const held = claim.get();
  const made_actor made = make_actor(asked, std::move(claim));
  if (held != nullptr) held->holder = made.core;
  resident_ptr out;
  try {
    out = std::make_shared<resident>();
    out->core = made.core;
    out->core->pin();
    out->in = this;
    out->by = &by;
    out->from = from;
    out->id = asked.actor;
    out->tell = [](exec::end_watcher* w, const actor_end& how) noexcept {
      auto* const self = static_cast<resident*>(w);
      self->in->on_end(self, how);
    };
    out->is_forgotten = [](exec::end_watcher* /*w*/) noexcept { return false; };
    out->give_up = [](exec::end_watcher* /*w*/) noexcept {};
    actor_end how;
    made.core->watch(out.get(), how);
    out->self = out;
  } catch (...) {
    made.construction->fail(error::out_of_memory(), 1);
    made.construction->drop();
    if (out != nullptr) out->has_handle.store(false);
    drop_core(made.core);
    throw;
  }
  construction = made.construction;
  return out;
}

// The answer to a construction or a call, when that has ended.
struct resident_actors::late_answer : exec::waiter {
  resident_actors* in = nullptr;
  peers* by = nullptr;
  key who;                  // of a call
  base::id actor;           // else of that construction
  exec::job* of = nullptr;  // with a hold
  base::time_point at{};

  void answer() noexcept {
    if (actor == base::id{}) {
      in->answer_call(*by, who, of, base::now() - at);
    } else {
      const bool has_failed = (of->word() & exec::job_bits::failed) != 0;
      in->answer_spawn(*by, who.first, actor, has_failed ? &of->failure() : nullptr);
    }
    of->drop();
  }
  // Takes the hold over.
  static void add(std::unique_ptr<late_answer> one) noexcept {
    one->fire = [](exec::waiter* w) noexcept {
      const std::unique_ptr<late_answer> self(static_cast<late_answer*>(w));
      self->answer();
    };
    late_answer* const raw = one.get();
    if (raw->of->add_waiter(raw)) {
      static_cast<void>(one.release());
    } else {
      raw->answer();
    }
  }
};

void resident_actors::spawn(peers& by, std::uint64_t from, const wire::spawn_view& asked) noexcept {
  try {
    exec::job* construction = nullptr;
    auto late = std::make_unique<late_answer>();
    const resident_ptr one = make(by, from, asked, construction);
    late->in = this;
    late->by = &by;
    late->who = {from, 0};
    late->actor = asked.actor;
    late->of = construction;
    construction->hold();
    late_answer::add(std::move(late));
    bool is_killed = false;
    {
      const std::lock_guard lock(mutex_);
      residents_.emplace(asked.actor, one);
      const auto came = coming_.find(asked.actor);
      is_killed = came != coming_.end() && came->second;
      if (came != coming_.end()) coming_.erase(came);
    }
    construction->ops->ready(construction);
    if (is_killed) one->core->kill();
  } catch (...) {
    refuse_spawn(by, from, asked.actor, describe_current_exception("the message of an actor"));
  }
}

resident_actors::resident_ptr resident_actors::find(const base::id& actor) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = residents_.find(actor);
  return found == residents_.end() ? nullptr : found->second;
}

// ---- calls

void resident_actors::call(peers& by, const key& who, const wire::message_view* read) noexcept {
  if (!comes_in(who)) return;
  try {
    const auto* const asked = read == nullptr ? nullptr : std::get_if<wire::call_view>(&read->body);
    if (asked == nullptr) raise(errc::decode_failed, "a call that is none");
    const resident_ptr to = find(asked->actor);
    if (to == nullptr) no_such_actor().raise();
    auto late = std::make_unique<late_answer>();
    late->in = this;
    late->by = &by;
    late->who = who;
    late->at = base::now();
    exec::job* const made = make_call(*asked, to->core);
    late->of = made;
    made->hold();
    const bool is_stopped = sits_down(who, made);
    late_answer::add(std::move(late));
    if (is_stopped) exec::cancel_job(made, true);
    const std::uint64_t caller = made->ops->origin(made).caller;
    to->core->send(made, caller);
    made->drop();  // the future's, which nobody has
  } catch (...) {
    refuse_call(by, who, describe_current_exception("the message of a call"));
  }
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
  try {
    exec::job* const end = ended->outcome();
    const bool has_failed = (end->word() & exec::job_bits::failed) != 0;
    if (has_failed && is_leaving_.load() && end->failure().code() == errc::cancelled) {
      node_leaves().raise();
    }
    const borrowed_workbench on;
    const base::id request{peers::result_of_call, who.second};
    if (!write_given_result(*on, ended, request, 0, ran)) {
      raise(errc::unsupported,
            fmt::format("{}: a handle inside of a value can't come from another node yet; return "
                        "the value itself, or have the actor in this node",
                        readable_name(ended->ops->function)));
    }
    if (on->writer.size_bytes() >= most_given_bytes) {
      raise(errc::unsupported,
            fmt::format("{}: its result takes {} bytes, and {} is the most that comes from another "
                        "node in one message; return less at a time",
                        readable_name(ended->ops->function), on->writer.size_bytes(),
                        most_given_bytes));
    }
    // False is of one that is gone.
    static_cast<void>(
        by.send_when_room(who.first, request, on->writer.pieces(), on->writer.size_bytes()));
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
    write_refusal(*on, {1, 1}, request, 0, why, is_unrun);
    static_cast<void>(
        by.send_when_room(who.first, request, on->writer.pieces(), on->writer.size_bytes()));
  } catch (...) {
    // No memory: the call has no answer until one of the two nodes ends.
  }
  leaves(who);
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

// What has not been made has an end, too.
void resident_actors::refuse_spawn(peers& by, std::uint64_t to, const base::id& actor,
                                   const error& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    coming_.erase(actor);
  }
  answer_spawn(by, to, actor, &why);
  say_end(by, to, {actor, end_reason::constructor_failed, why.message()});
}

// ---- ends

void resident_actors::release(const base::id& actor) noexcept {
  if (const resident_ptr one = find(actor)) one->drop_handle();
}

void resident_actors::retire(const base::id& actor) noexcept {
  const resident_ptr one = find(actor);
  try {
    if (one != nullptr) one->core->retire();
  } catch (const std::bad_alloc&) {
    // It lives on.
  }
}

// The loop's thread.
void resident_actors::obey(peers& by, std::uint64_t from, const peers::kept_message& message) {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message.bytes);
  if (!read) return;
  if (const auto* const end = std::get_if<wire::actor_end_view>(&read->body)) {
    return kill_soon(end->actor);
  }
  const auto* const asked = std::get_if<wire::ask_view>(&read->body);
  if (asked == nullptr || asked->what != wire::question::cancel_future) return;
  const auto said = codec::decode<stop_note>(asked->with);
  stop_soon(by, {from, said.number}, said.with_children);
}

void resident_actors::kill_soon(const base::id& actor) {
  resident_ptr one;
  {
    // In one look: it may be about to be made.
    const std::lock_guard lock(mutex_);
    if (const auto here = residents_.find(actor); here != residents_.end()) one = here->second;
    if (const auto line = coming_.find(actor); line != coming_.end()) line->second = true;
  }
  if (one == nullptr) return;
  facts_line::global().add([this, one] { kill(*one); });
}

// Its calls that are still in line fail with those in its mailbox: workers may all be at methods
// that do not end yet.
void resident_actors::kill(resident& one) noexcept {
  try {
    one.core->kill();
  } catch (const std::bad_alloc&) {
    return;  // it lives on
  }
  std::deque<letter> rest;
  std::deque<letter> calls;
  {
    const std::lock_guard lock(mutex_);
    const auto found = lines_.find({one.from, one.id.low});
    if (found == lines_.end()) return;
    rest.swap(found->second.letters);
    while (!rest.empty()) {
      const bool is_call = peers::topic_of(rest.front().request) == peers::call;
      (is_call ? calls : found->second.letters).push_back(std::move(rest.front()));
      rest.pop_front();
    }
  }
  for (const letter& each : calls) {
    if (comes_in({one.from, each.request.low})) {
      refuse_call(*one.by, {one.from, each.request.low}, no_such_actor());
    }
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
    is_in_line = std::exchange(found->second.is_in_line, false);
    found->second.is_stopped = true;
    job = found->second.job;
    if (job != nullptr) job->hold();
  }
  // Not here: there may be no room for it.
  if (is_in_line) {
    return facts_line::global().add(
        [this, &by, who] { refuse_call(by, who, exec::cancelled_error()); });
  }
  if (job == nullptr) return;
  // The line may be dropped with all that is in it.
  const std::shared_ptr<exec::job> held(job, [](exec::job* of) { of->drop(); });
  facts_line::global().add([held, with_children] { exec::cancel_job(held.get(), with_children); });
}

// Whoever ended it; the object is gone.
void resident_actors::on_end(resident* of, const actor_end& how) noexcept {
  const resident_ptr one = std::move(of->self);
  {
    const std::lock_guard lock(mutex_);
    const auto found = residents_.find(one->id);
    if (found != residents_.end() && found->second == one) residents_.erase(found);
  }
  if (is_leaving_.load() && how.reason == end_reason::runtime_ended) {
    const error why = node_leaves();
    return say_end(*one->by, one->from, {one->id, end_reason::process_lost, why.message()});
  }
  say_end(*one->by, one->from, {one->id, how.reason, how.message});
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

// The loop's thread. Nobody wants what they do.
void resident_actors::on_gone(peers& by, std::uint64_t node) noexcept {
  try {
    std::vector<base::id> actors;
    std::vector<key> stopped;
    std::vector<key> unread;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [id, one] : residents_) {
        if (one->from == node) actors.push_back(id);
      }
      for (const auto& [who, one] : visits_) {
        if (who.first == node) (one.job != nullptr ? stopped : unread).push_back(who);
      }
      for (auto& [of, one] : lines_) {
        if (of.first != node) continue;
        for (const letter& each : one.letters) {
          if (peers::topic_of(each.request) == peers::spawn) {
            coming_.erase(far_actor_id(node, of.second));
          }
        }
        one.letters.clear();
      }
      for (auto& [id, is_killed] : coming_) {
        if (id.high == far_actor_id(node, 0).high) is_killed = true;  // one is being read, maybe
      }
    }
    for (const key& who : stopped) stop_soon(by, who, true);
    for (const key& who : unread) leaves(who);
    for (const base::id& id : actors) kill_soon(id);
  } catch (...) {
    return;  // no memory: they live until this node ends
  }
}

}  // namespace manta::inline v0::node
