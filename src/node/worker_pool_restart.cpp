// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <manta/exec/actor_core.hpp>

#include "node/actor_names.hpp"
#include "node/worker_hand.hpp"
#include "node/worker_pool.hpp"
#include "sched/actor_death.hpp"
#include "spec/made_error.hpp"

// Actors whose isolated worker has died, and how they are made anew.
//
// Problem. Calls keep coming while nobody is there, from callers who know nothing of it; each
// caller's are to run in their order, those that had begun never again, and all others once.
//
// Idea. The dead worker keeps its actor until there is a new one: calls that come meanwhile go
// where they would have gone, behind those that had not begun, and wait. The new life gets them all
// at once, in that order, with new numbers. They are sent by who made it, some at a time, and what
// comes until they are gone waits behind them, too.
//
//   alive --death--> restarting, at the dead worker --new worker--> restarting, there --> alive
//                     |  calls: begun -> fail; others wait      all sent; then the actor is
//                     |  let go: noted                          let go, if that was noted
//                     `-- killed, the runtime ends, no worker can be made --> all fail, it is lost
//
// Which had begun, the page says that both sides see (wire/worker_line.hpp). A call that is just
// being encoded is its sender's: it finds the new life itself when it was not done before that
// began, and no other call can be behind it, since an actor's calls are sent by one thread at a
// time.
//
// Threads: the collector, which hears of all deaths, so that no two are looked after at a time.

namespace manta::inline v0::node {

// Under the mutex. Each call that waits there counts, also the one that is being encoded.
bool worker_pool::is_made_anew(const tenant& t) noexcept {
  sched::actor_death had;
  had.restarts_left = t.restarts_left;
  had.was_made = t.construction == nullptr;
  had.is_killed = t.kill_asked != base::time_point{};
  had.is_left = t.is_left;
  had.is_last_hour = is_closing_.load(std::memory_order_relaxed);
  std::uint64_t number = t.first;
  for (const exec::job* const j : t.calls) {
    had.has_waiting |= j != nullptr && !t.had_calls.may_have_run(number);
    ++number;
  }
  return had.is_made_anew();
}

// Under the mutex, in the step that makes it dead: who calls from here on finds that it is to wait.
void worker_pool::expect_restart(hand& dead) noexcept {
  tenant* const t = dead.lives_here.get();
  if (t == nullptr) return;
  const wire::worker_page& page = dead.line.page();
  // Whatever the worker wrote there, a call that comes later has not begun.
  t->had_calls.reading = std::min(page.reading.load(std::memory_order_acquire), dead.last_number);
  t->had_calls.begun = std::min(page.begun.load(std::memory_order_acquire), dead.last_number);
  t->is_restarting = is_made_anew(*t);
}

namespace {

error death_error(const exec::actor_core& of, bool was_killed, pid_t pid,
                  const std::string& how) noexcept {
  return spec::made_error(errc::actor_lost, [&] {
    return was_killed
               ? fmt::format("the actor {} was killed, and its isolated worker (pid {}) ended",
                             of.shown_name(), pid)
               : fmt::format(
                     "the isolated worker of the actor {} (pid {}) ended with {}; "
                     "mend what ends it, or raise max_restarts",
                     of.shown_name(), pid, how);
  });
}

// Why an actor that should have had a next life is lost.
std::string without_next_life(const std::string& how) noexcept {
  try {
    return how +
           "; no isolated worker could be made for its next life: raise the limits of open "
           "files (ulimit -n), of processes or of memory";
  } catch (const std::bad_alloc&) {
    return {};
  }
}

}  // namespace

// Its worker has died, and what that said last was heard.
void worker_pool::on_tenant_death(hand& dead, const std::string& how) noexcept {
  bool comes_back = false;
  {
    const std::lock_guard lock(mutex_);
    if (dead.lives_here == nullptr) {
      std::erase_if(vacant_, [&](const std::shared_ptr<hand>& one) { return one.get() == &dead; });
      return;
    }
    // Who encodes its construction finds it dead.
    if (dead.lives_here->construction != nullptr && !dead.lives_here->is_sent) return;
    comes_back = dead.lives_here->is_restarting;
  }
  if (!comes_back) return lose_tenant(dead, how);
  if (!restart(dead, how)) lose_tenant(dead, without_next_life(how));
}

// False: it is not made anew, and is where it was.
bool worker_pool::restart(hand& dead, const std::string& how) noexcept {
  const std::shared_ptr<hand> to = make_hand(sched::roster::nobody);
  if (to == nullptr) return false;
  exec::actor_core* const core = dead.lives_here->core;
  core->pin();
  std::vector<exec::job*> lost;
  const bool is_there = move_in(dead, to, lost);
  if (is_there) {
    fail_calls(lost, core, death_error(*core, false, dead.pid, how));
  } else {
    {
      const std::lock_guard lock(mutex_);
      to->is_let_go = true;
    }
    zygote::global().kill(to->unique);
  }
  core->unpin();
  return is_there;
}

// The actor gets a new worker and its calls with it; those that had begun are left to the caller.
// False: nothing has happened, for it was killed meanwhile, or there is no memory.
bool worker_pool::move_in(hand& dead, const std::shared_ptr<hand>& into,
                          std::vector<exec::job*>& lost) noexcept {
  hand& to = *into;
  std::unique_ptr<tenant> old;  // goes without the lock
  try {
    auto made = std::make_unique<tenant>();
    replaying_.reserve(replaying_.size() + 1);
    const std::lock_guard lock(mutex_);
    tenant& was = *dead.lives_here;
    if (!is_made_anew(was)) return false;
    for (std::uint64_t number = was.first; number - was.first < was.calls.size(); ++number) {
      if (!was.has(number) || number == was.encoding) continue;
      if (was.had_calls.may_have_run(number)) {
        lost.push_back(was.at(number));
      } else {
        made->calls.push_back(was.at(number));
      }
    }
    const std::span<const std::byte> frame = was.spawn_again->frame().bytes();
    for (const base::id& one : was.spawn_again->handles()) lend(to, one);
    to.down.send({&frame, 1}, frame.size());
    to.down.bell();
    // From here on nothing fails.
    note_gpus(to, *was.core);
    to.line.page().actor_had.store(0, std::memory_order_relaxed);
    made->core = was.core;
    made->id = was.id;
    made->construction_number = was.construction_number;
    made->first = was.construction_number + 1;
    made->under_way = made->calls.size();
    made->restarts_left = was.restarts_left - 1;
    made->spawn_again = std::move(was.spawn_again);
    made->is_restarting = true;
    made->is_sent = true;
    made->is_left = was.is_left;
    made->is_unneeded = was.is_unneeded;
    under_way_ += made->under_way;
    under_way_ -= was.under_way;
    made->last_replayed = made->construction_number;
    to.last_number = made->construction_number + made->calls.size();
    made->last_seen = to.last_number;
    was.core->seat = &to;
    old = std::move(dead.lives_here);
    to.lives_here = std::move(made);
    replaying_.push_back(into);
    if (old->core->is_stopping()) order_kill(to);
    return true;
  } catch (const std::bad_alloc&) {
    lost.clear();
    return false;
  }
}

// Sends some of the calls that wait at new lives. Not all in one go: there may be many, and nobody
// would hear of a death meanwhile, of the same actor's among them.
void worker_pool::replay_some() noexcept {
  std::erase_if(replaying_, [this](const std::shared_ptr<hand>& to) { return !replay_some(*to); });
}

// False: none are left. What was put behind them since the last turn goes, too, so that there are
// fewer each time; but it is not all that somebody else might have to wait for.
bool worker_pool::replay_some(hand& to) noexcept {
  constexpr std::uint64_t calls_a_turn = 256;
  constexpr std::uint64_t most_a_turn = 4096;
  exec::actor_core* core = nullptr;
  std::uint64_t left = 0;
  {
    const std::lock_guard lock(mutex_);
    tenant* const t = to.lives_here.get();
    if (t == nullptr) return false;
    core = t->core;
    core->pin();  // it may end while a call is sent
    left = calls_a_turn + to.last_number - std::exchange(t->last_seen, to.last_number);
    left = std::min(left, most_a_turn);
  }
  while (left > 0 && replay_next(to, left == 1)) --left;
  core->unpin();
  return left == 0;
}

bool worker_pool::replay_next(hand& to, bool is_last) noexcept {
  constexpr std::uint64_t calls_a_bell = 64;
  exec::job* call = nullptr;
  std::uint64_t next = 0;
  bool is_rung = false;
  {
    const borrowed_workbench on;
    const std::lock_guard lock(mutex_);
    tenant* const t = to.lives_here.get();
    if (t == nullptr || !t->is_restarting) return false;
    next = t->last_replayed + 1;
    if (next > to.last_number) {
      t->is_restarting = false;
      if (t->is_left && t->kill_asked == base::time_point{}) send_leave(to, *on);
      to.down.bell();
      return false;
    }
    t->last_replayed = next;
    if (t->has(next)) call = t->at(next);
    // It may have gone to sleep meanwhile, as it takes long to write some.
    is_rung = is_last || next % calls_a_bell == 0;
    if (call == nullptr && is_rung) to.down.bell();
  }
  if (call != nullptr) send_call(to.shared_from_this(), call, next, !is_rung);
  return true;
}

// A call was put behind those that are being sent again. Once there are many of them, who makes
// more waits a little for each until all are sent: else they would come as fast as they go, for
// ever. Not who makes it for another process, and has the next message of that to look at.
void worker_pool::let_replay_pass(const exec::actor_core& of) noexcept {
  constexpr std::uint64_t most_ahead = 256;
  constexpr auto a_little = std::chrono::milliseconds(1);
  if (is_handling()) return;
  {
    const std::lock_guard lock(mutex_);
    const auto* const at = static_cast<const hand*>(of.seat);
    if (at == nullptr || at->is_dead || !at->lives_here->is_restarting) return;
    tenant& t = *at->lives_here;
    t.is_crowded |= at->last_number - t.last_replayed > most_ahead;
    if (!t.is_crowded) return;
  }
  exec::parker nap;
  nap.park_until(base::after(a_little));
}

// It is not made anew: all of its calls fail, and whoever wants to know hears of its end.
void worker_pool::lose_tenant(hand& dead, const std::string& how) noexcept {
  std::unique_ptr<tenant> was;
  std::vector<exec::job*> lost;
  exec::actor_core* const core = dead.lives_here->core;
  const bool is_closing = is_closing_.load(std::memory_order_relaxed);
  bool is_lost = false;
  bool was_killed = false;
  {
    const std::lock_guard lock(mutex_);
    const tenant& t = *dead.lives_here;
    was_killed = t.kill_asked != base::time_point{};
    is_lost = t.construction == nullptr && !t.is_left && !is_closing;
  }
  const error why = death_error(*core, was_killed, dead.pid, how);
  // First, since a call that finds its seat gone fails, too: the name is free by then.
  is_lost = is_lost && core->begin_loss(end_reason::process_lost, why);
  {
    const std::lock_guard lock(mutex_);
    tenant& t = *dead.lives_here;
    lost = calls_of(t);
    t.core->seat = nullptr;
    if (t.core->memory_limit() > 0) --limited_;
    under_way_ -= t.under_way + (t.construction != nullptr ? 1 : 0) + (t.is_left ? 1 : 0);
    was = std::move(dead.lives_here);
  }
  fail_calls(lost, core, is_closing ? ended_error() : why);
  stop_waking(core);  // the one that is being encoded is its sender's
  if (is_closing && (was->construction != nullptr || was->is_left)) end_with_runtime(core);
  if (was->construction != nullptr) {
    was->construction->fail(error(errc::worker_lost, why.message()), 1);
    core->kind().settle(core, was->construction);
  } else if (was->is_left) {
    core->end_elsewhere();
  } else if (is_lost) {
    core->finish_loss();
  }
  actor_names::global().forget(core);
  core->unpin();
}

}  // namespace manta::inline v0::node
