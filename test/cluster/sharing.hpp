// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <manta/manta.hpp>

// What the programs of sharer.cpp are made of.

namespace sharing {

using namespace std::chrono_literals;

struct done {
  int pid = 0;
  long value = 0;
};

// Each run of a task is a line of a file, if there is one: which, and where.
inline void note_run(long x) {
  const char* const path = std::getenv("SHARER_LOG");
  if (path == nullptr) return;
  const std::string line = std::to_string(x) + " " + std::to_string(getpid()) + "\n";
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || write(file, line.data(), line.size()) < 0) std::abort();
  close(file);
}

inline int say(const char* what, bool is_right, const std::map<int, int>& by_process,
               double seconds) {
  std::string shares;
  for (const auto& [pid, count] : by_process) {
    shares += (shares.empty() ? "" : " ") + std::to_string(count);
  }
  std::printf("%s: %s, %zu processes (%s), %.3f s\n", what, is_right ? "right" : "WRONG",
              by_process.size(), shares.c_str(), seconds);
  const auto own = by_process.find(getpid());
  std::printf("at home: %d\n", own == by_process.end() ? 0 : own->second);
  std::fflush(stdout);
  return is_right ? 0 : 1;
}

// Calls `call` so often, and sees whether each gives what it has to.
template <class Call, class Expect>
int spread(const char* what, long count, Call call, Expect expect) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<manta::future<done>> all;
  for (long i = 0; i < count; ++i) all.push_back(call(i));
  std::map<int, int> by_process;
  bool is_right = true;
  for (long i = 0; i < count; ++i) {
    const done& one = all[static_cast<std::size_t>(i)].get();
    ++by_process[one.pid];
    is_right = is_right && one.value == expect(i);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return say(what, is_right, by_process, took.count());
}

/// Those whose tasks await arrays: sharer_arrays.cpp. -1: `what` is none.
struct asked {
  std::string what;
  long count = 0;
  int ms = 0;
  std::size_t bytes = 0;
};
int run_with_arrays(const manta::runtime& rt, const asked& of);
/// What is written for long holds nobody up: sharer_slow.cpp.
int slow_writer(const manta::runtime& rt);

}  // namespace sharing
