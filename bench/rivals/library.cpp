// SPDX-License-Identifier: Apache-2.0
//
// What one writes without a library: a bounded queue of a mutex, two conditions and a std::deque.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <numeric>
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
  s.add(summed_alone());
  s.add(sent_alone<locked_queue>("mutex + std::deque"));
  s.add(sent_across<locked_queue>("mutex + std::deque"));
}

}  // namespace bench
