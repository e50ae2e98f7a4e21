// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/completion_queue.hpp>

#include <fmt/format.h>

#include <manta/base/pause.hpp>
#include <manta/exec/executor.hpp>

#include "repeats.hpp"

namespace manta::inline v0::exec {

namespace {

// About 2 us: jobs that are under way end sooner than a thread falls asleep.
constexpr int looks_before_sleep = 64;

void check_list(job* const* jobs, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    if (jobs[i] != nullptr) continue;
    raise(errc::invalid_argument,
          fmt::format("as_completed: future {} of {} is empty; pass futures that calls returned", i,
                      n));
  }
  if (has_repeats(jobs, n)) {
    raise(errc::invalid_argument,
          fmt::format("as_completed: a future is listed twice among {}; list each once", n));
  }
}

}  // namespace

completion_queue::completion_queue(job* const* jobs, std::size_t n) : count_(n), left_(n) {
  check_list(jobs, n);
  nodes_ = std::make_unique<node[]>(n);
  node* last = nullptr;
  for (std::size_t i = 0; i < n; ++i) {
    node& each = nodes_[i];
    each.queue = this;
    each.on = jobs[i];
    each.fire = [](waiter* w) noexcept {
      auto* const self = static_cast<node*>(w);
      self->queue->push(self);
    };
    if (!each.on->is_ready() && each.on->add_waiter(&each)) continue;
    each.next = nullptr;
    if (last == nullptr) {
      ready_ = &each;
    } else {
      last->next = &each;
    }
    last = &each;
  }
}

completion_queue::~completion_queue() {
  while (ready_ != nullptr) {
    node* const n = std::exchange(ready_, static_cast<node*>(ready_->next));
    n->take()->drop();
    --left_;
  }
  // What is left is in a job's list, or was taken off it and comes to the stack: the job may be
  // dropped only when its node is out of reach.
  for (std::size_t i = 0; i < count_ && left_ > 0; ++i) {
    node& n = nodes_[i];
    if (n.on == nullptr || !n.on->remove_waiter(&n)) continue;
    n.take()->drop();
    --left_;
  }
  while (left_ > 0) {
    if (!take_all()) base::pause();
    while (ready_ != nullptr) {
      node* const n = std::exchange(ready_, static_cast<node*>(ready_->next));
      n->take()->drop();
      --left_;
    }
  }
}

// Release: the consumer, which takes the stack with acquire, sees the job ready and the link. After
// the exchange the node is the consumer's, and so is this object, unless the consumer sleeps: then
// it waits for the signal.
void completion_queue::push(node* n) noexcept {
  node* old = head_.load(std::memory_order_relaxed);
  do {
    n->next = old == asleep() ? nullptr : old;
  } while (
      !head_.compare_exchange_weak(old, n, std::memory_order_acq_rel, std::memory_order_relaxed));
  if (old == asleep()) parker_.signal();
}

// Appends to ready_, which is empty. The head is never `asleep` here.
bool completion_queue::take_all() noexcept {
  if (head_.load(std::memory_order_relaxed) == nullptr) return false;
  waiter* newest = head_.exchange(nullptr, std::memory_order_acquire);
  waiter* ordered = nullptr;
  while (newest != nullptr) {
    waiter* const then = std::exchange(newest->next, ordered);
    ordered = std::exchange(newest, then);
  }
  ready_ = static_cast<node*>(ordered);
  return true;
}

bool completion_queue::spin() noexcept {
  for (int i = 0; i < looks_before_sleep; ++i) {
    if (take_all()) return true;
    base::pause();
  }
  return false;
}

// True when ready_ has something.
bool completion_queue::refill(const base::deadline& deadline) {
  if (left_ == 0) return false;
  if (take_all()) return true;
  if (deadline && *deadline <= base::now()) return false;
  if (spin()) return true;
  if (!deadline) refuse_self_wait();
  parker_.reset();
  node* none = nullptr;
  if (head_.compare_exchange_strong(none, asleep(), std::memory_order_acq_rel)) {
    if (!executor::sleep(parker_, deadline)) {
      node* expected = asleep();
      if (head_.compare_exchange_strong(expected, nullptr, std::memory_order_acq_rel)) return false;
      parker_.park();  // somebody came at the last moment and is about to signal
    }
  }
  return take_all();
}

// In an actor's method: looks for a job that can end. Each is looked at once in total, as long as
// there is hope; only then all of them again, to be sure.
void completion_queue::refuse_self_wait() {
  const context* c = this_thread.current;
  while (c != nullptr && c->actor == nullptr) c = c->outer;
  if (c == nullptr) return;
  for (; hopeful_ < count_; ++hopeful_) {
    job* const j = nodes_[hopeful_].on;
    if (j != nullptr && !j->is_ready() && !executor::is_self_wait(j)) return;
  }
  for (std::size_t i = 0; i < count_; ++i) {
    job* const j = nodes_[i].on;
    if (j != nullptr && !executor::is_self_wait(j)) return;
  }
  executor::raise_self_wait();
}

}  // namespace manta::inline v0::exec
