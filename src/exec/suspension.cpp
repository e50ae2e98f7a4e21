// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/suspension.hpp>

#include <sched.h>

#include <array>
#include <mutex>
#include <new>
#include <utility>

#include <manta/base/pause.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/block_pool.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>

namespace manta::inline v0::exec {

namespace {

constexpr std::uint32_t running = 0;
constexpr std::uint32_t waiting = 1;
constexpr std::uint32_t fired = 2;
constexpr std::uint32_t interrupted = 3;
constexpr std::uint32_t was_released = 4;
constexpr std::uint32_t phases = 7;
constexpr std::uint32_t stop = 8;
constexpr std::uint32_t doom = 16;

}  // namespace

/// What a coroutine has besides its frames from its first suspension on. A queue entry: nobody but
/// the executor's queues sees it as a job.
class suspension : public job {
 public:
  suspension(const context& caller, const coroutine_turn& turn) noexcept;

  static suspension* make(coroutine_turn& turn);
  static void execute(job* entry) noexcept;
  static void cancel(job* entry, const error& reason) noexcept;

  void go_on(coroutine_turn& turn) noexcept;
  void complete(coroutine_turn& turn) noexcept;
  void end(const error& reason) noexcept;
  void destroy_frames() noexcept;
  void take_fire() noexcept;
  bool interrupt(std::uint32_t flag) noexcept;
  void leave_to(std::uint32_t phase) noexcept;
  void free() noexcept;
  void lend_cores() noexcept {
    if (resource_claim* const held = claim_of(own)) held->lend();
  }
  void take_back_cores() noexcept {
    if (resource_claim* const held = claim_of(own)) held->take_back();
  }

  static const job_ops ops;

  std::atomic<std::uint32_t> phase{running};
  context own;
  running_place place;
  exec::job* const completes;
  coroutine_frame* const root;
  const settle_function settle;
  const bool keeps_arguments;
  coroutine_frame* leaf = nullptr;
  // Registry.
  suspension* previous = nullptr;
  suspension* next = nullptr;
  suspension* next_taken = nullptr;
};

static_assert(sizeof(suspension) <= 256);

const job_ops suspension::ops = {
    .execute = &suspension::execute,
    .run = nullptr,
    .ready = nullptr,
    .cancel = &suspension::cancel,
    .drop_arguments = nullptr,
    .drop_value = nullptr,
    .alias = nullptr,
    .origin = nullptr,
    .size = sizeof(suspension),
    .front = 0,
    .in_place = false,
    .function = "coroutine",
    .function_hash = 0,
};

namespace {

// Where suspended coroutines are found: by their job, or all of them.
struct shard {
  alignas(64) std::atomic<bool> is_locked{false};
  suspension* first = nullptr;
  std::size_t count = 0;

  // Held for a few instructions, by few threads: a mutex would cost more than what it guards.
  void lock() noexcept {
    for (int round = 0; is_locked.exchange(true, std::memory_order_acquire); ++round) {
      if (round < 64) {
        base::pause();
      } else {
        sched_yield();
      }
    }
  }
  void unlock() noexcept { is_locked.store(false, std::memory_order_release); }
  void add(suspension* s) noexcept {
    lock();
    s->next = first;
    if (first != nullptr) first->previous = s;
    first = s;
    ++count;
    unlock();
  }
  void remove(suspension* s) noexcept {
    lock();
    if (s->previous != nullptr) s->previous->next = s->next;
    if (s->next != nullptr) s->next->previous = s->previous;
    if (first == s) first = s->next;
    --count;
    unlock();
  }
};

constinit std::array<shard, 64> shards{};

shard& shard_of(const job* j) noexcept {
  return shards[reinterpret_cast<std::uintptr_t>(j) / 64 * 0x9e3779b97f4a7c15U >> 58U];
}

// Never destroyed: late threads may need it.
const error* make_reason(const char* text) noexcept {
  try {
    return new error(errc::cancelled, text);
  } catch (const std::bad_alloc&) {
    static const error instead = error::out_of_memory();
    return &instead;
  }
}

const error& ended_reason() noexcept {
  static const error* const made = make_reason(
      "the runtime ended while the task was suspended in co_await; get its result before it goes");
  return *made;
}

// Nobody wants what it makes.
const error& unwanted_reason() noexcept {
  static const error* const made = make_reason(
      "the coroutine was destroyed while it was suspended: its stream was dropped or cancelled");
  return *made;
}

// All that suspend are doomed.
constinit std::atomic<bool> dooms_all{false};

const error& reason_of_doom() noexcept {
  return executor::is_running() && !dooms_all.load() ? unwanted_reason() : ended_reason();
}

void fail_slot(job* j, const error& reason) noexcept { new (j->slot(1)) error(reason); }

// An actor that waits for its suspended call goes on then.
void finish_job(job* j, std::uint64_t bits) noexcept {
  if (j->ops->origin != nullptr) {
    actor_core::complete(j, bits);
  } else {
    j->finish(bits | job_bits::claimed, 1);
  }
}

// Whether the outcome of a run that might be followed by another one is final: then the arguments
// go.
bool may_end(job* j, std::uint64_t bits) noexcept {
  if ((bits & job_bits::failed) != 0 && take_retry(j)) return false;
  j->ops->drop_arguments(j);
  return true;
}

void run_frames(coroutine_turn& turn, coroutine_frame* first) noexcept {
  turn.next = first;
  do {
    std::exchange(turn.next, nullptr)->handle.resume();
  } while (turn.next != nullptr);
}

}  // namespace

suspension::suspension(const context& caller, const coroutine_turn& turn) noexcept
    : job(&ops, 1),
      own(caller),
      completes(turn.completes),
      root(turn.root),
      settle(turn.settle),
      keeps_arguments(turn.keeps_arguments) {
  own.drops = 1;
  place.caller.store(completes->parent.low, std::memory_order_relaxed);
  if (own.calls != 0) place.self.store(own.self.low, std::memory_order_relaxed);
}

// The context leaves the stack: children go on to be numbered where it stopped.
suspension* suspension::make(coroutine_turn& turn) {
  // Made before anybody could need it when there is no memory.
  static_cast<void>(ended_reason());
  static_cast<void>(unwanted_reason());
  context& caller = *this_thread.current;
  auto* const s = new (allocate_block(sizeof(suspension))) suspension(caller, turn);
  if (caller.drops == 0) s->completes->hold();
  caller.endings = 0;  // they are the suspension's now
  this_thread.current = &s->own;
  turn.strand = s;
  turn.place = &s->place;
  shard_of(s->completes).add(s);
  // Who cancelled it before it was to be found here left a mark.
  if (is_stop_requested(s->own)) s->phase.fetch_or(stop, std::memory_order_relaxed);
  return s;
}

void suspension::free() noexcept {
  if (own.endings != 0) end_turns(own);
  shard_of(completes).remove(this);
  this->~suspension();
  free_block(this, sizeof(suspension));
}

void suspension::execute(job* entry) noexcept {
  auto* const s = static_cast<suspension*>(entry);
  coroutine_turn turn;
  turn.completes = s->completes;
  turn.root = s->root;
  turn.settle = s->settle;
  turn.strand = s;
  turn.place = &s->place;
  {
    const context_scope scope(s->own);
    s->own.turn = &turn;
    s->take_back_cores();
    s->go_on(turn);
  }
  if (turn.is_finished) s->complete(turn);
  if (turn.is_doomed) s->end(reason_of_doom());
}

void suspension::go_on(coroutine_turn& turn) noexcept {
  std::uint32_t word = phase.load(std::memory_order_acquire);
  if ((word & doom) != 0) {
    turn.is_doomed = true;
    return;
  }
  // After an interruption the node is taken back first, in await_node::resumed.
  if ((word & phases) == fired) leave_to(running);
  run_frames(turn, leaf);
}

// Changes the phase of what this turn owns; an interruption may add its flag meanwhile.
void suspension::leave_to(std::uint32_t to) noexcept {
  std::uint32_t word = phase.load(std::memory_order_relaxed);
  while (!phase.compare_exchange_weak(word, (word & ~phases) | to, std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
  }
}

// The root has ended: its outcome becomes the job's.
void suspension::complete(coroutine_turn& turn) noexcept {
  exec::job* const j = completes;
  const bool is_kept = keeps_arguments;
  std::uint64_t bits = 0;
  {
    const context_scope scope(own);
    own.turn = &turn;
    bits = settle(j, root);
  }
  free();
  if (is_kept && !may_end(j, bits)) {
    run_again(j);
    return;
  }
  if (executor::should_announce()) executor::announce_search();
  finish_job(j, bits);
}

// The coroutine is suspended, and goes no further.
void suspension::end(const error& reason) noexcept {
  exec::job* const j = completes;
  {
    const context_scope scope(own);
    own.turn = nullptr;  // its last turn is over
    destroy_frames();
  }
  if (keeps_arguments) j->ops->drop_arguments(j);
  free();
  fail_slot(j, reason);
  finish_job(j, job_bits::ready | job_bits::failed);
}

void suspension::cancel(job* entry, const error& reason) noexcept {
  static_cast<suspension*>(entry)->end(executor::is_running() ? reason : ended_reason());
}

// Innermost first, as their owners would; one by one, for there may be a hundred thousand.
void suspension::destroy_frames() noexcept {
  for (coroutine_frame* frame = leaf; frame != nullptr;) {
    coroutine_frame* const caller = frame->caller;
    if (frame->owner != nullptr) *frame->owner = nullptr;
    frame->handle.destroy();
    frame = caller;
  }
}

// The node's last step: nothing of the frame may be touched afterwards.
void suspension::take_fire() noexcept {
  std::uint32_t word = phase.load(std::memory_order_relaxed);
  for (;;) {
    const bool is_released = (word & phases) == interrupted;
    const std::uint32_t to = (word & ~phases) | (is_released ? was_released : fired);
    if (phase.compare_exchange_weak(word, to, std::memory_order_acq_rel,
                                    std::memory_order_relaxed)) {
      break;
    }
  }
  if ((word & phases) == waiting) executor::resume(this);
}

// True when the entry has to be queued by the caller.
bool suspension::interrupt(std::uint32_t flag) noexcept {
  std::uint32_t word = phase.load(std::memory_order_seq_cst);
  for (;;) {
    const bool is_waiting = (word & phases) == waiting;
    const std::uint32_t to = (is_waiting ? (word & ~phases) | interrupted : word) | flag;
    if (phase.compare_exchange_weak(word, to, std::memory_order_seq_cst)) return is_waiting;
  }
}

std::uint64_t start_coroutine(job* j, coroutine_frame* root, settle_function settle,
                              bool keeps_arguments) noexcept {
  std::uint64_t bits = job_bits::ready | job_bits::failed;
  if (root != nullptr) {
    context& own = *this_thread.current;
    coroutine_turn turn;
    turn.completes = j;
    turn.root = root;
    turn.settle = settle;
    turn.keeps_arguments = keeps_arguments;
    own.turn = &turn;
    run_frames(turn, root);
    if (turn.strand != nullptr) {
      // From its first suspension on, it is its suspension that ends the job.
      this_thread.current = &own;
      if (turn.is_finished) turn.strand->complete(turn);
      if (turn.is_doomed) turn.strand->end(reason_of_doom());
      return 0;
    }
    if (!turn.is_doomed) {
      bits = settle(j, root);
    } else {
      root->handle.destroy();
      fail_slot(j, reason_of_doom());
    }
  }
  return !keeps_arguments || may_end(j, bits) ? bits : std::uint64_t{job_bits::again};
}

void await_node::begin(coroutine_frame& leaf) {
  coroutine_turn& turn = coroutine_turn::current();
  suspension* const s = turn.strand != nullptr ? turn.strand : suspension::make(turn);
  s->leaf = &leaf;
  s->lend_cores();
  strand_ = s;
}

job* await_node::entry() const noexcept { return strand_; }

void doom_turn(coroutine_frame& leaf) noexcept {
  coroutine_turn& turn = coroutine_turn::current();
  if (turn.strand != nullptr) turn.strand->leaf = &leaf;
  turn.is_doomed = true;
}

void await_node::withdraw() noexcept { std::exchange(strand_, nullptr)->take_back_cores(); }

std::uint32_t await_node::step_to_waiting() noexcept {
  std::uint32_t word = running;
  // Sequentially consistent with the end of the runtime: either it is seen here, or who ends what
  // is suspended sees this one.
  if (strand_->phase.compare_exchange_strong(word, waiting, std::memory_order_seq_cst)) {
    if (!executor::is_running()) end_coroutines(ended_reason());
    if (dooms_all.load()) doom_coroutines();
    return committed;
  }
  return (word & phases) == fired ? came_early : must_stop;
}

bool await_node::left_early(std::uint32_t found) noexcept {
  suspension* const s = strand_;
  s->take_back_cores();
  if ((s->phase.load(std::memory_order_relaxed) & doom) != 0) {
    s->leave_to(was_released);
    coroutine_turn::current().is_doomed = true;
    return true;
  }
  if (found == must_stop) {
    s->leave_to(was_released);  // resumed finds it and throws
  } else {
    s->leave_to(running);
    strand_ = nullptr;
  }
  return false;
}

void await_node::wake(waiter* self) noexcept {
  static_cast<await_node*>(self)->strand_->take_fire();
}

bool await_node::is_interrupted() const noexcept {
  const std::uint32_t phase = strand_->phase.load(std::memory_order_relaxed) & phases;
  return phase == interrupted || phase == was_released;
}

bool await_node::has_fired() const noexcept {
  const std::uint32_t phase = strand_->phase.load(std::memory_order_acquire) & phases;
  return phase == fired || phase == was_released;
}

void await_node::raise_cancelled() {
  suspension* const s = std::exchange(strand_, nullptr);
  s->phase.fetch_and(doom, std::memory_order_acq_rel);
  raise(errc::cancelled, "the task was cancelled while it waited in co_await");
}

void await_node::pause_a_while(int round) noexcept {
  if (round < 64) {
    base::pause();
  } else {
    sched_yield();
  }
}

bool interrupt_coroutine(const job* j, interruption how) noexcept {
  shard& in = shard_of(j);
  in.lock();
  suspension* s = in.first;
  while (s != nullptr && s->completes != j) s = s->next;
  const bool is_found = s != nullptr;
  const bool is_mine = is_found && s->interrupt(how == interruption::doom ? doom : stop);
  in.unlock();
  if (is_mine) executor::resume(s);
  return is_found;
}

suspension* interrupt_coroutines(bool (*is_meant)(const void* by, job& j,
                                                  const running_place& place),
                                 const void* by, interruption how) noexcept {
  const std::uint32_t flag = how == interruption::doom ? doom : stop;
  suspension* taken = nullptr;
  for (shard& in : shards) {
    in.lock();
    for (suspension* s = in.first; s != nullptr; s = s->next) {
      if (!is_meant(by, *s->completes, s->place) || !s->interrupt(flag)) continue;
      s->next_taken = taken;
      taken = s;
    }
    in.unlock();
  }
  return taken;
}

void queue_interrupted(suspension* list) noexcept {
  while (list != nullptr) {
    suspension* const s = list;
    list = s->next_taken;
    executor::resume(s);
  }
}

void each_coroutine(void (*see)(void* to, const running_place& place), void* to) noexcept {
  for (shard& in : shards) {
    in.lock();
    for (const suspension* s = in.first; s != nullptr; s = s->next) see(to, s->place);
    in.unlock();
  }
}

namespace {

// Coroutines that were to go on while the runtime ended. Who wakes one may hold a lock that its
// frames' destructors take (a channel's), so they are ended by who ends the runtime.
struct put_off {
  std::mutex mutex;
  bool is_open = false;
  suspension* first = nullptr;

  static put_off& global() {
    static auto* const made = new put_off;
    return *made;
  }
};

}  // namespace

void put_ends_off(bool is_on) noexcept {
  put_off& all = put_off::global();
  const std::lock_guard lock(all.mutex);
  all.is_open = is_on;
}

bool are_ends_put_off() noexcept {
  put_off& all = put_off::global();
  const std::lock_guard lock(all.mutex);
  return all.is_open;
}

bool put_end_off(job* entry) noexcept {
  if (entry->ops != &suspension::ops) return false;
  put_off& all = put_off::global();
  const std::lock_guard lock(all.mutex);
  if (!all.is_open) return false;
  auto* const s = static_cast<suspension*>(entry);
  s->next_taken = all.first;
  all.first = s;
  return true;
}

bool end_put_off(const error& reason) noexcept {
  put_off& all = put_off::global();
  suspension* ending = nullptr;
  {
    const std::lock_guard lock(all.mutex);
    ending = std::exchange(all.first, nullptr);
  }
  const bool found = ending != nullptr;
  while (ending != nullptr) {
    suspension* const s = ending;
    ending = s->next_taken;
    s->end(reason);
  }
  return found;
}

void end_coroutines(const error& reason) noexcept {
  for (shard& in : shards) {
    suspension* ending = nullptr;
    in.lock();
    for (suspension* s = in.first; s != nullptr; s = s->next) {
      if (!s->interrupt(doom)) continue;
      s->next_taken = ending;
      ending = s;
    }
    in.unlock();
    while (ending != nullptr) {
      suspension* const s = ending;
      ending = s->next_taken;
      s->end(reason);
    }
  }
}

// Queued, not ended here: what frames destroy is the user's, and this thread may be needed for it.
void doom_coroutines() noexcept {
  dooms_all.store(true);
  const auto is_any = [](const void*, job&, const running_place&) { return true; };
  queue_interrupted(interrupt_coroutines(is_any, nullptr, interruption::doom));
}

void spare_coroutines() noexcept { dooms_all.store(false); }

std::size_t suspended_coroutines() noexcept {
  std::size_t sum = 0;
  for (shard& in : shards) {
    in.lock();
    sum += in.count;
    in.unlock();
  }
  return sum;
}

}  // namespace manta::inline v0::exec
