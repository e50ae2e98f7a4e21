// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include <sys/types.h>

// Processes that are stopped, or have ended, for the tests of this folder and for the programs that
// they start.

namespace cluster_test {

inline bool is_there(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string word;
  for (int i = 0; i < 3; ++i) file >> word;
  return file && word != "Z";
}

/// Whether all threads of a process are.
inline bool is_stopped(pid_t process) {
  std::error_code gone;
  const std::filesystem::path threads = "/proc/" + std::to_string(process) + "/task";
  for (const auto& one : std::filesystem::directory_iterator(threads, gone)) {
    std::ifstream file(one.path() / "stat");
    std::string line;
    std::getline(file, line);
    const std::size_t name = line.rfind(") ");
    if (name != std::string::npos && line[name + 2] != 'T') return false;
  }
  return !gone;
}

/// One thread stops the others, when it is its turn: until then these go on. Returns when all are,
/// or so late that it is none of a test any more.
inline void stop(pid_t process) {
  kill(process, SIGSTOP);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!is_stopped(process) && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it stops soon
  }
}

}  // namespace cluster_test
