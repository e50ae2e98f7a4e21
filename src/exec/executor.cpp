// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/executor.hpp>

#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

#include <fmt/format.h>

#include <manta/base/check.hpp>
#include <manta/base/machine.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/block_pool.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/resource_gate.hpp>
#include <manta/exec/suspension.hpp>
#include <manta/exec/timer.hpp>

#include "await_telling.hpp"
#include "executor_state.hpp"

namespace manta::inline v0::exec {

constinit thread_local thread_state this_thread;
std::atomic<std::uint64_t> executor::live_generation_{0};
std::atomic<std::uint64_t> executor::ending_generation_{0};
std::atomic<outcome_check> executor::outcome_check_{nullptr};
std::atomic<std::uint64_t> executor::idle_word_{0};

namespace {

// The caller that a thread is while it runs no job.
constinit thread_local context root_context;

// Gives the thread's queue back when the thread ends.
struct thread_leaver {
  void (*leave)() noexcept = nullptr;
  ~thread_leaver() {
    if (leave != nullptr) leave();
  }
};
thread_local thread_leaver leaver;

std::atomic<std::uint64_t> serials{0};

void note_stack() noexcept {
  const char here = 0;
  const char* const floor = base::stack_floor();
  if (floor == nullptr || floor > &here) {
    this_thread.stack_limit = &here;  // unknown stack: run nothing in place
    return;
  }
  // Half of what is left now belongs to jobs run in place, the rest to the jobs themselves.
  this_thread.stack_limit = floor + (&here - floor) / 2;
}

}  // namespace

const error& ended_error() {
  static const error* const made = new error(
      errc::cancelled, "the runtime ended before the task began; get its result before it goes");
  return *made;
}

std::uint64_t caller_serial() noexcept {
  context& caller = *this_thread.current;
  if (caller.serial == 0) caller.serial = serials.fetch_add(1, std::memory_order_relaxed) + 1;
  return caller.serial;
}

executor::executor() : state_(new state) {
  state_->cores = base::usable_cores();
  static_cast<void>(ended_error());
  static_cast<void>(error::out_of_memory());
}

executor& executor::global() {
  static executor* const made = new executor;
  return *made;
}

bool executor::start(const executor_settings& settings, const std::function<void()>& prepare) {
  const std::unique_lock lock(state_->mutex);
  if (state_->is_started) return false;
  if (prepare) prepare();
  reset_cancellation();
  spare_coroutines();
  state_->settings = settings;
  outcome_check_.store(settings.check_outcome, std::memory_order_relaxed);
  state_->spin_us.store(settings.spin_us, std::memory_order_relaxed);
  state_->is_stopping.store(false, std::memory_order_relaxed);
  state_->has_warned = false;
  state_->wakes = state_->lent = 0;
  for (int i = 0; i < state_->queue_count.load(std::memory_order_relaxed); ++i) {
    work_counters& c = state_->queues[static_cast<std::size_t>(i)].load()->counters;
    for (auto* n : {&c.submitted, &c.run, &c.run_in_place, &c.stolen, &c.actor_calls}) n->store(0);
    c.busy_ns.store(0);
  }
  started_ = base::now();
  idle_word_.store(static_cast<std::uint64_t>(settings.workers) * one_target);
  live_generation_.store(++state_->generations, std::memory_order_release);
  state_->is_started = true;
  for (int i = 0; i < settings.workers; ++i) {
    // Fewer threads than asked still run every job; the next need tries again.
    if (!start_thread(false)) break;
  }
  if (state_->thread_count.load() > 0) return true;
  state_->is_started = false;
  live_generation_.store(0);
  idle_word_.store(0);
  throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                          "manta: no worker thread could be started; raise the limit on processes");
}

// Under the mutex. The new thread counts as active and searching from now on.
bool executor::start_thread(bool beyond_limit) noexcept {
  state& s = *state_;
  if (beyond_limit && !s.has_warned) {
    s.has_warned = true;
    std::fprintf(
        stderr,
        "manta: %d threads are blocked in get or wait and more work is queued; adding threads "
        "slowly. Pass futures as arguments instead of waiting for them, or raise "
        "--manta-extra-threads\n",
        s.thread_count.load());
  }
  for (auto& w : s.ended) w->thread.join();  // they have nothing left to do
  s.left.fetch_sub(static_cast<int>(s.ended.size()));
  s.ended.clear();
  idle_word_.fetch_add(one_active + one_searching);
  try {
    s.parked.reserve(s.workers.size() + 1);  // so that parking needs no memory
    auto made = std::make_unique<worker>();
    worker* const w = made.get();
    w->owner = this;
    w->number = s.thread_count.load(std::memory_order_relaxed);
    w->queue = adopt_queue(true);
    w->is_searching = true;
    w->random = static_cast<std::uint32_t>(w->number) * 2654435761U + 1;
    s.workers.push_back(std::move(made));
    try {
      w->thread = std::thread([this, w] { work(*w); });
    } catch (...) {
      s.disown(*w->queue);
      s.workers.pop_back();
      throw;
    }
    s.thread_count.fetch_add(1);
    return true;
  } catch (const std::exception&) {
    idle_word_.fetch_sub(one_active + one_searching);
    return false;
  }
}

// Under the mutex.
work_queue* executor::adopt_queue(bool is_worker) {
  state& s = *state_;
  const int count = s.queue_count.load(std::memory_order_relaxed);
  int& i = s.owned_below[is_worker ? 1 : 0];
  for (; i < count; ++i) {
    work_queue* const q = s.queues[static_cast<std::size_t>(i)].load(std::memory_order_relaxed);
    if (q->is_owned || q->is_worker != is_worker) continue;
    q->is_owned = true;
    return q;
  }
  if (count == state::max_queues) throw std::bad_alloc();
  auto* const made = new work_queue;
  made->is_worker = is_worker;
  made->is_owned = true;
  s.queues[static_cast<std::size_t>(count)].store(made, std::memory_order_release);
  s.queue_count.store(count + 1, std::memory_order_release);
  return made;
}

void executor::join_thread() {
  executor& e = global();
  std::unique_lock lock(e.state_->mutex);
  // What nobody catches ends the program without unwinding: who ends the runtime meanwhile would
  // wait for a lock that is never given back.
  const auto refuse = [&lock](errc code, const char* why) {
    lock.unlock();
    raise(code, why);
  };
  const bool is_ending = ending_generation_.load() != 0;
  const std::uint64_t generation = is_ending ? 0 : live_generation_.load();
  const context* const caller = this_thread.current;
  if (this_thread.is_worker || (caller != nullptr && caller->running != nullptr)) {
    // A task of a runtime that has ended meanwhile: its worker is about to go, or it is what had
    // to be run at the end by who ended the runtime.
    refuse(errc::cancelled, "the runtime that ran this task has ended; no new calls can be made");
  }
  if (generation == 0 && is_all_cancelled()) {
    refuse(errc::cancelled, "the program was interrupted; no new calls can be made");
  }
  if (generation == 0) {
    refuse(errc::no_runtime,
           "no manta::runtime runs; create one in main before the first call and keep it until the "
           "last result was got");
  }
  e.make_known(generation);
}

namespace {

// Callers of several processes have ids of their own, since what they call may meet in one.
std::uint64_t drawn() noexcept {
  std::uint64_t out = 0;
  if (getrandom(&out, sizeof out, 0) != sizeof out) {
    out = static_cast<std::uint64_t>(base::now().time_since_epoch().count()) ^
          static_cast<std::uint64_t>(getpid()) << 32U;
  }
  return out;
}

}  // namespace

// Under the mutex.
void executor::make_known(std::uint64_t generation) {
  this_thread.queue = adopt_queue(false);
  this_thread.places = this_thread.queue->places.data();
  this_thread.generation = generation;
  if (this_thread.current == nullptr) this_thread.current = &root_context;
  root_context.calls = 0;
  root_context.deadline = without_deadline();
  root_context.self = base::derive({generation, drawn()}, caller_serial(), 0);
  note_stack();
  leaver.leave = []() noexcept { global().leave_thread(this_thread.queue); };
}

void executor::leave_thread(work_queue* queue) noexcept {
  const std::lock_guard lock(state_->mutex);
  if (this_thread.generation == live_generation_.load()) state_->disown(*queue);
  this_thread.generation = 0;
}

namespace {

// False: there was nothing, and nobody took it meanwhile.
bool cancel_all_of(work_queue& queue) noexcept {
  bool was_any = false;
  deque::loot loot;
  while (const std::size_t n = queue.jobs.steal(loot, was_any)) {
    was_any = true;
    for (std::size_t k = 0; k < n; ++k) {
      job* const j = static_cast<job*>(loot[k]);
      j->ops->cancel(j, ended_error());
    }
  }
  return was_any;
}

}  // namespace

// A thread's life as a worker. Its counts in the idle word were set by who started it.
void executor::work(worker& w) {
  this_thread.queue = w.queue;
  this_thread.places = w.queue->places.data();
  const std::uint64_t ending = ending_generation_.load();
  this_thread.generation = ending != 0 ? ending : live_generation_.load();
  this_thread.current = &root_context;
  root_context.deadline = without_deadline();
  this_thread.is_worker = true;
  root_context.self = base::derive({this_thread.generation, 0x776f726b}, caller_serial(), 0);
  note_stack();
  set_this_worker(&w);
  pthread_setname_np(pthread_self(), fmt::format("manta-{}", w.number).c_str());
  while (job* j = next_job(w)) j->ops->execute(j);
  // Others' queues are looked through by who ends the runtime, until all have left.
  if (!is_running()) cancel_all_of(*w.queue);
  state_->left.fetch_add(1);
}

// A generation that no thread is of: so the calls that are made meanwhile find out where they would
// anyway, and those that are made while nothing ends pay nothing for it.
void executor::refuse_calls() noexcept {
  const std::lock_guard lock(state_->mutex);
  if (!state_->is_started || ending_generation_.load() != 0) return;
  ending_generation_.store(live_generation_.load());
  live_generation_.store(++state_->generations);
}

void executor::stop() noexcept {
  state& s = *state_;
  {
    const std::lock_guard lock(s.mutex);
    if (!s.is_started) return;
    put_ends_off(true);
    // First: who sees that nothing runs any more may let a worker go, and that one takes nothing.
    s.is_stopping.store(true);
    live_generation_.store(0);
    ending_generation_.store(0);
    for (worker* w : s.parked) {
      idle_word_.fetch_add(one_active + one_searching);
      w->sleep.signal();
    }
    s.parked.clear();
  }
  heavy_barrier();
  timer::stop();
  stop_waits();
  join_workers();
  resource_claim::cancel_waiting(ended_error());
  end_coroutines(ended_error());
  cancel_queued();  // an actor's entry must be gone before the actor is
  actor_core::close_all(ended_error());
  cancel_queued();
  put_ends_off(false);
  do {
    cancel_queued();
  } while (end_put_off(ended_error()));
  const std::lock_guard lock(s.mutex);
  for (int i = 0; i < s.queue_count.load(); ++i) {
    s.disown(*s.queues[static_cast<std::size_t>(i)].load());
  }
  s.thread_count.store(0);
  // A thread that still submits finds a runtime that wants workers, and through wake_one cancels.
  idle_word_.store(one_target);
  s.is_started = false;
}

// Blocked workers wait for jobs that are queued somewhere: ending those lets the workers end. A job
// may move from queue to queue while they are looked through, so it is done until all have left.
void executor::join_workers() noexcept {
  state& s = *state_;
  const auto all = static_cast<int>(s.workers.size() + s.ended.size());
  parker nap;
  while (s.left.load() < all) {
    const base::time_point begun = base::now();
    cancel_queued();
    resource_claim::cancel_waiting(ended_error());
    end_coroutines(ended_error());
    end_put_off(ended_error());
    actor_core::tell_of_end();  // a worker may wait for a monitor
    // Where there are thousands, who leaves has half of the time at least.
    const base::time_point now = base::now();
    nap.park_until(now + std::max<duration>(std::chrono::microseconds(100), now - begun));
  }
  for (auto& w : s.workers) w->thread.join();
  for (auto& w : s.ended) w->thread.join();
  s.workers.clear();
  s.ended.clear();
  s.left.store(0);
}

// Any thread, once live_generation_ is 0.
void executor::cancel_queued() noexcept {
  bool again = true;
  while (again) {
    again = false;
    for (const priority level : {priority::high, priority::low}) {
      while (job* const j = take_lane(level)) {
        again = true;
        j->ops->cancel(j, ended_error());
      }
    }
    for (int i = 0; i < state_->queue_count.load(std::memory_order_acquire); ++i) {
      work_queue* const q = state_->queues[static_cast<std::size_t>(i)].load();
      if (!q->jobs.is_empty() && cancel_all_of(*q)) again = true;
    }
  }
}

// A thread may bring the engine work before it ever called it: the last handle to an actor dies
// there.
void executor::join_if_new() noexcept {
  if (this_thread.is_worker || !is_running() || is_known()) return;
  try {
    executor& e = global();
    {
      const std::lock_guard lock(e.state_->mutex);
      const std::uint64_t ending = ending_generation_.load();
      if (ending != 0) return e.make_known(ending);
    }
    require();
  } catch (...) {
    // It ended meanwhile, or there is no memory: resume goes on without.
  }
}

// Whether this thread is one of the runtime that runs, or ends.
bool executor::is_known() noexcept {
  const std::uint64_t own = this_thread.generation;
  if (own == 0) return false;
  return own == live_generation_.load() || own == ending_generation_.load();
}

void executor::resume(job* j) noexcept {
  if (this_thread.generation != live_generation_.load()) join_if_new();
  if (is_known()) {
    try {
      const call_extra* const with = j->extra();
      if (with != nullptr && with->level != priority::normal) {
        submit_at(j, with->level);
      } else {
        submit(j);
      }
    } catch (const std::bad_alloc&) {
      j->ops->cancel(j, error::out_of_memory());
    }
    return;
  }
  if (put_end_off(j)) return;
  // The runtime has ended: so does the job, and what depends on it. A chain of dependents must not
  // become a chain of calls, so inner ones are put on the outermost's list.
  thread_local std::vector<job*>* list = nullptr;
  if (list != nullptr) {
    list->push_back(j);
    return;
  }
  std::vector<job*> ending{j};
  list = &ending;
  while (!ending.empty()) {
    job* const next = ending.back();
    ending.pop_back();
    next->ops->cancel(next, ended_error());
  }
  list = nullptr;
}

void executor::yield(job* j) noexcept {
  deque& jobs = this_thread.queue->jobs;
  void* const next = jobs.pop();
  resume(j);
  if (next == nullptr) return;
  try {
    jobs.push(next);
  } catch (const std::bad_alloc&) {
    static_cast<job*>(next)->ops->cancel(static_cast<job*>(next), error::out_of_memory());
  }
}

work_queue* executor::queue_at(int i) noexcept {
  const state& s = *global().state_;
  if (i >= s.queue_count.load(std::memory_order_acquire)) return nullptr;
  return s.queues[static_cast<std::size_t>(i)].load();
}

void executor::aim_at(int workers) noexcept {
  const std::lock_guard lock(state_->mutex);
  if (!state_->is_started) return;
  const int more = workers - target(idle_word_.load());
  state_->settings.workers = workers;
  // Wraps where there are fewer: the sum of both is in range.
  idle_word_.fetch_add(static_cast<std::uint64_t>(static_cast<std::int64_t>(more)) * one_target);
}

int executor::target() const noexcept {
  return is_running() ? target(idle_word_.load(std::memory_order_relaxed)) : 0;
}

int executor::threads() { return state_->thread_count.load(); }

executor_counts executor::counts() {
  const std::lock_guard lock(state_->mutex);
  executor_counts sum;
  sum.wakes = state_->wakes;
  sum.threads_lent = state_->lent;
  for (int i = 0; i < state_->queue_count.load(); ++i) {
    const work_queue* const q = state_->queues[static_cast<std::size_t>(i)].load();
    const work_counters& c = q->counters;
    sum.submitted += c.submitted.load(std::memory_order_relaxed);
    const std::uint64_t in_place = c.run_in_place.load(std::memory_order_relaxed);
    const std::uint64_t run = c.run.load(std::memory_order_relaxed) + in_place;
    sum.run += run;
    sum.run_in_place += in_place;
    sum.stolen += c.stolen.load(std::memory_order_relaxed);
    sum.actor_calls += c.actor_calls.load(std::memory_order_relaxed);
    if (!q->is_worker || (!q->is_owned && run == 0)) continue;
    sum.workers.push_back(
        {run, 1e-9 * static_cast<double>(c.busy_ns.load(std::memory_order_relaxed))});
  }
  return sum;
}

}  // namespace manta::inline v0::exec
