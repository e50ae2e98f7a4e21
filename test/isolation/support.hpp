// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include <dirent.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/support.hpp"

// What the tests of isolated workers share: memory that all processes of a test see, since a global
// variable is each process's own.

namespace test {

/// Numbers in shared memory, made before the runtime.
class shared_numbers {
 public:
  static constexpr std::size_t count = 4096;
  using numbers = std::array<std::atomic<int>, count>;

  shared_numbers() {
    void* const at =
        mmap(nullptr, sizeof(numbers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) std::abort();
    current = new (at) numbers{};
  }
  ~shared_numbers() {
    munmap(current, sizeof(numbers));
    current = nullptr;
  }
  shared_numbers(const shared_numbers&) = delete;
  shared_numbers& operator=(const shared_numbers&) = delete;

  std::atomic<int>& operator[](std::size_t i) const { return (*current)[i]; }

  /// For tasks, which find it where it was when their process was born.
  static inline numbers* current = nullptr;
};

inline std::atomic<int>& shared(std::size_t i) { return (*shared_numbers::current)[i]; }

inline int square(int x) { return x * x; }
/// The process that runs the task.
inline int pid() { return getpid(); }

inline manta::config isolated(int workers = 2) {
  manta::config c;
  c.workers = workers;
  c.isolation = manta::isolation_mode::processes;
  return c;
}

/// Tasks run in threads unless they ask for a worker, whose zygote is made early, so that they find
/// the shared numbers.
inline manta::config mixed(int workers = 2) {
  manta::config c;
  c.workers = workers;
  c.isolation = manta::isolation_mode::threads;
  c.zygote = manta::zygote_mode::early;
  return c;
}

/// The processes whose parent is `parent`, zombies too.
inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  DIR* const folder = opendir("/proc");
  while (const dirent* const one = folder != nullptr ? readdir(folder) : nullptr) {
    const auto pid = static_cast<pid_t>(std::atol(one->d_name));
    if (pid <= 0) continue;
    const std::string name = "/proc/" + std::to_string(pid) + "/stat";
    std::FILE* const file = std::fopen(name.c_str(), "re");
    if (file == nullptr) continue;
    std::array<char, 512> text{};
    const std::size_t n = std::fread(text.data(), 1, text.size() - 1, file);
    std::fclose(file);
    text[n] = 0;
    const char* const after = std::strrchr(text.data(), ')');
    char state = 0;
    int ppid = 0;
    if (after != nullptr && std::sscanf(after + 1, " %c %d", &state, &ppid) == 2 &&
        ppid == parent) {
      found.push_back(pid);
    }
  }
  if (folder != nullptr) closedir(folder);
  return found;
}

}  // namespace test
