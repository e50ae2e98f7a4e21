// SPDX-License-Identifier: Apache-2.0
//
// What the rows' bodies use: a clock, a check that stays on, quantiles, a time-bounded loop.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "harness/suite.hpp"

namespace bench {

inline double now_s() {
  using clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(clock::now().time_since_epoch()).count();
}

// Results are consumed and compared: a contestant that computes something else does not count.
inline void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "bench: wrong result: %s\n", what);
  std::abort();
}

// Keeps a value alive without storing it.
template <class T>
inline void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

// The q-quantile by nearest rank; the vector is sorted in place. Not-a-number when empty.
inline double quantile(std::vector<double>& values, double q) {
  if (values.empty()) return not_measured;
  std::sort(values.begin(), values.end());
  const double rank = q * static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(rank + 0.5)];
}

inline double scale_of(unit in) {
  switch (in) {
    case unit::nanoseconds:
      return 1e9;
    case unit::microseconds:
      return 1e6;
    case unit::milliseconds:
      return 1e3;
    default:
      return 1;
  }
}

// Time per operation of `count` operations done by `work()`.
template <class Work>
reading time_per_operation(unit in, std::size_t count, Work&& work) {
  const double start = now_s();
  work();
  const double took = now_s() - start;
  const auto n = static_cast<double>(count);
  return {.value = took / n * scale_of(in), .operations = n};
}

// Mean time of one operation without a clock inside the loop, then p50 and p99 from a second loop
// with a clock read per operation (about 25 ns of each quantile).
template <class Operation>
reading latency(unit in, std::size_t count, Operation&& operation) {
  reading r = time_per_operation(in, count, [&] {
    for (std::size_t i = 0; i < count; ++i) operation(i);
  });
  std::vector<double> each(count);
  double before = now_s();
  for (std::size_t i = 0; i < count; ++i) {
    operation(i);
    const double after = now_s();
    each[i] = (after - before) * scale_of(in);
    before = after;
  }
  r.operations *= 2;
  r.p50 = quantile(each, 0.50);
  r.p99 = quantile(each, 0.99);
  return r;
}

// Median time of one operation after the machine was left alone for `pause`, so that whoever serves
// it has gone to sleep.
template <class Operation>
reading latency_after_pause(unit in, std::size_t count, std::chrono::microseconds pause,
                            Operation&& operation) {
  std::vector<double> each(count);
  for (std::size_t i = 0; i < count; ++i) {
    const timespec rest{0, static_cast<long>(pause.count()) * 1000};
    nanosleep(&rest, nullptr);
    const double before = now_s();
    operation(i);
    each[i] = (now_s() - before) * scale_of(in);
  }
  reading r{.value = quantile(each, 0.50), .operations = static_cast<double>(count)};
  r.p50 = r.value;
  r.p99 = quantile(each, 0.99);
  return r;
}

// In milliseconds; `once` says how many seconds its own were.
template <class Once>
reading median_ms(int rounds, Once&& once) {
  std::vector<double> each;
  for (int i = 0; i < rounds; ++i) each.push_back(once() * 1e3);
  return {.value = quantile(each, 0.5), .operations = static_cast<double>(rounds)};
}

// Rate of `call` over at least `min_seconds`; each call counts `multiplier` operations. The clock
// is read once per `batch` calls.
template <class Call>
reading rate(const turn& t, double multiplier, std::size_t batch, Call&& call) {
  double calls = 0;
  const double start = now_s();
  double took = 0;
  do {
    for (std::size_t i = 0; i < batch; ++i) call();
    calls += static_cast<double>(batch);
    took = now_s() - start;
  } while (took < t.min_seconds);
  return {.value = calls * multiplier / took, .operations = calls * multiplier};
}

}  // namespace bench
