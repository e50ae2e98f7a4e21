// SPDX-License-Identifier: Apache-2.0
//
// The least that a pool with typed futures can be: what there is to beat.
//
// One allocation holds the function, the result and the flag; the future owns it. Submitting is one
// push on a lock-free list; a worker takes the whole list at once and runs it oldest first. No
// dataflow, no errors, no nesting, no stealing, no cancellation: a task must not throw, and a
// future must be got before the pool ends.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace bench {

struct minimal_job {
  enum state : std::uint32_t { pending, awaited, done };
  explicit minimal_job(void (*how)(minimal_job*)) : run(how) {}
  virtual ~minimal_job() = default;
  minimal_job(const minimal_job&) = delete;
  minimal_job& operator=(const minimal_job&) = delete;

  // The owner may free the job right after the exchange; notifying uses its address only.
  void finish() {
    if (flag.exchange(done, std::memory_order_acq_rel) == awaited) flag.notify_one();
  }
  void await() {
    for (int spin = 0; spin < 2000; ++spin) {
      if (flag.load(std::memory_order_acquire) == done) return;
      __builtin_ia32_pause();
    }
    std::uint32_t seen = pending;
    flag.compare_exchange_strong(seen, awaited, std::memory_order_acq_rel);
    while (flag.load(std::memory_order_acquire) != done) flag.wait(awaited);
  }

  void (*run)(minimal_job*);
  std::atomic<std::uint32_t> flag{pending};
};

template <class R>
struct minimal_cell : minimal_job {
  using minimal_job::minimal_job;
  std::optional<R> value;
};

template <class R>
class minimal_future {
 public:
  explicit minimal_future(minimal_cell<R>* cell) : cell_(cell) {}
  R get() {
    cell_->await();
    R value = std::move(*cell_->value);
    cell_.reset();
    return value;
  }

 private:
  std::unique_ptr<minimal_cell<R>> cell_;
};

class minimal_pool {
 public:
  explicit minimal_pool(int threads) {
    for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }
  ~minimal_pool() {
    stop_.store(true);
    epoch_.fetch_add(1);
    epoch_.notify_all();
    for (std::thread& t : workers_) t.join();
  }
  minimal_pool(const minimal_pool&) = delete;
  minimal_pool& operator=(const minimal_pool&) = delete;

  template <class F>
  auto submit(F function) {
    using R = std::invoke_result_t<F&>;
    struct task final : minimal_cell<R> {
      explicit task(F f) : minimal_cell<R>(&task::invoke), function(std::move(f)) {}
      static void invoke(minimal_job* job) {
        auto* self = static_cast<task*>(job);
        self->value.emplace(self->function());
        self->finish();
      }
      F function;
    };
    auto* made = new task(std::move(function));
    push(made);
    return minimal_future<R>(made);
  }

  // Without a future: the job frees itself.
  template <class F>
  void post(F function) {
    struct task final : minimal_job {
      explicit task(F f) : minimal_job(&task::invoke), function(std::move(f)) {}
      static void invoke(minimal_job* job) {
        const std::unique_ptr<task> self(static_cast<task*>(job));
        self->function();
      }
      F function;
    };
    push(new task(std::move(function)));
  }

 private:
  void lock() {
    while (locked_.exchange(true, std::memory_order_acquire)) {
      while (locked_.load(std::memory_order_relaxed)) __builtin_ia32_pause();
    }
  }
  void unlock() { locked_.store(false, std::memory_order_release); }

  void push(minimal_job* job) {
    lock();
    queue_.push_back(job);
    has_jobs_.store(true, std::memory_order_relaxed);
    unlock();
    // Pairs with the sleeper's increment before its last look: one of the two sees the other.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_relaxed) == 0) return;
    epoch_.fetch_add(1);
    epoch_.notify_one();
  }

  bool take_all(std::vector<minimal_job*>& into) {
    if (!has_jobs_.load(std::memory_order_relaxed)) return false;
    lock();
    into.swap(queue_);
    has_jobs_.store(false, std::memory_order_relaxed);
    unlock();
    return !into.empty();
  }

  // Looks less and less often, so that the submitter keeps its cache line and a batch can grow.
  bool find_jobs(std::vector<minimal_job*>& into) {
    for (int round = 0; round < 200; ++round) {
      if (take_all(into)) return true;
      for (int i = 0; i < std::min(round + 1, 16); ++i) __builtin_ia32_pause();
    }
    return false;
  }

  void work() {
    constexpr std::size_t ahead = 4;
    std::vector<minimal_job*> jobs;
    while (!stop_.load(std::memory_order_relaxed)) {
      if (!find_jobs(jobs)) sleep();
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        if (i + ahead < jobs.size()) __builtin_prefetch(jobs[i + ahead], 1);
        jobs[i]->run(jobs[i]);
      }
      jobs.clear();
    }
  }

  void sleep() {
    const std::uint32_t seen = epoch_.load();
    sleepers_.fetch_add(1);
    if (!has_jobs_.load() && !stop_.load()) epoch_.wait(seen);
    sleepers_.fetch_sub(1);
  }

  alignas(128) std::atomic<bool> locked_{false};
  std::atomic<bool> has_jobs_{false};
  std::vector<minimal_job*> queue_;
  alignas(128) std::atomic<std::uint32_t> epoch_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace bench
