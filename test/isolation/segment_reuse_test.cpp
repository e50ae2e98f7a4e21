// SPDX-License-Identifier: Apache-2.0
// Workers use the memory of arrays that are gone for the next ones: never of one that somebody
// still has, and the node has it back when it needs it, when it is idle, and when the worker dies.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "constants.hpp"
#include "isolation/support.hpp"

namespace segment_reuse_test {

namespace {

using manta::array;
using manta::make_array;
using manta_test::mib;
using test::comes_true;
using test::isolated;

constexpr std::size_t half_mib = mib / 2 / sizeof(double);

struct made {
  array<double> values;
  std::uintptr_t at = 0;  // in the worker
};

array<double> numbered(std::size_t count, int n) {
  auto room = make_array<double>(count);
  std::iota(room.span().begin(), room.span().end(), static_cast<double>(n) * 1e7);
  return std::move(room).seal();
}
made placed(std::size_t count, int n) {
  array<double> values = numbered(count, n);
  const auto at = reinterpret_cast<std::uintptr_t>(values.data());
  return {std::move(values), at};
}
bool is_right(const array<double>& a, int n) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != n * 1e7 + static_cast<double>(i)) return false;
  }
  return true;
}
// Of arrays that no other process sees, some of them never whole.
std::size_t places_of(int count) {
  std::set<std::uintptr_t> all;
  for (int i = 0; i < count; ++i) {
    auto room = make_array<double>(half_mib);
    all.insert(reinterpret_cast<std::uintptr_t>(room.data()));
    if (i % 2 == 0) static_cast<void>(std::move(room).seal());
  }
  return all.size();
}
// Microseconds that half of the requests for new memory take at most.
double median_request() {
  std::vector<array<double>> kept;
  std::vector<double> took;
  for (int i = 0; i < 40; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    kept.push_back(make_array<double>(mib / 8 / sizeof(double)).seal());
    const std::chrono::duration<double, std::micro> one = std::chrono::steady_clock::now() - begin;
    took.push_back(one.count());
  }
  std::ranges::sort(took);
  return took[took.size() / 2];
}

manta::config with_store(std::size_t mibs, int workers = 1, int wait_ms = 10'000) {
  manta::config c = isolated(workers);
  c.store_bytes = static_cast<std::int64_t>(mibs * mib);
  c.store_wait_ms = wait_ms;
  c.spill_folder = "none";
  return c;
}

}  // namespace

TEST_CASE("a worker's next array lies where one was that is gone", "[isolation][array]") {
  const manta::runtime rt(with_store(64));
  std::set<std::uintptr_t> places;
  for (int i = 0; i < 60; ++i) {
    const made one = manta::remote<placed>(half_mib, i).get();
    REQUIRE(is_right(one.values, i));
    places.insert(one.at);
  }
  CHECK(places.size() <= 8);
  CHECK(rt.store().reserved_bytes <= 8 * mib / 2);
  CHECK(manta::remote<places_of>(100).get() <= 2);
}

TEST_CASE("memory of an array that somebody has is not used again", "[isolation][array]") {
  const manta::runtime rt(with_store(128, 2));
  std::vector<array<double>> kept;
  for (int i = 0; i < 90; ++i) {
    array<double> one =
        manta::remote<placed>(half_mib - static_cast<std::size_t>(i % 7), i).get().values;
    if (i % 2 == 0) {
      kept.push_back(std::move(one));  // the maker has none
    } else if (i % 3 == 0) {
      const manta::future<bool> read = manta::remote<is_right>(one, i);
      one = {};  // another worker has one, or the maker once more
      REQUIRE(read.get());
    }
  }
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK(is_right(kept[i], static_cast<int>(2 * i)));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    CHECK(manta::remote<is_right>(kept[i], static_cast<int>(2 * i)).get());
  }
}

TEST_CASE("a node that needs the room has what workers keep at once", "[isolation][array]") {
  const manta::runtime rt(with_store(64, 2, 0));
  for (int i = 0; i < 8; ++i) {
    REQUIRE(is_right(manta::remote<placed>(8 * half_mib, i).get().values, i));
  }
  CHECK(comes_true([&] { return rt.store().used_bytes == 0; }));
  const array<double> large = make_array<double>(60 * mib / sizeof(double)).seal();
  CHECK(large.valid());
  CHECK(manta::remote<is_right>(numbered(half_mib, 1), 1).get());
}

TEST_CASE("what a worker keeps goes when it is idle, and with the worker", "[isolation][array]") {
  const manta::runtime rt(with_store(64));
  REQUIRE(is_right(manta::remote<placed>(half_mib, 3).get().values, 3));
  CHECK(comes_true([&] { return rt.store().reserved_bytes == 0; }));
  CHECK(is_right(manta::remote<placed>(half_mib, 4).get().values, 4));
  const made last = manta::remote<placed>(half_mib, 5).get();
  ::kill(manta::remote<test::pid>().get(), SIGKILL);
  CHECK(comes_true([&] { return rt.store().reserved_bytes == mib / 2; }));
  CHECK(is_right(last.values, 5));
  CHECK(is_right(manta::remote<placed>(half_mib, 6).get().values, 6));
}

TEST_CASE("a worker that makes more than it may keep gives the rest back", "[isolation][array]") {
  const manta::runtime rt(with_store(16, 1, 0));
  for (int i = 0; i < 60; ++i) CHECK(manta::remote<median_request>().get() > 0);
  CHECK(comes_true([&] { return rt.store().reserved_bytes == 0; }));
}

// A node that looks for requests once in a tick of a millisecond answers half of them later.
TEST_CASE("a worker that asks for memory does not wait for its node's tick", "[isolation][array]") {
  const manta::runtime rt(with_store(64));
  CHECK(comes_true([&] { return manta::remote<median_request>().get() < 700; }));
}

}  // namespace segment_reuse_test
