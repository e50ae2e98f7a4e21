// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/exec/context.hpp>
#include <manta/exec/deque.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/outside.hpp>
#include <manta/exec/parker.hpp>
#include <manta/spec/options.hpp>

// The executor: worker threads that run jobs, and the ways to wait for one.
//
// Problem. Any thread submits at tens of millions per second, two cores share the work, nobody
// burns CPU when there is none, and a job may wait for another without stopping the machine.
//
// Idea. Every thread that submits has a queue (a deque, deque.hpp); workers take from their own end
// of their own and steal batches from the rest, so a driver thread's queue is the injection queue
// and is sharded by thread. All that a submitter has to know about the workers is one word:
//
//      63          48 47        32 31         16 15         0
//      | high waits  | target     | searching  | active    |     idle word
//
//   active     worker threads that run or search; target: how many there should be
//   searching  of these, how many look for work, or will when their present job is published
//   high waits bit 63: a job of high priority is queued
//
//   submit = push; light barrier; if (searching == 0 and active < target) wake or start a worker
//
//   worker:   running --own queue empty--> searching --found--> running
//                ^                            |  spun for spin_us, or too many spin
//                |                            v
//              woken by a submitter <---- parked (not active)        zero CPU
//
// Invariants
//   1. A worker that parks leaves the idle word first, then passes a heavy barrier, then looks at
//      all queues once more. A submitter pushes first and reads the word then. So one of the two
//      sees the other.
//   2. Who stops searching as the last one while there is more work wakes the next worker.
//   3. A worker that blocks in a wait leaves `active` (it lends its core), so another takes its
//      place; when it returns there may be more than `target` active, and the next one between jobs
//      parks.
//   4. Spinners are fewer than cores: searchers over the budget park within microseconds. Beyond
//      spin_us a searcher stays only while somebody submits.
//
// Waiting (get). 1. ready: return. 2. Not started, all it needs is there, and enough stack is left:
// run it here. 3. Spin shortly. 4. Sleep; a worker lends its core before. Progress: a job that is
// waited for is either claimed by a thread that runs it, or in a queue that some active worker will
// reach, because while anything is queued active is kept at target; threads are added for that,
// past the soft limit one a millisecond and only when every other one is blocked.
//
// Priorities. Jobs that are not of normal priority go through two queues common to all (lanes):
// workers ask the high one before anything else (a bit of the idle word, which they read anyway),
// the low one when nothing else is found and about once in 1,000 jobs.
//
// Shutdown: what runs finishes, what is queued ends with errc::cancelled, so every future ends.

namespace manta::inline v0::exec {

/// Looks at what a job with an extra ended with, in the slot and as bits, before anybody can see
/// it; may replace it, and answers the bits to finish with.
using outcome_check = std::uint64_t (*)(job* ended, std::uint64_t bits) noexcept;

/// Settings of the executor; see config.hpp.
struct executor_settings {
  int workers = 1;
  int spin_us = 50;
  int extra_threads = 256;
  /// Not null: every call has an extra, and every outcome passes it.
  outcome_check check_outcome = nullptr;
};

/// Counters that one thread writes and any thread reads.
struct work_counters {
  std::atomic<std::uint64_t> submitted{0};
  std::atomic<std::uint64_t> run{0};           ///< by a worker, from a queue or a mailbox
  std::atomic<std::uint64_t> run_in_place{0};  ///< by who waited for them
  std::atomic<std::uint64_t> stolen{0};
  std::atomic<std::uint64_t> actor_calls{0};
  std::atomic<std::int64_t> busy_ns{0};

  /// Adds without a locked instruction. Owner thread only.
  template <class T>
  static void add(std::atomic<T>& counter, T n) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};

/// A thread's queue and counters. Outlives the thread: the next new thread takes it over.
struct work_queue {
  deque jobs;
  work_counters counters;
  /// What the thread runs now and calls others, by depth. Depth 0 is never used.
  std::array<running_place, most_places> places;
  bool is_worker = false;
  bool is_owned = false;  // under the executor's mutex
};

/// What happened so far, for runtime::stats().
struct executor_counts {
  std::uint64_t submitted = 0, run = 0, run_in_place = 0, stolen = 0, actor_calls = 0;
  std::uint64_t wakes = 0, threads_lent = 0;
  struct worker {
    std::uint64_t run = 0;
    double busy_seconds = 0;
  };
  std::vector<worker> workers;
};

class MANTA_API executor {
 public:
  /// The process's executor; never destroyed, so that late threads find it.
  static executor& global();

  /// Starts the workers, after prepare(), while nobody can call yet. False when it runs already.
  /// Errors: std::system_error when not even one thread can be started.
  bool start(const executor_settings& settings, const std::function<void()>& prepare = {});
  /// The end has begun, but something has to end before stop(): new calls are refused from now on
  /// as they are after it, while what was called goes on, and may ready other jobs.
  void refuse_calls() noexcept;
  /// Ends as the story says. The calling thread must not be a worker.
  void stop() noexcept;

  /// Throws no_runtime unless a runtime runs; makes this thread known to it. Call before submit.
  static void require() {
    if (this_thread.generation != live_generation_.load(std::memory_order_acquire) ||
        this_thread.generation == 0) {
      join_thread();
    }
  }
  static bool is_running() noexcept {
    return live_generation_.load(std::memory_order_relaxed) != 0;
  }
  /// Makes this thread known, so that what it ends may ready other jobs: also while calls are
  /// refused. Without a runtime, or memory, it stays unknown, and they are cancelled.
  static void join_if_new() noexcept;

  /// The check that outcomes pass, or null.
  static outcome_check check_of_outcomes() noexcept {
    return outcome_check_.load(std::memory_order_relaxed);
  }
  /// What the deadline of a context is that has none of its own.
  static base::time_point without_deadline() noexcept {
    const bool is_plain = check_of_outcomes() == nullptr && !sends_all();
    return is_plain ? no_deadline : unlimited;
  }

  /// Queues a job that needs nothing any more; takes over one hold. Requires require().
  static void submit(job* j) {
    this_thread.queue->jobs.push(j);
    work_counters::add<std::uint64_t>(this_thread.queue->counters.submitted, 1);
    notify();
  }
  /// The same for a job whose options give it another priority than normal.
  static void submit_at(job* j, priority level);
  /// The same from any thread, known or not, running or not: what the waiters' callbacks use.
  static void resume(job* j) noexcept;
  /// Looks whether a worker has to be woken for what was just queued.
  static void notify() {
    light_barrier();
    std::uint64_t word = idle_word_.load(std::memory_order_relaxed);
    if (active(word) >= target(word)) return;
    if (searching(word) != 0) {
      // The searcher may be about to stop and to look at the queues for the last time: either it
      // sees what was queued, or we see that it stopped.
      detail::full_barrier();
      word = idle_word_.load(std::memory_order_relaxed);
    }
    if (wants_worker(word)) global().wake_one(true);
  }

  /// Returns when `j` is ready, or false at the deadline. Runs it here when it may.
  static bool wait(job* j, const base::deadline& deadline);
  /// Claims and runs `j` on this thread's stack. False: it has begun elsewhere, or can't run here.
  static bool try_run(job* j) { return run_here(j); }
  /// Executes `entry` here when it is the newest of this thread's queue and enough stack is left.
  static bool run_newest(job* entry);
  /// Whether the calling thread's stack has room for one more job.
  static bool has_room_here() noexcept;
  /// Whether `j` is a job that runs on this thread, or a call of an actor whose method does: a wait
  /// for it would be for ever.
  static bool is_self_wait(job* j) noexcept;
  [[noreturn]] static void raise_self_wait();
  /// Sleeps until `p` is signalled (true) or the deadline; a worker lends its core meanwhile.
  /// `awaited`: the job that is waited for, if it is one.
  static bool sleep(parker& p, const base::deadline& deadline, job* awaited = nullptr);

  /// Calls `see` with every thread's queue there ever was. Any thread.
  template <class F>
  static void each_queue(F&& see) {
    for (int i = 0; work_queue* const q = queue_at(i); ++i) see(*q);
  }

  /// Aims at another number of workers from now on; threads come when there is work for them. While
  /// it runs, by one thread at a time.
  void aim_at(int workers) noexcept;
  /// Workers that run or look for work now.
  static int active_workers() noexcept { return active(idle_word_.load()); }
  /// Number of workers it aims at; 0 when none runs.
  int target() const noexcept;
  base::time_point started() const noexcept { return started_; }
  executor_counts counts();

  /// Queues `j` on the calling worker so that the newest entry of its queue goes first.
  static void yield(job* j) noexcept;

  /// Worker threads alive now, those that stand in for blocked ones included.
  int threads();

  /// Marks the calling worker as about to search, before it publishes its last result: whoever acts
  /// on that result finds a searcher and wakes nobody.
  static void announce_search() noexcept;
  /// Takes the announcement back because there is something to run.
  static void retract_search() noexcept;
  /// True when the calling worker has nothing queued and has not announced yet.
  static bool should_announce() noexcept;

 private:
  struct worker;
  struct state;
  class search_pace;

  static work_queue* queue_at(int i) noexcept;
  job* next_lane(const worker& w, std::uint64_t word) noexcept;
  job* take_lane(priority level) noexcept;
  bool has_lanes() const noexcept;

  static constexpr std::uint64_t one_active = 1;
  static constexpr std::uint64_t one_searching = std::uint64_t{1} << 16U;
  static constexpr std::uint64_t one_target = std::uint64_t{1} << 32U;
  static constexpr std::uint64_t high_waits = std::uint64_t{1} << 63U;
  static int active(std::uint64_t word) noexcept { return static_cast<int>(word & 0xffffU); }
  static int searching(std::uint64_t word) noexcept {
    return static_cast<int>(word >> 16U & 0xffffU);
  }
  static int target(std::uint64_t word) noexcept { return static_cast<int>(word >> 32U & 0xffffU); }
  static bool wants_worker(std::uint64_t word) noexcept {
    return searching(word) == 0 && active(word) < target(word);
  }

  executor();

  static void join_thread();
  static bool is_known() noexcept;
  void make_known(std::uint64_t generation);
  static bool has_room() noexcept;
  static bool run_here(job* j);
  static bool run_actor_here(job* call);
  static bool spin_for(job* j, const base::deadline& deadline);
  void leave_thread(work_queue* queue) noexcept;
  work_queue* adopt_queue(bool is_worker);

  void wake_one(bool may_exceed) noexcept;
  bool start_thread(bool beyond_limit) noexcept;
  void work(worker& w);
  job* next_job(worker& w);
  job* search(worker& w);
  job* look(worker& w);
  static void begin_search(worker& w) noexcept;
  job* steal_round(worker& w);
  static bool is_about_to_go(worker& w, work_queue& victim) noexcept;
  static job* steal_single(worker& w);
  static job* steal_from(worker& w, work_queue& victim);
  job* found(worker& w, job* j);
  bool park(worker& w);
  bool retire(worker& w);
  static void set_this_worker(worker* w) noexcept;
  bool is_over_budget() const noexcept;
  bool any_work() noexcept;
  void begin_block() noexcept;
  void end_block() noexcept;
  bool lend_until(outside* away, parker& p, const base::deadline& deadline, job* awaited);
  void cancel_queued() noexcept;
  void join_workers() noexcept;

  static std::atomic<outcome_check> outcome_check_;
  static std::atomic<std::uint64_t> live_generation_;    // that calls have to be of; 0: no runtime
  static std::atomic<std::uint64_t> ending_generation_;  // that its threads are of; 0: all may call
  static std::atomic<std::uint64_t> idle_word_;

  state* const state_;
  base::time_point started_{};
};

/// A thread that waits to be told; executor::sleep(sleep, deadline) lends its core meanwhile. It
/// must be removed from where it was added, or have fired, before it goes.
class thread_waiter : public waiter {
 public:
  thread_waiter() noexcept {
    fire = [](waiter* self) noexcept { static_cast<thread_waiter*>(self)->sleep.signal(); };
  }
  parker sleep;
};

/// How run_actor_call runs a job.
struct actor_run {
  actor_core* actor = nullptr;         ///< whose method it is
  std::atomic<job*>* shown = nullptr;  ///< where who ends the actor sees it while it runs
  bool is_last = false;                ///< the worker knows of nothing to run after it
  bool follows_caller = true;          ///< it is cancelled when its caller was
};

/// Runs an actor's claimed call, or its construction, on this thread, completes it and gives up one
/// hold. False: it was suspended instead.
MANTA_API bool run_actor_call(job* j, const actor_run& how) noexcept;

/// Queues a job once more that ran, and failed.
MANTA_API void run_again(job* j) noexcept;

/// job_ops::execute of plain tasks: claim, run, complete.
MANTA_API void execute_task(job* j) noexcept;

/// What a task ends with that the runtime's end overtook. Static storage; any thread.
MANTA_API const error& ended_error();

}  // namespace manta::inline v0::exec
