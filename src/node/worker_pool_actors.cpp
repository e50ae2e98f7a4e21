// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <sys/socket.h>

#include <fmt/format.h>

#include <manta/exec/actor_core.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/node/carrier.hpp>

#include "node/note_run.hpp"
#include "node/trip.hpp"
#include "node/worker_hand.hpp"
#include "node/worker_order.hpp"
#include "node/worker_pool.hpp"
#include "spec/made_error.hpp"

// Actors in isolated workers, seen from the node.
//
// Problem. An actor's calls have an order, and its object lives as long as its handles; both are
// the core's business (exec/actor_core.hpp), which is here, while the object is there.
//
// Idea. The core is a mailbox on the way (exec/actor_elsewhere.cpp): each call it gives away is
// written into the ring of the actor's own worker at once, and that worker has a core of its own
// that runs them in the order of the ring. So a call waits there, not here, and costs no slot: when
// the worker dies, all of its calls that have no answer are lost with the object.
//
//   core here --forward--> ring --> core there --> object      results come back in any order
//        kill --order on the socket--> core there              told even while a call runs
//        last handle, retire --ring--> core there --> object gone --actor end--> core here ends
//
// How an actor whose worker has died is made anew: worker_pool_restart.cpp.

namespace manta::inline v0::node {

namespace {

// While more calls and tasks than these are under way, who calls takes what came, each so many
// calls.
constexpr std::size_t calls_ahead = 64;
constexpr std::uint64_t calls_a_look = 16;

}  // namespace

// ---- making one

// A worker for an actor that has none; null: there is none.
std::shared_ptr<worker_pool::hand> worker_pool::house(exec::actor_core* core,
                                                      exec::job* construction) noexcept {
  std::shared_ptr<hand> to;
  {
    const std::lock_guard lock(mutex_);
    if (!vacant_.empty()) {
      to = std::move(vacant_.back());
      vacant_.pop_back();
    }
  }
  if (to == nullptr) to = make_hand(sched::roster::nobody);
  if (to == nullptr) return nullptr;
  try {
    auto made = std::make_unique<tenant>();
    made->core = core;
    made->construction = construction;
    const std::lock_guard lock(mutex_);
    if (to->is_dead || is_closing_.load(std::memory_order_relaxed)) return nullptr;
    made->id = actor_names::global().name(core, 0);
    made->construction_number = ++to->last_number;
    made->first = made->construction_number + 1;
    to->lives_here = std::move(made);
    note_gpus(*to, *core);
    to->line.page().actor_had.store(0, std::memory_order_relaxed);
    if (core->memory_limit() > 0) ++limited_;
    core->pin();
    core->seat = to.get();
    ++under_way_;
    return to;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void worker_pool::construct(exec::actor_core* of, exec::job* construction) noexcept {
  error why = error(errc::worker_lost,
                    "no isolated worker can be made for it: the runtime ends, or there is no "
                    "memory, or no descriptor or process is left; raise those limits");
  try {
    if (!is_passed(construction)) {
      const carrier& by = *carrier_of(construction);
      if (const error* const inherited = by.failure(construction)) inherited->raise();
      wake_here(nullptr, *of, construction);
    }
    if (const std::shared_ptr<hand> to = house(of, construction)) {
      if (send_spawn(*to, of, construction)) {
        wake_collector();
        return;
      }
      why = lost_error(*of);
    }
    if (is_closing_.load(std::memory_order_relaxed)) end_with_runtime(of);
  } catch (...) {
    why = describe_current_exception(construction->ops->function);
    // Its wait for arrays was ended for that.
    const bool is_overtaken =
        why.code() == errc::cancelled && is_closing_.load(std::memory_order_relaxed);
    if (is_overtaken) why = ended_error();
    if (is_overtaken) end_with_runtime(of);
  }
  std::shared_ptr<hand> unused;
  std::unique_ptr<tenant> was;
  {
    const std::lock_guard lock(mutex_);
    if (of->seat != nullptr) {
      unused = static_cast<hand*>(of->seat)->shared_from_this();
      was = evict(*unused);
    }
  }
  if (unused != nullptr) vacate(unused);
  construction->fail(std::move(why), 1);
  const bool was_pinned = unused != nullptr;
  actor_names::global().forget(of);
  of->kind().settle(of, construction);
  if (was_pinned) of->unpin();
}

// What has used gpus keeps their memory and sees no others: see gpu_sight.hpp.
void worker_pool::note_gpus(hand& at, exec::actor_core& lives_there) noexcept {
  const auto claim_of = lives_there.kind().claim;
  const exec::resource_claim* const claim = claim_of != nullptr ? claim_of(&lives_there) : nullptr;
  at.has_used_gpus = claim != nullptr && !claim->gpus().empty();
}

// False: the worker has died, and left the construction to us.
bool worker_pool::send_spawn(hand& to, exec::actor_core* of, exec::job* construction) {
  base::id id;
  base::id request{to.unique, 0};
  {
    const std::lock_guard lock(mutex_);
    id = to.lives_here->id;
    request.low = to.lives_here->construction_number;
  }
  const borrowed_workbench on;
  if (is_passed(construction)) {
    write_passed(*on, passed_job::self(construction), request);
  } else {
    write_spawn(*on, *of, construction, id, request);
  }
  std::unique_ptr<kept_message> again;
  if (of->restarts() > 0) {
    std::vector<std::byte> frame(on->writer.size_bytes());
    on->writer.flatten(frame);
    again = std::make_unique<kept_message>(frame, on->references);
  }
  const std::lock_guard lock(mutex_);
  if (to.is_dead) return false;
  tenant& t = *to.lives_here;
  t.restarts_left = of->restarts();
  t.spawn_again = std::move(again);
  send_naming(to, *on);
  t.is_sent = true;
  to.down.bell();
  if (of->is_stopping()) order_kill(to);  // it was killed meanwhile
  return true;
}

// Under the mutex: the hand has no actor any more, and the actor no hand. Its pin is the caller's,
// and so is what is left of it, which goes without the mutex: it may hold the last handles to other
// actors.
std::unique_ptr<worker_pool::tenant> worker_pool::evict(hand& from) noexcept {
  const tenant& t = *from.lives_here;
  t.core->seat = nullptr;
  if (t.core->memory_limit() > 0) --limited_;
  under_way_ -= t.under_way + (t.construction != nullptr ? 1 : 0) + (t.is_left ? 1 : 0);
  return std::move(from.lives_here);
}

// A worker without its actor waits for the next one, or goes.
void worker_pool::vacate(const std::shared_ptr<hand>& one) noexcept {
  {
    const std::lock_guard lock(mutex_);
    // At the runtime's end all go, and the next one's actors must not find it.
    if (one->is_dead || is_closing_.load(std::memory_order_relaxed)) return;
    if (!one->off_stack.empty()) return;  // with the last answer
    try {
      const bool stays = vacant_.size() < target_ || !one->owed.empty();
      if (stays && !one->has_used_gpus) {
        vacant_.push_back(one);
        return;
      }
    } catch (const std::bad_alloc&) {
      // It goes.
    }
    one->is_let_go = true;
  }
  zygote::global().kill(one->unique);
}

// ---- calls

void worker_pool::forward(exec::actor_core* to, exec::job* call, bool has_more) noexcept {
  if (!call->try_claim()) {
    call->ops->drop_arguments(call);
    call->drop();
    if (!has_more) ring_for(*to);
    to->ended_elsewhere();
    return;
  }
  std::uint64_t number = 0;
  std::shared_ptr<hand> by = take_seat(to, call, number);
  if (by != nullptr) {
    send_call(std::move(by), call, number, has_more);
    wake_collector();
    if (number % calls_a_look == 0 && under_way_.load() > calls_ahead) make_room();
  } else if (number == 0) {
    if (!has_more) ring_for(*to);
    call->fail(is_closing_.load(std::memory_order_relaxed) ? ended_error() : lost_error(*to), 1);
    to->ended_elsewhere();
  } else {
    let_replay_pass(*to);
  }
}

// The last of several calls does not go: those before it left the bell to it.
void worker_pool::ring_for(const exec::actor_core& of) noexcept {
  const std::lock_guard lock(mutex_);
  auto* const at = static_cast<hand*>(of.seat);
  if (at != nullptr && !at->is_dead) at->down.bell();
}

// What a call fails with whose actor is no more there, and has not said so yet.
error worker_pool::lost_error(const exec::actor_core& of) noexcept {
  return spec::made_error(errc::actor_lost, [&] {
    return fmt::format("the isolated worker of the actor {} has ended; the call did not run",
                       of.shown_name());
  });
}

// Its arguments are nobody else's while they are encoded: who ends the tenant meanwhile leaves this
// one call to us.
void worker_pool::send_call(std::shared_ptr<hand> to, exec::job* call, std::uint64_t number,
                            bool has_more) noexcept {
  while (to != nullptr && !try_send_call(*to, call, number, has_more)) {
    exec::actor_core* const of = call->ops->origin(call).actor;
    of->pin();
    to = take_seat(of, call, number);
    if (to == nullptr && number == 0) {
      if (!has_more) ring_for(*of);
      call->fail(is_closing_.load(std::memory_order_relaxed) ? ended_error() : lost_error(*of), 1);
      of->ended_elsewhere();
    }
    of->unpin();
  }
}

// A claimed call gets its number at the actor's worker; null: there is none (number 0), or the call
// waits there for who makes the actor anew, behind those that came before it.
std::shared_ptr<worker_pool::hand> worker_pool::take_seat(exec::actor_core* of, exec::job* call,
                                                          std::uint64_t& number) noexcept {
  number = 0;
  try {
    const std::lock_guard lock(mutex_);
    auto* const at = static_cast<hand*>(of->seat);
    if (at == nullptr || is_closing_.load(std::memory_order_relaxed)) return nullptr;
    tenant& t = *at->lives_here;
    if (at->is_dead && !t.is_restarting) return nullptr;
    t.calls.push_back(call);
    number = ++at->last_number;
    ++t.under_way;
    ++under_way_;
    return t.is_restarting ? nullptr : at->shared_from_this();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// False: the actor's worker ended, or the actor there, before it had left.
bool worker_pool::try_send_call(hand& to, exec::job* call, std::uint64_t number,
                                bool has_more) noexcept {
  const borrowed_workbench on;
  base::id actor;
  {
    const std::lock_guard lock(mutex_);
    tenant* const t = to.lives_here.get();
    if (t == nullptr || !t->has(number) || t->at(number) != call) {
      if (!has_more) to.down.bell();
      return true;  // it was failed
    }
    if (to.is_dead && t->is_restarting) return true;  // it waits for the new life
    t->encoding = number;
    actor = t->id;
  }
  // Under the mutex: whether it is there still, and its end is ours. In a worker that has died it
  // is while it waits there for the actor's new life.
  const auto is_ours = [&] {
    tenant* const t = to.lives_here.get();
    if (t == nullptr || t->id != actor || t->encoding != number) return false;
    if (to.is_dead && !t->is_restarting) return false;
    t->encoding = 0;
    return true;
  };
  try {
    const bool is_cancelled =
        (call->word() & exec::job_bits::cancel) != 0 ||
        (exec::may_be_cancelled(call->parent) && exec::is_cancelled_caller(call->parent));
    if (is_cancelled) exec::cancelled_error().raise();
    if (is_passed(call)) {
      write_passed(*on, passed_job::self(call), {to.unique, number});
    } else {
      const carrier& by = *carrier_of(call);
      if (const error* const inherited = by.failure(call)) inherited->raise();
      wake_here(&to, *call->ops->origin(call).actor, call);
      write_call(*on, call, actor, {to.unique, number});
    }
    const std::lock_guard lock(mutex_);
    if (!is_ours()) return false;
    if (to.is_dead) return true;  // who makes the actor anew sends it
    send_naming(to, *on);
    if (!has_more) to.down.bell();
  } catch (...) {
    error why = describe_current_exception(call->ops->function);
    exec::actor_core* const of = call->ops->origin(call).actor;
    if (why.code() == errc::cancelled) {
      const error* const loss = of->is_stopping() ? of->loss() : nullptr;
      if (loss != nullptr) why = *loss;
      if (loss == nullptr && is_closing_.load(std::memory_order_relaxed)) why = ended_error();
    }
    of->pin();
    {
      const std::lock_guard lock(mutex_);
      if (is_ours()) end_call(to, number);
      to.down.bell();
    }
    call->fail(std::move(why), 1);
    of->ended_elsewhere();
    of->unpin();
  }
  return true;
}

// Under the mutex: the call of that number has ended; null: there is none.
exec::job* worker_pool::end_call(hand& from, std::uint64_t number) noexcept {
  tenant* const t = from.lives_here.get();
  if (t == nullptr || !t->has(number) || number == t->encoding) return nullptr;
  exec::job* const found = std::exchange(t->at(number), nullptr);
  while (!t->calls.empty() && t->calls.front() == nullptr) {
    t->calls.pop_front();
    ++t->first;
  }
  --t->under_way;
  --under_way_;
  return found;
}

// The result of a call or a construction came; whether it was one.
bool worker_pool::on_actor_result(const std::shared_ptr<hand>& from, std::uint64_t number,
                                  const wire::result_view& arrived,
                                  std::span<const std::byte> frame) noexcept {
  exec::job* construction = nullptr;
  exec::job* call = nullptr;
  exec::actor_core* core = nullptr;
  base::id id;
  std::optional<actor_end> early_end;
  {
    const std::lock_guard lock(mutex_);
    tenant* const t = from->lives_here.get();
    if (t == nullptr) return false;
    core = t->core;
    call = end_call(*from, number);
    if (number == t->construction_number && t->construction != nullptr) {
      construction = std::exchange(t->construction, nullptr);
      id = t->id;
      early_end = std::move(t->early_end);
      --under_way_;
    }
    if (call == nullptr && construction == nullptr) return number == t->construction_number;
    core->pin();
    count(*from, arrived.ran);
    if (call != nullptr) ++sum_.calls;
  }
  if (construction != nullptr) {
    const auto* const failed = std::get_if<wire::error_view>(&arrived.outcome);
    const bool has_failed = failed != nullptr;
    const bool is_overtaken = has_failed && is_closing_.load(std::memory_order_relaxed) &&
                              failed->chain.front().code == errc::cancelled;
    if (is_overtaken) end_with_runtime(core);
    note_run(*construction, arrived);
    const std::uint64_t bits = is_passed(construction) && !has_failed
                                   ? fill_passed(passed_job::self(construction), frame, arrived)
                                   : fill_slot(construction, arrived);
    construction->ops->drop_arguments(construction);
    construction->finish(bits | exec::job_bits::claimed, 1);
    core->kind().settle(core, construction);
    if (early_end) on_actor_end(from, {id, early_end->reason, early_end->message});
  } else {
    core->ended_elsewhere();  // before its future is ready: who has that may call at once
    finish_call(call, arrived, frame);
  }
  core->unpin();
  return true;
}

void worker_pool::finish_call(exec::job* call, const wire::result_view& arrived,
                              std::span<const std::byte> frame) noexcept {
  const auto* const failed = std::get_if<wire::error_view>(&arrived.outcome);
  const bool is_overtaken = is_closing_.load(std::memory_order_relaxed) && failed != nullptr &&
                            failed->chain.front().code == errc::actor_lost;
  std::uint64_t bits = 0;
  if (!is_overtaken) note_run(*call, arrived);
  if (is_overtaken) {
    bits = fill_slot(call, ended_error());
  } else if (is_passed(call)) {
    bits = fill_passed(passed_job::self(call), frame, arrived);
  } else {
    bits = fill_slot(call, arrived);
  }
  call->ops->drop_arguments(call);
  call->finish(bits | exec::job_bits::claimed, 1);
}

bool worker_pool::stop_call(exec::job* j) noexcept {
  if (j->ops->origin == nullptr) return false;
  const std::lock_guard lock(mutex_);
  if (const auto [where, late] = find_flight(j); late != nullptr) {  // its actor is gone
    order_stop(*where, *late);
    return true;
  }
  exec::actor_core* const of = j->ops->origin(j).actor;
  auto* const at = of == nullptr ? nullptr : static_cast<hand*>(of->seat);
  if (at == nullptr || at->lives_here == nullptr) return true;
  const tenant& t = *at->lives_here;
  const auto found = std::ranges::find(t.calls, j);
  if (found == t.calls.end()) return true;
  const worker_order order{worker_order::kind::stop,
                           t.first + static_cast<std::uint64_t>(found - t.calls.begin())};
  ::send(at->socket, &order, sizeof order, MSG_DONTWAIT | MSG_NOSIGNAL);
  return true;
}

}  // namespace manta::inline v0::node
