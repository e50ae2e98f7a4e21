// SPDX-License-Identifier: Apache-2.0
// get of one and many, with and without a limit, and wait.
#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "api/support.hpp"

namespace get_wait_test {

namespace {

using namespace std::chrono_literals;

int identity(int x) { return x; }
[[noreturn]] int fail(int x) { throw std::runtime_error("fail " + std::to_string(x)); }

test::everywhere<test::common_gate> go;
int when_open(int value) { return go->wait() ? value : -1; }
/// A future that is ready when the gate opens.
manta::future<int> late(int value) { return manta::remote<when_open>(value); }
/// Shuts the gate and opens it at the end of the scope.
class shut_gate {
 public:
  shut_gate() : opens_(*go) { go->shut(); }

 private:
  test::opens_at_end opens_;
};
std::unique_ptr<int> box(int value) { return std::make_unique<int>(value); }
std::unique_ptr<int> box_when_open(int value) { return box(when_open(value)); }
void nothing() {}

}  // namespace

TEST_CASE("get of many keeps the order", "[get][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<int>> many;
  for (int i = 0; i < 1000; ++i) many.push_back(manta::remote<identity>(i));
  const std::vector<int> values = manta::get(many);
  const std::vector<int> timed = manta::get(many, test::patience);
  const std::vector<int> moved = manta::get(std::move(many));
  bool is_right = values.size() == 1000 && moved.size() == 1000;
  for (int i = 0; i < 1000; ++i) is_right &= values[static_cast<std::size_t>(i)] == i;
  CHECK(is_right);
  CHECK(values == timed);
  CHECK(values == moved);
  CHECK(manta::get(std::vector<manta::future<int>>{}).empty());
  CHECK(manta::get(std::vector<manta::future<int>>{}, 0s).empty());
  std::vector<manta::future<void>> none{manta::remote<nothing>(), manta::remote<nothing>()};
  manta::get(none);
  manta::get(none, test::patience);
}

TEST_CASE("get of many moves values out of an rvalue list", "[get][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<std::unique_ptr<int>>> many;
  for (int i = 0; i < 100; ++i) many.push_back(manta::remote<box>(i));
  const auto values = manta::get(std::move(many));
  CHECK(*values[99] == 99);
}

TEST_CASE("try_get answers the value or the error and throws neither", "[get][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto good = manta::remote<identity>(4);
  const auto bad = manta::remote<fail>(4);
  CHECK(good.try_get().value() == 4);
  CHECK(*good.try_get() == 4);
  const auto result = bad.try_get();
  CHECK_FALSE(result);
  CHECK(result.error().code() == manta::errc::task_error);
  CHECK(result.error().message().find("fail 4") != std::string::npos);
  CHECK(manta::remote<nothing>().try_get().has_value());
}

TEST_CASE("a timed get throws timed_out, and a later get succeeds", "[get][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const shut_gate at_end;
  const auto f = late(9);
  CHECK_THROWS_AS(f.get(0s), manta::timed_out);
  CHECK_THROWS_AS(f.get(-1s), manta::timed_out);
  CHECK_THROWS_AS(f.get(20ms), manta::timed_out);
  CHECK(f.try_get(0s).error().code() == manta::errc::timed_out);
  CHECK(f.try_get(1ms).error().code() == manta::errc::timed_out);
  CHECK_THROWS_AS(manta::get(std::vector{f, f}, 1ms), manta::timed_out);
  CHECK_FALSE(f.is_ready());
  go->open();
  CHECK(f.get(test::patience) == 9);
  CHECK(f.get(0s) == 9);
  CHECK(f.try_get(0s).value() == 9);
  CHECK(f.get() == 9);
}

TEST_CASE("a timed get waits at least its time and a huge limit does not overflow",
          "[get][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const shut_gate at_end;
  const auto f = late(1);
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_AS(f.get(30ms), manta::timed_out);
  CHECK(std::chrono::steady_clock::now() - start >= 30ms);
  go->open();
  CHECK(f.get(std::chrono::nanoseconds::max()) == 1);
}

TEST_CASE("a temporary future gives its value, not a reference into it", "[get][anywhere]") {
  const manta::runtime rt(test::two_workers());
  constexpr auto make = [] { return std::vector<int>(1000, 7); };
  STATIC_REQUIRE(std::is_same_v<decltype(manta::remote<make>().get(1s)), std::vector<int>>);
  STATIC_REQUIRE(
      std::is_same_v<decltype(manta::remote<make>().try_get()), manta::result<std::vector<int>>>);
  int sum = 0;
  for (const int x : manta::remote<make>().get(test::patience)) sum += x;
  CHECK(sum == 7000);
  const auto& kept = manta::remote<make>().get(test::patience);
  CHECK(kept.at(999) == 7);
  const auto answer = manta::remote<make>().try_get();
  CHECK(answer.value().at(999) == 7);
  CHECK(manta::remote<make>().try_get(test::patience).value().at(999) == 7);
  manta::remote<nothing>().get(test::patience);
  CHECK(manta::remote<nothing>().try_get(test::patience).has_value());
}

TEST_CASE("a timed get of an rvalue moves the value out, and keeps the future when late",
          "[get][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const shut_gate at_end;
  auto f = manta::remote<box_when_open>(5);
  CHECK_THROWS_AS(std::move(f).get(1ms), manta::timed_out);
  CHECK(std::move(f).try_get(0s).error().code() == manta::errc::timed_out);
  REQUIRE(f.valid());
  go->open();
  CHECK(*std::move(f).get(test::patience) == 5);
  CHECK_FALSE(f.valid());
  CHECK(**manta::remote<box>(6).try_get() == 6);
  auto g = manta::put(std::make_unique<int>(7));
  const auto other = g;
  CHECK(std::move(g).try_get().error().code() == manta::errc::not_unique);
  CHECK(*other.get() == 7);
  manta::future<int> none;
  CHECK(std::move(none).try_get().error().code() == manta::errc::invalid_argument);
  auto bad = manta::remote<fail>(3);
  CHECK(std::move(bad).try_get().error().code() == manta::errc::task_error);
  CHECK_THROWS_AS(std::move(bad).get(test::patience), manta::task_error);
}

TEST_CASE("a task's result may be an error, which try_get tells from a failure",
          "[get][anywhere]") {
  const manta::runtime rt(test::two_workers());
  constexpr auto make = [] { return manta::error(manta::errc::cancelled, "a value"); };
  const manta::result<manta::error> got = manta::remote<make>().try_get();
  REQUIRE(got.has_value());
  CHECK(got.value().message() == "a value");
}

TEST_CASE("an error that is known already is thrown at once while others are pending",
          "[get][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const shut_gate at_end;
  const auto pending = late(1);
  const auto bad = manta::remote<fail>(7);
  static_cast<void>(bad.try_get());
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_AS(manta::get(std::vector{pending, bad}, test::patience), manta::task_error);
  CHECK(std::chrono::steady_clock::now() - start < test::patience / 2);
  CHECK_THROWS_AS(bad.get(0s), manta::task_error);
}

TEST_CASE("an error that comes later is thrown while earlier futures are pending",
          "[get][anywhere]") {
  // Waiting for one after the other would sit at the first until the time is over.
  static test::everywhere<test::common_gate> fails;
  fails->shut();
  const manta::runtime rt(test::workers(3));
  const shut_gate at_end;
  constexpr auto fail_late = []() -> int {
    fails->wait();
    throw std::runtime_error("late");
  };
  const auto pending = late(1);
  const auto bad = manta::remote<fail_late>();
  std::thread opens([] { fails->open(); });
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_AS(manta::get(std::vector{pending, bad}, test::patience), manta::task_error);
  CHECK(std::chrono::steady_clock::now() - start < test::patience / 2);
  opens.join();
  CHECK_THROWS_WITH(manta::get(std::vector{pending, pending}, 1ms),
                    Catch::Matchers::Contains("2 not ready"));
}

TEST_CASE("many threads get one future and all see its one value", "[get][anywhere]") {
  std::atomic<int> right{0};
  const manta::runtime rt(test::two_workers());
  const shut_gate at_end;
  const auto f = late(77);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&f, &right, i] {
      const manta::future<int> mine = f;
      const int v = i % 2 == 0 ? mine.get() : mine.get(test::patience);
      if (v == 77) ++right;
    });
  }
  go->open();
  for (std::thread& t : threads) t.join();
  CHECK(right == 8);
}

TEST_CASE("small gets are not starved by one that waits long", "[get][anywhere]") {
  std::atomic<int> got{0};
  const manta::runtime rt(test::two_workers());
  const shut_gate at_end;
  const auto big = late(5);
  std::thread patient([&] { got = big.get(); });
  int sum = 0;
  for (int i = 0; i < 1000; ++i) sum += manta::remote<identity>(1).get(test::patience);
  CHECK(sum == 1000);
  CHECK(got == 0);
  go->open();
  patient.join();
  CHECK(got == 5);
}

TEST_CASE("wait gives exactly k, in order, and leaves the rest pending", "[wait][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 10; ++i) all.push_back(manta::remote<identity>(i));
  manta::get(all);
  for (const std::size_t k : {std::size_t{1}, std::size_t{5}, std::size_t{10}}) {
    auto [ready, pending] = manta::wait(all, {.count = k});
    REQUIRE(ready.size() == k);
    REQUIRE(pending.size() == 10 - k);
    for (std::size_t i = 0; i < k; ++i) CHECK(ready[i] == all[i]);
    for (std::size_t i = k; i < 10; ++i) CHECK(pending[i - k] == all[i]);
  }
  const auto first = manta::wait(all);
  CHECK(first.ready.size() == 1);
}

TEST_CASE("wait returns when k are ready and finds those among pending ones", "[wait][anywhere]") {
  const manta::runtime rt(test::workers(4));
  const shut_gate at_end;
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 3; ++i) all.push_back(late(i));
  for (int i = 3; i < 6; ++i) all.push_back(manta::remote<identity>(i));
  auto [ready, pending] = manta::wait(all, {.count = 3, .timeout = test::patience});
  REQUIRE(ready.size() == 3);
  CHECK(ready[0].get() == 3);
  CHECK(ready[1].get() == 4);
  CHECK(ready[2].get() == 5);
  REQUIRE(pending.size() == 3);
  CHECK(pending[0] == all[0]);
  CHECK(pending[2] == all[2]);
  go->open();
  const auto rest = manta::wait(std::move(pending), {.count = 3});
  CHECK(rest.ready.size() == 3);
  CHECK(rest.pending.empty());
}

TEST_CASE("wait gives what is ready at its timeout", "[wait][anywhere]") {
  const manta::runtime rt(test::workers(4));
  const shut_gate at_end;
  const std::vector<manta::future<int>> all{late(0), manta::put(1), late(2), manta::put(3)};
  for (const auto limit : {manta::duration(0), manta::duration(5ms), manta::duration(-1s)}) {
    auto [ready, pending] = manta::wait(all, {.count = 4, .timeout = limit});
    REQUIRE(ready.size() == 2);
    CHECK(ready[0] == all[1]);
    CHECK(ready[1] == all[3]);
    CHECK(pending.size() == 2);
  }
  const auto none = manta::wait(std::vector{all[0]}, {.count = 1, .timeout = 1ms});
  CHECK(none.ready.empty());
  CHECK(none.pending.size() == 1);
  go->open();
  CHECK(all[0].get(test::patience) == 0);
  CHECK(all[2].get(test::patience) == 2);
}

TEST_CASE("a failed future counts as ready", "[wait][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const shut_gate at_end;
  const std::vector<manta::future<int>> all{late(0), manta::remote<fail>(1)};
  const auto found = manta::wait(all, {.count = 1, .timeout = test::patience});
  REQUIRE(found.ready.size() == 1);
  CHECK_THROWS_AS(found.ready[0].get(), manta::task_error);
  go->open();
}

TEST_CASE("wait of an empty list returns at once", "[wait][stays:local]") {
  const manta::runtime rt(test::two_workers());
  const auto found = manta::wait(std::vector<manta::future<int>>{});
  CHECK(found.ready.empty());
  CHECK(found.pending.empty());
}

TEST_CASE("wait refuses duplicates, empty futures and a count that is too large",
          "[wait][stays:refused]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::put(1);
  const auto b = manta::put(2);
  CHECK_THROWS_AS(manta::wait(std::vector{a, b, a}), manta::invalid_argument);
  CHECK_THROWS_AS(manta::wait(std::vector{a, a}), manta::invalid_argument);
  CHECK_THROWS_AS(manta::wait(std::vector{a, b}, {.count = 3}), manta::invalid_argument);
  CHECK_THROWS_AS(manta::wait(std::vector{a, manta::future<int>{}}), manta::invalid_argument);
  const std::string said = test::message_of<manta::invalid_argument>([&] {
    static_cast<void>(manta::wait(std::vector{a, b, a}));
  });
  CHECK(said.find("twice") != std::string::npos);
  // A duplicate far away in a long list, and in descending order.
  std::vector<manta::future<int>> many;
  for (int i = 0; i < 3000; ++i) many.push_back(manta::put(i));
  std::reverse(many.begin(), many.end());
  CHECK(manta::wait(many, {.count = 3000}).ready.size() == 3000);
  many.push_back(many[5]);
  CHECK_THROWS_AS(manta::wait(many, {.count = 3000}), manta::invalid_argument);
}

TEST_CASE("a count of zero asks what is needed for nothing and returns", "[wait][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const shut_gate at_end;
  const auto found = manta::wait(std::vector{late(1)}, {.count = 0});
  CHECK(found.ready.empty());
  REQUIRE(found.pending.size() == 1);
  go->open();
  CHECK(found.pending.front().get() == 1);  // it looks at the gate as long as it runs
}

TEST_CASE("wait handles 10,000 futures, and a shrinking loop ends with each seen once",
          "[wait][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<int>> pending;
  for (int i = 0; i < 10000; ++i) pending.push_back(manta::remote<identity>(i));
  std::vector<int> seen(10000);
  while (!pending.empty()) {
    const std::size_t k = std::min<std::size_t>(pending.size(), 500);
    auto found = manta::wait(std::move(pending), {.count = k});
    REQUIRE(found.ready.size() == k);
    for (const auto& f : found.ready) ++seen[static_cast<std::size_t>(f.get())];
    pending = std::move(found.pending);
  }
  CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
}

TEST_CASE("one at a time from 2,000 pending futures ends", "[wait][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<int>> pending;
  for (int i = 0; i < 2000; ++i) pending.push_back(manta::remote<identity>(i));
  long sum = 0;
  while (!pending.empty()) {
    auto found = manta::wait(std::move(pending));
    REQUIRE(found.ready.size() == 1);
    sum += found.ready[0].get();
    pending = std::move(found.pending);
  }
  CHECK(sum == 1999L * 1000);
}

TEST_CASE("several threads and tasks wait for the same futures", "[wait][anywhere]") {
  std::atomic<int> complete{0};
  const manta::runtime rt(test::two_workers());
  const shut_gate at_end;
  std::vector<manta::future<int>> all;
  all.push_back(late(0));
  for (int i = 1; i < 50; ++i) all.push_back(manta::remote<identity>(i));
  const auto wait_for_all = [&all, &complete] {
    if (manta::wait(all, {.count = all.size()}).ready.size() == all.size()) ++complete;
  };
  constexpr auto wait_in_task = [](const std::vector<manta::future<int>>& futures) {
    return manta::wait(futures, {.count = futures.size()}).ready.size();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(wait_for_all);
  std::vector<manta::future<std::size_t>> tasks;
  for (int i = 0; i < 4; ++i) tasks.push_back(manta::remote<wait_in_task>(all));
  go->open();
  for (std::thread& t : threads) t.join();
  CHECK(manta::get(tasks) == std::vector<std::size_t>(4, all.size()));
  CHECK(complete == 4);
}

TEST_CASE("a future listed twice is found, also among what is left of a list that was looked at",
          "[wait][stays:local]") {
  // wait remembers the last list of a thread. Were that trusted too far, a repeated future would be
  // counted twice; trusted too little, a good list would be refused.
  const manta::runtime rt(test::two_workers());
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 1100; ++i) all.push_back(manta::put(i));
  std::vector<int> numbers;
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    if (numbers.size() < 20 || below(50) == 0) {  // another list
      numbers.resize(20 + below(1081));
      std::iota(numbers.begin(), numbers.end(), static_cast<int>(below(1100 - numbers.size() + 1)));
      if (below(2) == 0) std::shuffle(numbers.begin(), numbers.end(), random);
    }
    for (std::size_t n = below(4); n > 0 && numbers.size() > 1; --n) {  // the rest of it
      numbers.erase(numbers.begin() + static_cast<std::ptrdiff_t>(below(numbers.size())));
    }
    std::vector<int> listed = numbers;
    if (below(4) == 0) {  // one entry is another's
      listed[below(listed.size())] = listed[below(listed.size())];
    } else if (below(4) == 0) {
      std::swap(listed[below(listed.size())], listed[below(listed.size())]);
    } else if (below(8) == 0) {
      listed.push_back(static_cast<int>(below(1100)));
    }
    std::vector<manta::future<int>> futures;
    for (const int i : listed) futures.push_back(all[static_cast<std::size_t>(i)]);
    bool is_refused = false;
    try {
      static_cast<void>(manta::wait(std::move(futures), {.count = 1}));
    } catch (const manta::invalid_argument&) {
      is_refused = true;
    }
    const bool has_repeats = std::set<int>(listed.begin(), listed.end()).size() != listed.size();
    if (is_refused != has_repeats) FAIL("round " << round << ", " << listed.size() << " futures");
    refused += is_refused ? 1 : 0;
  }
  CHECK(refused > 200);
  CHECK(refused < 2000);
}

TEST_CASE("get of a list of void that is given away leaves it empty", "[get][anywhere]") {
  static test::everywhere<std::atomic<int>> ran;
  *ran = 0;
  constexpr auto count = [] { ++*ran; };
  constexpr auto fail_void = [] { throw std::runtime_error("bad"); };
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<void>> futures;
  for (int i = 0; i < 3; ++i) futures.push_back(manta::remote<count>());
  manta::get(std::move(futures));
  CHECK(*ran == 3);
  CHECK(futures.empty());
  CHECK_THROWS_AS(manta::get(std::vector{manta::remote<fail_void>()}), manta::task_error);
}

}  // namespace get_wait_test
