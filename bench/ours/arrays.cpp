// SPDX-License-Identifier: Apache-2.0
//
// manta's side of bench_arrays. In `processes` a task that is given the array touches its first and
// last element, so that what is measured is the way, not the reading.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <manta/manta.hpp>

#include "harness/measure.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

using bytes = manta::array<std::uint8_t>;

int ends_of(const bytes& a) { return a.valid() ? a[0] + a[a.size() - 1] : 0; }
bytes made(std::size_t n) { return std::move(manta::make_array<std::uint8_t>(n)).seal(); }
std::size_t length(const std::vector<double>& v) { return v.size(); }

manta::config on(manta::isolation_mode how) {
  manta::config c;
  c.workers = 2;
  c.isolation = how;
  return c;
}

// As memory takes it best: lines that nobody reads first.
void stream(std::uint8_t* to, const std::uint8_t* from, std::size_t size) {
#if defined(__SSE2__)
  auto* at = reinterpret_cast<__m128i*>((reinterpret_cast<std::uintptr_t>(to) + 63) & ~63UL);
  for (std::size_t i = 0; i < size / 16; ++i) {
    _mm_stream_si128(at + i, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i));
  }
  _mm_sfence();
#else
  std::memcpy(to, from, size);
#endif
  keep(*to);
}

// A quick run has no time for the largest.
std::size_t size_in(const plan& p, const array_size& of) {
  return p.quick ? std::min(of.bytes, std::size_t{64} << 20U) : of.bytes;
}

// Time of one of `count` calls of `work`.
template <class Work>
reading repeated(std::size_t count, Work&& work) {
  return time_per_operation(unit::microseconds, count, [&] {
    for (std::size_t i = 0; i < count; ++i) work();
  });
}

void add_size(suite& s, const array_size& of) {
  s.add(contestant{of.row, "memcpy, warm", side::reference, false, [of](const plan& p) {
                     const std::size_t size = size_in(p, of);
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
  s.add(
      contestant{of.row, "copy past the caches, warm", side::reference, false, [of](const plan& p) {
                   const std::size_t size = size_in(p, of);
                   const auto from = std::make_shared<std::vector<std::uint8_t>>(size, 1);
                   const auto to = std::make_shared<std::vector<std::uint8_t>>(size + 64, 2);
                   const std::size_t n = p.count(of.repeats);
                   return [=](const turn&) {
                     return repeated(n, [&] { stream(to->data(), from->data(), size); });
                   };
                 }});
  s.add(contestant{of.row, "write(2) to a file", side::reference, false, [of](const plan& p) {
                     const std::size_t size = size_in(p, of);
                     const auto from = std::make_shared<std::vector<std::uint8_t>>(size, 1);
                     const std::size_t n = p.count(of.repeats);
                     return [=](const turn&) {
                       const int file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
                       const reading r = repeated(n, [&] {
                         check(pwrite(file, from->data(), size, 0) == static_cast<ssize_t>(size),
                               "write");
                       });
                       close(file);
                       return r;
                     };
                   }});
}

void add_our_size(suite& s, const array_size& of) {
  s.add(contestant{
      of.row, "manta, put and get in the node", side::ours, false, [of](const plan& p) {
        const std::size_t size = size_in(p, of);
        const auto rt = std::make_shared<manta::runtime>(on(manta::isolation_mode::threads));
        const auto from = std::make_shared<std::vector<std::uint8_t>>(size, 1);
        const std::size_t n = p.count(of.repeats);
        return [=](const turn&) {
          check(rt->workers() == 2, "workers");
          return repeated(n, [&] {
            const manta::future<bytes> f = manta::put(manta::make_array(*from));
            check(f.get().size() == size, "size");
          });
        };
      }});
  s.add(contestant{of.row, "manta, make_array of a range", side::ours, false, [of](const plan& p) {
                     const std::size_t size = size_in(p, of);
                     const auto rt =
                         std::make_shared<manta::runtime>(on(manta::isolation_mode::threads));
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
      of.row, "manta, to a task in a process", side::ours, false, [of](const plan& p) {
        const std::size_t size = size_in(p, of);
        const auto rt = std::make_shared<manta::runtime>(on(manta::isolation_mode::processes));
        const auto a =
            std::make_shared<bytes>(manta::make_array(std::vector<std::uint8_t>(size, 1)));
        const std::size_t n = p.count(of.repeats);
        return [=](const turn&) {
          check(rt->workers() == 2, "workers");
          return repeated(n, [&] { check(manta::remote<ends_of>(*a).get() == 2, "ends"); });
        };
      }});
  s.add(contestant{of.row, "manta, made in a process", side::ours, false, [of](const plan& p) {
                     const std::size_t size = size_in(p, of);
                     const auto rt =
                         std::make_shared<manta::runtime>(on(manta::isolation_mode::processes));
                     const std::size_t n = p.count(of.repeats);
                     return [=](const turn&) {
                       check(rt->workers() == 2, "workers");
                       return repeated(n, [&] {
                         check(manta::remote<made>(size).get().size() == size, "size");
                       });
                     };
                   }});
  s.add(contestant{
      of.row, "manta, a vector to a process", side::ours, false, [of](const plan& p) {
        const std::size_t size = size_in(p, of);
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

void copy_once(std::uint8_t* to, const std::uint8_t* from, std::size_t size, bool is_streaming) {
  if (is_streaming) return stream(to, from, size);
  std::memcpy(to, from, size);
  keep(*to);
}

void add_our_arrays(suite& s) {
  for (const array_size& each : array_sizes) {
    add_size(s, each);
    add_our_size(s, each);
  }
}

}  // namespace bench
