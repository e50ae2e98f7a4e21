// SPDX-License-Identifier: Apache-2.0
//
// manta's side of bench_arrays. In `processes` a task that is given the array touches its first and
// last element, so that what is measured is the way, not the reading.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <manta/manta.hpp>

#include "harness/measure.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

using bytes = manta::array<std::uint8_t>;

int ends_of(const bytes& a) { return a[0] + a[a.size() - 1]; }
bytes made(std::size_t n) { return std::move(manta::make_array<std::uint8_t>(n)).seal(); }
std::size_t length(const std::vector<double>& v) { return v.size(); }

manta::config on(manta::isolation_mode how) {
  manta::config c;
  c.workers = 2;
  c.isolation = how;
  return c;
}

// Time of one of `count` calls of `work`.
template <class Work>
reading repeated(std::size_t count, Work&& work) {
  return time_per_operation(unit::microseconds, count, [&] {
    for (std::size_t i = 0; i < count; ++i) work();
  });
}

void add_size(suite& s, const array_size& of) {
  const std::size_t size = of.bytes;
  s.add(contestant{of.row, "memcpy, warm", side::reference, false, [of, size](const plan& p) {
                     const auto from = std::make_shared<std::vector<std::uint8_t>>(size, 1);
                     const auto to = std::make_shared<std::vector<std::uint8_t>>(size, 2);
                     const std::size_t n = p.count(of.repeats);
                     return [=](const turn&) {
                       return repeated(n, [&] {
                         std::memcpy(to->data(), from->data(), size);
                         keep(*to);
                       });
                     };
                   }});
  s.add(contestant{
      of.row, "manta, make_array of a range", side::ours, false, [of, size](const plan& p) {
        const auto rt = std::make_shared<manta::runtime>(on(manta::isolation_mode::threads));
        const auto from = std::make_shared<std::vector<std::uint8_t>>(size, 1);
        const std::size_t n = p.count(of.repeats);
        return [=](const turn&) {
          check(rt->workers() == 2, "workers");
          return repeated(n, [&] {
            const bytes a = manta::make_array(*from);
            check(a.size() == size, "size");
          });
        };
      }});
  s.add(contestant{
      of.row, "manta, to a task in a process", side::ours, false, [of, size](const plan& p) {
        const auto rt = std::make_shared<manta::runtime>(on(manta::isolation_mode::processes));
        const auto a =
            std::make_shared<bytes>(manta::make_array(std::vector<std::uint8_t>(size, 1)));
        const std::size_t n = p.count(of.repeats);
        return [=](const turn&) {
          check(rt->workers() == 2, "workers");
          return repeated(n, [&] { check(manta::remote<ends_of>(*a).get() == 2, "ends"); });
        };
      }});
  s.add(contestant{
      of.row, "manta, made in a process", side::ours, false, [of, size](const plan& p) {
        const auto rt = std::make_shared<manta::runtime>(on(manta::isolation_mode::processes));
        const std::size_t n = p.count(of.repeats);
        return [=](const turn&) {
          check(rt->workers() == 2, "workers");
          return repeated(n,
                          [&] { check(manta::remote<made>(size).get().size() == size, "size"); });
        };
      }});
  s.add(contestant{
      of.row, "manta, a vector to a process", side::ours, false, [of, size](const plan& p) {
        const auto rt = std::make_shared<manta::runtime>(on(manta::isolation_mode::processes));
        const auto v = std::make_shared<std::vector<double>>(size / 8, 1.0);
        const std::size_t n = p.count(of.repeats);
        return [=](const turn&) {
          check(rt->workers() == 2, "workers");
          return repeated(n, [&] { check(manta::remote<length>(*v).get() == size / 8, "size"); });
        };
      }});
}

}  // namespace

void add_our_arrays(suite& s) {
  for (const array_size& each : array_sizes) add_size(s, each);
}

}  // namespace bench
