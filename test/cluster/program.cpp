// SPDX-License-Identifier: Apache-2.0
// A program that is a node of a cluster, for the tests of this folder. What it does is its first
// argument; what it sees of the cluster it prints, a line each time that changes.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include <unistd.h>

#include <manta/manta.hpp>

namespace {

using namespace std::chrono_literals;

int twice(int x) { return 2 * x; }

// Takes longer to be written than a member may be silent (3 s) in the test that uses it.
struct slow_to_write {
  template <class Archive>
  void save(Archive& to) const {
    std::this_thread::sleep_for(4500ms);
    to(1);
  }
  template <class Archive>
  void load(Archive& from) {
    int one = 0;
    from(one);
  }
};
int take_slow(const slow_to_write& /*unused*/) { return 7; }

void write_slowly(int rank) {
  const manta::options elsewhere{.isolation = manta::isolation_mode::processes};
  const int got = manta::remote<take_slow>.with(elsewhere)(slow_to_write()).get();
  std::printf("rank %d has written slowly, and got %d\n", rank, got);
  std::fflush(stdout);
}

std::string show(const manta::runtime& rt) {
  static const char* const standings[] = {"", "?", "~"};
  std::string out;
  for (const manta::node_info& one : rt.nodes()) {
    out += " " + one.name + standings[static_cast<int>(one.standing)];
  }
  return out;
}

void say_pids(const manta::runtime& rt) {
  for (const manta::node_info& one : rt.nodes()) {
    std::printf("pid %s %d\n", one.name.c_str(), one.pid);
  }
}

// By how many seconds the machine's clock has been set since it was made.
long set_by() {
  const auto ahead = [] {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch() -
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  static const auto before = ahead();
  return ahead() - before;
}

// Prints the view whenever it is another one, for so many seconds; and when the clock is set.
void watch(const manta::runtime& rt, double seconds) {
  std::string before;
  long set_before = set_by();
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::duration<double>(seconds)) {
    const std::string now = show(rt);
    if (now != before) std::printf("rank %d sees%s\n", rt.rank(), now.c_str());
    if (const long set = set_by(); std::abs(set - set_before) > 60) {
      std::printf("rank %d has its clock set by %ld min\n", rt.rank(),
                  std::lround(static_cast<double>(set) / 60));
      set_before = set;
    }
    std::fflush(stdout);
    before = now;
    // Throws when the program is interrupted. It stays: a node that is stopped would have it for as
    // long as it may be silent.
    static_cast<void>(manta::remote<twice>.with({.max_retries = 0})(1).get());
    std::this_thread::sleep_for(1ms);
  }
}

// Makes one runtime after the other.
int again(int argc, char** argv, int times) {
  for (int i = 1; i <= times; ++i) {
    const manta::runtime rt(argc, argv);
    std::printf("rank %d, time %d:%s\n", rt.rank(), i, show(rt).c_str());
    std::fflush(stdout);
  }
  return 0;
}

// Goes on in another rank when its runtime has ended.
int linger(int argc, char** argv) {
  int rank = 0;
  {
    const manta::runtime rt(argc, argv);
    rank = rt.rank();
  }
  if (rank == 0) return 0;
  std::this_thread::sleep_for(3s);  // longer than nodes are given that have nothing to do
  std::printf("rank %d has done its work\n", rank);
  return 0;
}

// As a program does that is driven by lines, with its stream's lock held; no line ever comes.
void read_lines() {
  int line[2];
  if (pipe(line) != 0 || dup2(line[0], STDIN_FILENO) < 0) std::abort();
  while (std::getchar() != EOF) {
  }
}

int run_program(const std::string& line) { return std::system(line.c_str()); }

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "hello";
  if (what == "early" && std::getenv("MANTA_RANK") != nullptr) return 7;  // in a node only
  if (const char* const rank = std::getenv("MANTA_RANK"); what == "late" && rank != nullptr) {
    std::printf("pid rank-%s %d\n", rank, getpid());
    std::fflush(stdout);
    std::this_thread::sleep_for(5s);  // the schedule: what is done to the job comes before
  }
  if (what == "again") return again(argc, argv, argc > 2 ? std::atoi(argv[2]) : 2);
  if (what == "linger") return linger(argc, argv);
  manta::runtime rt(argc, argv);
  if (what == "task") {
    const std::string line = argc > 2 ? argv[2] : "true";
    std::printf("in a task: %d\n", manta::remote<run_program>(line).get());
    return 0;
  }
  std::printf("rank %d of %d, pid %d:%s; task %d\n", rt.rank(), rt.size(), getpid(),
              show(rt).c_str(), manta::remote<twice>(21).get());
  std::fflush(stdout);
  if (what == "slow-write") {
    std::thread beside(write_slowly, rt.rank());
    watch(rt, 6);
    beside.join();
  }
  if (what == "first-line") {
    std::string line;
    std::getline(std::cin, line);
    std::printf("rank %d reads '%s'\n", rt.rank(), line.c_str());
  }
  if (what == "pids") say_pids(rt);
  std::fflush(stdout);
  if (what == "read" && rt.rank() > 0) read_lines();
  if (what == "read") {
    say_pids(rt);
    watch(rt, 60);
  }
  if (what == "watch" || what == "pids") watch(rt, argc > 2 ? std::atof(argv[2]) : 60);
  if (what == "fail") return 3;
  if (what == "exit") std::exit(4);
  return 0;
}
