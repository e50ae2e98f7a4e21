// SPDX-License-Identifier: Apache-2.0
//
// More of bench_arrays: what a get alone costs, in the node and in a worker, one large put beside
// the copies that it can't do without, and a large argument of many tasks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <manta/manta.hpp>

#include "harness/measure.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

using bytes = manta::array<std::uint8_t>;
using handle = std::vector<manta::future<bytes>>;  // so that the task itself gets it

constexpr std::size_t mib = std::size_t{1} << 20U;

manta::config on(manta::isolation_mode how) {
  manta::config c;
  c.workers = 2;
  c.isolation = how;
  return c;
}

manta::future<bytes> put_bytes(std::size_t size) {
  return manta::put(manta::make_array(std::vector<std::uint8_t>(size, 1)));
}

// Microseconds of the first get of what the task was given.
double first_get(const handle& given) {
  const double begin = now_s();
  const bytes& a = given.front().get();
  check(a[a.size() - 1] == 1, "the last element");
  return (now_s() - begin) * 1e6;
}

// Of one of `n` gets that come after it.
double later_gets(const handle& given, std::size_t n) {
  check(given.front().get().valid(), "a first get");
  const double begin = now_s();
  for (std::size_t i = 0; i < n; ++i) check(given.front().get()[0] == 1, "the first element");
  return (now_s() - begin) * 1e6 / static_cast<double>(n);
}

void add_gets(suite& s, const char* row, std::size_t full) {
  const auto size_of = [full](const plan& p) { return p.quick ? std::min(full, 64 * mib) : full; };
  s.add(contestant{row, "manta, in the node", side::ours, false, [=](const plan& p) {
                     const auto rt =
                         std::make_shared<manta::runtime>(on(manta::isolation_mode::processes));
                     const auto f = std::make_shared<manta::future<bytes>>(put_bytes(size_of(p)));
                     const std::size_t n = p.count(100'000);
                     return [=](const turn&) {
                       check(rt->workers() == 2, "workers");
                       return time_per_operation(unit::microseconds, n, [&] {
                         for (std::size_t i = 0; i < n; ++i) check(f->get()[0] == 1, "element");
                       });
                     };
                   }});
  for (const bool is_first : {true, false}) {
    s.add(contestant{row, is_first ? "manta, in a worker, first" : "manta, in a worker, again",
                     side::ours, false, [=](const plan& p) {
                       const auto rt =
                           std::make_shared<manta::runtime>(on(manta::isolation_mode::processes));
                       const auto given = std::make_shared<handle>();
                       given->push_back(put_bytes(size_of(p)));
                       const std::size_t tasks = p.count(1000);
                       const std::size_t each = p.count(100'000);
                       return [=](const turn&) {
                         check(rt->workers() == 2, "workers");
                         if (!is_first) {
                           const double took = manta::remote<later_gets>(*given, each).get();
                           return reading{.value = took, .operations = double(each)};
                         }
                         std::vector<double> took;
                         for (std::size_t i = 0; i < tasks; ++i) {
                           took.push_back(manta::remote<first_get>(*given).get());
                         }
                         return reading{.value = quantile(took, 0.5), .operations = double(tasks)};
                       };
                     }});
  }
}

// One put of 800 MiB, as arrays of images or tables are.
void add_large_put(suite& s) {
  const auto size_of = [](const plan& p) { return p.quick ? 32 * mib : 800 * mib; };
  for (const bool is_streaming : {false, true}) {
    s.add(contestant{"array_put_839", is_streaming ? "copy past the caches" : "copy by memcpy",
                     side::reference, false, [=](const plan& p) {
                       const std::size_t size = size_of(p);
                       const auto from = std::make_shared<std::vector<std::uint8_t>>(size, 1);
                       const auto to = std::make_shared<std::vector<std::uint8_t>>(size + 64, 2);
                       return [=](const turn&) {
                         return time_per_operation(unit::milliseconds, 1, [&] {
                           copy_once(to->data(), from->data(), size, is_streaming);
                         });
                       };
                     }});
  }
  s.add(contestant{"array_put_839", "manta, put", side::ours, false, [=](const plan& p) {
                     const auto rt = std::make_shared<manta::runtime>();
                     const auto from = std::make_shared<std::vector<std::uint8_t>>(size_of(p), 1);
                     return [=](const turn&) {
                       check(rt->workers() > 0, "workers");
                       return time_per_operation(unit::milliseconds, 1, [&] {
                         check(manta::put(manta::make_array(*from)).valid(), "put");
                       });
                     };
                   }});
}

constexpr std::size_t tasks_of_one = 100;

std::uint64_t sum_of(const std::uint8_t* from, std::size_t size) {
  return std::accumulate(from, from + size, std::uint64_t{0});
}
// One of the parts that make up the whole.
std::uint64_t part_of_array(const bytes& a, std::uint64_t i) {
  const std::size_t part = a.size() / tasks_of_one;
  return sum_of(a.data() + i * part, part);
}
std::uint64_t plain(std::uint64_t i) { return i + 1; }

void add_many_tasks(suite& s) {
  const auto size_of = [](const plan& p) {
    return (p.quick ? 32 * mib : 1024 * mib) / tasks_of_one * tasks_of_one;
  };
  const char* const row = "array_100_tasks";
  s.add(contestant{row, "manta, 1 GiB each, a pass by all", side::ours, false, [=](const plan& p) {
                     const std::size_t size = size_of(p);
                     const auto rt =
                         std::make_shared<manta::runtime>(on(manta::isolation_mode::processes));
                     const auto a = std::make_shared<bytes>(
                         manta::make_array(std::vector<std::uint8_t>(size, 1)));
                     return [=](const turn&) {
                       check(rt->workers() == 2, "workers");
                       return time_per_operation(unit::milliseconds, 1, [&] {
                         std::uint64_t sum = 0;
                         for (std::uint64_t i = 0; i < tasks_of_one; ++i) {
                           sum += manta::remote<part_of_array>(*a, i).get();
                         }
                         check(sum == size, "sum");
                       });
                     };
                   }});
  s.add(contestant{
      row, "manta, 8 bytes each, and a pass", side::reference, false, [=](const plan& p) {
        const std::size_t size = size_of(p);
        const auto rt = std::make_shared<manta::runtime>(on(manta::isolation_mode::processes));
        const auto a =
            std::make_shared<bytes>(manta::make_array(std::vector<std::uint8_t>(size, 1)));
        return [=](const turn&) {
          check(rt->workers() == 2, "workers");
          return time_per_operation(unit::milliseconds, 1, [&] {
            for (std::uint64_t i = 0; i < tasks_of_one; ++i) {
              check(manta::remote<plain>(i).get() == i + 1, "plain");
            }
            check(sum_of(a->data(), size) == size, "sum");
          });
        };
      }});
}

}  // namespace

void add_our_array_gets(suite& s) {
  add_gets(s, "array_get_1m", mib);
  add_gets(s, "array_get_1g", 1024 * mib);
  add_large_put(s);
  add_many_tasks(s);
}

}  // namespace bench
