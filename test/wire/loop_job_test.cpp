// SPDX-License-Identifier: Apache-2.0
#include "wire/loop_job.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace loop_job_test {

namespace {

using namespace std::chrono_literals;
using manta_test::happens;
namespace base = manta::base;
namespace wire = manta::wire;

}  // namespace

TEST_CASE("work on a loop runs when asked and when due, never too early", "[wire]") {
  const auto loop = *wire::loop::start({});
  std::atomic<int> runs{0};
  std::atomic<bool> was_early{false};
  std::atomic<bool> is_timed{false};
  base::time_point due{};
  wire::loop_job job(*loop, [&]() -> base::deadline {
    if (due != base::time_point{} && base::now() < due) was_early = true;
    ++runs;
    if (!is_timed) return std::nullopt;
    due = base::now() + 3ms;
    return due;
  });
  CHECK(happens([&] { return runs == 1; }));
  std::this_thread::sleep_for(20ms);  // nobody asks, and it is not due
  CHECK(runs == 1);
  job.ask();
  CHECK(happens([&] { return runs == 2; }));
  is_timed = true;
  job.ask();
  CHECK(happens([&] { return runs >= 8; }));
  CHECK_FALSE(was_early);
  job.stop();
  const int last = runs;
  job.ask();
  std::this_thread::sleep_for(20ms);
  CHECK(runs == last);
}

TEST_CASE("many who ask have work run once more at least, and all of what they did is seen",
          "[wire]") {
  const auto loop = *wire::loop::start({});
  std::atomic<std::uint64_t> told{0};
  std::atomic<std::uint64_t> seen{0};
  wire::loop_job job(*loop, [&]() -> base::deadline {
    seen = told.load();
    return std::nullopt;
  });
  std::vector<std::thread> all;
  for (int i = 0; i < 4; ++i) {
    all.emplace_back([&] {
      for (int n = 0; n < 5000; ++n) {
        ++told;
        job.ask();
      }
    });
  }
  for (std::thread& one : all) one.join();
  CHECK(happens([&] { return seen == 20'000; }));
}

TEST_CASE("who stops work waits for it, and a loop may go first", "[wire]") {
  auto loop = *wire::loop::start({});
  std::atomic<bool> is_inside{false};
  std::atomic<bool> may_leave{false};
  std::atomic<bool> has_left{false};
  auto job = std::make_unique<wire::loop_job>(*loop, [&]() -> base::deadline {
    is_inside = true;
    while (!may_leave) std::this_thread::yield();
    has_left = true;
    return std::nullopt;
  });
  REQUIRE(happens([&] { return is_inside.load(); }));
  std::thread helper([&] {
    std::this_thread::sleep_for(5ms);
    may_leave = true;
  });
  job->stop();
  CHECK(has_left);
  helper.join();
  wire::loop_job other(*loop, [] { return base::deadline(); });
  loop.reset();
  other.ask();
  other.stop();
}

}  // namespace loop_job_test
