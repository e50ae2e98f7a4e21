// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/wait_many.hpp>

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include <manta/base/pause.hpp>
#include <manta/exec/executor.hpp>

#include "repeats.hpp"

namespace manta::inline v0::exec {

namespace {

bool has_failed(job* j) noexcept {
  return j->is_ready() && (j->outcome()->word() & job_bits::failed) != 0;
}

// Counts down from many jobs to one sleeping thread. Every listed node ends by being removed or by
// having fired, so the group is free to go when its owner has made sure of that.
class wait_group {
 public:
  wait_group(std::size_t nodes, std::int64_t wanted, bool ends_at_failure = false)
      : nodes_(nodes), missing_(wanted), ends_at_failure_(ends_at_failure) {}

  /// Counts the job at once when it is ready.
  void add(std::size_t at, job* j) {
    node& n = nodes_[at];
    n.group = this;
    n.on = j;
    n.fire = [](waiter* w) noexcept {
      auto* const self = static_cast<node*>(w);
      self->group->count(self);
    };
    if (!j->add_waiter(&n)) count(&n);
  }
  bool sleep(const base::deadline& deadline) { return executor::sleep(parker_, deadline); }

  /// Takes back what has not fired and waits out what is firing just now.
  void leave() {
    for (node& n : nodes_) {
      if (n.on == nullptr || n.done.load(std::memory_order_acquire)) continue;
      if (n.on->remove_waiter(&n)) continue;
      wait_until([&n] { return n.done.load(std::memory_order_acquire); });
    }
    // The last count may still be about to signal; it holds no node any more but this object.
    wait_until([this] { return signals_.load(std::memory_order_acquire) == 0; });
  }

 private:
  struct node : waiter {
    wait_group* group = nullptr;
    job* on = nullptr;
    std::atomic<bool> done{false};
  };

  // For what takes a few instructions, unless who executes them has lost its core.
  template <class Holds>
  static void wait_until(Holds holds) noexcept {
    for (int spins = 0; !holds(); ++spins) {
      if (spins < 64) {
        base::pause();
      } else {
        sched_yield();
      }
    }
  }

  void count(node* n) noexcept {
    signals_.fetch_add(1, std::memory_order_acq_rel);
    if (ends_at_failure_ && has_failed(n->on)) {
      if (!told_failure_.exchange(true, std::memory_order_acq_rel)) parker_.signal();
    } else if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      parker_.signal();
    }
    n->done.store(true, std::memory_order_release);
    signals_.fetch_sub(1, std::memory_order_release);
  }

  std::vector<node> nodes_;
  std::atomic<std::int64_t> missing_;
  std::atomic<int> signals_{0};
  std::atomic<bool> told_failure_{false};
  const bool ends_at_failure_;
  parker parker_;
};

void check_list(job* const* jobs, std::size_t n, std::size_t wanted) {
  const bool is_known = is_rest_of_remembered(jobs, n);
  for (std::size_t i = 0; i < n && !is_known; ++i) {
    if (jobs[i] != nullptr) continue;
    raise(errc::invalid_argument,
          fmt::format("wait: future {} of {} is empty; pass futures that calls returned", i, n));
  }
  if (wanted > n) {
    raise(errc::invalid_argument,
          fmt::format("wait: asked for {} of {} futures; ask for at most as many as there are",
                      wanted, n));
  }
  if (is_known) return;
  if (has_repeats(jobs, n)) {
    raise(errc::invalid_argument,
          fmt::format("wait: a future is listed twice among {}; list each once", n));
  }
  remember(jobs, n);
}

ready_prefix look(job* const* jobs, std::size_t n, std::size_t wanted) noexcept {
  ready_prefix found;
  for (; found.end < n && found.count < wanted; ++found.end) {
    if (jobs[found.end]->is_ready()) ++found.count;
  }
  return found;
}

}  // namespace

ready_prefix wait_many(job* const* jobs, std::size_t n, std::size_t wanted,
                       const std::optional<duration>& timeout) {
  if (n == 0) return {};
  check_list(jobs, n, wanted);
  ready_prefix found = look(jobs, n, wanted);
  if (found.count >= wanted || (timeout && *timeout <= duration::zero())) return found;
  base::deadline deadline;
  if (timeout) {
    deadline = base::after(*timeout);
  } else if (this_thread.current != nullptr && this_thread.current->running != nullptr) {
    const auto never = std::count_if(jobs, jobs + n, executor::is_self_wait);
    if (n - static_cast<std::size_t>(never) < wanted) executor::raise_self_wait();
  }
  wait_group group(n, static_cast<std::int64_t>(wanted));
  for (std::size_t i = 0; i < n; ++i) group.add(i, jobs[i]);
  group.sleep(deadline);
  group.leave();
  return look(jobs, n, wanted);
}

void wait_all_or_failure(job* const* jobs, std::size_t n, duration timeout) {
  const base::time_point deadline = base::after(timeout);
  const auto raise_failure = [jobs, n] {
    for (std::size_t i = 0; i < n; ++i) {
      if (has_failed(jobs[i])) jobs[i]->outcome()->failure().raise();
    }
  };
  const auto pending = [jobs, n] {
    return std::count_if(jobs, jobs + n, [](job* j) { return !j->is_ready(); });
  };
  for (std::size_t i = 0; i < n; ++i) {
    if (jobs[i] != nullptr) continue;
    raise(errc::invalid_argument,
          fmt::format("get: future {} of {} is empty; pass futures that calls returned", i, n));
  }
  raise_failure();
  if (pending() == 0) return;
  if (timeout > duration::zero()) {
    wait_group group(n, static_cast<std::int64_t>(n), true);
    for (std::size_t i = 0; i < n; ++i) group.add(i, jobs[i]);
    group.sleep(deadline);
    group.leave();
    raise_failure();
  }
  const auto left = pending();
  if (left == 0) return;
  raise(errc::timed_out,
        fmt::format("get of {} futures: {} not ready after {} ms; wait longer or use wait", n, left,
                    std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count()));
}

}  // namespace manta::inline v0::exec
