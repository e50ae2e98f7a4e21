// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <optional>
#include <stop_token>
#include <thread>

#include <catch2/catch.hpp>

#include <manta/exec/context.hpp>
#include <manta/exec/parker.hpp>

#include "node/reading_stop.hpp"

using manta::node::reading_stop;

TEST_CASE("a thread that reads nothing has no stop", "[node][reading_stop]") {
  CHECK_FALSE(reading_stop::of_this_thread().stop_possible());
  { const reading_stop one; }
  CHECK_FALSE(reading_stop::of_this_thread().stop_possible());
}

TEST_CASE("who is asked before it waits does not wait, and later neither", "[node][reading_stop]") {
  reading_stop one;
  CHECK_FALSE(one.is_asked());
  one.ask();
  CHECK(one.is_asked());
  CHECK(reading_stop::of_this_thread().stop_requested());
  CHECK(reading_stop::of_this_thread().stop_requested());
}

TEST_CASE("the innermost reading is what waits", "[node][reading_stop]") {
  reading_stop outer;
  const std::stop_token of_outer = reading_stop::of_this_thread();
  {
    reading_stop inner;
    const std::stop_token of_inner = reading_stop::of_this_thread();
    inner.ask();
    CHECK(of_inner.stop_requested());
    CHECK_FALSE(of_outer.stop_requested());
  }
  CHECK(reading_stop::of_this_thread() == of_outer);
  outer.ask();
  CHECK(of_outer.stop_requested());
}

// What such a job computes, others wait for, too.
TEST_CASE("a job that runs on a reader's stack has no stop of the reading",
          "[node][reading_stop]") {
  reading_stop one;
  const std::stop_token of_one = reading_stop::of_this_thread();
  {
    manta::exec::context job;
    const manta::exec::context_scope runs(job);
    CHECK_FALSE(reading_stop::of_this_thread().stop_possible());
    const reading_stop inner;
    CHECK(reading_stop::of_this_thread().stop_possible());
    CHECK_FALSE(reading_stop::of_this_thread() == of_one);
  }
  CHECK(reading_stop::of_this_thread() == of_one);
}

// Were one of the two lost, the reader would sleep for ever.
TEST_CASE("a wait that begins as it is asked to stop is woken", "[node][reading_stop]") {
  for (int i = 0; i < 500; ++i) {
    std::atomic<reading_stop*> shown{nullptr};
    std::atomic<bool> is_over{false};
    std::thread reader([&] {
      reading_stop one;
      shown.store(&one);
      manta::exec::parker nap;
      {
        const std::stop_callback wakes(reading_stop::of_this_thread(), [&nap] { nap.signal(); });
        nap.park();
      }
      while (!is_over.load()) std::this_thread::yield();  // as who shows it takes it back
    });
    while (shown.load() == nullptr) std::this_thread::yield();
    shown.load()->ask();
    is_over.store(true);
    reader.join();
  }
}
