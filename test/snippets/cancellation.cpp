// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <stop_token>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// Stopping work: by hand, and by time. A thread can't be ended from outside, so work that runs is
// asked to stop and has to look.

using namespace std::chrono_literals;

namespace {

std::promise<void> begun;

// Takes a token as its last parameter: the engine passes the task's own.
int search(int limit, std::stop_token stop) {
  int steps = 0;
  while (!stop.stop_requested() && steps < limit) ++steps;
  return steps;
}
// Asks by itself; check throws manta::cancelled.
void work_until_told() {
  begun.set_value();
  for (;;) manta::this_task::check();
}
bool sleeps_until_told() {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait(lock, manta::this_task::stop_token(), [] { return false; });  // woken by the stop
  return manta::this_task::is_cancelled();
}

}  // namespace

TEST_CASE("cancellation: a running task is asked to stop") {
  manta::runtime rt({.workers = 2});
  begun = {};
  manta::future<void> f = manta::remote<work_until_told>();
  begun.get_future().wait();
  CHECK(manta::cancel(f));  // true: it had not ended
  CHECK_THROWS_AS(f.get(), manta::cancelled);
  CHECK_FALSE(manta::cancel(f));
}

TEST_CASE("cancellation: a function that takes a token gets the task's") {
  manta::runtime rt;
  CHECK(manta::remote<search>(10).get() == 10);  // called without the token
}

TEST_CASE("cancellation: many at once, and whatever they called") {
  manta::runtime rt;
  std::vector<manta::future<bool>> all;
  for (int i = 0; i < 3; ++i) all.push_back(manta::remote<sleeps_until_told>());
  const manta::cancel_options with_children = {.recursive = true};  // the default
  CHECK(manta::cancel(all, with_children) == 3);
  // Ending a thread by force needs isolated workers.
  const manta::future<int> one = manta::put(1);
  CHECK_THROWS_AS(manta::cancel(one, {.force = true}), manta::unsupported);
}

TEST_CASE("cancellation: a deadline for one call") {
  manta::runtime rt;
  auto f = manta::remote<sleeps_until_told>.with({.timeout = 1ms})();
  CHECK_THROWS_AS(f.get(), manta::timed_out);  // and the task is asked to stop
}

TEST_CASE("cancellation: a deadline for all calls of a scope, and what those call") {
  manta::runtime rt;
  manta::future<bool> f;
  {
    const manta::deadline_scope within(1ms);
    f = manta::async([] { return manta::remote<sleeps_until_told>().get(); });
  }
  CHECK_THROWS_AS(f.get(), manta::timed_out);
}
