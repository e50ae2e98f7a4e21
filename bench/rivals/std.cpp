// SPDX-License-Identifier: Apache-2.0
//
// What the standard library gives: std::async, and the pool that everybody writes first.
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>

#include "rivals/pool_rows.hpp"

namespace bench {
namespace {

class async_pool {
 public:
  explicit async_pool(int) {}
  template <class F>
  auto submit(F function) {
    return std::async(std::launch::async, std::move(function));
  }
};

// A mutex, a deque of packaged_task and a condition variable.
class packaged_pool {
 public:
  explicit packaged_pool(int threads) {
    for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }
  ~packaged_pool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& t : workers_) t.join();
  }
  packaged_pool(const packaged_pool&) = delete;
  packaged_pool& operator=(const packaged_pool&) = delete;

  template <class F>
  auto submit(F function) {
    std::packaged_task<std::invoke_result_t<F&>()> task(std::move(function));
    auto future = task.get_future();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      queue_.emplace_back([t = std::move(task)]() mutable { t(); });
    }
    changed_.notify_one();
    return future;
  }

 private:
  void work() {
    for (;;) {
      std::packaged_task<void()> next;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (queue_.empty()) return;
        next = std::move(queue_.front());
        queue_.pop_front();
      }
      next();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> queue_;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace

void add_std(suite& s) {
  for (int threads : {1, 2}) {
    const std::string name = "packaged_task pool, " + std::to_string(threads) + " thr";
    s.add(many<std::uint64_t, packaged_pool>(name, threads, true));
    s.add(two_at_once<packaged_pool>(name, threads, false));
    s.add(one_by_one<packaged_pool>(one, name, threads, 20000));
    s.add(queued<packaged_pool>(name, threads, false));
  }
  const std::string name = "packaged_task pool, 1 thr";
  s.add(many<std::uint8_t, packaged_pool>(name, 1, false));
  s.add(many<bytes_64, packaged_pool>(name, 1, false));
  s.add(many<std::string, packaged_pool>(name, 1, false));
  s.add(one_by_one<packaged_pool>(one_asleep, name, 1, 0));
  s.add(many<std::uint64_t, async_pool>("std::async, 20 k tasks", 0, false, 20000));
  s.add(one_by_one<async_pool>(one, "std::async", 0, 2000));
}

}  // namespace bench
