// SPDX-License-Identifier: Apache-2.0
//
// manta's side of bench_tasks: a runtime with its defaults, nothing tuned.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <manta/manta.hpp>

#include "harness/machine.hpp"
#include "harness/measure.hpp"
#include "rivals/pool_rows.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

template <class R>
R make(std::uint32_t i) {
  return payload<R>::make(i);
}

std::size_t echo(std::size_t i) { return i; }

template <class R>
std::uint64_t call_and_get(std::size_t count) {
  std::vector<manta::future<R>> futures;
  futures.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) futures.push_back(manta::remote<make<R>>(i));
  std::uint64_t sum = 0;
  for (const manta::future<R>& f : futures) sum += payload<R>::read(f.get());
  return sum;
}

// `from_task`: a task submits and gets them, instead of the main thread.
template <class R>
contestant our_many(const char* name, bool from_task) {
  contestant c{payload<R>::row, name, side::ours, true};
  c.start = [=](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t count = how.count(million);
    return [=](const turn&) {
      keep(rt);
      return time_per_operation(unit::nanoseconds, count, [&] {
        const std::uint64_t sum =
            from_task ? manta::remote<call_and_get<R>>(count).get() : call_and_get<R>(count);
        check(sum == payload_sum(count), "sum of results");
      });
    };
  };
  return c;
}

contestant our_two_submitters() {
  contestant c{two_submitters, "manta", side::ours, true};
  c.start = [](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t half = how.count(million) / 2;
    return [=](const turn&) {
      keep(rt);
      return time_per_operation(unit::nanoseconds, 2 * half, [&] {
        std::uint64_t other = 0;
        std::thread second([&] { other = call_and_get<std::uint64_t>(half); });
        const std::uint64_t mine = call_and_get<std::uint64_t>(half);
        second.join();
        check(mine + other == 2 * payload_sum(half), "sum of results");
      });
    };
  };
  return c;
}

// manta::async as a pool, for the rows' common text.
class async_lambdas {
 public:
  explicit async_lambdas(int) { keep(runtime_); }
  template <class F>
  auto submit(F function) {
    return manta::async(std::move(function));
  }

 private:
  manta::runtime runtime_;
};

std::int64_t fib_tasks(int n) {
  if (n < 2) return n;
  const manta::future<std::int64_t> x = manta::remote<fib_tasks>(n - 1);
  const manta::future<std::int64_t> y = manta::remote<fib_tasks>(n - 2);
  return x.get() + y.get();
}

std::int64_t fib_inline(int n) {
  if (n < 2) return n;
  const manta::future<std::int64_t> x = manta::remote<fib_inline>(n - 1);
  const std::int64_t y = fib_inline(n - 2);
  return x.get() + y;
}

template <auto Function>
contestant our_fib(const char* name) {
  contestant c{fib, name, side::ours, true};
  c.start = [](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const bool quick = how.quick;
    return [=](const turn&) {
      keep(rt);
      return time_per_operation(unit::nanoseconds, quick ? 1973 : fib_calls, [&] {
        const std::int64_t got = manta::remote<Function>(quick ? 15 : fib_of).get();
        check(got == (quick ? 610 : fib_value), "fib");
      });
    };
  };
  return c;
}

void one_in_place(std::size_t i) {
  const manta::future<std::size_t> f = manta::remote<echo>(i);
  check(f.get() == i, "value of one task");
}

// A timed get never runs the task in place: a worker has to.
void one_by_worker(std::size_t i) {
  const manta::future<std::size_t> f = manta::remote<echo>(i);
  check(f.get(10s) == i, "value of one task");
}

contestant our_one(const char* row, void (*once)(std::size_t)) {
  contestant c{row, "manta", side::ours};
  c.start = [=](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t count = how.count(100000);
    return [=](const turn&) {
      keep(rt);
      return latency(unit::microseconds, count, once);
    };
  };
  return c;
}

contestant our_asleep() {
  contestant c{one_asleep, "manta", side::ours};
  c.start = [](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t count = how.quick ? 5 : 300;
    return [=](const turn&) {
      keep(rt);
      return latency_after_pause(unit::microseconds, count, 2ms, one_by_worker);
    };
  };
  return c;
}

contestant our_held() {
  contestant c{held, "manta", side::ours, true};
  c.start = [](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t count = how.count(million);
    return [=](const turn&) {
      const double before = resident_bytes();
      std::atomic<int> holding{0};
      std::atomic<bool> released{false};
      std::vector<manta::future<int>> holders;
      for (int i = 0; i < rt->workers(); ++i) {
        holders.push_back(manta::async([&] {
          holding.fetch_add(1);
          released.wait(false);
          return 0;
        }));
      }
      while (holding.load() != rt->workers()) std::this_thread::yield();
      reading r = time_per_operation(unit::seconds, 1, [&] {
        std::vector<manta::future<std::uint64_t>> futures;
        for (std::uint32_t i = 0; i < count; ++i) {
          futures.push_back(manta::remote<make<std::uint64_t>>(i));
        }
        released.store(true);
        released.notify_all();
        std::uint64_t sum = 0;
        for (const manta::future<std::uint64_t>& f : futures) sum += f.get();
        check(sum == payload_sum(count), "sum of results");
      });
      for (const manta::future<int>& f : holders) f.get();
      r.operations = static_cast<double>(count);
      r.bytes = (peak_resident_bytes() - before) / r.operations;
      return r;
    };
  };
  return c;
}

contestant our_long_run() {
  contestant c{long_run, "manta", side::ours};
  c.start = [](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t count = how.count(long_run_tasks);
    return [=](const turn&) {
      keep(rt);
      return in_windows(count, call_and_get<std::uint64_t>);
    };
  };
  return c;
}

// The windows are made by as many tasks as there are workers.
contestant our_long_run_by_tasks() {
  contestant c{long_run, "manta, submitted by tasks", side::ours};
  c.start = [](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const auto makers = static_cast<std::size_t>(rt->workers());
    const std::size_t count = how.count(long_run_tasks);
    return [=](const turn&) {
      keep(rt);
      reading r =
          in_windows(count / long_run_window / makers * long_run_window, [=](std::size_t n) {
            std::vector<manta::future<std::uint64_t>> sums;
            for (std::size_t i = 0; i < makers; ++i) {
              sums.push_back(manta::remote<call_and_get<std::uint64_t>>(n));
            }
            for (const auto& sum : sums) check(sum.get() == payload_sum(n), "a sum");
            return payload_sum(n);
          });
      r.operations *= static_cast<double>(makers);
      r.bytes /= static_cast<double>(makers);
      return r;
    };
  };
  return c;
}

contestant our_idle() {
  contestant c{idle, "manta", side::ours};
  c.start = [](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const auto pause = how.quick ? 100ms : 5000ms;
    return [=](const turn&) {
      keep(rt);
      check(call_and_get<std::uint64_t>(10000) == payload_sum(10000), "sum of results");
      // What is measured is the time in which nothing happens: there is no event to wait for.
      std::this_thread::sleep_for(pause);
      const double start = now_s();
      const double cpu = process_cpu_s();
      std::this_thread::sleep_for(pause);
      return reading{.value = 100 * (process_cpu_s() - cpu) / (now_s() - start)};
    };
  };
  return c;
}

contestant as_ours(contestant c) {
  c.who = side::ours;
  return c;
}

}  // namespace

void add_our_tasks(suite& s) {
  s.add(our_many<std::uint8_t>("manta", false));
  s.add(our_many<std::uint64_t>("manta", false));
  s.add(our_many<std::uint64_t>("manta, submitted by a task", true));
  s.add(our_many<bytes_64>("manta", false));
  s.add(our_many<std::string>("manta", false));
  s.add(as_ours(many<std::uint64_t, async_lambdas>("manta::async(lambda)", 0, true)));
  s.add(our_two_submitters());
  s.add(our_fib<fib_tasks>("manta, both branches tasks"));
  s.add(our_fib<fib_inline>("manta, one branch inline"));
  s.add(our_one(one, one_in_place));
  s.add(our_one(one_hot, one_by_worker));
  s.add(our_asleep());
  s.add(our_held());
  s.add(our_long_run());
  s.add(our_long_run_by_tasks());
  s.add(our_idle());
}

}  // namespace bench
