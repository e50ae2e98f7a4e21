// SPDX-License-Identifier: Apache-2.0
// Arrays that nobody reads leave memory and come back, with isolated workers: what they made, what
// they are given, what they hold; whoever dies meanwhile.
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "constants.hpp"
#include "folder.hpp"
#include "isolation/support.hpp"
#include "spill_support.hpp"

namespace spill_test {

namespace {

using Catch::Matchers::Contains;
using manta::array;
using manta::make_array;
using manta_test::mib;
using test::comes_true;
using test::isolated;
using test::shared;
using test::shared_numbers;

constexpr std::size_t one_mib = mib / sizeof(double);

struct layered {
  int number = 0;
  std::vector<array<double>> layers;
};

// A MiB of values that nobody else has.
array<double> numbered(int n) {
  auto made = make_array<double>(one_mib);
  std::iota(made.span().begin(), made.span().end(), static_cast<double>(n) * 1e7);
  return std::move(made).seal();
}
double sum_of(const array<double>& a) { return std::accumulate(a.begin(), a.end(), 0.0); }
double expected(int n) {
  const auto count = static_cast<double>(one_mib);
  return count * n * 1e7 + count * (count - 1) / 2;
}
double sum_of_two(const array<double>& a, const array<double>& b) { return sum_of(a) + sum_of(b); }
layered layers(int n) { return {n, {numbered(n), numbered(n + 1)}}; }
double sum_of_layers(const layered& l) { return sum_of(l.layers[0]) + sum_of(l.layers[1]); }
double die_reading(const array<double>& a) {
  if (shared(0).fetch_add(1) == 0) ::kill(getpid(), SIGKILL);
  return sum_of(a);
}
// Holds its argument until the test says that it may go on.
double hold_until_told(const array<double>& a) {
  shared(0) = 1;
  while (shared(1) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return sum_of(a);
}
double nested(const array<double>& a, int n) {
  return sum_of(a) + manta::remote<sum_of>(manta::remote<numbered>(n)).get();
}

class counter {
 public:
  double add(const array<double>& a) { return total_ += sum_of(a); }

 private:
  double total_ = 0;
};

class small_store {
 public:
  explicit small_store(std::size_t mibs = 8, int workers = 2, int wait_ms = 10'000)
      : rt(settings(folder, mibs, workers, wait_ms)) {}
  manta_test::folder folder;
  const manta::runtime rt;

 private:
  static manta::config settings(const manta_test::folder& in, std::size_t mibs, int workers,
                                int wait_ms) {
    manta::config c = isolated(workers);
    c.store_bytes = static_cast<std::int64_t>(mibs * mib);
    c.store_wait_ms = wait_ms;
    c.spill_folder = in.path().string();
    return c;
  }
};

}  // namespace

TEST_CASE("what workers made and nobody reads goes to the disk, and comes back",
          "[isolation][spill]") {
  const small_store s;
  std::vector<manta::future<array<double>>> made;
  for (int i = 0; i < 32; ++i) made.push_back(manta::remote<numbered>(i));
  static_cast<void>(manta::wait(made, {.count = made.size()}));
  CHECK(s.rt.store().spilled_bytes >= 20 * mib);
  CHECK(s.rt.store().reserved_bytes <= 8 * mib);
  CHECK(std::filesystem::is_empty(s.folder.path()));
  for (int i = 31; i >= 0; --i) {
    CHECK(std::move(made[static_cast<std::size_t>(i)]).get()[1] == i * 1e7 + 1);
  }
  made.clear();
  CHECK(comes_true([&] { return s.rt.store().used_bytes == 0; }));
  CHECK(comes_true([&] { return s.rt.store().spilled_bytes == 0; }));
}

TEST_CASE("what lies on the disk is brought back for the workers that read it",
          "[isolation][spill]") {
  const small_store s;
  std::vector<manta::future<array<double>>> all;
  for (int i = 0; i < 32; ++i) all.push_back(manta::put(numbered(i)));
  CHECK(s.rt.store().spilled_bytes >= 20 * mib);
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<manta::future<double>> sums;
    for (const auto& one : all) sums.push_back(manta::remote<sum_of>(one));
    for (int i = 0; i < 32; ++i) CHECK(sums[static_cast<std::size_t>(i)].get() == expected(i));
  }
}

TEST_CASE("tasks of several arrays each get them together, in a store with room for few",
          "[isolation][spill]") {
  // If a task held one while it waits for the other, two would wait for each other.
  const small_store s(4, 3);
  std::vector<manta::future<array<double>>> all;
  for (int i = 0; i < 12; ++i) all.push_back(manta::put(numbered(i)));
  std::vector<manta::future<double>> sums;
  for (std::size_t i = 0; i < 60; ++i) {
    sums.push_back(manta::remote<sum_of_two>(all[i % 12], all[(i * 5 + 1) % 12]));
  }
  for (std::size_t i = 0; i < 60; ++i) {
    CHECK(sums[i].get() ==
          expected(static_cast<int>(i % 12)) + expected(static_cast<int>((i * 5 + 1) % 12)));
  }
}

TEST_CASE("a chain of tasks through a small store is right", "[isolation][spill]") {
  const small_store s(16);
  std::vector<manta::future<layered>> all;
  for (int i = 0; i < 20; ++i) all.push_back(manta::remote<layers>(i));
  std::vector<manta::future<double>> sums;
  for (const auto& one : all) sums.push_back(manta::remote<sum_of_layers>(one));
  for (int i = 0; i < 20; ++i) {
    CHECK(sums[static_cast<std::size_t>(i)].get() == expected(i) + expected(i + 1));
  }
  CHECK(s.rt.store().spilled_bytes > 0);
  for (int i = 0; i < 20; ++i) {
    const layered back = std::move(all[static_cast<std::size_t>(i)]).get();
    CHECK(sum_of_layers(back) == expected(i) + expected(i + 1));
  }
}

TEST_CASE("what a worker reads stays in memory, and goes when it has ended", "[isolation][spill]") {
  const shared_numbers numbers;
  const small_store s(4, 1, 200);
  const manta::future<array<double>> read = manta::put(numbered(7));
  const manta::future<double> sum = manta::remote<hold_until_told>(read);
  REQUIRE(comes_true([] { return shared(0) == 1; }));
  std::vector<array<double>> mine;
  for (int i = 0; i < 3; ++i) mine.push_back(numbered(i));
  // Three are the test's, one is the worker's.
  CHECK_THROWS_AS(numbered(3), manta::store_full);
  shared(1) = 1;
  CHECK(sum.get() == expected(7));
  CHECK(comes_true([&] {
    try {
      static_cast<void>(numbered(3));
      return true;
    } catch (const manta::store_full&) {
      return false;
    }
  }));
  CHECK(s.rt.store().spilled_bytes >= mib);
  mine.clear();
  CHECK(sum_of(read.get()) == expected(7));
}

TEST_CASE("actors' calls and nested calls get what was spilled", "[isolation][spill]") {
  const small_store s(16);
  std::vector<manta::future<array<double>>> all;
  for (int i = 0; i < 32; ++i) all.push_back(manta::put(numbered(i)));
  const manta::actor<counter> a = manta::spawn<counter>();
  std::vector<manta::future<double>> totals;
  for (const auto& one : all) totals.push_back(manta::remote<&counter::add>(a, one));
  double total = 0;
  for (int i = 0; i < 32; ++i) {
    total += expected(i);
    CHECK(totals[static_cast<std::size_t>(i)].get() == total);
  }
  std::vector<manta::future<double>> sums;
  for (int i = 0; i < 8; ++i) {
    sums.push_back(manta::remote<nested>(all[static_cast<std::size_t>(i)], i));
  }
  for (int i = 0; i < 8; ++i) CHECK(sums[static_cast<std::size_t>(i)].get() == 2 * expected(i));
}

TEST_CASE("a task whose worker dies reads what was spilled in its next run", "[isolation][spill]") {
  const shared_numbers numbers;
  const small_store s(4);
  std::vector<manta::future<array<double>>> all;
  for (int i = 0; i < 12; ++i) all.push_back(manta::put(numbered(i)));
  CHECK(manta::remote<die_reading>(all[0]).get() == expected(0));
  // What the dead one had is free.
  for (int i = 0; i < 12; ++i) {
    CHECK(manta::remote<sum_of>(all[static_cast<std::size_t>(i)]).get() == expected(i));
  }
}

TEST_CASE("a spilled array that the disk has spoiled fails the task that needs it, and no other",
          "[isolation][spill]") {
  const small_store s(4);
  std::vector<manta::future<array<double>>> all;
  for (int i = 0; i < 12; ++i) all.push_back(manta::put(numbered(i)));
  REQUIRE(test::spoil_spill_files(s.folder.path(), test::flip_bytes) == 1);
  int lost = 0;
  for (int i = 0; i < 12; ++i) {
    const auto got = manta::remote<sum_of>(all[static_cast<std::size_t>(i)]).try_get();
    if (got) {
      CHECK(*got == expected(i));
    } else {
      ++lost;
      CHECK(got.error().code() == manta::errc::object_lost);
      CHECK_THAT(got.error().message(), Contains("its bytes are not those that were written"));
    }
  }
  CHECK(lost >= 8);
  CHECK(lost < 12);
  CHECK(manta::remote<sum_of>(manta::put(numbered(1))).get() == expected(1));
}

}  // namespace spill_test
