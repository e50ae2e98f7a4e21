// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

// A thread that does one thing after the other, begun with the first of them.
//
// Threads: any may push; the destructor lets what was pushed be done, and waits for it.

namespace manta::inline v0::store {

class lane {
 public:
  lane() = default;
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;
  ~lane() { stop(); }

  /// Nothing more is done after stop().
  void push(std::function<void()> what) {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return;
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    all_.push_back(std::move(what));
    rung_.notify_one();
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
      rung_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      rung_.wait(lock, [this] { return is_stopped_ || !all_.empty(); });
      if (all_.empty()) return;
      const std::function<void()> next = std::move(all_.front());
      all_.pop_front();
      lock.unlock();
      next();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable rung_;
  std::deque<std::function<void()>> all_;
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace manta::inline v0::store
