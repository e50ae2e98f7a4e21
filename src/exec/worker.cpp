// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include <algorithm>
#include <utility>

#include <manta/base/pause.hpp>
#include <manta/exec/block_pool.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/suspension.hpp>
#include <manta/exec/theft.hpp>

#include "executor_state.hpp"

// How a worker finds work, and how it goes to sleep and is woken. See the story in executor.hpp.

namespace manta::inline v0::exec {

namespace {

using namespace std::chrono_literals;

// A worker's own queue goes first; every so often the others are asked, so that a task which keeps
// making tasks does not starve what other threads submitted. A prime, to fall in step with nothing.
constexpr std::uint32_t fairness_period = 61;
// So seldom a job of low priority goes before others, so that it is not starved for ever.
constexpr std::uint32_t low_period = 1021;
// So few entries that a batch fits without growing.
constexpr std::int64_t roomy = 128;
// How long a searcher stays that is one too many: hand-overs make short overlaps.
constexpr auto over_budget_grace = 2us;
// Looks at the queues in quick succession before a searcher slows down; about 2 us.
constexpr std::uint32_t quick_rounds = 24;
// With so many queues most are those of blocked threads, and to read all of them takes long: a look
// begins where work was found last, but for one in so many.
constexpr int many_queues = 256;
constexpr std::uint32_t fair_looks = 8;
constexpr auto keep_memory_for = 500ms;
constexpr auto keep_thread_for = 5s;

constinit thread_local void* my_worker = nullptr;

// An entry whose job was claimed by somebody who waits for it.
bool is_stale(const job* j) noexcept { return j->ops->in_place && j->is_claimed(); }

}  // namespace

void executor::set_this_worker(worker* w) noexcept { my_worker = w; }

job* executor::next_job(worker& w) {
  // More are active than there should be (one came back from a wait): this one stands down.
  const std::uint64_t word = idle_word_.load(std::memory_order_relaxed);
  const bool is_surplus = active(word) > target(word);
  if (!is_surplus && !state_->is_stopping.load(std::memory_order_relaxed)) {
    const std::uint32_t tick = ++w.ticks;
    if ((word & high_waits) != 0 || tick % low_period == 0) [[unlikely]] {
      if (job* j = next_lane(w, word)) {
        if (w.is_searching) retract_search();
        return j;
      }
    }
    if (tick % fairness_period == 0) {
      if (job* j = steal_round(w)) {
        if (w.is_searching) retract_search();
        notify();  // a batch was out of sight while it moved
        return j;
      }
    }
    if (void* e = w.queue->jobs.pop()) {
      // It announced a search, and then its own result set this job free: in a chain, each time.
      if (w.is_searching) retract_search();
      job* const j = static_cast<job*>(e);
      // What is left of jobs that their submitter ran is no turn of this queue's: else each look at
      // the others could bring a task that leaves more of those than go until the next one.
      if (is_stale(j) && tick % fairness_period != 0) --w.ticks;
      return j;
    }
  }
  return search(w);
}

bool executor::should_announce() noexcept {
  auto* const w = static_cast<worker*>(my_worker);
  return w != nullptr && this_thread.depth == 0 && !w->is_searching && w->queue->jobs.is_empty();
}

void executor::announce_search() noexcept {
  static_cast<worker*>(my_worker)->is_searching = true;
  idle_word_.fetch_add(one_searching, std::memory_order_seq_cst);
}

void executor::retract_search() noexcept {
  auto* const w = static_cast<worker*>(my_worker);
  if (w == nullptr || !w->is_searching) return;
  w->is_searching = false;
  // Somebody may have relied on this searcher since: then another has to come.
  const std::uint64_t old = idle_word_.fetch_sub(one_searching, std::memory_order_seq_cst);
  executor& e = *w->owner;
  if (searching(old) == 1 && active(old) < target(old) && e.any_work()) e.wake_one(false);
}

// Ends the search: a job is there.
job* executor::found(worker& w, job* j) {
  w.is_searching = false;
  const std::uint64_t old = idle_word_.fetch_sub(one_searching, std::memory_order_seq_cst);
  if (searching(old) == 1 && active(old) < target(old) && any_work()) wake_one(false);
  w.busy_since = base::now();
  return j;
}

// How long and how often a searcher looks. Looking takes cache lines from those who work, so: what
// follows something comes at once (a look every 60 ns for 2 us), then every 0.6 us. While somebody
// keeps submitting, though what he submits he runs himself, it stays, looking every 2 us: to park
// would make that thread pay for a wake (13 us on a virtual machine) each time.
class executor::search_pace {
 public:
  explicit search_pace(const state& s) noexcept
      : state_(s),
        spin_(s.spin_us.load(std::memory_order_relaxed)),
        until_(base::now() + spin_),
        submitted_(submissions()) {}

  /// Somebody submits what he runs himself: no need to hurry.
  void slow_down() noexcept { round_ = std::max(round_, quick_rounds); }

  /// Something is there that may have to be taken at the next look.
  void look_soon() noexcept { is_soon_ = true; }

  /// Pauses before the next look. False when the search should end.
  bool next(bool is_over_budget) noexcept {
    const bool is_soon = std::exchange(is_soon_, false);
    const int pauses = is_soon ? 8 : round_ < quick_rounds ? 2 : is_extended_ ? 64 : 20;
    for (int i = 0; i < pauses; ++i) base::pause();
    if (++round_ % 8 != 0) return true;
    // A thread that we just woke, or that is to wake us, may sit on this very core.
    if (round_ > quick_rounds) sched_yield();
    const base::time_point now = base::now();
    if (is_over_budget && over_since_ == base::time_point{}) over_since_ = now;
    if (!is_over_budget) over_since_ = {};
    if (is_over_budget && now - over_since_ > over_budget_grace) return false;
    if (now < until_) return true;
    const std::uint64_t seen = submissions();
    is_extended_ = seen != submitted_ && spin_.count() > 0;
    submitted_ = seen;
    until_ = now + spin_;
    return is_extended_;
  }

 private:
  // Zero where there are many.
  std::uint64_t submissions() const noexcept {
    std::uint64_t sum = 0;
    const int count = state_.queue_count.load(std::memory_order_acquire);
    if (count > many_queues) return 0;
    for (int i = 0; i < count; ++i) {
      sum += state_.queues[static_cast<std::size_t>(i)]
                 .load(std::memory_order_relaxed)
                 ->counters.submitted.load(std::memory_order_relaxed);
    }
    return sum;
  }

  const state& state_;
  const std::chrono::microseconds spin_;
  base::time_point until_;
  base::time_point over_since_{};
  std::uint64_t submitted_;
  std::uint32_t round_ = 0;
  bool is_extended_ = false;
  bool is_soon_ = false;
};

job* executor::search(worker& w) {
  begin_search(w);
  if (w.busy_since != base::time_point{}) {
    const auto busy = (base::now() - w.busy_since).count();
    work_counters::add<std::int64_t>(w.queue->counters.busy_ns, busy);
    w.busy_since = {};
  }
  for (;;) {
    search_pace pace(*state_);
    do {
      if (state_->is_stopping.load(std::memory_order_relaxed)) {
        w.is_searching = false;
        idle_word_.fetch_sub(one_active + one_searching);
        return nullptr;
      }
      const std::uint64_t word = idle_word_.load(std::memory_order_relaxed);
      if (active(word) > target(word)) break;  // one too many: make room at once
      if (job* j = look(w)) return found(w, j);
      if (std::exchange(w.took_stale, false)) pace.slow_down();
      if (w.single_in != nullptr) pace.look_soon();
    } while (pace.next(is_over_budget()));
    if (!park(w)) return nullptr;
  }
}

// Counts the worker as searching; no change when it announced that already.
void executor::begin_search(worker& w) noexcept {
  if (std::exchange(w.is_searching, true)) return;
  idle_word_.fetch_add(one_searching, std::memory_order_seq_cst);
}

// One look at all queues.
job* executor::look(worker& w) {
  if ((idle_word_.load(std::memory_order_relaxed) & high_waits) != 0) {
    if (job* j = take_lane(priority::high)) return j;
  }
  if (void* e = w.queue->jobs.pop()) return static_cast<job*>(e);
  job* j = steal_round(w);
  if (j == nullptr) j = take_lane(priority::low);
  if (j == nullptr || !is_stale(j)) return j;
  j->drop_entry();  // its submitter runs it: the search goes on, and nobody has to be woken
  begin_search(w);  // a destructor that ran ended it
  w.took_stale = true;
  return nullptr;
}

bool executor::is_over_budget() const noexcept {
  const std::uint64_t word = idle_word_.load(std::memory_order_relaxed);
  const int spinners = searching(word) + state_->spinning_waiters.load(std::memory_order_relaxed);
  return spinners >= std::max(state_->cores, 1);
}

// Whether that is the only job of a worker's queue, which it mostly takes the next moment itself: a
// task that returns what it started, a coroutine that awaits it. To steal it then would move all
// that it touches to this core. So the first such job is remembered, and taken if the next look
// still finds it.
bool executor::is_about_to_go(worker& w, work_queue& victim) noexcept {
  if (!victim.is_worker || victim.jobs.size() != 1) return false;
  if (w.single_in == nullptr) {
    w.single_in = &victim;
    w.single_at = victim.jobs.position();
  }
  return true;
}

// The job that the last look remembered, when it has been left lying.
job* executor::steal_single(worker& w) {
  work_queue* const victim = std::exchange(w.single_in, nullptr);
  if (victim == nullptr || victim->jobs.size() != 1 || victim->jobs.position() != w.single_at) {
    return nullptr;
  }
  return steal_from(w, *victim);
}

job* executor::steal_from(worker& w, work_queue& victim) {
  deque::plan_of_theft theft;
  if (!victim.jobs.plan(theft) || theft.count == 0) return nullptr;
  // A batch has to fit without growing.
  if (w.queue->jobs.size() >= roomy) theft.count = 1;
  if (!victim.jobs.take(theft)) return nullptr;
  // Oldest first: the own end is last in, first out.
  for (std::size_t k = theft.count; k-- > 1;) w.queue->jobs.push(theft.entries[k]);
  work_counters::add<std::uint64_t>(w.queue->counters.stolen, theft.count);
  return static_cast<job*>(theft.entries[0]);
}

job* executor::steal_round(worker& w) {
  if (job* j = steal_single(w)) return j;
  const int count = state_->queue_count.load(std::memory_order_acquire);
  w.random ^= w.random << 13U;
  w.random ^= w.random >> 17U;
  w.random ^= w.random << 5U;
  int start = static_cast<int>(w.random % static_cast<std::uint32_t>(count));
  const bool is_sparse = count > many_queues && w.random % fair_looks != 0;
  if (is_sparse) start = std::min(state_->rich.load(std::memory_order_relaxed), count - 1);
  for (int i = 0; i < count; ++i) {
    const int at = start + i < count ? start + i : start + i - count;
    work_queue* const victim =
        state_->queues[static_cast<std::size_t>(at)].load(std::memory_order_relaxed);
    if (victim == w.queue || victim->jobs.is_empty() || is_about_to_go(w, *victim)) continue;
    job* const j = steal_from(w, *victim);
    if (j == nullptr) continue;
    if (count > many_queues) state_->rich.store(at, std::memory_order_relaxed);
    return j;
  }
  return nullptr;
}

bool executor::has_lanes() const noexcept {
  return state_->low.count.load(std::memory_order_relaxed) != 0 ||
         state_->high.count.load(std::memory_order_relaxed) != 0;
}

// What goes before the worker's own jobs.
job* executor::next_lane(const worker& w, std::uint64_t word) noexcept {
  if ((word & high_waits) != 0) [[unlikely]] {
    if (job* j = take_lane(priority::high)) return j;
  }
  return w.ticks % low_period == 0 ? take_lane(priority::low) : nullptr;
}

job* executor::take_lane(priority level) noexcept {
  priority_lane& lane = level == priority::high ? state_->high : state_->low;
  if (lane.count.load(std::memory_order_relaxed) == 0) return nullptr;
  const std::lock_guard lock(lane.mutex);
  if (lane.jobs.empty()) return nullptr;
  job* const first = lane.jobs.front();
  lane.jobs.pop_front();
  lane.count.store(lane.jobs.size(), std::memory_order_relaxed);
  if (level == priority::high && lane.jobs.empty()) idle_word_.fetch_and(~high_waits);
  return first;
}

void executor::submit_at(job* j, priority level) {
  state& s = *global().state_;
  priority_lane& lane = level == priority::high ? s.high : s.low;
  {
    const std::lock_guard lock(lane.mutex);
    lane.jobs.push_back(j);
    lane.count.store(lane.jobs.size(), std::memory_order_relaxed);
    if (level == priority::high) idle_word_.fetch_or(high_waits);
  }
  work_counters::add<std::uint64_t>(this_thread.queue->counters.submitted, 1);
  notify();
}

bool executor::any_work() noexcept {
  if (has_lanes()) return true;
  const int count = state_->queue_count.load(std::memory_order_acquire);
  for (int i = 0; i < count; ++i) {
    if (!state_->queues[static_cast<std::size_t>(i)]
             .load(std::memory_order_relaxed)
             ->jobs.is_empty()) {
      return true;
    }
  }
  return false;
}

// Sleeps until woken; then the worker counts as active and searching again. False: leave the
// thread.
bool executor::park(worker& w) {
  trim_blocks();
  w.queue->jobs.shrink();
  w.is_searching = false;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->is_stopping.load()) {
      idle_word_.fetch_sub(one_active + one_searching);
      return false;
    }
    w.sleep.reset();
    w.is_parked = true;
    state_->parked.push_back(&w);
    idle_word_.fetch_sub(one_active + one_searching);
  }
  heavy_barrier();
  if (wants_worker(idle_word_.load()) && any_work()) wake_one(false);
  if (!w.sleep.park_until(base::now() + keep_memory_for)) {
    release_unused_blocks();
    if (!w.sleep.park_until(base::now() + keep_thread_for)) {
      if (retire(w)) return false;
      w.sleep.park();
    }
  }
  w.is_searching = true;
  return true;
}

// A thread that stood in for blocked ones and was not needed for a while leaves.
bool executor::retire(worker& w) {
  const std::lock_guard lock(state_->mutex);
  state& s = *state_;
  if (!w.is_parked || s.thread_count.load() <= s.settings.workers) return false;
  const auto self = std::find(s.parked.begin(), s.parked.end(), &w);
  if (self == s.parked.end()) return false;
  s.parked.erase(self);
  for (auto& owned : s.workers) {
    if (owned.get() != &w) continue;
    s.ended.push_back(std::move(owned));
    owned = std::move(s.workers.back());
    s.workers.pop_back();
    break;
  }
  s.disown(*w.queue);
  s.thread_count.fetch_sub(1);
  this_thread.generation = 0;
  return true;
}

// `may_exceed`: start a thread beyond the soft limit when every other one is blocked.
void executor::wake_one(bool may_exceed) noexcept {
  worker* chosen = nullptr;
  bool has_ended = false;
  {
    const std::lock_guard lock(state_->mutex);
    state& s = *state_;
    const std::uint64_t word = idle_word_.load();
    if (!wants_worker(word)) return;
    has_ended = live_generation_.load() == 0;
    if (has_ended) {
      // falls through to cancel what the caller queued
    } else if (!s.parked.empty()) {
      chosen = s.parked.back();
      s.parked.pop_back();
      chosen->is_parked = false;
      idle_word_.fetch_add(one_active + one_searching);
      ++s.wakes;
    } else {
      const bool beyond = s.thread_count.load() >= s.settings.workers + s.settings.extra_threads;
      if (beyond && (!may_exceed || active(word) > 0)) return;
      if (start_thread(beyond)) ++s.lent;
    }
  }
  if (chosen != nullptr) {
    chosen->sleep.signal();
    this_thread.has_woken = true;
  }
  if (far_thief* const afar = thief_from_afar.load(std::memory_order_acquire)) afar->woken();
  // Who ends the runtime does it, if he is still there: this thread may hold a lock of what it has
  // woken somebody for.
  if (has_ended && !are_ends_put_off()) cancel_queued();
}

}  // namespace manta::inline v0::exec
