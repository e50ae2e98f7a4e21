// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// What a test and its tasks share though the tasks run in other processes. A global variable is
// each process's own; everywhere<T> is one of all. Its memory is mapped before main, thus before
// the first worker's process is made; the worker finds it at the same address. A node of its own
// program (MANTA_NODES) maps the same memory. Only things without pointers may lie there: atomics,
// common_gate, journal.
//
//   test::everywhere<std::atomic<int>> runs;       // a global, or a static of the case
//   int task() { return ++*runs; }
//
// Cases run one after the other in one process, too: each sets what it uses at its beginning.

namespace test {

namespace everywhere_detail {

inline constexpr std::size_t room_bytes = std::size_t{1} << 20;

/// The memory of the process that was first, by a name that its nodes inherit with their variables.
/// They do in their mains what that one did until its runtime, so a thing has one place in all.
inline std::byte* map_room() {
  const char* const name = std::getenv("MANTA_TEST_ROOM");
  const bool is_first = name == nullptr;
  const int file =
      is_first ? memfd_create("manta-test-room", MFD_CLOEXEC) : open(name, O_RDWR | O_CLOEXEC);
  if (file < 0 || (is_first && ftruncate(file, room_bytes) != 0)) std::abort();
  void* const at = mmap(nullptr, room_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) std::abort();
  if (is_first) {
    const std::string path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file);
    setenv("MANTA_TEST_ROOM", path.c_str(), 1);
  } else {
    close(file);
  }
  return static_cast<std::byte*>(at);
}

/// Never given back: tasks of a test that failed may still look at it.
inline void* take(std::size_t bytes) {
  static std::byte* const room = map_room();
  static std::atomic<std::size_t> used{0};
  const std::size_t begin = used.fetch_add((bytes + 63) / 64 * 64);
  if (begin + bytes > room_bytes) std::abort();
  return room + begin;
}

}  // namespace everywhere_detail

/// One T of all processes of this program: a variable of a namespace, or a static one of a case
/// that comes before its runtime.
template <class T>
class everywhere {
 public:
  template <class... Args>
  explicit everywhere(Args... args) : at_(new (everywhere_detail::take(sizeof(T))) T(args...)) {
    static_assert(alignof(T) <= 64);
  }
  everywhere(const everywhere&) = delete;
  everywhere& operator=(const everywhere&) = delete;
  T& operator*() const { return *at_; }
  T* operator->() const { return at_; }

 private:
  T* at_;
};

/// Opens after a number of arrivals; waits have a deadline. Any thread of any process.
class common_gate {
 public:
  explicit common_gate(int arrivals = 1) : missing_(arrivals) {}
  common_gate(const common_gate&) = delete;
  common_gate& operator=(const common_gate&) = delete;

  /// As new. Nobody may be at it.
  void shut(int arrivals = 1) { missing_ = arrivals; }
  void arrive() {
    if (missing_.fetch_sub(1) == 1) wake();
  }
  /// For all, at once.
  void open() {
    missing_ = 0;
    wake();
  }
  bool is_open() const { return missing_ <= 0; }
  /// False when it stayed shut.
  bool wait(std::chrono::nanoseconds limit = std::chrono::seconds(60)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    for (int seen = missing_; seen > 0; seen = missing_) {
      const auto left = end - std::chrono::steady_clock::now();
      if (left <= std::chrono::nanoseconds(0)) return false;
      sleep(seen, std::min<std::chrono::nanoseconds>(left, std::chrono::seconds(1)));
    }
    return true;
  }

 private:
  // The futex of the number itself, not private to the process.
  void sleep(int seen, std::chrono::nanoseconds limit) {
    timespec time{};
    time.tv_sec = static_cast<time_t>(limit.count() / 1'000'000'000);
    time.tv_nsec = static_cast<long>(limit.count() % 1'000'000'000);
    syscall(SYS_futex, &missing_, FUTEX_WAIT, seen, &time, nullptr, 0);
  }
  void wake() { syscall(SYS_futex, &missing_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

  std::atomic<int> missing_;
  static_assert(sizeof(std::atomic<int>) == sizeof(int));
};

/// Numbers in the order in which they were added, at most 1,024. Any thread of any process.
class journal {
 public:
  void clear() { used_ = 0; }
  void add(int value) {
    const std::size_t at = used_.fetch_add(1);
    if (at < entries_.size()) entries_[at] = value;
  }
  /// What was added; those who add have ended.
  std::vector<int> entries() const {
    std::vector<int> all;
    for (std::size_t i = 0; i < std::min(used_.load(), entries_.size()); ++i) {
      all.push_back(entries_[i]);
    }
    return all;
  }

 private:
  std::atomic<std::size_t> used_{0};
  std::array<std::atomic<int>, 1024> entries_{};
};

/// Waits, with a deadline, for what other processes bring about; it looks once a millisecond, since
/// they share numbers with this one and no condition variable. Tasks and the test's thread.
template <class Claim>
bool comes_true(Claim&& claim, std::chrono::milliseconds within = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (!claim()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Opens a gate at the end of a scope, so that a failed assertion does not leave tasks at it.
class opens_at_end {
 public:
  explicit opens_at_end(common_gate& gate) : gate_(gate) {}
  opens_at_end(const opens_at_end&) = delete;
  opens_at_end& operator=(const opens_at_end&) = delete;
  ~opens_at_end() { gate_.open(); }

 private:
  common_gate& gate_;
};

}  // namespace test
