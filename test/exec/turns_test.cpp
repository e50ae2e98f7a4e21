// SPDX-License-Identifier: Apache-2.0
// Whose tasks a worker comes to: its own go first, and others' all the same.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include <manta/exec/theft.hpp>
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

namespace {

int doubled(int x) { return 2 * x; }

// All of them run in place, the older ones first.
struct crowd {
  bool adds(int count) {
    std::vector<manta::future<int>> all;
    all.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) all.push_back(manta::remote<doubled>(i));
    bool is = true;
    for (int i = 0; i < count; ++i) is = all[static_cast<std::size_t>(i)].get() == 2 * i && is;
    return is;
  }
};

}  // namespace

// A worker looks at others' queues now and then, and finds a call there that leaves ten thousand.
TEST_CASE("entries of tasks that calls ran in place go before more calls leave some",
          "[executor]") {
  const manta::runtime rt(one_worker());
  std::vector<manta::actor<crowd>> all;
  for (int i = 0; i < 4; ++i) all.push_back(manta::spawn<crowd>());
  const int each = manta_test::scaled(10'000);
  std::uint64_t most = 0;
  bool are_right = true;
  for (int round = 0; round < 30; ++round) {
    std::vector<manta::future<bool>> done;
    for (const auto& one : all) done.push_back(manta::remote<&crowd::adds>(one, int{each}));
    for (const auto& one : done) are_right = one.get() && are_right;
    most = std::max(most, manta::exec::measure_queues().queued);
  }
  CHECK(are_right);
  // Those of a call or two; of all calls they would be 120 times as many.
  CHECK(most <= 12 * static_cast<std::uint64_t>(each));
}

}  // namespace turns_test
