// SPDX-License-Identifier: Apache-2.0
//
// The task rows for any `Pool(int threads)` whose `submit(f)` returns a future with `get()`. One
// text for all such pools, so that each does exactly the same work.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/machine.hpp"
#include "harness/measure.hpp"
#include "rivals/rows.hpp"

namespace bench {

template <class R, class Pool>
std::uint64_t submit_and_get(Pool& pool, std::size_t count) {
  using future = decltype(pool.submit([] { return R(); }));
  std::vector<future> futures;
  futures.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    futures.push_back(pool.submit([i] { return payload<R>::make(i); }));
  }
  std::uint64_t sum = 0;
  for (future& f : futures) sum += payload<R>::read(f.get());
  return sum;
}

// `full` tasks of result R submitted by one thread, then all got.
template <class R, class Pool>
contestant many(std::string name, int threads, bool preload, std::size_t full = million) {
  contestant c{payload<R>::row, std::move(name)};
  c.preload = preload;
  c.start = [=](const plan& how) -> body {
    auto pool = std::make_shared<Pool>(threads);
    const std::size_t count = how.count(full);
    return [=](const turn&) {
      return time_per_operation(unit::nanoseconds, count, [&] {
        check(submit_and_get<R>(*pool, count) == payload_sum(count), "sum of results");
      });
    };
  };
  return c;
}

template <class Pool>
contestant two_at_once(std::string name, int threads, bool preload) {
  contestant c{two_submitters, std::move(name)};
  c.preload = preload;
  c.start = [=](const plan& how) -> body {
    auto pool = std::make_shared<Pool>(threads);
    const std::size_t half = how.count(million) / 2;
    return [=](const turn&) {
      return time_per_operation(unit::nanoseconds, 2 * half, [&] {
        std::uint64_t other = 0;
        std::thread second([&] { other = submit_and_get<std::uint64_t>(*pool, half); });
        const std::uint64_t mine = submit_and_get<std::uint64_t>(*pool, half);
        second.join();
        check(mine + other == 2 * payload_sum(half), "sum of results");
      });
    };
  };
  return c;
}

constexpr std::size_t long_run_tasks = 100 * million;
constexpr std::size_t long_run_window = 10000;

// `window(n)` submits n tasks and gets each. Bytes: growth of the resident set from the first tenth
// on, per task.
template <class Window>
reading in_windows(std::size_t count, Window&& window) {
  double early = 0;
  double late = 0;
  reading r = time_per_operation(unit::seconds, 1, [&] {
    for (std::size_t done = 0; done < count; done += long_run_window) {
      check(window(long_run_window) == payload_sum(long_run_window), "sum of results");
      if (done % (count / 10) >= long_run_window) continue;
      if (done <= count / 10) early = std::max(early, resident_bytes());
      late = resident_bytes();
    }
  });
  r.operations = static_cast<double>(count);
  r.bytes = std::max(0.0, late - early) / r.operations;
  return r;
}

template <class Pool>
contestant one_by_one(const char* row, std::string name, int threads, std::size_t full) {
  contestant c{row, std::move(name)};
  const bool is_asleep = std::string(row) == one_asleep;
  c.start = [=](const plan& how) -> body {
    auto pool = std::make_shared<Pool>(threads);
    const auto once = [=](std::size_t i) {
      check(pool->submit([i] { return i; }).get() == i, "value of one task");
    };
    if (is_asleep) {
      const std::size_t count = how.quick ? 5 : 300;
      return [=](const turn&) {
        return latency_after_pause(unit::microseconds, count, std::chrono::milliseconds(2), once);
      };
    }
    const std::size_t count = how.count(full);
    return [=](const turn&) { return latency(unit::microseconds, count, once); };
  };
  return c;
}

// All threads held, 1 M tasks queued, released, each got. Bytes per task at the peak, from the
// resident set; the futures are part of it.
template <class Pool>
contestant queued(std::string name, int threads, bool preload) {
  contestant c{held, std::move(name)};
  c.preload = preload;
  c.start = [=](const plan& how) -> body {
    auto pool = std::make_shared<Pool>(threads);
    const std::size_t count = how.count(million);
    return [=](const turn&) {
      using future = decltype(pool->submit([] { return std::uint64_t(); }));
      const double before = resident_bytes();
      std::atomic<int> holding{0};
      std::atomic<bool> released{false};
      std::vector<future> holders;
      for (int i = 0; i < threads; ++i) {
        holders.push_back(pool->submit([&]() -> std::uint64_t {
          holding.fetch_add(1);
          released.wait(false);
          return 0;
        }));
        while (holding.load() != i + 1) std::this_thread::yield();
      }
      reading r = time_per_operation(unit::seconds, 1, [&] {
        std::vector<future> futures;
        for (std::uint32_t i = 0; i < count; ++i) {
          futures.push_back(pool->submit([i] { return payload<std::uint64_t>::make(i); }));
        }
        released.store(true);
        released.notify_all();
        std::uint64_t sum = 0;
        for (future& f : futures) sum += f.get();
        check(sum == payload_sum(count), "sum of results");
      });
      for (future& f : holders) f.get();
      r.operations = static_cast<double>(count);
      r.bytes = (peak_resident_bytes() - before) / r.operations;
      return r;
    };
  };
  return c;
}

}  // namespace bench
