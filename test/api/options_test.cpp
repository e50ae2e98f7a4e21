// SPDX-License-Identifier: Apache-2.0
// Options are checked at the call, and cores are counted.
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "api/support.hpp"

namespace options_test {

namespace {

int identity(int x) { return x; }
struct plain {
  int one() { return 1; }
};

std::string refusal(const manta::options& o) {
  return test::message_of<manta::invalid_argument>(
      [&o] { static_cast<void>(manta::remote<identity>.with(o)(1)); });
}
bool is_refused_with(const manta::options& o, const std::string& field) {
  return refusal(o).find(field) != std::string::npos &&
         refusal(o).find("another") == std::string::npos;
}

}  // namespace

TEST_CASE("options that can't be are refused at the call with field and value",
          "[options][stays:refused]") {
  const manta::runtime rt(test::two_workers());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(is_refused_with({.cpus = -1.0}, "cpus"));
  CHECK(is_refused_with({.cpus = -0.001}, "cpus"));
  CHECK(is_refused_with({.cpus = nan}, "cpus"));
  CHECK(is_refused_with({.cpus = -infinity}, "cpus"));
  CHECK(is_refused_with({.gpus = -1}, "gpus"));
  CHECK(is_refused_with({.gpus = nan}, "gpus"));
  CHECK(is_refused_with({.gpus = 1.5}, "gpus"));
  CHECK(is_refused_with({.gpus = infinity}, "gpus"));
  CHECK(is_refused_with({.max_retries = -1}, "max_retries"));
  CHECK(is_refused_with({.name = ""}, "name"));
  CHECK_THROWS_AS(manta::spawn<plain>.with({.gpus = -1})(), manta::invalid_argument);
  CHECK_THROWS_AS(manta::spawn<plain>.with({.gpus = 2.5})(), manta::invalid_argument);
  CHECK_THROWS_AS(manta::spawn<plain>.with({.max_restarts = -1})(), manta::invalid_argument);
  CHECK_THROWS_AS(manta::spawn<plain>.with({.name = ""})(), manta::invalid_argument);
}

TEST_CASE("options that are allowed do not change the result", "[options][anywhere]") {
  const manta::runtime rt(test::two_workers());
  CHECK(manta::remote<identity>.with({})(1).get() == 1);
  CHECK(manta::remote<identity>.with({.cpus = 0})(2).get() == 2);
  CHECK(manta::remote<identity>.with({.cpus = 0.5, .name = "half"})(3).get() == 3);
  CHECK(manta::remote<identity>.with({.cpus = 2})(4).get() == 4);
  CHECK(manta::remote<identity>.with({.max_retries = 0})(5).get() == 5);
  CHECK(manta::remote<identity>.with({.cpus = 1})(manta::remote<identity>(6)).get() == 6);
  const auto a = manta::spawn<plain>.with({.name = "shard"})();
  CHECK(manta::remote<&plain::one>(a).get() == 1);
}

TEST_CASE("what this machine can never give is infeasible at the call",
          "[options][stays:refused]") {
  const manta::runtime rt(test::two_workers());
  CHECK_THROWS_AS(manta::remote<identity>.with({.cpus = 2.001})(1), manta::infeasible);
  CHECK_THROWS_AS(manta::remote<identity>.with({.cpus = 1e9})(1), manta::infeasible);
  const std::string said = test::message_of<manta::infeasible>(
      [] { static_cast<void>(manta::remote<identity>.with({.cpus = 64})(1)); });
  CHECK(said.find("64") != std::string::npos);
  CHECK(said.find('2') != std::string::npos);
}

namespace {

test::everywhere<std::atomic<int>> running;
test::everywhere<std::atomic<int>> most;

int busy(int x) {
  const int now = ++*running;
  int seen = *most;
  while (now > seen && !most->compare_exchange_weak(seen, now)) {
  }
  volatile int sink = 0;
  for (int i = 0; i < 2000; ++i) sink = sink + i;
  --*running;
  return x;
}
/// Runs `tasks` tasks that need `cpus` each; answers how many ever ran at the same time.
int most_at_once(int tasks, double cpus) {
  *running = *most = 0;
  std::vector<manta::future<int>> all;
  for (int i = 0; i < tasks; ++i) {
    all.push_back(manta::remote<busy>.with({.cpus = cpus})(i));
  }
  for (int i = 0; i < tasks; ++i) {
    if (all[static_cast<std::size_t>(i)].get() != i) return -1;
  }
  return *most;
}

}  // namespace

TEST_CASE("tasks that name their cores never run beyond their sum",
          "[options][anywhere][amounts_home][stays:amounts]") {
  const manta::runtime rt(test::workers(4));
  const int whole = most_at_once(300, 4);
  CHECK(whole == 1);
  const int most_of_it = most_at_once(300, 2.001);
  CHECK(most_of_it == 1);
  const int halves = most_at_once(300, 2);
  CHECK(halves >= 1);
  CHECK(halves <= 2);
  const int thirds = most_at_once(300, 4.0 / 3);
  CHECK(thirds >= 1);
  CHECK(thirds <= 3);
}

namespace {

test::everywhere<std::atomic<int>> inside;
test::everywhere<std::atomic<int>> peak;

// Holds its worker, and with it its cores, until three are inside: a wait of manta's would lend
// them.
int hold_until_three(int) {
  const int now_inside = ++*inside;
  int seen = *peak;
  while (now_inside > seen && !peak->compare_exchange_weak(seen, now_inside)) {
  }
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (*peak < 3 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  --*inside;
  return 0;
}

}  // namespace

TEST_CASE("fractions of cores add up: of tasks of 2.5 cores, 8 cores run three",
          "[options][anywhere][amounts_home][stays:amounts]") {
  manta::config eight;
  eight.workers = 8;
  const manta::runtime rt(eight);
  *inside = *peak = 0;
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 30; ++i) {
    all.push_back(manta::remote<hold_until_three>.with({.cpus = 2.5})(i));
  }
  for (const auto& f : all) static_cast<void>(f.get(test::patience));
  CHECK(*peak == 3);
}

TEST_CASE("a task with cores whose argument fails or that throws gives its cores back",
          "[options][anywhere][stays:amounts]") {
  const manta::runtime rt(test::two_workers());
  constexpr auto fail = [](int x) -> int { throw x; };
  for (int i = 0; i < 50; ++i) {
    const auto bad = manta::remote<fail>.with({.cpus = 2})(i);
    const auto behind = manta::remote<identity>.with({.cpus = 2})(bad);
    CHECK_THROWS_AS(behind.get(test::patience), manta::task_error);
  }
  CHECK(manta::remote<identity>.with({.cpus = 2})(1).get(test::patience) == 1);
}

TEST_CASE("an option names the task in its error", "[options][anywhere]") {
  const manta::runtime rt(test::two_workers());
  constexpr auto fail = [](int x) -> int { throw std::runtime_error(std::to_string(x)); };
  const auto f = manta::remote<fail>.with({.name = "phase 2"})(3);
  const std::string said = test::message_of<manta::task_error>([&] { f.get(); });
  CHECK(said.find("phase 2") != std::string::npos);
}

namespace {

int waits_for_a_task_with_cores(int x) {
  const auto inner = manta::remote<identity>.with({.cpus = 1})(x);
  return inner.get();
}
manta::coroutine<int> awaits_a_task_with_cores(int x) {
  co_return co_await manta::remote<identity>.with({.cpus = 1})(x);
}
struct refuses_to_begin {
  refuses_to_begin() { throw std::runtime_error("no disk"); }
  int one() { return 1; }
};

}  // namespace

// Were the cores kept while the task waits, the inner task could never begin.
TEST_CASE("a task that waits gives the cores it asked for to others meanwhile",
          "[options][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<int>> outer;
  for (int i = 0; i < 50; ++i) {
    outer.push_back(manta::remote<waits_for_a_task_with_cores>.with({.cpus = 2})(i));
  }
  for (int i = 0; i < 50; ++i) REQUIRE(outer[static_cast<std::size_t>(i)].get() == i);
}

TEST_CASE("a coroutine that waits gives the cores it asked for to others meanwhile",
          "[options][anywhere][stays:amounts]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<int>> outer;
  for (int i = 0; i < 50; ++i) {
    outer.push_back(manta::remote<awaits_a_task_with_cores>.with({.cpus = 2})(i));
  }
  for (int i = 0; i < 50; ++i) REQUIRE(outer[static_cast<std::size_t>(i)].get() == i);
  CHECK(rt.resources().free.cpus == 2);
}

TEST_CASE("an option names the actor in its error", "[options][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto lost = manta::spawn<refuses_to_begin>.with({.name = "shard 3"})();
  const std::string message = test::message_of<manta::actor_lost>(
      [&] { static_cast<void>(manta::remote<&refuses_to_begin::one>(lost).get()); });
  CHECK(message.find("shard 3") != std::string::npos);
  CHECK(message.find("no disk") != std::string::npos);
}

}  // namespace options_test
