// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/executor.hpp>

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace {

using manta::config;
using manta::future;
using manta::exec::executor;
using manta_test::dice;
using manta_test::happens;
using manta_test::is_sanitized;
using manta_test::run_seed;
using manta_test::scaled;
using namespace std::chrono_literals;

config spinning(int workers, int extra_threads = 256) {
  config c;
  c.workers = workers;
  c.spin_us = 50;
  c.extra_threads = extra_threads;
  return c;
}

// Holds whoever enters until it is opened; knows how many are inside.
class barrier_gate {
 public:
  void enter() {
    std::unique_lock lock(mutex_);
    ++inside_;
    changed_.wait(lock, [this] { return is_open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  int inside() {
    const std::lock_guard lock(mutex_);
    return inside_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int inside_ = 0;
  bool is_open_ = false;
};

int twice(int x) { return 2 * x; }
int nest(int depth) { return depth == 0 ? 0 : manta::remote<nest>(depth - 1).get() + 1; }
int timed_nest(int depth) {
  return depth == 0 ? 0 : manta::remote<timed_nest>(depth - 1).get(60s) + 1;
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

template <class T>
manta::errc code_of(const future<T>& f) {
  const auto got = f.try_get();
  return got ? manta::errc::task_error : got.error().code();
}

}  // namespace

TEST_CASE("a runtime starts and ends a thousand times", "[executor]") {
  int wrong = 0;
  for (int i = 0; i < scaled(1000); ++i) {
    const manta::runtime rt(spinning(1 + i % 3));
    wrong += executor::is_running() && rt.workers() == 1 + i % 3 ? 0 : 1;
    if (i % 2 == 0) wrong += manta::remote<twice>(i).get() == 2 * i ? 0 : 1;
    if (i % 5 == 0) wrong += manta::async([i] { return i; }).get(60s) == i ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK_FALSE(executor::is_running());
}

TEST_CASE("a second executor is refused and the first goes on", "[executor]") {
  const manta::runtime rt(spinning(2));
  CHECK_FALSE(executor::global().start({}));
  CHECK(rt.workers() == 2);
  CHECK(manta::remote<twice>(4).get() == 8);
}

TEST_CASE("what is queued when the runtime ends is cancelled and what runs finishes",
          "[executor]") {
  for (int round = 0; round < 20; ++round) {
    barrier_gate gate;
    std::vector<future<int>> running;
    std::vector<future<int>> queued;
    std::vector<future<int>> dependent;
    std::thread opener;
    {
      const manta::runtime rt(spinning(2));
      for (int i = 0; i < 2; ++i) {
        running.push_back(manta::async([&gate] {
          gate.enter();
          return 7;
        }));
      }
      REQUIRE(happens([&] { return gate.inside() == 2; }));
      for (int i = 0; i < 500; ++i) {
        queued.push_back(manta::remote<twice>(i));
        dependent.push_back(manta::remote<twice>(queued.back()));
      }
      opener = std::thread([&] {
        // Only when the end has begun, so that nothing queued can still be run.
        happens([] { return !executor::is_running(); });
        gate.open();
      });
    }
    opener.join();
    for (auto& f : running) REQUIRE(f.get() == 7);
    for (auto& f : queued) REQUIRE(code_of(f) == manta::errc::cancelled);
    for (auto& f : dependent) REQUIRE(code_of(f) == manta::errc::cancelled);
  }
}

TEST_CASE("tasks that are blocked when the runtime ends are ended by cancelled", "[executor]") {
  for (int round = 0; round < 20; ++round) {
    barrier_gate gate;
    std::vector<future<int>> blocked;
    std::thread opener;
    {
      const manta::runtime rt(spinning(2));
      const future<int> first = manta::async([&gate] {
        gate.enter();
        return 1;
      });
      // Behind the gate, not startable: it waits for `first`, and they wait for it.
      const future<int> second = manta::remote<twice>(first);
      std::atomic<int> begun{0};
      for (int i = 0; i < 8; ++i) {
        blocked.push_back(manta::async([second, &begun] {
          begun.fetch_add(1);
          return second.get();
        }));
      }
      REQUIRE(happens([&] { return begun.load() == 8; }));
      opener = std::thread([&] {
        happens([] { return !executor::is_running(); });
        gate.open();
      });
    }
    opener.join();
    // `first` finishes; `second` had not begun, so it is cancelled, and so is who waits for it.
    for (auto& f : blocked) REQUIRE(code_of(f) == manta::errc::cancelled);
  }
}

TEST_CASE("a chain of ten thousand dependents ends with the runtime without recursion",
          "[executor]") {
  barrier_gate gate;
  std::vector<future<int>> chain;
  std::thread opener;
  {
    const manta::runtime rt(spinning(1));
    chain.push_back(manta::async([&gate] {
      gate.enter();
      return 1;
    }));
    for (int i = 0; i < 10'000; ++i) chain.push_back(manta::remote<twice>(chain.back()));
    REQUIRE(happens([&] { return gate.inside() == 1; }));
    opener = std::thread([&] {
      happens([] { return !executor::is_running(); });
      gate.open();
    });
  }
  opener.join();
  CHECK(chain.front().get() == 1);
  int wrong = 0;
  for (std::size_t i = 1; i < chain.size(); ++i) {
    wrong += code_of(chain[i]) == manta::errc::cancelled ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("idle workers use no CPU", "[executor]") {
  const manta::runtime rt(spinning(4));
  std::vector<future<int>> warm;
  for (int i = 0; i < 1000; ++i) warm.push_back(manta::remote<twice>(i));
  for (auto& f : warm) f.get();
  // They park within the spin time; then a period without any.
  const auto period = [] {
    const double before = cpu_seconds();
    const auto end = std::chrono::steady_clock::now() + 200ms;
    manta::exec::parker nap;
    while (std::chrono::steady_clock::now() < end) nap.park_until(end);
    return cpu_seconds() - before;
  };
  double used = 1;
  for (int attempt = 0; attempt < 50 && used > 0.002; ++attempt) used = period();
  CHECK(used <= 0.002);
  CHECK(manta::remote<twice>(4).get(60s) == 8);  // and they wake again
}

TEST_CASE("every one of many single submissions wakes a worker", "[executor]") {
  // What could break: the submitter takes a worker for awake that is about to sleep, which shows as
  // a task that never runs. The pauses are chosen around the spin time.
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice random(seed);
  config c = spinning(2);
  c.spin_us = 5;
  const manta::runtime rt(c);
  int wrong = 0;
  for (int i = 0; i < scaled(30'000); ++i) {
    std::atomic<bool> has_run{false};
    const future<void> f = manta::async([&has_run] { has_run.store(true); });
    wrong += happens([&] { return has_run.load(); }) ? 0 : 1;
    f.get();
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::microseconds(random.below(20));
    while (std::chrono::steady_clock::now() < until) {
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a worker that waits in a task lends its core", "[executor]") {
  const manta::runtime rt(spinning(1));
  barrier_gate gate;
  const future<int> slow = manta::async([&gate] {
    gate.enter();
    return 3;
  });
  REQUIRE(happens([&] { return gate.inside() == 1; }));
  // The only worker is inside a call that manta knows nothing of; these can't run.
  const future<int> waits = manta::async([slow] { return slow.get() + 1; });
  CHECK_FALSE(waits.is_ready());
  gate.open();
  CHECK(waits.get() == 4);

  // Now one that waits through manta: others run meanwhile.
  barrier_gate second;
  const future<int> held = manta::async([&second] {
    second.enter();
    return 1;
  });
  REQUIRE(happens([&] { return second.inside() == 1; }));
  const auto opener = manta::async([&second] {
    second.open();
    return 0;
  });
  CHECK(opener.get() == 0);  // in place, on this thread
  CHECK(held.get() == 1);
}

TEST_CASE("tasks blocked in timed gets make room for those they wait for", "[executor]") {
  const manta::runtime rt(spinning(2));
  // A timed get runs nothing in place, so each level needs a thread.
  CHECK(manta::remote<timed_nest>(100).get() == 100);
  CHECK(rt.stats().threads_lent > 0);
}

TEST_CASE("the threads that stood in do not stay active", "[executor]") {
  const manta::runtime rt(spinning(2));
  barrier_gate gate;
  const future<int> end = manta::async([&gate] {
    gate.enter();
    return 1;
  });
  std::vector<future<int>> waiting;
  std::atomic<int> begun{0};
  for (int i = 0; i < 50; ++i) {
    waiting.push_back(manta::async([end, &begun] {
      begun.fetch_add(1);
      return end.get();
    }));
  }
  REQUIRE(happens([&] { return begun.load() == 50; }));
  gate.open();
  for (auto& f : waiting) REQUIRE(f.get() == 1);
  // Of all these threads at most `workers` run tasks at once.
  std::atomic<int> at_once{0};
  std::atomic<int> most{0};
  std::vector<future<void>> work;
  for (int i = 0; i < 2000; ++i) {
    work.push_back(manta::async([&] {
      const int now = at_once.fetch_add(1) + 1;
      int seen = most.load();
      while (seen < now && !most.compare_exchange_weak(seen, now)) {
      }
      for (int spin = 0; spin < 1000; ++spin) std::atomic_signal_fence(std::memory_order_seq_cst);
      at_once.fetch_sub(1);
    }));
  }
  REQUIRE(happens([&] {
    for (auto& f : work) {
      if (!f.is_ready()) return false;
    }
    return true;
  }));
  CHECK(most.load() <= 2 + 1);  // one may be on its way out
}

TEST_CASE("a thousand nested calls end on two workers", "[executor]") {
  const manta::runtime rt(spinning(2));
  CHECK(manta::remote<nest>(1000).get() == 1000);
  CHECK(manta::async([] { return manta::remote<nest>(1000).get(); }).get(60s) == 1000);
}

// Past the soft limit threads come one a millisecond, so these are as many as a test has time for.
TEST_CASE("more blocked tasks than the soft limit of threads all end", "[executor]") {
  const manta::runtime rt(spinning(2, 20));
  barrier_gate gate;
  const future<int> end = manta::async([&gate] {
    gate.enter();
    return 1;
  });
  REQUIRE(happens([&] { return gate.inside() == 1; }));
  std::vector<future<int>> waiting;
  std::atomic<int> begun{0};
  const int blocked = 100;
  // The gate is opened by a task behind all the blocked ones.
  for (int i = 0; i < blocked; ++i) {
    waiting.push_back(manta::async([end, &begun] {
      begun.fetch_add(1);
      return end.get();
    }));
  }
  REQUIRE(happens([&] { return begun.load() >= 18; }));
  gate.open();
  for (auto& f : waiting) REQUIRE(f.get() == 1);
}

TEST_CASE("ten thousand blocked tasks all end", "[executor]") {
  // Each blocked task holds a thread; the thread sanitizer has room for 8128.
  const int count = scaled(10'000);
  const manta::runtime rt(spinning(2, 20'000));
  barrier_gate gate;
  std::atomic<int> begun{0};
  std::vector<future<int>> waiting;
  waiting.reserve(static_cast<std::size_t>(count));
  const future<int> end = manta::async([&gate] {
    gate.enter();
    return 1;
  });
  REQUIRE(happens([&] { return gate.inside() == 1; }));
  for (int i = 0; i < count; ++i) {
    waiting.push_back(manta::async([end, &begun] {
      begun.fetch_add(1);
      return end.get();
    }));
  }
  // Threads are added one a millisecond at most; a busy machine makes them slower still.
  CHECK(happens([&] { return begun.load() == count; }, std::chrono::seconds(110)));
  gate.open();
  int wrong = 0;
  for (auto& f : waiting) wrong += f.get() == 1 ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("entries of tasks that ran in place are swept from the queue", "[executor]") {
  const manta::runtime rt(spinning(1));
  barrier_gate gate;
  const future<int> busy = manta::async([&gate] {
    gate.enter();
    return 1;
  });
  REQUIRE(happens([&] { return gate.inside() == 1; }));
  // Nobody takes entries; getting the older of two first leaves its entry behind.
  const auto held_before = manta::exec::usage_of_blocks();
  int wrong = 0;
  for (int i = 0; i < 50'000; ++i) {
    const future<int> older = manta::remote<twice>(i);
    const future<int> newer = manta::remote<twice>(i + 1);
    wrong += older.get() == 2 * i && newer.get() == 2 * i + 2 ? 0 : 1;
  }
  const auto held_after = manta::exec::usage_of_blocks();
  CHECK(wrong == 0);
  // Unswept, 50,000 blocks of 64 bytes would be held.
  CHECK(held_after.held_bytes <= held_before.held_bytes + 1'000'000);
  gate.open();
  CHECK(busy.get() == 1);
}

TEST_CASE("every task of many submitters runs exactly once", "[executor]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  const manta::runtime rt(spinning(3));
  constexpr int submitters = 4;
  const int each = scaled(50'000);
  std::vector<std::atomic<std::uint8_t>> runs(static_cast<std::size_t>(submitters * each));
  std::atomic<int> wrong{0};
  const auto submit = [&](int self) {
    dice random(seed + static_cast<std::uint64_t>(self));
    std::vector<future<int>> open;
    for (int i = 0; i < each; ++i) {
      const int number = self * each + i;
      open.push_back(manta::async([&runs, number] {
        runs[static_cast<std::size_t>(number)].fetch_add(1);
        return number;
      }));
      // Gets some at once, some late, some never.
      while (open.size() > random.below(300)) {
        const std::size_t at = random.below(open.size());
        std::swap(open[at], open.back());
        if (!random.one_in(4)) open.back().get();
        open.pop_back();
      }
    }
    for (auto& f : open) {
      const int n = f.get();
      wrong.fetch_add(n / each == self ? 0 : 1);
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < submitters; ++t) threads.emplace_back(submit, t);
  for (std::thread& t : threads) t.join();
  REQUIRE(happens([&] {
    for (const auto& n : runs) {
      if (n.load() == 0) return false;
    }
    return true;
  }));
  int repeated = 0;
  for (const auto& n : runs) repeated += n.load() == 1 ? 0 : 1;
  CHECK(repeated == 0);
  CHECK(wrong.load() == 0);
}

namespace {

// A random graph of tasks: each takes two earlier results, by value or by waiting inside.
std::uint64_t join(std::uint64_t a, std::uint64_t b) { return a * 31 + b * 17 + 1; }

}  // namespace

TEST_CASE("a random graph of dependencies gives what plain calls give", "[executor]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  const manta::runtime rt(spinning(2));
  for (int round = 0; round < scaled(100); ++round) {
    dice random(seed + static_cast<std::uint64_t>(round));
    std::vector<future<std::uint64_t>> nodes;
    std::vector<std::uint64_t> expected;
    for (std::uint64_t i = 0; i < 3; ++i) {
      nodes.push_back(manta::put(i));
      expected.push_back(i);
    }
    for (int i = 0; i < 300; ++i) {
      const std::size_t a = random.below(nodes.size());
      const std::size_t b = random.one_in(3) ? nodes.size() - 1 : random.below(nodes.size());
      expected.push_back(join(expected[a], expected[b]));
      switch (random.below(4)) {
        case 0:  // waits inside
          nodes.push_back(
              manta::async([x = nodes[a], y = nodes[b]] { return join(x.get(), y.get()); }));
          break;
        case 1:  // delegates
          nodes.push_back(
              manta::async([x = nodes[a], y = nodes[b]] { return manta::remote<join>(x, y); }));
          break;
        default:
          nodes.push_back(manta::remote<join>(nodes[a], nodes[b]));
      }
    }
    int wrong = 0;
    while (!nodes.empty()) {
      wrong += nodes.back().get() == expected.back() ? 0 : 1;
      nodes.pop_back();
      expected.pop_back();
      while (!nodes.empty() && random.one_in(4)) {
        nodes.pop_back();
        expected.pop_back();
      }
    }
    REQUIRE(wrong == 0);
  }
}

namespace {

struct counter {
  int calls = 0;
  int next() { return ++calls; }
};

// Calls an actor and waits for it when it is destroyed.
struct caller_at_end {
  manta::actor<counter> to;
  std::atomic<int>* ended = nullptr;
  caller_at_end(manta::actor<counter> a, std::atomic<int>* e) : to(std::move(a)), ended(e) {}
  caller_at_end(caller_at_end&& other) noexcept
      : to(std::move(other.to)), ended(std::exchange(other.ended, nullptr)) {}
  ~caller_at_end() {
    if (ended == nullptr) return;
    const auto got = manta::remote<&counter::next>(to).try_get();
    ended->fetch_add(got ? 1 : 1000);
  }
};

}  // namespace

// What could break: a worker says that it will search before it publishes a result; when nobody
// wants the result, the value's destructor runs after that, and nobody is woken for what it waits
// for.
TEST_CASE("the destructor of an unwanted value may wait for other work", "[executor]") {
  for (const int workers : {1, 2}) {
    CAPTURE(workers);
    std::atomic<int> ended{0};
    const manta::runtime rt(spinning(workers));
    const auto shared = manta::spawn<counter>();
    for (int i = 1; i <= 20; ++i) {
      barrier_gate gate;
      {
        static_cast<void>(manta::async([&gate, &ended, shared] {
          gate.enter();
          return caller_at_end(shared, &ended);
        }));
      }
      gate.open();
      REQUIRE(happens([&] { return ended.load() == i; }));
    }
  }
}

namespace {

// Runs a task that delegates, and waits for it, when it is destroyed.
struct delegator_at_end {
  std::atomic<int>* ended = nullptr;
  explicit delegator_at_end(std::atomic<int>* e) : ended(e) {}
  delegator_at_end(delegator_at_end&& other) noexcept
      : ended(std::exchange(other.ended, nullptr)) {}
  ~delegator_at_end() {
    if (ended == nullptr) return;
    const auto got = manta::async([] { return manta::remote<twice>(21); }).try_get();
    ended->fetch_add(got && *got == 42 ? 1 : 1000);
  }
};

}  // namespace

// What could break: aliases are made under a lock, and the last holds that go there end values.
TEST_CASE("the destructor of an unwanted delegated value may delegate itself", "[executor]") {
  const manta::runtime rt(spinning(2));
  std::atomic<int> ended{0};
  for (int i = 1; i <= 20; ++i) {
    barrier_gate gate;
    {
      static_cast<void>(manta::async([&gate, &ended] {
        const auto inner = manta::async([&ended] { return delegator_at_end(&ended); });
        inner.get();
        gate.enter();
        return inner;
      }));
    }
    gate.open();
    REQUIRE(happens([&] { return ended.load() == i; }));
  }
}
