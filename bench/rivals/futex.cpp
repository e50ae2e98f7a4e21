// SPDX-License-Identifier: Apache-2.0
//
// What a hand-over to another core and back costs the machine itself when the other side sleeps: a
// futex, two threads on two cores, no executor in between.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "harness/measure.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

// Sleeps in the kernel until the word differs from `seen`, and returns what it is then.
std::uint32_t await_change(std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  for (;;) {
    const std::uint32_t value = word.load(std::memory_order_acquire);
    if (value != seen) return value;
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
  }
}

void set(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  word.store(value, std::memory_order_release);
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// A thread that answers every number with the same number, asleep in between.
class echo_thread {
 public:
  echo_thread() : thread_([this] { serve(); }) {}
  ~echo_thread() {
    stop_.store(true);
    set(there_, there_.load() + 1);
    thread_.join();
  }
  echo_thread(const echo_thread&) = delete;
  echo_thread& operator=(const echo_thread&) = delete;

  void round_trip() {
    const std::uint32_t before = back_.load();
    set(there_, before + 1);
    check(await_change(back_, before) == before + 1, "echo of a number");
  }

 private:
  void serve() {
    for (std::uint32_t seen = 0;;) {
      seen = await_change(there_, seen);
      if (stop_.load()) return;
      set(back_, seen);
    }
  }

  alignas(128) std::atomic<std::uint32_t> there_{0};
  alignas(128) std::atomic<std::uint32_t> back_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

contestant one_after_another(const char* row) {
  contestant c{row, "futex round trip, no pause", side::reference};
  c.start = [](const plan& how) -> body {
    auto echo = std::make_shared<echo_thread>();
    const std::size_t count = how.count(10000);
    return [=](const turn&) {
      return latency(unit::microseconds, count, [&](std::size_t) { echo->round_trip(); });
    };
  };
  return c;
}

contestant after_pause(const char* row) {
  contestant c{row, "futex round trip, 2 ms pause", side::reference};
  c.start = [](const plan& how) -> body {
    auto echo = std::make_shared<echo_thread>();
    const std::size_t count = how.quick ? 5 : 300;
    return [=](const turn&) {
      return latency_after_pause(unit::microseconds, count, std::chrono::milliseconds(2),
                                 [&](std::size_t) { echo->round_trip(); });
    };
  };
  return c;
}

}  // namespace

void add_futex(suite& s, const char* row) {
  s.add(one_after_another(row));
  s.add(after_pause(row));
}

}  // namespace bench
