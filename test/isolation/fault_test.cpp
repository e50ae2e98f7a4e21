// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <manta/manta.hpp>

#include "isolation/support.hpp"

// What tasks do to their workers beside crashing, and what becomes of a driver that lacks something
// or is killed; crash_test.cpp has the deaths.

namespace fault_test {

namespace {

using namespace std::chrono_literals;
using test::children_of;
using test::comes_true;
using test::isolated;
using test::shared;
using test::shared_numbers;
using test::square;

// Threads that go on, and count, after their task has ended.
int leaks_busy_threads() {
  for (int i = 0; i < 4; ++i) {
    std::thread([] {
      for (;;) {
        ++shared(0);
        std::this_thread::yield();
      }
    }).detach();
  }
  return getpid();
}
// A child that goes on when its worker has died, alone or in a session of its own.
int forks_and_dies(bool is_daemon) {
  if (fork() == 0) {
    if (is_daemon) {
      setsid();
      if (fork() != 0) _exit(0);
    }
    shared(0) = getpid();
    for (;;) pause();
  }
  comes_true([] { return shared(0) != 0; });
  raise(SIGKILL);
  return 0;
}
bool is_alive(pid_t pid) { return kill(pid, 0) == 0; }

struct thrower {
  int fails(int size) {
    throw std::runtime_error(std::string(static_cast<std::size_t>(size), 'x'));
  }
  int works(int x) { return x; }
  int process() { return getpid(); }
};

}  // namespace

TEST_CASE("threads that a task leaves running keep nobody from going on, and end", "[isolation]") {
  const shared_numbers numbers;
  {
    const manta::runtime rt(isolated(1));
    const int pid = manta::remote<leaks_busy_threads>().get();
    for (int i = 0; i < 200; ++i) CHECK(manta::remote<square>(i).get() == i * i);
    CHECK(manta::remote<test::pid>().get() == pid);
    const int before = numbers[0];
    CHECK(comes_true([&] { return numbers[0] != before; }));
  }
  // Nobody counts any more: two looks with a pause, in which one would have. That something does
  // not happen has no event to wait for.
  const int at_end = numbers[0];
  std::this_thread::sleep_for(20ms);
  CHECK(numbers[0] == at_end);
}

TEST_CASE("what a worker forked ends when the worker does", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  for (const bool is_daemon : {false, true}) {
    numbers[0] = 0;
    const auto f = manta::remote<forks_and_dies>.with({.max_retries = 0})(is_daemon);
    CHECK_THROWS_AS(f.get(test::patience), manta::worker_lost);
    const pid_t child = numbers[0];
    REQUIRE(child > 0);
    CHECK(comes_true([child] { return !is_alive(child); }, 10s));
    CHECK(manta::remote<square>(6).get() == 36);
  }
}

TEST_CASE("a method's exception of 10 MiB is an exception, and the actor goes on", "[isolation]") {
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<thrower>();
  CHECK_THROWS_AS(manta::remote<&thrower::fails>(a, 10 << 20).get(), manta::task_error);
  CHECK(manta::remote<&thrower::works>(a, 7).get() == 7);
}

namespace {

/// So many more descriptors may be opened while it lives.
class few_files {
 public:
  explicit few_files(int more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const auto open = std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                    std::filesystem::directory_iterator());
    rlimit now = before_;
    // One of those was the look itself; a limit is the first number that is not given.
    now.rlim_cur = static_cast<rlim_t>(open - 1 + more);
    setrlimit(RLIMIT_NOFILE, &now);
  }
  ~few_files() { setrlimit(RLIMIT_NOFILE, &before_); }
  few_files(const few_files&) = delete;
  few_files& operator=(const few_files&) = delete;

 private:
  rlimit before_{};
};

// Empty when all works, else the errors' text; "hangs" when something has no end.
std::string text_of_a_life() {
  try {
    const manta::runtime rt(isolated());
    const auto f = manta::remote<square>(5);
    const auto a = manta::spawn<thrower>();
    const auto called = manta::remote<&thrower::works>(a, 7);
    const auto got = f.try_get(test::patience);
    const auto answered = called.try_get(test::patience);
    std::string text;
    for (const auto* const one : {&got, &answered}) {
      if (one->has_value()) continue;
      if (one->error().code() == manta::errc::timed_out) return "hangs";
      text += one->error().message();
    }
    return text;
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("an actor whose next life has no worker is lost, and says so", "[isolation]") {
  if (test::is_sanitized) return;
  const manta::runtime rt(isolated());
  manta::actor_options lives_on;
  lives_on.max_restarts = 3;
  const auto a = manta::spawn<thrower>.with(lives_on)();
  const auto end = manta::monitor(a);
  const int pid = manta::remote<&thrower::process>(a).get();
  std::string text;
  {
    const few_files scarce(0);
    kill(pid, SIGKILL);
    const auto got = manta::remote<&thrower::works>(a, 7).try_get(test::patience);
    REQUIRE_FALSE(got);
    CHECK(got.error().code() == manta::errc::actor_lost);
    text = got.error().message();
    const auto ended = end.try_get(test::patience);
    REQUIRE(ended);
    CHECK(ended->reason == manta::end_reason::process_lost);
  }
  INFO(text);
  CHECK(text.find("no isolated worker could be made for its next life") != std::string::npos);
  CHECK(text.find("signal 9") != std::string::npos);
  const auto next = manta::spawn<thrower>();
  CHECK(manta::remote<&thrower::works>(next, 8).get() == 8);
  CHECK(manta::remote<square>(6).get() == 36);
}

TEST_CASE("without descriptors a runtime works or says what it lacks", "[isolation]") {
  if (test::is_sanitized) return;  // they need some themselves
  const shared_numbers numbers;
  CHECK(text_of_a_life().empty());
  bool has_worked = false;
  int refusals = 0;
  for (const int more : {0, 2, 5, 9, 14, 20, 30, 60, 120}) {
    std::string text;
    {
      const few_files scarce(more);
      text = text_of_a_life();
    }
    INFO("room for " << more << " descriptors: " << text);
    CHECK(text != "hangs");
    has_worked = has_worked || text.empty();
    if (text.empty()) continue;
    CHECK((text.find("descriptor") != std::string::npos ||
           text.find("Too many open files") != std::string::npos));
    ++refusals;
  }
  CHECK(has_worked);
  CHECK(refusals > 0);
  CHECK(text_of_a_life().empty());
}

namespace {

// A driver's life, until it is killed: tasks, calls, children of tasks.
[[noreturn]] void live() {
  const manta::runtime rt(isolated());
  for (int round = 0;; ++round) {
    const auto a = manta::spawn<thrower>();
    std::vector<manta::future<int>> all;
    for (int i = 0; i < 50; ++i) all.push_back(manta::remote<square>(i));
    for (int i = 0; i < 5; ++i) all.push_back(manta::remote<&thrower::works>(a, i));
    if (round == 0) all.push_back(manta::remote<leaks_busy_threads>());
    for (const auto& f : all) static_cast<void>(f.try_get());
    shared(1) = round + 1;
  }
}

// Whether nobody has the other end any more.
bool ends_within(int reading_end, std::chrono::milliseconds time) {
  pollfd looked{reading_end, POLLIN, 0};
  return poll(&looked, 1, static_cast<int>(time.count())) == 1 && (looked.revents & POLLHUP) != 0;
}

/// A program in a process of its own. Each process that comes of it has the end of a pipe that it
/// was born with, so the pipe's end is theirs.
class forked_driver {
 public:
  template <class Life>
  explicit forked_driver(Life life) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    reads_ = ends[0];
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      life();
    }
    close(ends[1]);
  }
  ~forked_driver() { close(reads_); }
  forked_driver(const forked_driver&) = delete;
  forked_driver& operator=(const forked_driver&) = delete;
  pid_t pid() const noexcept { return pid_; }
  bool has_ended_within(std::chrono::milliseconds time) const { return ends_within(reads_, time); }

 private:
  pid_t pid_;
  int reads_;
};

}  // namespace

TEST_CASE("a driver that is killed at any moment leaves no process behind", "[isolation]") {
  const int rounds = test::is_sanitized ? 4 : 16;
  std::mt19937 roll(11);
  int has_run = 0;
  for (int round = 0; round < rounds; ++round) {
    const shared_numbers numbers;
    const forked_driver driver(live);
    // A schedule of faults: every other one comes in the first moments, the rest while it works.
    if (round % 2 == 1) comes_true([&] { return numbers[1] > 0; });
    std::this_thread::sleep_for(std::chrono::microseconds(roll() % 40'000));
    CHECK_FALSE(driver.has_ended_within(0ms));
    kill(driver.pid(), SIGKILL);
    waitpid(driver.pid(), nullptr, 0);
    CHECK(driver.has_ended_within(10s));
    has_run += numbers[1] > 0 ? 1 : 0;
  }
  CHECK(has_run >= rounds / 2);
}

namespace {

// An actor's method that looks whether it is to stop, or never does.
struct busy {
  int runs(bool looks) {
    shared(1) = getpid();
    while (!looks || !manta::this_task::is_cancelled()) ++shared(0);
    return 1;
  }
};

// A driver whose main waits for an actor; the test framework's handler is not for it.
[[noreturn]] void waits_for_actor(bool looks) {
  std::signal(SIGINT, SIG_DFL);
  {
    const manta::runtime rt(isolated());
    const auto a = manta::spawn<busy>();
    const auto idle = manta::spawn<busy>();
    const auto call = manta::remote<&busy::runs>(a, looks);
    const auto behind = manta::remote<&busy::runs>(a, true);
    shared(4) = 1;
    const auto got = call.try_get();
    const auto left = behind.try_get();
    shared(2) = left || left.error().code() != manta::errc::cancelled ? -1 : 1;
    shared(3) = got ? 1 : static_cast<int>(got.error().code());
  }
  std::exit(0);  // in which the code of an interrupted program is set
}

}  // namespace

TEST_CASE("SIGINT ends actors in isolated workers, whether they stop or not", "[isolation]") {
  if (MANTA_HAS_TSAN != 0) return;  // it keeps signals back
  const bool looks = GENERATE(true, false);
  CAPTURE(looks);
  const shared_numbers numbers;
  const forked_driver driver([looks] { waits_for_actor(looks); });
  // Both calls are made: an interrupted runtime throws at the next one.
  REQUIRE(comes_true([&] { return numbers[1] != 0 && numbers[4] != 0; }));
  kill(driver.pid(), SIGINT);
  int status = 0;
  CHECK(comes_true([&] { return waitpid(driver.pid(), &status, WNOHANG) == driver.pid(); }));
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  CHECK(driver.has_ended_within(10s));
  CHECK(numbers[2] == 1);  // what had not begun was cancelled
  CHECK(numbers[3] != static_cast<int>(manta::errc::timed_out));
  CHECK_FALSE(is_alive(numbers[1]));
}

}  // namespace fault_test
