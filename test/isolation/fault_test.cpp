// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
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
  // Nobody counts any more: two looks with a pause, in which one would have.
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

}  // namespace

// Each process of the driver has the end of a pipe that it was born with, so the pipe's end is
// theirs.
TEST_CASE("a driver that is killed at any moment leaves no process behind", "[isolation]") {
  const int rounds = test::is_sanitized ? 4 : 16;
  std::mt19937 roll(11);
  int has_run = 0;
  for (int round = 0; round < rounds; ++round) {
    const shared_numbers numbers;
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t driver = fork();
    if (driver == 0) {
      close(ends[0]);
      live();
    }
    close(ends[1]);
    // A schedule of faults: every other one comes in the first moments, the rest while it works.
    if (round % 2 == 1) comes_true([&] { return numbers[1] > 0; });
    std::this_thread::sleep_for(std::chrono::microseconds(roll() % 40'000));
    CHECK_FALSE(ends_within(ends[0], 0ms));
    kill(driver, SIGKILL);
    waitpid(driver, nullptr, 0);
    CHECK(ends_within(ends[0], 10s));
    close(ends[0]);
    has_run += numbers[1] > 0 ? 1 : 0;
  }
  CHECK(has_run >= rounds / 2);
}

}  // namespace fault_test
