// SPDX-License-Identifier: Apache-2.0
//
// oneTBB's bounded queue.
#include <oneapi/tbb/concurrent_queue.h>

#include "rivals/channel_rows.hpp"

namespace bench {
namespace {

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
  oneapi::tbb::concurrent_bounded_queue<std::uint64_t> items_;
};

}  // namespace

void add_tbb_library(suite& s) {
  s.add(sent_alone<bounded_queue>("oneTBB concurrent_bounded_queue"));
  s.add(sent_across<bounded_queue>("oneTBB concurrent_bounded_queue"));
}

}  // namespace bench
