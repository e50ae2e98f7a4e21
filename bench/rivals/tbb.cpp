// SPDX-License-Identifier: Apache-2.0
//
// oneTBB in its best forms: task_group (which makes no futures), its results in slots, one branch
// inline where it recurses, and the future that one would build on it.
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_invoke.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "harness/machine.hpp"
#include "harness/measure.hpp"
#include "rivals/pool_rows.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

namespace tbb = oneapi::tbb;

// An arena of exactly `threads`, the caller's among them.
struct arena {
  explicit arena(int threads)
      : limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads)),
        place(threads) {}
  tbb::global_control limit;
  tbb::task_arena place;
};

// The shape of most rows: `count` operations timed inside an arena that outlives the rounds.
using work = std::function<void(tbb::task_arena&, std::size_t)>;

contestant in_arena(const char* row, std::string name, int threads, unit in, std::size_t full,
                    work what) {
  contestant c{row, std::move(name)};
  c.start = [=](const plan& how) -> body {
    auto a = std::make_shared<arena>(threads);
    const std::size_t count = how.count(full);
    return
        [=](const turn&) { return time_per_operation(in, count, [&] { what(a->place, count); }); };
  };
  return c;
}

void empty_tasks(tbb::task_arena& place, std::size_t count) {
  place.execute([&] {
    tbb::task_group group;
    for (std::size_t i = 0; i < count; ++i) group.run([] {});
    group.wait();
  });
}

template <class R>
void tasks_with_slots(tbb::task_arena& place, std::size_t count) {
  place.execute([&] {
    tbb::task_group group;
    std::vector<R> slots(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      group.run([i, &slots] { slots[i] = payload<R>::make(i); });
    }
    group.wait();
    std::uint64_t sum = 0;
    for (const R& r : slots) sum += payload<R>::read(r);
    check(sum == payload_sum(count), "sum of results");
  });
}

void two_groups(tbb::task_arena& place, std::size_t count) {
  std::thread second([&] { empty_tasks(place, count / 2); });
  empty_tasks(place, count / 2);
  second.join();
}

std::int64_t fib_one_inline(int n) {
  if (n < 2) return n;
  std::int64_t x = 0;
  tbb::task_group group;
  group.run([&x, n] { x = fib_one_inline(n - 1); });
  const std::int64_t y = fib_one_inline(n - 2);
  group.wait();
  return x + y;
}

std::int64_t fib_two_tasks(int n) {
  if (n < 2) return n;
  std::int64_t x = 0;
  std::int64_t y = 0;
  tbb::task_group group;
  group.run([&x, n] { x = fib_two_tasks(n - 1); });
  group.run([&y, n] { y = fib_two_tasks(n - 2); });
  group.wait();
  return x + y;
}

std::int64_t fib_invoke(int n) {
  if (n < 2) return n;
  std::int64_t x = 0;
  std::int64_t y = 0;
  tbb::parallel_invoke([&x, n] { x = fib_invoke(n - 1); }, [&y, n] { y = fib_invoke(n - 2); });
  return x + y;
}

contestant fibonacci(const char* form, int threads, std::int64_t (*function)(int)) {
  contestant c{fib, std::string("oneTBB ") + form + ", " + std::to_string(threads) + " thr"};
  c.preload = true;
  c.start = [=](const plan& how) -> body {
    auto a = std::make_shared<arena>(threads);
    const bool quick = how.quick;
    return [=](const turn&) {
      return time_per_operation(unit::nanoseconds, quick ? 1973 : fib_calls, [&] {
        std::int64_t got = 0;
        a->place.execute([&] { got = function(quick ? 15 : fib_of); });
        check(got == (quick ? 610 : fib_value), "fib");
      });
    };
  };
  return c;
}

contestant run_and_wait(int threads) {
  contestant c{one, "oneTBB run + wait, " + std::to_string(threads) + " thr (no future)"};
  c.start = [=](const plan& how) -> body {
    auto a = std::make_shared<arena>(threads);
    const std::size_t count = how.count(100000);
    return [=](const turn&) {
      reading r;
      a->place.execute([&] {
        tbb::task_group group;
        r = latency(unit::microseconds, count, [&](std::size_t i) {
          std::size_t got = 0;
          group.run([&got, i] { got = i; });
          group.wait();
          check(got == i, "value of one task");
        });
      });
      return r;
    };
  };
  return c;
}

// The future that a oneTBB user would reach for: a packaged_task in an arena.
class enqueue_pool {
 public:
  // enqueue() needs a worker: the arena has one slot more for the caller.
  explicit enqueue_pool(int threads) : arena_(threads + 1) {}
  template <class F>
  auto submit(F function) {
    auto task =
        std::make_shared<std::packaged_task<std::invoke_result_t<F&>()>>(std::move(function));
    auto future = task->get_future();
    arena_.place.enqueue([task] { (*task)(); });
    return future;
  }

 private:
  arena arena_;
};

contestant held_tasks() {
  contestant c{held, "oneTBB task_group, 2 thr (no futures)"};
  c.preload = true;
  c.start = [](const plan& how) -> body {
    auto a = std::make_shared<arena>(2);
    const std::size_t count = how.count(million);
    return [=](const turn&) {
      const double before = resident_bytes();
      std::atomic<bool> holding{false};
      std::atomic<bool> released{false};
      reading r;
      a->place.execute([&] {
        tbb::task_group group;
        group.run([&] {
          holding.store(true);
          released.wait(false);
        });
        while (!holding.load()) std::this_thread::yield();
        r = time_per_operation(unit::seconds, 1, [&] {
          for (std::size_t i = 0; i < count; ++i) group.run([] {});
          released.store(true);
          released.notify_all();
          group.wait();
        });
      });
      r.operations = static_cast<double>(count);
      r.bytes = (peak_resident_bytes() - before) / r.operations;
      return r;
    };
  };
  return c;
}

template <class R>
contestant slots(int threads) {
  contestant c =
      in_arena(payload<R>::row, "oneTBB result in a slot, " + std::to_string(threads) + " thr",
               threads, unit::nanoseconds, million, tasks_with_slots<R>);
  c.preload = true;
  return c;
}

}  // namespace

void add_tbb(suite& s) {
  for (int threads : {1, 2}) {
    const std::string thr = ", " + std::to_string(threads) + " thr";
    contestant c = in_arena(many_8, "oneTBB task_group" + thr + " (no futures)", threads,
                            unit::nanoseconds, million, empty_tasks);
    c.preload = true;
    s.add(c);
    s.add(slots<std::uint64_t>(threads));
    s.add(fibonacci("one branch inline", threads, fib_one_inline));
    s.add(fibonacci("parallel_invoke", threads, fib_invoke));
    s.add(run_and_wait(threads));
  }
  s.add(slots<std::uint8_t>(2));
  s.add(slots<bytes_64>(2));
  s.add(slots<std::string>(2));
  s.add(fibonacci("both branches spawned", 2, fib_two_tasks));
  contestant c = in_arena(two_submitters, "oneTBB task_group, 2 thr (no futures)", 2,
                          unit::nanoseconds, million, two_groups);
  c.preload = true;
  s.add(c);
  s.add(many<std::uint64_t, enqueue_pool>("oneTBB enqueue + std::future, 1 thr", 1, false));
  s.add(one_by_one<enqueue_pool>(one, "oneTBB enqueue + std::future", 1, 20000));
  s.add(one_by_one<enqueue_pool>(one_asleep, "oneTBB enqueue + std::future", 1, 0));
  s.add(held_tasks());
}

}  // namespace bench
