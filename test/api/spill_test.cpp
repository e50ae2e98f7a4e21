// SPDX-License-Identifier: Apache-2.0
// Arrays that nobody reads: on the disk while memory has no room, back when somebody wants them,
// and a typed answer when the disk has not kept them.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "api/support.hpp"
#include "folder.hpp"
#include "spill_support.hpp"

namespace spill_test {

namespace {

using Catch::Matchers::Contains;
using manta::array;
using manta::make_array;

constexpr std::size_t mib = std::size_t{1} << 20U;
constexpr std::size_t one_mib = mib / sizeof(double);

struct model {
  std::string name;
  std::vector<array<double>> layers;
  std::optional<array<double>> bias;
  std::map<int, std::pair<int, array<double>>> by_number;
  std::unique_ptr<array<double>> owned;
};

array<double> numbered(int n) {
  auto made = make_array<double>(one_mib);
  std::iota(made.span().begin(), made.span().end(), static_cast<double>(n) * 1e7);
  return std::move(made).seal();
}
double sum_of(const array<double>& a) { return std::accumulate(a.begin(), a.end(), 0.0); }
double sum_of_span(std::span<const double> a) { return std::accumulate(a.begin(), a.end(), 0.0); }
double sum_of_value(array<double> a) { return sum_of(a); }
double sum_of_two(const array<double>& a, const array<double>& b) { return sum_of(a) + sum_of(b); }
double sum_of_all(const std::vector<array<double>>& all) {
  double sum = 0;
  for (const auto& one : all) sum += sum_of(one);
  return sum;
}
bool appears(const std::string& file) {
  return test::comes_true([&] { return std::filesystem::exists(file); });
}
double sum_when_told(const array<double>& a, const std::string& begun, const std::string& told) {
  std::ofstream(begun).put('.');
  return appears(told) ? sum_of(a) : -1;
}
double expected(int n) {
  const auto count = static_cast<double>(one_mib);
  return count * n * 1e7 + count * (count - 1) / 2;
}
model a_model(int n) {
  model m{"model", {numbered(n), numbered(n + 1)}, numbered(n + 2), {}, nullptr};
  m.by_number.emplace(3, std::pair(4, numbered(n + 3)));
  m.owned = std::make_unique<array<double>>(numbered(n + 4));
  return m;
}
double sum_of_model(const model& m) {
  return sum_of_all(m.layers) + sum_of(*m.bias) + sum_of(m.by_number.at(3).second) +
         sum_of(*m.owned);
}
double expected_model(int n) {
  double sum = 0;
  for (int i = 0; i < 5; ++i) sum += expected(n + i);
  return sum;
}

class small_store {
 public:
  explicit small_store(std::size_t mibs = 8, int wait_ms = 10'000, std::int64_t spill_bytes = -1)
      : rt(settings(folder, mibs, wait_ms, spill_bytes)) {}
  manta_test::folder folder;
  const manta::runtime rt;

 private:
  static manta::config settings(const manta_test::folder& in, std::size_t mibs, int wait_ms,
                                std::int64_t spill_bytes) {
    manta::config c = test::two_workers();
    c.store_bytes = static_cast<std::int64_t>(mibs * mib);
    c.store_wait_ms = wait_ms;
    c.spill_folder = in.path().string();
    c.spill_bytes = spill_bytes;
    return c;
  }
};

std::vector<manta::future<array<double>>> put_many(int count) {
  std::vector<manta::future<array<double>>> all;
  for (int i = 0; i < count; ++i) all.push_back(manta::put(numbered(i)));
  return all;
}

template <class T>
bool has(const manta::future<T>& f, manta::errc code) {
  const auto got = f.try_get();
  return !got && got.error().code() == code;
}

}  // namespace

TEST_CASE("what nobody reads goes to the disk, and is right when it comes back",
          "[spill][anywhere][stays:disk]") {
  const small_store s;
  std::vector<manta::future<array<double>>> all = put_many(32);
  CHECK(s.rt.store().spilled_bytes >= 20 * mib);
  CHECK(s.rt.store().reserved_bytes <= 8 * mib);
  CHECK(std::filesystem::is_empty(s.folder.path()));  // its files have no names
  for (int i = 0; i < 32; ++i) {
    const manta::future<array<double>>& one = all[static_cast<std::size_t>(i)];
    // Each way to read it.
    switch (i % 5) {
      case 0:
        CHECK(manta::remote<sum_of>(one).get() == expected(i));
        break;
      case 1:
        CHECK(manta::remote<sum_of_span>(one).get() == expected(i));
        break;
      case 2:
        CHECK(manta::remote<sum_of_value>(one).get() == expected(i));
        break;
      case 3:
        CHECK(sum_of(std::move(all[static_cast<std::size_t>(i)]).get()) == expected(i));
        break;
      default:
        CHECK(sum_of(*one.try_get()) == expected(i));
        break;
    }
  }
}

TEST_CASE("arrays inside of values leave memory with them", "[spill][anywhere]") {
  const small_store s(12);
  // What comes from another node goes to the heap when there is no room at once: each waits for it.
  const int count = test::in_nodes() ? 3 : 8;
  std::vector<manta::future<model>> all;
  for (int i = 0; i < count; ++i) all.push_back(manta::remote<a_model>(i));
  static_cast<void>(manta::wait(all, {.count = all.size()}));
  if (!test::in_nodes()) CHECK(s.rt.store().spilled_bytes >= 20 * mib);
  for (int i = 0; i < count; ++i) {
    const auto& one = all[static_cast<std::size_t>(i)];
    CHECK(manta::remote<sum_of_model>(one).get() == expected_model(i));
    CHECK(sum_of_model(std::move(all[static_cast<std::size_t>(i)]).get()) == expected_model(i));
  }
  all.clear();
  // A worker lets go of what it has made after it has sent it.
  CHECK(test::comes_true([&s] { return s.rt.store().used_bytes == 0; }));
}

namespace {
struct chain {
  manta::future<chain> next;
  manta::actor<chain> of;
};
}  // namespace

TEST_CASE("which types stay in their node is known by the type", "[value][stays:local]") {
  using manta::detail::stays_in_node;
  struct task_list {
    std::vector<std::pair<int, manta::future<array<int>>>> all;
  };
  CHECK_FALSE(stays_in_node<task_list>);
  CHECK_FALSE(stays_in_node<std::optional<array<int>>>);
  CHECK(stays_in_node<std::pair<array<int>, std::stop_token>>);
  CHECK(stays_in_node<std::variant<int, std::stop_token>>);
  CHECK(stays_in_node<manta::channel<std::vector<std::stop_token>>>);
  CHECK(stays_in_node<manta::permit>);
  CHECK_FALSE(stays_in_node<std::pair<manta::semaphore, manta::barrier>>);
  CHECK_FALSE(stays_in_node<std::variant<int, manta::channel<std::string>>>);
  CHECK_FALSE(stays_in_node<manta::future<manta::channel<int>>>);
  CHECK_FALSE(stays_in_node<std::vector<manta::weak_actor<chain>>>);
  CHECK_FALSE(stays_in_node<int>);
  CHECK_FALSE(stays_in_node<void>);
  CHECK_FALSE(stays_in_node<manta::future<void>>);
  CHECK_FALSE(stays_in_node<std::vector<manta::future<std::string>>>);
  CHECK_FALSE(stays_in_node<chain>);
  CHECK_FALSE(stays_in_node<std::map<int, std::vector<std::string>>>);
  CHECK_FALSE(stays_in_node<manta::error>);
}

TEST_CASE("which types have arrays is known by the type", "[spill][stays:local]") {
  using manta::detail::holds_arrays;
  CHECK(holds_arrays<array<int>>);
  CHECK(holds_arrays<model>);
  CHECK(holds_arrays<std::tuple<int, std::vector<array<float>>>>);
  CHECK(holds_arrays<std::variant<int, array<float>>>);
  CHECK_FALSE(holds_arrays<int>);
  CHECK_FALSE(holds_arrays<std::vector<double>>);
  CHECK_FALSE(holds_arrays<std::pair<int, std::string>>);
  CHECK_FALSE(holds_arrays<std::shared_ptr<array<float>>>);  // others may have it, too
  // Nothing is kept beside a value without.
  CHECK(sizeof(manta::detail::cell<int>) == sizeof(manta::exec::job) + sizeof(void*));
}

TEST_CASE("what was read longest ago goes first", "[spill][anywhere]") {
  const small_store s(32);
  const std::vector<manta::future<array<double>>> all = put_many(32);
  for (std::size_t i = 0; i < 16; i += 2) manta::remote<sum_of>(all[i]).get();
  CHECK(s.rt.store().spilled_bytes == 0);
  const manta::future<array<double>> more = manta::put(numbered(32));
  // One write of 8 MiB made room. What lies on the disk is spoiled, and so what is there only.
  CHECK(s.rt.store().spilled_bytes == 8 * mib);
  test::spoil_spill_files(s.folder.path(), [](int file, off_t) {
    if (ftruncate(file, 0) != 0) std::abort();
  });
  // Of what was written, only what had to has left memory: the oldest.
  int lost = 0;
  bool may_be_lost = true;
  for (std::size_t i = 0; i < 32; ++i) {
    const bool is_lost = has(manta::remote<sum_of>(all[i]), manta::errc::object_lost);
    const bool is_old = i < 16 && i % 2 == 1;
    if (is_old && !is_lost) may_be_lost = false;
    CHECK((!is_lost || (is_old && may_be_lost)));
    lost += is_lost ? 1 : 0;
  }
  CHECK(lost >= 1);
  CHECK(manta::remote<sum_of>(more).get() == expected(32));
}

TEST_CASE("a value that was seen stays in memory as long as somebody may see it",
          "[spill][stays:local]") {
  const small_store s(4, 1000);
  std::vector<manta::future<array<double>>> all = put_many(8);
  std::vector<const double*> seen;
  for (std::size_t i = 0; i < 4; ++i) seen.push_back(all[i].get().data());
  CHECK_THROWS_AS(numbered(9), manta::store_full);
  CHECK(has(all[5], manta::errc::store_full));
  CHECK_THROWS_AS(all[5].get(), manta::store_full);
  CHECK_THROWS_AS(std::move(all[5]).get(), manta::store_full);
  CHECK(has(manta::remote<sum_of>(all[5]), manta::errc::store_full));
  for (std::size_t i = 0; i < 4; ++i) CHECK(seen[i][1] == static_cast<double>(i) * 1e7 + 1);
  all.erase(all.begin());
  CHECK(sum_of(all[4].get()) == expected(5));  // what could not be had before was not given away
}

TEST_CASE("tasks of several arrays don't wait for each other", "[spill][anywhere]") {
  const small_store s(3);
  const std::vector<manta::future<array<double>>> all = put_many(12);
  std::vector<manta::future<double>> sums;
  for (std::size_t i = 0; i < 100; ++i) {
    sums.push_back(manta::remote<sum_of_two>(all[i % 12], all[(i * 7 + 3) % 12]));
  }
  for (std::size_t i = 0; i < 100; ++i) {
    CHECK(sums[i].get() ==
          expected(static_cast<int>(i % 12)) + expected(static_cast<int>((i * 7 + 3) % 12)));
  }
  const std::vector<manta::future<array<double>>> three(all.begin(), all.begin() + 3);
  CHECK(manta::remote<sum_of_all>(three).get() == expected(0) + expected(1) + expected(2));
}

TEST_CASE("what one task still reads stays when another has ended that read it, too",
          "[spill][anywhere]") {
  // If the first reader's end let it go, the second one would find nothing, or somebody else's.
  const small_store s(4);
  const manta::future<array<double>> both = manta::put(numbered(1));
  const std::string begun = (s.folder.path() / "begun").string();
  const std::string told = (s.folder.path() / "told").string();
  const manta::future<double> late = manta::remote<sum_when_told>(both, begun, told);
  REQUIRE(appears(begun));
  CHECK(manta::remote<sum_of>(both).get() == expected(1));
  const std::vector<manta::future<array<double>>> others = put_many(8);
  CHECK(s.rt.store().spilled_bytes > 0);
  std::ofstream(told).put('.');
  CHECK(late.get() == expected(1));
}

TEST_CASE("many threads read what comes and goes, and find it whole", "[spill][anywhere]") {
  const small_store s(6);
  const std::vector<manta::future<array<double>>> all = put_many(24);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 60; ++i) {
        const unsigned n = (i * (2 * t + 1) + t) % 24;
        if (manta::remote<sum_of>(all[n]).get() != expected(static_cast<int>(n))) ++wrong;
      }
    });
  }
  for (std::thread& one : threads) one.join();
  CHECK(wrong == 0);
}

TEST_CASE("a full disk is store_full in time, and no reason to stop", "[spill][anywhere]") {
  const small_store s(4, 1000);
  std::vector<manta::future<array<double>>> all = put_many(4);
  {
    const test::full_disk full(static_cast<rlim_t>(mib));
    const auto begin = std::chrono::steady_clock::now();
    const auto failed = [&] {
      try {
        all.push_back(manta::put(numbered(4)));
        return std::string("none");
      } catch (const manta::store_full& e) {
        return e.as_error().message();
      }
    }();
    CHECK_THAT(failed,
               Contains("spilling failed (store: asked to spill ") && Contains("File too large"));
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
    for (int i = 0; i < 4; ++i) {  // nothing was lost by trying
      CHECK(manta::remote<sum_of>(all[static_cast<std::size_t>(i)]).get() == expected(i));
    }
  }
  all.push_back(manta::put(numbered(4)));
  for (int i = 0; i < 5; ++i)
    CHECK(sum_of(std::move(all[static_cast<std::size_t>(i)]).get()) == expected(i));
}

TEST_CASE("who waits for a full disk goes on by itself when there is room",
          "[spill][stays:local]") {
  const small_store s(4, 60'000);
  std::vector<manta::future<array<double>>> all = put_many(4);
  test::full_disk full(static_cast<rlim_t>(mib));
  std::atomic<bool> is_made{false};
  std::thread waits([&] {
    all.push_back(manta::put(numbered(4)));
    is_made = true;
  });
  // The first try has failed when what it wrote is cut off again: nothing lies there.
  std::this_thread::yield();
  full.empty();
  waits.join();
  CHECK(is_made);
  for (int i = 0; i < 5; ++i)
    CHECK(sum_of(std::move(all[static_cast<std::size_t>(i)]).get()) == expected(i));
}

TEST_CASE("spill_bytes is a limit", "[spill][stays:local]") {
  const small_store s(4, 500, static_cast<std::int64_t>(2 * mib));
  std::vector<manta::future<array<double>>> all;
  int made = 0;
  try {
    for (; made < 20; ++made) all.push_back(manta::put(numbered(made)));
  } catch (const manta::store_full&) {
  }
  CHECK(made >= 4);
  CHECK(made <= 6);
  CHECK(s.rt.store().spilled_bytes <= 2 * mib);
  for (int i = 0; i < made; ++i) {
    CHECK(sum_of(std::move(all[static_cast<std::size_t>(i)]).get()) == expected(i));
  }
}

TEST_CASE("what the disk has lost is object_lost with the reason, again and again",
          "[spill][anywhere]") {
  const std::string how = GENERATE("flipped", "cut", "holes");
  // A file that was cut may be longer again when it is read, with nothing in between.
  const std::string why = "is lost: its ";
  const small_store s(4, 5000);
  const std::vector<manta::future<array<double>>> all = put_many(12);
  REQUIRE(test::spoil_spill_files(s.folder.path(), [&](int file, off_t bytes) {
            if (how == "flipped") test::flip_bytes(file, bytes);
            if (how == "cut" && ftruncate(file, 0) != 0) std::abort();
            if (how == "holes" &&
                fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes) != 0) {
              std::abort();
            }
          }) == 1);
  const manta::future<double> sum = manta::remote<sum_of>(all[0]);
  REQUIRE(has(sum, manta::errc::object_lost));
  CHECK_THAT(sum.try_get().error().message(), Contains(why));
  for (int turn = 0; turn < 2; ++turn) {
    const auto got = all[0].try_get();
    REQUIRE_FALSE(got);
    CHECK(got.error().code() == manta::errc::object_lost);
    CHECK_THAT(got.error().message(), Contains(why));
  }
  CHECK_THROWS_AS(all[0].get(), manta::object_lost);
  CHECK(manta::remote<sum_of>(manta::put(numbered(99))).get() == expected(99));
}

}  // namespace spill_test
