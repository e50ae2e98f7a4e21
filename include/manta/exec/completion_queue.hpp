// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/parker.hpp>

// Jobs in the order in which they end, for one consumer.
//
// Problem. A loop over `wait` that takes one of n futures at a time looks at n, n - 1, ... of them:
// quadratic, and each round registers and removes n waiters. A million futures need a way whose
// cost is linear in total.
//
// Idea. One waiter node for each job, registered once. A job that ends pushes its node on a stack;
// the consumer takes the whole stack and turns it round, so that who came first is served first.
//
//   head_   meaning                        push does              the consumer does
//   null    nothing new                    CAS to n               CAS to asleep, then sleeps
//   n -> .  ended jobs, newest first       CAS to n' -> n         exchange(null), turns it round
//   asleep  the consumer sleeps            CAS to n, signals      at its deadline, CAS to null
//
//   job 1 --ends--> [node 1]--.
//   job 2 --ends--> [node 2]---+--> head_ --take all, turn round--> ready_ --next()--> consumer
//   job 3 (ended before)       |         ready_ starts with those, in the order given
//
// Invariants
//   1. a node is in one place: a job's waiter list, the stack, ready_, or taken (job is null).
//   2. the consumer is signalled only by who replaced `asleep`, once; so it waits for that signal
//      before it sleeps again or goes.
//   3. before the nodes go, each one is taken, or removed from its job, or has come off the stack.
// Limits: 32 bytes a job; one consumer at a time.

namespace manta::inline v0::exec {

/// The jobs of a list as they end. Externally synchronised; the jobs may end on any thread.
class MANTA_API completion_queue {
 public:
  /// Takes over one hold of each job when it returns; none when it throws. Throws invalid_argument
  /// for null and for repeated jobs, std::bad_alloc.
  completion_queue(job* const* jobs, std::size_t n);
  /// Gives up the holds of the jobs that were not taken.
  ~completion_queue();
  completion_queue(const completion_queue&) = delete;
  completion_queue& operator=(const completion_queue&) = delete;

  /// The next job that has ended, with its hold; null when all were taken, or at the deadline.
  /// A worker lends its core while it sleeps. Throws self_wait when, without a deadline, all that
  /// is left are calls of the actor whose method asks.
  job* next(const base::deadline& deadline) {
    if (ready_ == nullptr && !refill(deadline)) return nullptr;
    node* const n = ready_;
    ready_ = static_cast<node*>(n->next);
    --left_;
    return n->take();
  }
  /// Jobs not taken yet.
  std::size_t left() const noexcept { return left_; }

 private:
  struct node : waiter {
    completion_queue* queue = nullptr;
    job* on = nullptr;
    job* take() noexcept { return std::exchange(on, nullptr); }
  };

  node* asleep() noexcept { return &asleep_; }
  void push(node* n) noexcept;
  bool refill(const base::deadline& deadline);
  bool take_all() noexcept;
  bool spin() noexcept;
  void refuse_self_wait();

  std::unique_ptr<node[]> nodes_;
  std::size_t count_;
  std::size_t left_;
  std::size_t hopeful_ = 0;  // before it, all were ready or self-waits when they were looked at
  node* ready_ = nullptr;    // linked, oldest first
  node asleep_;              // only its address
  alignas(64) std::atomic<node*> head_{nullptr};
  parker parker_;
};

}  // namespace manta::inline v0::exec
