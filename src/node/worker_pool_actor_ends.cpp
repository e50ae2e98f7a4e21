// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <sys/socket.h>

#include <fmt/format.h>

#include <manta/exec/actor_core.hpp>
#include <manta/exec/call_extra.hpp>

#include "node/actor_names.hpp"
#include "node/guest_actor.hpp"
#include "node/trip.hpp"
#include "node/worker_hand.hpp"
#include "node/worker_order.hpp"
#include "node/worker_pool.hpp"
#include "spec/made_error.hpp"

// How actors in isolated workers end, with and without their processes; see worker_pool_actors.cpp.

namespace manta::inline v0::node {

void worker_pool::fail_calls(std::vector<exec::job*>& calls, exec::actor_core* core,
                             const error& why) noexcept {
  for (exec::job* const j : calls) {
    core->ended_elsewhere();
    j->fail(why, 1);
  }
}

// Under the mutex.
void worker_pool::order_kill(hand& at) noexcept {
  tenant& t = *at.lives_here;
  if (t.kill_asked == base::time_point{}) t.kill_asked = grace_.asked(base::now());
  const worker_order order{worker_order::kind::kill, t.id.low, t.id.high};
  ::send(at.socket, &order, sizeof order, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void worker_pool::kill(exec::actor_core* of) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (auto* const at = static_cast<hand*>(of->seat)) order_kill(*at);
  }
  stop_waking(of);
}

bool worker_pool::leave(exec::actor_core* of, exec::leaving how) noexcept {
  const borrowed_workbench on;
  std::unique_lock lock(mutex_);
  auto* const at = static_cast<hand*>(of->seat);
  if (at == nullptr) return false;
  // An answer with a handle to it may have come since its last one went (on_own_handles).
  if (how == exec::leaving::unneeded && of->try_add_handle()) {
    lock.unlock();
    of->stay_elsewhere();
    of->drop_handle();
    return true;
  }
  tenant& t = *at->lives_here;
  t.is_left = true;
  ++under_way_;
  if (how == exec::leaving::stopped) {
    order_kill(*at);
    return true;
  }
  t.is_unneeded = how == exec::leaving::unneeded;
  if (!t.is_restarting) send_leave(*at, *on);  // else behind the calls, by who sends these
  if (collector_parked_.load(std::memory_order_seq_cst)) collector_sleep_.signal();
  return true;
}

// Under the mutex: the actor there is told that it is let go, or to end after its calls.
void worker_pool::send_leave(hand& at, workbench& on) noexcept {
  tenant& t = *at.lives_here;
  result<void> written;
  const wire::envelope head{{at.unique, ++at.last_number}, 1, 0};
  if (!t.is_unneeded) {
    written = on.writer.write(head, wire::actor_end_view{t.id, end_reason::ended, {}});
  } else {
    const std::uint32_t all = std::exchange(t.handles, 0);
    const wire::reference_change gone{t.id, {1, at.unique}, all, wire::change_kind::release};
    written = on.writer.write(head, wire::changes_view{{&gone, 1}});
  }
  t.calls.push_back(nullptr);  // the number is no call's
  if (!written) {
    order_kill(at);
    return;
  }
  at.down.send(on.writer.pieces(), on.writer.size_bytes());
  at.down.bell();
}

// Under the mutex, of an actor that has ended: what its calls delegated to has not, and their
// answers come.
void worker_pool::keep_late_calls(hand& of) noexcept {
  tenant& t = *of.lives_here;
  if (is_closing_.load(std::memory_order_relaxed)) return;
  try {
    for (const std::uint64_t number : t.late) {
      if (!t.has(number)) continue;
      of.off_stack[number] = {.number = number, .job = t.at(number), .is_written = true};
      t.at(number) = nullptr;
      --t.under_way;
    }
  } catch (const std::bad_alloc&) {
    // The rest of them fail.
  }
}

// One of these has its answer.
void worker_pool::after_late_call(const std::shared_ptr<hand>& of) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (of->lives_here != nullptr || !of->off_stack.empty()) return;
  }
  vacate(of);
}

namespace {

error end_error(const exec::actor_core& of, const wire::actor_end_view& said) noexcept {
  return spec::made_error(errc::actor_lost, [&] {
    return said.reason == end_reason::exited
               ? fmt::format("the actor {} has left (this_actor::exit); the call did not run",
                             of.shown_name())
               : std::string(said.message);
  });
}

}  // namespace

// The object is gone, as it was asked to or by itself.
void worker_pool::on_actor_end(const std::shared_ptr<hand>& from,
                               const wire::actor_end_view& said) noexcept {
  exec::actor_core* core = nullptr;
  bool was_left = false;
  {
    const std::lock_guard lock(mutex_);
    tenant* const t = from->lives_here.get();
    if (t != nullptr && t->id == said.actor && t->construction != nullptr) {
      // It was killed before it began: the answer is behind this, and has to be first.
      t->note_early_end(said);
      return;
    }
    core = t == nullptr || t->id != said.actor ? nullptr : t->core;
    was_left = core != nullptr && t->is_left;
  }
  if (core == nullptr) {
    const bool was_reserved = said.reason == end_reason::constructor_failed &&
                              abandon_reserved(*from, said.actor, said.message);
    if (!was_reserved) end_from_afar(*from, said);
    return;
  }
  const bool is_closing = is_closing_.load(std::memory_order_relaxed);
  const error why = end_error(*core, said);
  // First, since a call that finds its seat gone fails, too: the name is free by then.
  const bool is_lost = !was_left && !is_closing && core->begin_loss(said.reason, why);
  std::vector<exec::job*> left;
  std::unique_ptr<tenant> was;
  {
    const std::lock_guard lock(mutex_);
    was_left = from->lives_here->is_left;
    keep_late_calls(*from);
    left = calls_of(*from->lives_here);
    was = evict(*from);
  }
  // The end that the runtime's end asked for may come before the answers of calls on their way.
  fail_calls(left, core, is_closing ? ended_error() : why);
  stop_waking(core);  // the one that is being encoded is its sender's
  vacate(from);
  if (was_left) {
    // One that was let go of, and would have lived on.
    if (is_closing && said.reason == end_reason::killed) end_with_runtime(core);
    core->end_elsewhere();
  } else if (is_lost) {
    core->finish_loss();
  }
  actor_names::global().forget(core);
  core->unpin();
}

// What runs in a worker asks for the end of an actor that lives elsewhere. One that it has let go
// of meanwhile, or that was its own, has ended or is none of its business.
void worker_pool::end_from_afar(hand& from, const wire::actor_end_view& asked) noexcept {
  exec::actor_core* const of = actor_names::global().find(asked.actor);
  if (of == nullptr) return;
  bool is_lent = false;
  {
    const std::lock_guard lock(mutex_);
    is_lent = from.lent.contains(asked.actor);
    if (!is_lent && asked.reason == end_reason::killed) {
      end_for(from, "the end of an actor that it was never given");
    }
  }
  if (!is_lent) return of->unpin();
  try {
    if (asked.reason == end_reason::killed) {
      of->kill();
    } else {
      of->retire();
    }
  } catch (const std::bad_alloc&) {
    // It lives on.
  }
  of->unpin();
}

// ---- handles

// A worker has no more handles to an actor, or fewer.
void worker_pool::on_releases(hand& from, const wire::changes_view& changes) noexcept {
  for (const wire::reference_change& one : changes.changes) {
    if (is_array(one.object)) {
      if (one.kind == wire::change_kind::release && release_arrays(from, one.object, one.count)) {
        continue;
      }
      return distrust(from, "handles of an array given back that it has not");
    }
    bool is_last = false;
    {
      const std::lock_guard lock(mutex_);
      const auto found = from.lent.find(one.object);
      if (found == from.lent.end() || found->second < one.count ||
          one.kind != wire::change_kind::release) {
        return end_for(from, "handles given back that it has not");
      }
      found->second -= one.count;
      is_last = found->second == 0;
      if (is_last) from.lent.erase(found);
    }
    if (is_last) {
      abandon_reserved(from, one.object, "its isolated worker let go of it before it was made");
    }
    give_back_name(one.object, one.count);
  }
}

// The actor that lives there has given handles to itself away: it holds one for us for each. When
// we had let go of it, it goes on. With a handle, until what the message is for has its own; null:
// the message has none.
exec::actor_core* worker_pool::on_own_handles(hand& from,
                                              std::span<const spec::reference> handles) noexcept {
  exec::actor_core* core = nullptr;
  bool goes_on = false;
  {
    const std::lock_guard lock(mutex_);
    tenant* const t = from.lives_here.get();
    if (t == nullptr) return nullptr;
    const auto own = std::ranges::count_if(
        handles, [t](const spec::reference& one) { return one.what == t->id; });
    if (own == 0) return nullptr;
    t->handles += static_cast<std::uint32_t>(own);
    core = t->core;
    core->add_handle_inside();
    goes_on = std::exchange(t->is_unneeded, false);
    if (goes_on) {
      t->is_left = false;
      --under_way_;
    }
  }
  if (goes_on) core->stay_elsewhere();
  return core;
}

// An actor that a worker asked for: its one handle is that worker's.
void worker_pool::adopt(passed_job& j, hand& from, const wire::spawn_view& asked) {
  if (asked.actor.high != from.unique) raise(errc::decode_failed, "an actor with another's name");
  exec::actor_core* made = take_reserved(from, asked.actor);
  if (made == nullptr) {
    made = make_guest(asked);
    try {
      welcome(*made, from, asked.actor);
    } catch (...) {
      made->discard();
      throw;
    }
  }
  made->pin();
  j.actor = made;
  j.hold();  // beside the queue's and the answer's: who settles it gives one up
}

// A call that came from a worker, on its way to its actor, which it keeps a pin of. Throws
// actor_lost, mailbox_full, invalid_argument: there is no such group.
void worker_pool::address(passed_job& j, const hand& from, const wire::call_view& call) {
  exec::actor_core* const of = actor_names::global().find(call.actor);
  if (of == nullptr) raise(errc::actor_lost, "the actor has ended; the call did not run");
  try {
    const std::uint64_t group = call.group.empty() ? 0 : of->group_index(std::string(call.group));
    constexpr std::uint64_t own = (std::uint64_t{1} << exec::actor_core::group_shift) - 1;
    j.caller = ((from.unique << 32U | (call.caller.low & 0xffffffffU)) & own) |
               group << exec::actor_core::group_shift;
    if (of->is_capped() && !of->admit_from_afar()) {
      raise(errc::mailbox_full, fmt::format("the mailbox of {} is full; call later, or spawn it "
                                            "with a larger mailbox_cap",
                                            of->shown_name()));
    }
    j.actor = of;
  } catch (...) {
    of->unpin();
    throw;
  }
}

// Under the mutex. Without the one that is being encoded, which its sender ends.
std::vector<exec::job*> worker_pool::calls_of(tenant& t) noexcept {
  std::vector<exec::job*> out;
  try {
    for (std::size_t i = 0; i < t.calls.size(); ++i) {
      if (t.calls[i] != nullptr && t.first + i != t.encoding) out.push_back(t.calls[i]);
    }
  } catch (const std::bad_alloc&) {
    std::terminate();  // a call without an end is worse
  }
  return out;
}

// The runtime ends: what has not begun is cancelled, what runs ends first; unless it is asked to
// stop, it has all the time.
void worker_pool::close_actors(bool asks_to_stop) noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& one : all_) {
    tenant* const t = one->lives_here.get();
    if (t == nullptr) continue;
    const bool is_asked = t->kill_asked != base::time_point{};
    if (!asks_to_stop && !is_asked) t->kill_asked = base::time_point::max();
    order_kill(*one);
  }
}

// The runtime has ended: nobody answers any more.
void worker_pool::forget_actors() noexcept {
  for (;;) {
    std::unique_ptr<tenant> was;
    {
      const std::lock_guard lock(mutex_);
      vacant_.clear();
      const auto next = std::ranges::find_if(
          all_, [](const std::shared_ptr<hand>& one) { return one->lives_here != nullptr; });
      if (next == all_.end()) return;
      was = evict(**next);
    }
    actor_names::global().forget(was->core);
    was->core->unpin();  // never the last: who ends them all comes later
  }
}

}  // namespace manta::inline v0::node
