// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/job.hpp>

#include <sched.h>

#include <mutex>
#include <new>

#include <manta/base/check.hpp>
#include <manta/base/pause.hpp>
#include <manta/exec/block_pool.hpp>
#include <manta/exec/executor.hpp>

namespace manta::inline v0::exec {

namespace {

// A value may hold the last future of another job, whose value holds another, and so on: jobs that
// die while one is being destroyed queue up here instead of recursing. Linked through waiters_.
constinit thread_local job* doomed = nullptr;
constinit thread_local bool destroying = false;

// Aliases are made one at a time, so that two jobs that delegate to each other see one another.
std::mutex& alias_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
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

bool job::add_waiter(waiter* w) noexcept {
  lock();
  if ((word_.load(std::memory_order_relaxed) & job_bits::ready) != 0) {
    unlock();
    return false;
  }
  w->next = waiters_;
  waiters_ = w;
  word_.fetch_or(job_bits::waiters, std::memory_order_relaxed);
  unlock();
  return true;
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
  if (ops->drop_value == nullptr && (word() & (job_bits::failed | job_bits::aliased)) == 0) {
    release_block();
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
    MANTA_CHECK_VALUE((bits & job_bits::ready) != 0, bits);
    if ((bits & job_bits::failed) != 0) {
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

void job::destroy_doomed() noexcept {
  job* const first = doomed;
  if (first == nullptr) return;
  doomed = reinterpret_cast<job*>(first->waiters_);
  first->destroy();  // and the others
}

void job::release_block() noexcept {
  const std::size_t size = ops->size;
  void* const block = reinterpret_cast<char*>(this) - ops->front;
  this->~job();
  free_block(block, size);
}

namespace {

void fire_alias(waiter* w) noexcept {
  auto* node = static_cast<alias_node*>(w);
  node->self->finish(job_bits::ready, 1);
}

// What dies meanwhile is destroyed at the scope's end: a user's destructor must not run under a
// lock.
struct destroy_later {
  const bool was_destroying = std::exchange(destroying, true);
  ~destroy_later() {
    destroying = was_destroying;
    if (!destroying) job::destroy_doomed();
  }
};

}  // namespace

// The chain stays short: what waited on `from` as an alias moves on to from's target, and aliases
// that nobody holds any more are dropped instead of moved, so a million tail calls need two jobs.
void make_alias(job* from) noexcept {
  const destroy_later after;
  const std::lock_guard guard(alias_mutex());
  job* const first = from->target();
  job* end = first->awaited();
  if (end->is_ready()) {  // a resolved alias is followed to what has the value
    job* const last = end->outcome();
    last->hold();
    end->drop();
    end = last;
  }
  first->drop();
  if (end == from) {
    end->drop();
    new (from->slot(1)) error(
        errc::invalid_argument,
        "delegation cycle: a task returned a future that waits for the task itself; return a value "
        "or a future of another task");
    from->finish(job_bits::claimed | job_bits::ready | job_bits::failed, 1);
    return;
  }
  alias_node* const node = from->ops->alias(from);
  node->self = from;
  node->fire = fire_alias;

  waiter* moved = nullptr;
  from->lock();
  from->target() = end;
  waiter** link = &from->waiters_;
  while (*link != nullptr) {
    waiter* const w = *link;
    if (w->fire == fire_alias) {
      *link = w->next;
      w->next = moved;
      moved = w;
    } else {
      link = &w->next;
    }
  }
  from->word_.fetch_or(job_bits::aliased | job_bits::claimed, std::memory_order_release);
  from->unlock();

  while (moved != nullptr) {
    waiter* const next = moved->next;
    auto* other = static_cast<alias_node*>(moved);
    job* const alias = other->self;
    alias->lock();
    job* const passed = std::exchange(alias->target(), end);
    end->hold();
    alias->unlock();
    passed->drop();
    // A sole holder is the node itself: nobody will ever ask this alias.
    const bool is_forgotten = alias->is_unique();
    if (is_forgotten || !end->add_waiter(other)) alias->finish(job_bits::ready, 1);
    moved = next;
  }
  if (!end->add_waiter(node)) from->finish(job_bits::ready, 1);
}

}  // namespace manta::inline v0::exec
