// SPDX-License-Identifier: Apache-2.0
//
// manta's side of bench_library.
#include <atomic>
#include <functional>
#include <memory>
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
  s.add(our_cancelled());
  s.add(our_reduced());
  s.add(as_ours(sent_alone<manta::channel<number>>("manta", make_runtime)));
  s.add(as_ours(sent_across<manta::channel<number>>("manta", make_runtime)));
}

}  // namespace bench
