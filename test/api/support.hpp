// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <type_traits>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// What the tests of the public interface share. Tasks never assert (the framework is not
// thread-safe): they answer values, and the test's own thread looks at them.

namespace test {

/// Longer than anything here takes on a busy machine under a sanitizer.
inline constexpr std::chrono::seconds patience{60};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif
#else
inline constexpr bool is_sanitized = false;
#endif

/// Two workers, whatever the machine has.
inline manta::config two_workers() {
  manta::config c;
  c.workers = 2;
  return c;
}
inline manta::config workers(int n) {
  manta::config c;
  c.workers = n;
  return c;
}

/// Opens after a number of arrivals (one by default); waits have a deadline. Any thread.
class gate {
 public:
  explicit gate(int arrivals = 1) : missing_(arrivals) {}
  void open() { arrive(); }
  void arrive() {
    const std::lock_guard lock(mutex_);
    --missing_;
    if (missing_ <= 0) changed_.notify_all();
  }
  /// False when it stayed shut.
  bool wait(std::chrono::nanoseconds limit = patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return missing_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int missing_;
};

/// A gate that opens at the latest when the scope ends, so that a failed assertion does not hang.
class scoped_gate : public gate {
 public:
  using gate::gate;
  ~scoped_gate() {
    for (int i = 0; i < 100000 && !wait(std::chrono::nanoseconds(0)); ++i) arrive();
  }
};

/// Counts its copies and moves, and who is alive.
struct tracked {
  static inline std::atomic<int> copies{0};
  static inline std::atomic<int> moves{0};
  static inline std::atomic<int> alive{0};
  static void reset() {
    copies = 0;
    moves = 0;
  }

  int value = 0;
  explicit tracked(int v) : value(v) { ++alive; }
  tracked(const tracked& other) : value(other.value) {
    ++copies;
    ++alive;
  }
  tracked(tracked&& other) noexcept : value(other.value) {
    other.value = -1;
    ++moves;
    ++alive;
  }
  tracked& operator=(const tracked&) = default;
  tracked& operator=(tracked&&) = default;
  ~tracked() { --alive; }
};

template <class Exception, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Exception& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another exception: ") + e.what();
  } catch (...) {
    return "another exception";
  }
  return "no exception";
}

}  // namespace test
