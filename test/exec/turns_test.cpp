// SPDX-License-Identifier: Apache-2.0
// Whose tasks a worker comes to: its own go first, and others' all the same.
#include <atomic>
#include <chrono>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace turns_test {

namespace {

struct chains {
  std::atomic<bool> is_over{false};
  std::atomic<int> ran{0};
};

// Makes one more of itself: the queue it is in stays as long as it is.
void link_of(chains* all) {
  all->ran.fetch_add(1);
  if (!all->is_over.load()) static_cast<void>(manta::async([all] { link_of(all); }));
}

manta::config one_worker() {
  manta::config out;
  out.workers = 1;
  return out;
}

}  // namespace

// Of tasks that another thread, or another node, has brought here; the worker's own queue is longer
// than what it looks at to see whether a batch of others' fits in.
TEST_CASE("tasks that keep making tasks do not keep others' from a worker", "[executor]") {
  for (const int length : {3, 100, 1000}) {
    CAPTURE(length);
    chains all;
    const manta::runtime rt(one_worker());
    const manta::future<void> begun = manta::async([&all, length] {
      for (int i = 0; i < length; ++i) {
        static_cast<void>(manta::async([&all] { link_of(&all); }));
      }
    });
    REQUIRE(manta_test::happens([&] { return all.ran.load() > 10 * length; }));
    const manta::future<void> other = manta::async([&all] { all.is_over.store(true); });
    CHECK(manta_test::happens([&] { return all.is_over.load(); }));
    all.is_over.store(true);
  }
}

}  // namespace turns_test
