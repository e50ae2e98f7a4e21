// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/job.hpp>

#include <sched.h>

#include <memory>
#include <mutex>
#include <new>

#include <manta/base/check.hpp>
#include <manta/base/pause.hpp>
#include <manta/exec/block_pool.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/named_jobs.hpp>
#include <manta/exec/observer.hpp>

namespace manta::inline v0::exec {

constinit std::atomic<const run_observer*> observer{nullptr};
constinit std::atomic<bool> watches_runs{false};
constinit std::atomic<const named_jobs*> knows_names{nullptr};

namespace {

// A value may hold the last future of another job, whose value holds another, and so on: jobs that
// die while one is being destroyed queue up here instead of recursing. Linked through waiters_.
constinit thread_local job* doomed = nullptr;
constinit thread_local bool destroying = false;

void tell_gone(job* dying, std::uint64_t bits) noexcept {
  const named_jobs* const to = knows_names.load();
  if ((bits & job_bits::named) != 0) to->gone(dying);
  if ((bits & job_bits::recorded) != 0) to->unrecorded(dying);
}

}  // namespace

void job::lock() noexcept {
  for (int spins = 0;; ++spins) {
    std::uint64_t old = word_.load(std::memory_order_relaxed);
    if ((old & job_bits::locked) == 0 &&
        word_.compare_exchange_weak(old, old | job_bits::locked, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      return;
    }
    if (spins < 64) {
      base::pause();
    } else {
      sched_yield();  // the holder lost its core
    }
  }
}

void job::finish_slow(std::uint64_t bits, unsigned drops) noexcept {
  if (call_extra* const with = extra()) {
    if (const outcome_check check = executor::check_of_outcomes()) bits = check(this, bits);
    if (!settle()) {  // its time was over first
      discard(bits);
      with->entry_dropped();  // what it asked for was its own until here
      if (drops != 0) drop();
      return;
    }
    with->ended();
  }
  complete(bits, drops);
}

// Whatever the runner of a job left in the slot that nobody will read.
void job::discard(std::uint64_t bits) noexcept {
  if ((bits & job_bits::failed) != 0) {
    static_cast<error*>(slot(1))->~error();
  } else if ((word() & job_bits::aliased) != 0) {
    target()->drop();
  } else if (ops->drop_value != nullptr) {
    executor::retract_search();
    ops->drop_value(this);
  }
}

void job::tell_failure(std::uint64_t bits) noexcept {
  const run_observer* const by = observing();
  if (by == nullptr) return;
  const bool is_late = (bits & job_bits::late) != 0;
  by->failed(*this, is_late ? late_failure() : *static_cast<error*>(slot(1)));
}

void job::complete(std::uint64_t bits, unsigned drops) noexcept {
  if ((bits & job_bits::failed) != 0) tell_failure(bits);
  lock();
  waiter* list = std::exchange(waiters_, nullptr);
  // One step: sets `bits`, clears locked and waiters, and gives up the caller's hold, so that who
  // is told and finds the value ready does not count the worker as one who uses it.
  std::uint64_t old = word_.load(std::memory_order_relaxed);
  std::uint64_t next = 0;
  do {
    next = ((old | bits) & ~(job_bits::locked | job_bits::waiters)) - drops * job_bits::holder;
  } while (!word_.compare_exchange_weak(old, next, std::memory_order_acq_rel,
                                        std::memory_order_relaxed));
  // From here on only the waiters are touched: each of them has a hold, so with none left the list
  // is empty.
  if (next >> 32U == 0) {
    destroy();
    return;
  }
  // The list is newest first; those who came first are told first.
  waiter* ordered = nullptr;
  while (list != nullptr) {
    waiter* const then = list->next;
    list->next = ordered;
    ordered = list;
    list = then;
  }
  while (ordered != nullptr) {
    waiter* const then = ordered->next;
    ordered->fire(ordered);
    ordered = then;
  }
}

void job::fail(error reason, unsigned drops) noexcept {
  if (ops->drop_arguments != nullptr) ops->drop_arguments(this);
  new (slot(1)) error(std::move(reason));
  finish(job_bits::claimed | job_bits::ready | job_bits::failed, drops);
}

void job::cancel_unclaimed(const error& reason) noexcept {
  if (try_claim()) {
    fail(reason, 1);
  } else {
    drop_entry();
  }
}

bool job::withdraw(const error& reason) noexcept {
  std::uint64_t old = word_.load(std::memory_order_relaxed);
  do {
    if ((old & job_bits::claimed) != 0) return false;
  } while (!word_.compare_exchange_weak(
      old, old | job_bits::claimed | job_bits::stale | job_bits::unclean, std::memory_order_acq_rel,
      std::memory_order_relaxed));
  // First, since the end of the call gives up its place in a line.
  if ((old & job_bits::extra) != 0) extra()->withdrawn(this);
  new (slot(1)) error(reason);
  finish(job_bits::ready | job_bits::failed, 0);
  return true;
}

bool job::end_late(error reason) noexcept {
  if (!settle()) return false;
  extra()->failure.emplace(std::move(reason));
  complete(job_bits::ready | job_bits::failed | job_bits::late, 0);
  return true;
}

// What a queue's hold keeps beside the block: arguments of a withdrawn job, claims.
void job::clean_entry() noexcept {
  const std::uint64_t bits = word();
  if ((bits & job_bits::unclean) != 0) {
    executor::retract_search();  // users' destructors may take long
    if (ops->drop_arguments != nullptr) ops->drop_arguments(this);
    word_.fetch_and(~job_bits::unclean, std::memory_order_relaxed);
  }
  if ((bits & job_bits::extra) != 0) extra()->entry_dropped();
}

void job::has_extra() noexcept {
  word_.store(word_.load(std::memory_order_relaxed) | job_bits::extra, std::memory_order_relaxed);
  extra()->of = this;
}

error& job::late_failure() noexcept { return *extra()->failure; }

bool job::try_hold() noexcept {
  std::uint64_t old = word_.load(std::memory_order_relaxed);
  do {
    if (old >> 32U == 0) return false;
  } while (!word_.compare_exchange_weak(old, old + job_bits::holder, std::memory_order_acq_rel,
                                        std::memory_order_relaxed));
  return true;
}

bool job::add_waiter(waiter* w) noexcept {
  lock();
  if ((word_.load(std::memory_order_relaxed) & job_bits::ready) != 0) {
    unlock();
    return false;
  }
  w->next = waiters_;
  waiters_ = w;
  const std::uint64_t before = word_.fetch_or(job_bits::waiters, std::memory_order_relaxed);
  unlock();
  if ((before & job_bits::unasked) != 0) [[unlikely]]
    ask();
  return true;
}

void job::ask() noexcept {
  const std::uint64_t before = word_.fetch_and(~job_bits::unasked, std::memory_order_acq_rel);
  if ((before & job_bits::unasked) != 0) knows_names.load()->wanted(this);
}

bool job::look_elsewhere() {
  if ((word() & job_bits::unasked) != 0) ask();
  knows_names.load()->looked_at();
  return is_ready();
}

bool job::remove_waiter(waiter* w) noexcept {
  lock();
  waiter** link = &waiters_;
  while (*link != nullptr && *link != w) link = &(*link)->next;
  const bool found = *link == w;
  if (found) *link = w->next;
  unlock();
  return found;
}

job* job::awaited() noexcept {
  job* current = this;
  current->hold();
  for (;;) {
    const std::uint64_t bits = current->word();
    if ((bits & job_bits::aliased) == 0 || (bits & job_bits::ready) != 0) return current;
    current->lock();
    job* next = current->target();
    next->hold();
    current->unlock();
    current->drop();
    current = next;
  }
}

void job::destroy() noexcept {
  constexpr std::uint64_t has_more =
      job_bits::failed | job_bits::aliased | job_bits::extra | job_bits::named | job_bits::recorded;
  if (ops->drop_value == nullptr && (word() & has_more) == 0) {
    const std::size_t size = ops->size;
    void* const block = reinterpret_cast<char*>(this) - ops->front;
    this->~job();
    free_block(block, size);
    return;
  }
  if (destroying) {
    waiters_ = reinterpret_cast<waiter*>(doomed);
    doomed = this;
    return;
  }
  destroying = true;
  // A user's destructor may take long or wait for other work: meanwhile this worker, which may have
  // announced itself before it finished the job, must not count as one that searches.
  executor::retract_search();
  job* next = this;
  while (next != nullptr) {
    job* const dying = next;
    const std::uint64_t bits = dying->word();
    const bool is_named = (bits & job_bits::named) != 0;
    MANTA_CHECK_VALUE(is_named || (bits & job_bits::ready) != 0, bits);
    if ((bits & (job_bits::named | job_bits::recorded)) != 0) tell_gone(dying, bits);
    if ((bits & job_bits::ready) == 0 || (bits & job_bits::late) != 0) {
      // Nobody wanted the value, so it never came. Or the error goes with the extra; its runner has
      // discarded what it made.
    } else if ((bits & job_bits::failed) != 0) {
      dying->failure().~error();
    } else if ((bits & job_bits::aliased) != 0) {
      dying->target()->drop();
    } else if (dying->ops->drop_value != nullptr) {
      dying->ops->drop_value(dying);
    }
    dying->release_block();
    next = doomed;
    if (next != nullptr) doomed = reinterpret_cast<job*>(next->waiters_);
  }
  destroying = false;
}

job::destroy_later::destroy_later() noexcept : was_destroying(std::exchange(destroying, true)) {}

job::destroy_later::~destroy_later() {
  destroying = was_destroying;
  job* const first = doomed;
  if (destroying || first == nullptr) return;
  doomed = reinterpret_cast<job*>(first->waiters_);
  first->destroy();  // and the others
}

void job::release_block() noexcept {
  std::size_t size = ops->size;
  char* block = reinterpret_cast<char*>(this) - ops->front;
  if (call_extra* const with = extra()) {
    std::destroy_at(with);
    size += extra_size;
    block -= extra_size;
  }
  this->~job();
  free_block(block, size);
}

}  // namespace manta::inline v0::exec
