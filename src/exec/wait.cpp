// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include <algorithm>
#include <array>
#include <utility>

#include <manta/base/pause.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/block_pool.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/observer.hpp>
#include <manta/exec/outside.hpp>
#include <manta/exec/resource_gate.hpp>
#include <manta/exec/theft.hpp>

#include "executor_state.hpp"

// Running jobs, and waiting for one. See the story in executor.hpp.

namespace manta::inline v0::exec {

namespace {

using namespace std::chrono_literals;

// Stale entries a thread leaves in its queue before it looks for them.
constexpr std::int64_t stale_before_sweep = 64;
constexpr std::uint32_t max_depth = 4096;
// About the time of two cache-line transfers, below which no other core can have answered.
constexpr int pauses_before_look = 6;

// Drops entries at the queue's own end that somebody claimed otherwise. Live ones in between are
// put back in order; at most a batch of them is looked at. Dropping may run users' destructors, so
// it comes last, when the queue is whole again.
// Not inlined: its arrays would lie on the stack of each job that runs in place.
[[gnu::noinline]] void sweep_stale(deque& jobs) {
  std::array<void*, deque::batch> live;
  std::array<job*, 2 * stale_before_sweep> dead;
  std::size_t kept = 0;
  std::size_t dropped = 0;
  while (kept < live.size() && dropped < dead.size()) {
    void* const e = jobs.pop();
    if (e == nullptr) break;
    job* const j = static_cast<job*>(e);
    if (j->ops->in_place && j->is_claimed()) {  // an actor's call is its actor's to drop
      dead[dropped++] = j;
    } else {
      live[kept++] = e;
    }
  }
  this_thread.stale = 0;
  const bool has_live = kept > 0;
  while (kept > 0) jobs.push(live[--kept]);  // never grows: they were in there before
  if (has_live) executor::notify();          // a worker may have looked while they were out
  for (std::size_t i = 0; i < dropped; ++i) dead[i]->drop_entry();
}

// While a thread sleeps in a wait, the cores that its tasks asked for are free for others.
class lent_cores {
 public:
  lent_cores() noexcept { each(&resource_claim::lend); }
  ~lent_cores() { each(&resource_claim::take_back); }
  lent_cores(const lent_cores&) = delete;
  lent_cores& operator=(const lent_cores&) = delete;

 private:
  static void each(void (resource_claim::*step)() noexcept) noexcept {
    for (context* c = this_thread.current; c != nullptr; c = c->outer) {
      if (resource_claim* const held = claim_of(*c)) (held->*step)();
    }
  }
};

}  // namespace

void run_again(job* j) noexcept {
  call_extra& with = *j->extra();
  if (with.claim != nullptr) with.claim->release();
  j->unclaim();
  ready_task(j);
}

void end_turns(context& of) noexcept {
  if ((of.endings & context_endings::watched) != 0) observing()->ended(*of.running);
  end_stop(of);
}

namespace {

// What few jobs have or come to: options, a caller that was cancelled, another end than a value.
bool is_rare(const job* j, bool has_extra) noexcept {
  return may_be_cancelled(j->parent) || has_extra;
}

// False: its caller was cancelled, and so is it; or its time was over between two of its runs.
[[gnu::noinline, gnu::cold]] bool enter_rarely(job* j, context& ctx, bool follows_caller) noexcept {
  if (follows_caller && may_be_cancelled(j->parent) && is_cancelled_caller(j->parent)) return false;
  const call_extra* const with = j->extra();
  if (with != nullptr) ctx.deadline = with->deadline;
  if ((j->word() & job_bits::late) != 0) return false;
  if (with != nullptr && with->tells_begin) {
    elsewhere.load(std::memory_order_acquire)->began(with->number);
  }
  if (watches_runs.load(std::memory_order_relaxed)) {
    observing()->began(*j);
    ctx.endings |= context_endings::watched;
  }
  return true;
}

[[gnu::noinline, gnu::cold]] void leave_rarely(job* j, std::uint64_t bits,
                                               unsigned drops) noexcept {
  if (bits == job_bits::aliased) {
    if (drops == 0) j->hold();
    make_alias(j);
  } else if (bits == job_bits::again) {
    run_again(j);
  }
}

// The call itself. In the two functions below it and what follows are one piece of code: a call for
// each step would cost as much as the step.
[[gnu::always_inline]] inline std::uint64_t run_in(context& ctx, job* j) noexcept {
  const context_scope scope(ctx);
  const std::uint64_t bits = j->ops->run(j);
  if (ctx.endings != 0) [[unlikely]] {
    if (bits == job_bits::again)
      ctx.endings &= static_cast<std::uint8_t>(~context_endings::watched);
    end_turns(ctx);  // that it runs again was told; it is the next attempt by now
  }
  return bits;
}

[[gnu::always_inline]] inline void leave(job* j, std::uint64_t bits, unsigned drops) noexcept {
  if ((bits & job_bits::ready) != 0) [[likely]] {
    j->finish(bits | job_bits::claimed, drops);
  } else {
    leave_rarely(j, bits, drops);
  }
}

// Runs a claimed task on this thread and completes it, unless it was suspended.
template <bool InPlace>
[[gnu::always_inline]] inline void run_task(job* j, unsigned drops, bool has_extra) noexcept {
  std::uint64_t bits = 0;
  {
    context ctx;
    ctx.running = j;
    ctx.drops = static_cast<std::uint8_t>(drops);
    if (is_rare(j, has_extra)) [[unlikely]] {
      if (!enter_rarely(j, ctx, true)) {
        j->fail(cancelled_error(), drops);
        return;
      }
    }
    bits = run_in(ctx, j);
  }
  work_counters& counters = this_thread.queue->counters;
  if constexpr (InPlace) {
    work_counters::add<std::uint64_t>(counters.run_in_place, 1);
  } else {
    work_counters::add<std::uint64_t>(counters.run, 1);
    if (executor::should_announce()) executor::announce_search();
  }
  leave(j, bits, drops);
}

}  // namespace

bool run_actor_call(job* j, const actor_run& how) noexcept {
  std::uint64_t bits = 0;
  {
    context ctx;
    ctx.running = j;
    ctx.actor = how.actor;
    if (is_rare(j, j->extra() != nullptr)) [[unlikely]] {
      if (!enter_rarely(j, ctx, how.follows_caller)) {
        if (how.shown != nullptr) how.actor->end_turn(*how.shown);
        j->fail(cancelled_error(), 1);
        return true;
      }
    }
    bits = run_in(ctx, j);
  }
  work_counters::add<std::uint64_t>(this_thread.queue->counters.run, 1);
  if (how.shown != nullptr && bits != 0) how.actor->end_turn(*how.shown);
  if (how.is_last && executor::should_announce()) executor::announce_search();
  leave(j, bits, 1);
  return bits != 0;  // suspended: it may have gone on, and be gone, already
}

void execute_task(job* j) noexcept {
  bool has_extra = false;
  if (j->try_claim(has_extra)) {
    run_task<false>(j, 1, has_extra);
  } else {
    j->drop_entry();
  }
}

// Runs an idle actor's next call: the actor's entry is the newest of this thread's queue, and
// `call` the newest in its mailbox. (Who has more calls under way gains more by going on
// meanwhile.)
bool executor::run_actor_here(job* call) {
  deque& jobs = this_thread.queue->jobs;
  // Only an address until it was popped: the entry may be stolen, the actor run, ended, and freed.
  actor_core* const of = call->ops->origin(call).actor;
  if (of == nullptr || !jobs.pop_if(of)) return false;
  if (of->run_until(call)) {
    work_counters& counters = this_thread.queue->counters;
    work_counters::add<std::uint64_t>(counters.run_in_place, 1);
    work_counters::add<std::uint64_t>(counters.run, static_cast<std::uint64_t>(-1));  // not twice
    return true;
  }
  jobs.push(of);  // never grows: it was in there before
  notify();       // a worker may have looked while it was out
  return false;
}

namespace {

// A waiter has a thread to give, no resources; and what may run again has to be in a queue.
[[gnu::noinline, gnu::cold]] bool may_run_here(const call_extra& with) noexcept {
  return with.claim == nullptr && !with.may_repeat() && !with.is_outside;
}

}  // namespace

// Whether this thread's stack has room for one more job, and the runtime is still the one it knows.
[[gnu::always_inline]] inline bool executor::has_room() noexcept {
  const thread_state& self = this_thread;
  const char here = 0;
  return &here >= self.stack_limit && self.depth < max_depth && self.generation != 0 &&
         self.generation == live_generation_.load(std::memory_order_relaxed);
}

bool executor::has_room_here() noexcept { return has_room(); }

// Claims and runs `j` on this thread's stack. False: it has begun elsewhere, or can't run here.
bool executor::run_here(job* j) {
  const bool is_call = !j->ops->in_place;
  if (is_call && j->ops->origin == nullptr) [[unlikely]]
    return false;
  if (!has_room()) [[unlikely]]
    return false;
  // Read before the claim: right after it a load would wait for the locked write.
  const bool has_extra = j->extra() != nullptr;
  if (has_extra && !may_run_here(*j->extra())) [[unlikely]]
    return false;
  if (is_call) return run_actor_here(j);
  if (j->needs.load(std::memory_order_acquire) != 0) return false;
  deque& jobs = this_thread.queue->jobs;
  if (jobs.pop_if(j)) [[likely]] {
    if (!j->try_claim()) {
      j->drop_entry();
      return false;
    }
    run_task<true>(j, 1, has_extra);
    return true;
  }
  if (!j->try_claim_in_place()) return false;
  run_task<true>(j, 0, has_extra);
  if (++this_thread.stale >= stale_before_sweep) sweep_stale(jobs);
  return true;
}

bool executor::run_newest(job* entry) {
  if (!has_room() || !this_thread.queue->jobs.pop_if(entry)) return false;
  entry->ops->execute(entry);
  return true;
}

// A job on this thread's stack can't end before what waits above it, and an actor there can't begin
// another call before the present one ends.
bool executor::is_self_wait(job* j) noexcept {
  const job_ref end(j->awaited());
  if (end->is_ready()) return false;
  for (context* c = this_thread.current; c != nullptr; c = c->outer) {
    if (c->running == end.get()) return true;
  }
  if (end->ops->origin == nullptr) return false;
  // Only an address unless it is on this stack: the call may have run and its actor be gone.
  const actor_core* const of = end->ops->origin(end.get()).actor;
  for (context* c = this_thread.current; c != nullptr; c = c->outer) {
    if (c->actor == of && of->excludes(c->running, end.get())) return true;
  }
  return false;
}

void executor::raise_self_wait() {
  raise(errc::self_wait,
        "a task waits for its own result, or an actor's method for another call of the same actor, "
        "which can't begin before the method ends; return the future instead, or call the method "
        "directly");
}

namespace {

// Who runs jobs elsewhere, if who waits for `awaited` is to look after those meanwhile; where few
// calls go there, the others' waits are what they are without.
outside* who_brings(const job* awaited) noexcept {
  outside* const away = elsewhere.load(std::memory_order_acquire);
  if (away == nullptr || away->takes_all) return away;
  const call_extra* const with = awaited != nullptr ? awaited->extra() : nullptr;
  return with != nullptr && with->is_outside ? away : nullptr;
}

}  // namespace

bool executor::wait(job* j, const base::deadline& deadline) {
  for (;;) {
    const std::uint64_t bits = j->word();
    if ((bits & job_bits::ready) != 0) return true;
    if (deadline) break;
    if ((bits & job_bits::aliased) == 0) {
      if ((bits & job_bits::claimed) != 0 || !run_here(j)) break;
      continue;
    }
    const job_ref end(j->awaited());
    if (!end->is_ready() && (end->is_claimed() || !run_here(end.get()))) break;
  }
  if (is_self_wait(j)) {
    if (deadline && base::now() >= *deadline) return false;  // who asks only does not wait
    raise_self_wait();
  }
  // Another node's answer takes longer than a spin, and what brings it needs the core.
  const bool is_away = (j->word() & job_bits::escaped) != 0;
  if (!is_away && who_brings(j) == nullptr && spin_for(j, deadline)) return true;
  thread_waiter me;
  if (!j->add_waiter(&me)) return true;
  if (sleep(me.sleep, deadline, j)) return true;
  if (j->remove_waiter(&me)) return false;
  me.sleep.park();  // it is being fired: its last step is the signal
  return true;
}

// Polls for a short while; longer when no other thread needs the core.
bool executor::spin_for(job* j, const base::deadline& deadline) {
  state& s = *global().state_;
  thread_state& self = this_thread;
  const base::time_point start = base::now();
  if (deadline && start >= *deadline) return j->is_ready();
  // A worker that this thread woke needs about one spin to come, so this waits for two.
  const auto spin = std::chrono::microseconds(s.spin_us.load(std::memory_order_relaxed)) *
                    (std::exchange(self.has_woken, false) ? 2 : 1);
  if (spin.count() == 0 || s.cores < 2) return j->is_ready();
  s.spinning_waiters.fetch_add(1, std::memory_order_relaxed);
  bool ready = false;
  // Looking too early takes the cache line from the worker that is about to write it.
  for (int i = 0; i < pauses_before_look; ++i) base::pause();
  for (std::uint32_t round = 1;; ++round) {
    ready = j->is_ready();
    if (ready) break;
    base::pause();
    if (round % 16 != 0) continue;
    const base::time_point now = base::now();
    if (now - start >= spin || (deadline && now >= *deadline)) break;
    if (now - start < base::always_spin) continue;
    // A worker that this thread woke may sit on this very core and wait for it.
    sched_yield();
    const std::uint64_t word = idle_word_.load(std::memory_order_relaxed);
    const int busy = active(word) - searching(word) - (this_thread.is_worker ? 1 : 0);
    if (busy + s.spinning_waiters.load(std::memory_order_relaxed) > s.cores) break;
  }
  s.spinning_waiters.fetch_sub(1, std::memory_order_relaxed);
  return ready;
}

bool executor::sleep(parker& p, const base::deadline& deadline, job* awaited) {
  const lent_cores lent;
  if (p.is_signalled()) return true;
  outside* const away = who_brings(awaited);
  if (this_thread.is_worker) return global().lend_until(away, p, deadline, awaited);
  if (away != nullptr) [[unlikely]]
    return away->sleep(p, deadline, awaited);
  trim_blocks();
  return p.park_until(deadline);
}

void executor::begin_block() noexcept {
  retract_search();  // who is to look for work is told nothing of what comes
  idle_word_.fetch_sub(one_active, std::memory_order_seq_cst);
  heavy_barrier();
  if (wants_worker(idle_word_.load()) && any_work()) wake_one(false);
}

void executor::end_block() noexcept {
  idle_word_.fetch_add(one_active, std::memory_order_seq_cst);
  if (far_thief* const afar = thief_from_afar.load(std::memory_order_acquire)) afar->woken();
}

// The worker that finds all others blocked and work waiting watches: every millisecond it adds a
// thread beyond the soft limit. (Any later blocked worker finds the same and takes over.)
bool executor::lend_until(outside* away, parker& p, const base::deadline& deadline, job* awaited) {
  begin_block();
  bool is_signalled = false;
  for (;;) {
    const auto all_blocked = [this] {
      const std::uint64_t word = idle_word_.load();
      return active(word) == 0 && target(word) > 0 && any_work();
    };
    const bool watches = all_blocked();
    base::deadline until = deadline;
    if (watches) {
      const base::time_point soon = base::now() + 1ms;
      until = deadline ? std::min(*deadline, soon) : soon;
    }
    is_signalled = away != nullptr ? away->sleep(p, until, awaited) : p.park_until(until);
    if (is_signalled || (deadline && base::now() >= *deadline)) break;
    if (watches && all_blocked()) wake_one(true);
  }
  end_block();
  return is_signalled;
}

}  // namespace manta::inline v0::exec
