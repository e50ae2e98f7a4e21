// SPDX-License-Identifier: Apache-2.0
//
// What one writes without a library: a bounded queue of a mutex, two conditions and a std::deque.
#include <condition_variable>
#include <coroutine>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "rivals/channel_rows.hpp"

namespace bench {
namespace {

class locked_queue {
 public:
  explicit locked_queue(std::size_t capacity) : capacity_(capacity) {}
  void send(std::uint64_t x) {
    {
      std::unique_lock lock(mutex_);
      has_room_.wait(lock, [this] { return items_.size() < capacity_; });
      items_.push_back(x);
    }
    has_items_.notify_one();
  }
  std::uint64_t receive() {
    std::uint64_t x = 0;
    {
      std::unique_lock lock(mutex_);
      has_items_.wait(lock, [this] { return !items_.empty(); });
      x = items_.front();
      items_.pop_front();
    }
    has_room_.notify_one();
    return x;
  }

 private:
  const std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable has_room_, has_items_;
  std::deque<std::uint64_t> items_;
};

// The least that a generator can be: its reader resumes it for each item.
class counter {
 public:
  struct promise_type {
    std::uint64_t item = 0;
    counter get_return_object() { return counter(handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(std::uint64_t x) noexcept {
      item = x;
      return {};
    }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  using handle = std::coroutine_handle<promise_type>;
  explicit counter(handle of) : of_(of) {}
  // Clang 14 moves what get_return_object gives.
  counter(counter&& other) noexcept : of_(std::exchange(other.of_, {})) {}
  counter& operator=(counter&&) = delete;
  ~counter() {
    if (of_) of_.destroy();
  }
  bool next() {
    of_.resume();
    return !of_.done();
  }
  std::uint64_t item() const { return of_.promise().item; }

 private:
  handle of_;
};

counter count_to(std::uint64_t end) {
  for (std::uint64_t i = 0; i < end; ++i) co_yield i;
}

contestant generated_by_hand() {
  contestant c{streamed, "C++20 generator by hand", side::reference};
  c.start = [](const plan& how) -> body {
    const std::size_t count = how.count(million);
    return [=](const turn&) {
      return time_per_operation(unit::nanoseconds, count, [&] {
        std::uint64_t sum = 0;
        for (counter items = count_to(count); items.next();) sum += items.item();
        check(sum == std::uint64_t{count} * (count - 1) / 2, "sum of the items");
      });
    };
  };
  return c;
}

contestant summed_alone() {
  contestant c{reduced, "one thread, std::accumulate", side::reference};
  c.start = [](const plan& how) -> body {
    auto all = std::make_shared<std::vector<double>>(how.count(100 * million), 1.0);
    return [=](const turn&) {
      return time_per_operation(unit::milliseconds, 1, [&] {
        const double sum = std::accumulate(all->begin(), all->end(), 0.0);
        check(sum == static_cast<double>(all->size()), "sum of doubles");
      });
    };
  };
  return c;
}

}  // namespace

void add_plain_library(suite& s) {
  s.add(generated_by_hand());
  s.add(summed_alone());
  s.add(sent_alone<locked_queue>("mutex + std::deque"));
  s.add(sent_across<locked_queue>("mutex + std::deque"));
}

}  // namespace bench
