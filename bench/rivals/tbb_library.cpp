// SPDX-License-Identifier: Apache-2.0
//
// oneTBB's bounded queue.
#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/concurrent_queue.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_reduce.h>

#include <functional>
#include <memory>
#include <vector>

#include "rivals/channel_rows.hpp"

namespace bench {
namespace {

namespace tbb = oneapi::tbb;

class bounded_queue {
 public:
  explicit bounded_queue(std::size_t capacity) {
    items_.set_capacity(static_cast<std::ptrdiff_t>(capacity));
  }
  void send(std::uint64_t x) { items_.push(x); }
  std::uint64_t receive() {
    std::uint64_t x = 0;
    items_.pop(x);
    return x;
  }

 private:
  tbb::concurrent_bounded_queue<std::uint64_t> items_;
};

contestant summed(const char* name, double (*sum_of)(const std::vector<double>&)) {
  contestant c{reduced, name};
  c.start = [=](const plan& how) -> body {
    auto limit = std::make_shared<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                       static_cast<std::size_t>(how.cpus));
    auto all = std::make_shared<std::vector<double>>(how.count(100 * million), 1.0);
    return [=](const turn&) {
      keep(limit);
      return time_per_operation(unit::milliseconds, 1, [&] {
        check(sum_of(*all) == static_cast<double>(all->size()), "sum of doubles");
      });
    };
  };
  return c;
}

template <class... Partitioner>
double parallel_sum(const std::vector<double>& all) {
  using range = tbb::blocked_range<const double*>;
  return tbb::parallel_reduce(
      range(all.data(), all.data() + all.size()), 0.0,
      [](const range& part, double sum) {
        for (const double x : part) sum += x;
        return sum;
      },
      std::plus<>(), Partitioner()...);
}

}  // namespace

void add_tbb_library(suite& s) {
  s.add(summed("oneTBB parallel_reduce", parallel_sum<>));
  s.add(
      summed("oneTBB parallel_reduce, static_partitioner", parallel_sum<tbb::static_partitioner>));
  s.add(sent_alone<bounded_queue>("oneTBB concurrent_bounded_queue"));
  s.add(sent_across<bounded_queue>("oneTBB concurrent_bounded_queue"));
}

}  // namespace bench
