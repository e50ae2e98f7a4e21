// SPDX-License-Identifier: Apache-2.0
//
// manta's side of bench_library.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <manta/manta.hpp>

#include "harness/measure.hpp"
#include "rivals/channel_rows.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

using number = std::uint64_t;
using futures = std::vector<manta::future<number>>;

number echo(number i) { return i; }
number sum_below(std::size_t n) { return number{n} * (n - 1) / 2; }

futures submit(std::size_t count) {
  futures all;
  all.reserve(count);
  for (number i = 0; i < count; ++i) all.push_back(manta::remote<echo>(i));
  return all;
}

number walk(futures&& all) {
  number sum = 0;
  for (manta::future<number>& f : manta::as_completed(std::move(all))) sum += f.get();
  return sum;
}

// When the walk of as_completed begins.
enum class walk_begins { ended, under_way, with_submitting };

contestant our_completed(const char* name, walk_begins when) {
  contestant c{completed, name, side::ours};
  c.start = [when](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t count = how.count(million);
    return [=](const turn&) {
      keep(rt);
      futures all;
      if (when != walk_begins::with_submitting) all = submit(count);
      if (when == walk_begins::ended) {
        for (const manta::future<number>& f : all) f.get();
      }
      return time_per_operation(unit::nanoseconds, count, [&] {
        if (when == walk_begins::with_submitting) all = submit(count);
        check(walk(std::move(all)) == sum_below(count), "sum of the futures");
      });
    };
  };
  return c;
}

contestant our_callbacks() {
  contestant c{callbacks, "manta", side::ours};
  c.start = [](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t count = how.count(million);
    return [=](const turn&) {
      keep(rt);
      const futures all = submit(count);
      for (const manta::future<number>& f : all) f.get();
      return time_per_operation(unit::nanoseconds, count, [&] {
        futures told;
        told.reserve(count);
        for (const manta::future<number>& f : all) {
          told.push_back(
              manta::on_ready(f, [](const manta::future<number>& of) { return of.get(); }));
        }
        number sum = 0;
        for (const manta::future<number>& f : told) sum += f.get();
        check(sum == sum_below(count), "sum of the callbacks' results");
      });
    };
  };
  return c;
}

std::vector<number> many_numbers(std::size_t count) {
  std::vector<number> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = i;
  return made;
}

contestant our_parts() {
  contestant c{parts, "manta", side::ours};
  c.start = [](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t count = how.count(100000);
    return [=](const turn&) {
      keep(rt);
      return time_per_operation(unit::nanoseconds, count, [&] {
        number sum = 0;
        for (manta::future<number>& part :
             manta::split(manta::remote<many_numbers>(count), count)) {
          sum += part.get();
        }
        check(sum == sum_below(count), "sum of the parts");
      });
    };
  };
  return c;
}

manta::coroutine<number> awaiting(std::size_t count) {
  number sum = 0;
  for (number i = 0; i < count; ++i) sum += co_await manta::remote<echo>(i);
  co_return sum;
}

number getting(std::size_t count) {
  number sum = 0;
  for (number i = 0; i < count; ++i) sum += manta::remote<echo>(i).get();
  return sum;
}

template <auto Function>
contestant our_awaited(const char* name) {
  contestant c{awaited, name, side::ours};
  c.start = [](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t count = how.count(million);
    return [=](const turn&) {
      keep(rt);
      return time_per_operation(unit::nanoseconds, count, [&] {
        check(manta::remote<Function>(count).get() == sum_below(count), "sum of the results");
      });
    };
  };
  return c;
}

manta::coroutine<number> awaits(manta::future<number> what) { co_return 1 + co_await what; }

// The task whose value all wait for ends when `open` is set.
contestant our_resumed(const char* name, std::size_t coroutines) {
  contestant c{resumed, name, side::ours};
  c.start = [coroutines](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t rounds = std::max<std::size_t>(how.count(200000) / coroutines, 1);
    return [=](const turn&) {
      keep(rt);
      double took = 0;
      for (std::size_t i = 0; i < rounds; ++i) {
        auto start = std::make_shared<double>(0);
        auto open = std::make_shared<std::atomic<bool>>(false);
        const manta::future<number> what = manta::async([open, start] {
          while (!open->load()) std::this_thread::yield();
          *start = now_s();
          return number{1};
        });
        futures all;
        for (std::size_t k = 0; k < coroutines; ++k) all.push_back(manta::remote<awaits>(what));
        const double until = now_s() + 10;
        while (manta::exec::suspended_coroutines() < coroutines && now_s() < until) {
          std::this_thread::yield();
        }
        check(manta::exec::suspended_coroutines() == coroutines, "all coroutines wait");
        open->store(true);
        number sum = 0;
        for (const manta::future<number>& f : all) sum += f.get();
        took += now_s() - *start;
        check(sum == 2 * coroutines, "sum of the coroutines' results");
      }
      const auto n = static_cast<double>(rounds * coroutines);
      return reading{.value = took / n * 1e9, .operations = n};
    };
  };
  return c;
}

manta::stream<number> numbers_below(std::size_t count) {
  for (number i = 0; i < count; ++i) co_yield i;
}

number take_all(std::size_t count) {
  number sum = 0;
  for (manta::future<number>& f : manta::remote<numbers_below>(count)) sum += f.get();
  return sum;
}
number take_all_in_task(std::size_t count) {
  return manta::async([count] { return take_all(count); }).get();
}
manta::coroutine<number> await_items(std::size_t count) {
  number sum = 0;
  manta::stream<number> items = manta::remote<numbers_below>(count);
  while (std::optional<manta::future<number>> f = co_await items.async_next()) sum += f->get();
  co_return sum;
}
number take_all_in_coroutine(std::size_t count) { return manta::remote<await_items>(count).get(); }

contestant our_streamed(const char* name, number (*take)(std::size_t)) {
  contestant c{streamed, name, side::ours};
  c.start = [take](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t count = how.count(million);
    return [=](const turn&) {
      keep(rt);
      return time_per_operation(unit::nanoseconds, count,
                                [&] { check(take(count) == sum_below(count), "sum of items"); });
    };
  };
  return c;
}

contestant our_cancelled() {
  contestant c{cancelled, "manta", side::ours};
  c.start = [](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t count = how.count(million);
    return [=](const turn&) {
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
      const futures queued = submit(count);
      reading r = time_per_operation(unit::seconds, 1, [&] {
        check(manta::cancel(queued) == count, "number of cancelled tasks");
        for (const manta::future<number>& f : queued)
          check(f.is_ready(), "end of a cancelled task");
      });
      released.store(true);
      released.notify_all();
      for (const manta::future<int>& f : holders) f.get();
      r.operations = static_cast<double>(count);
      return r;
    };
  };
  return c;
}

contestant our_reduced() {
  contestant c{reduced, "manta", side::ours};
  c.start = [](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    auto all = std::make_shared<std::vector<double>>(how.count(100 * million), 1.0);
    return [=](const turn&) {
      keep(rt);
      return time_per_operation(unit::milliseconds, 1, [&] {
        const double sum = manta::parallel_reduce(*all, 0.0, std::plus<>());
        check(sum == static_cast<double>(all->size()), "sum of doubles");
      });
    };
  };
  return c;
}

std::shared_ptr<void> make_runtime() { return std::make_shared<manta::runtime>(); }

contestant as_ours(contestant c) {
  c.who = side::ours;
  return c;
}

}  // namespace

void add_our_library(suite& s) {
  s.add(our_completed("manta, ended before", walk_begins::ended));
  s.add(our_completed("manta, under way", walk_begins::under_way));
  s.add(our_completed("manta, submitting included", walk_begins::with_submitting));
  s.add(our_callbacks());
  s.add(our_parts());
  s.add(our_awaited<awaiting>("manta, co_await"));
  s.add(our_awaited<getting>("manta, get in a plain task"));
  s.add(our_resumed("manta, 1,000 coroutines", 1000));
  s.add(our_resumed("manta, 100,000 coroutines", 100000));
  s.add(our_streamed("manta", take_all));
  s.add(our_streamed("manta, taken by a task", take_all_in_task));
  s.add(our_streamed("manta, awaited by a coroutine", take_all_in_coroutine));
  s.add(our_cancelled());
  s.add(our_reduced());
  s.add(as_ours(sent_alone<manta::channel<number>>("manta", make_runtime)));
  s.add(as_ours(sent_across<manta::channel<number>>("manta", make_runtime)));
}

}  // namespace bench
