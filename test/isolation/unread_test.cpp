// SPDX-License-Identifier: Apache-2.0
// What a node keeps for its workers: answers that they do not read, what could not be sent, and
// nothing after a million tasks.
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "constants.hpp"
#include "exec/support.hpp"
#include "failing_allocations.hpp"
#include "isolation/support.hpp"

namespace unread_test {

namespace {

using Catch::Matchers::Contains;
using manta_test::mib;
using test::comes_true;
using test::isolated;
using test::shared;
using test::shared_numbers;
using test::square;

// Below what goes through the store.
std::vector<double> large(int n) { return std::vector<double>(15 * mib / sizeof(double), n); }

struct outcome {
  int right = 0;
  int refused = 0;
  std::string why;
};

// Calls, and looks at no result until the test says that all of them have come.
outcome asks_and_does_not_read(int n) {
  std::vector<manta::future<std::vector<double>>> all;
  all.reserve(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) all.push_back(manta::remote<large>(i));
  comes_true([] { return shared(0) != 0; });
  outcome out;
  for (int i = 0; i < n; ++i) {
    const auto got = std::move(all[static_cast<std::size_t>(i)]).try_get(test::patience);
    if (got) {
      out.right += got->back() == i ? 1 : 0;
    } else {
      out.refused += got.error().code() == manta::errc::store_full ? 1 : 0;
      out.why = got.error().message();
    }
  }
  return out;
}

// In kB, of this process: what it has of its own.
long resident() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word == "RssAnon:") break;
  }
  long kb = 0;
  status >> kb;
  return kb;
}

}  // namespace

TEST_CASE("answers that a worker does not read have a limit, and are store_full behind it",
          "[isolation][unread]") {
  if (test::is_sanitized) return;  // it takes a GiB
  const shared_numbers numbers;
  const manta::runtime rt(isolated(2));
  constexpr int n = 80;
  const auto before = rt.stats().run_isolated;
  const auto asks = manta::remote<asks_and_does_not_read>.with({.max_retries = 0})(n);
  CHECK(comes_true([&] { return rt.stats().run_isolated - before >= n; }));
  // The last ones are on their way from ring to ring.
  const long kept = resident();
  numbers[0] = 1;
  const outcome& got = asks.get();
  CHECK(got.right + got.refused == n);
  CHECK(got.right >= 60);
  CHECK(got.refused >= 5);
  CHECK_THAT(got.why, Contains("to read, allowed are 1073741824"));
  CHECK(kept < 1300 * 1024);
  CHECK(manta::remote<square>(5).get() == 25);
}

namespace {

struct parcel {
  std::vector<std::string> bulk;  // each below what goes through the store
  manta::array<double> values;
};
double reads(const parcel& p) {
  return std::accumulate(p.values.begin(), p.values.end(), 0.0) +
         static_cast<double>(p.bulk.size());
}

// Whether the call got its value. The n-th large allocation since then has failed, if there were
// so many; of those all belong to this call.
bool reads_though_one_fails(parcel p, int n) {
  manta_test::large_fails_in = n;
  try {
    const auto got = manta::remote<reads>(std::move(p)).try_get(test::patience);
    CHECK((got || got.error().code() != manta::errc::timed_out));
    return got.has_value();
  } catch (const std::bad_alloc&) {
  } catch (const manta::exception&) {
  }
  return false;
}

}  // namespace

// The message is made and has no room in the ring, so that it needs memory to be kept in, which is
// not there: what it names has been counted by then.
TEST_CASE("a message that could not be sent holds nothing of what it names",
          "[isolation][unread]") {
  const shared_numbers numbers;
  manta::config c = isolated(1);
  c.store_bytes = static_cast<std::int64_t>(64 * mib);
  const manta::runtime rt(c);
  int refused = 0;
  for (int n = 1;; ++n) {
    auto made = manta::make_array<double>(mib / sizeof(double));
    made.fill(1);
    const manta::array<double> values = std::move(made).seal();
    parcel p{std::vector<std::string>(48, std::string(mib / 2, 'x')), values};
    CHECK(manta::remote<square>(2).get() == 4);
    const bool is_read = reads_though_one_fails(std::move(p), n);
    const bool none_failed = manta_test::large_fails_in.exchange(0) > 0;
    if (!is_read) ++refused;
    if (none_failed) {
      CHECK(is_read);
      break;
    }
  }
  INFO(refused << " calls were refused");
  CHECK(refused > 0);  // that it is kept
  CHECK(comes_true([&] { return rt.store().used_bytes == 0; }, std::chrono::seconds(10)));
  CHECK(manta::remote<square>(5).get() == 25);
}

TEST_CASE("a million tasks leave memory where it was", "[isolation][unread][repeats]") {
  const manta::runtime rt(isolated());
  const int n = manta_test::repeats(100'000, 1'000'000);
  const int wave = n / 100;
  const auto run = [wave](int waves) {
    for (int w = 0; w < waves; ++w) {
      std::vector<manta::future<int>> all;
      all.reserve(static_cast<std::size_t>(wave));
      for (int i = 0; i < wave; ++i) all.push_back(manta::remote<square>(i % 1000));
      long sum = 0;
      for (auto& f : all) sum += f.get();
      if (sum == 0) throw std::logic_error("results are missing");
    }
  };
  run(10);
  const long before = resident();
  const long worker_before = manta::remote<resident>().get();
  const auto zygotes = test::children_of(getpid());
  run(90);
  INFO("driver " << before << " kB, then " << resident() << "; a worker " << worker_before
                 << " kB, then " << manta::remote<resident>().get());
  if (!test::is_sanitized) {  // which keep what was freed for a while
    CHECK(resident() < before + 4 * 1024);
    CHECK(manta::remote<resident>().get() < worker_before + 4 * 1024);
  }
  REQUIRE(zygotes.size() == 1);
  CHECK(comes_true([&] { return test::children_of(zygotes.front()).size() <= 3; }));
}

}  // namespace unread_test
