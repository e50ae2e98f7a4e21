// SPDX-License-Identifier: Apache-2.0
// Generators in isolated workers: items in order and bounded, and every way to end one early.
#include <csignal>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "isolation/support.hpp"

namespace stream_isolation_test {

namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::isolated;
using test::shared;
using test::shared_numbers;

// Numbers in shared memory: who does what.
enum cell : std::size_t { made, living, runs, runner, go_on };

struct guard {
  guard() { ++shared(living); }
  guard(const guard&) = delete;
  guard& operator=(const guard&) = delete;
  ~guard() { --shared(living); }
};

manta::stream<int> count_to(int n) {
  for (int i = 0; i < n; ++i) co_yield i;
}
manta::stream<int> doubled(int n) {
  for (int i = 0; i < n; ++i) co_yield 2 * co_await manta::remote<test::square>(i);
}
manta::stream<int> fails_at(int n) {
  for (int i = 0; i < n; ++i) co_yield i;
  throw std::runtime_error("no item " + std::to_string(n));
}
manta::stream<int> endless() {
  const guard local;
  shared(runner) = getpid();
  ++shared(runs);
  for (int i = 0;; ++i) {
    shared(made) = i + 1;
    co_yield i;
  }
}
// Goes on without credits, and looks at nothing but the number.
manta::stream<int> computes_after(int items) {
  const guard local;
  shared(runner) = getpid();
  ++shared(runs);
  for (int i = 0; i < items; ++i) co_yield i;
  comes_true([] { return shared(go_on) != 0; });
  co_yield -1;
}
manta::stream<std::vector<double>> large(int n, std::size_t size) {
  for (int i = 0; i < n; ++i) co_yield std::vector<double>(size, i);
}
manta::stream<manta::array<int>> arrays(int n, std::size_t size) {
  for (int i = 0; i < n; ++i) {
    auto one = manta::make_array<int>({size});
    const std::span<int> at = one.span();
    std::iota(at.begin(), at.end(), i);
    co_yield std::move(one).seal();
  }
}

template <class T>
std::vector<T> all_of(manta::stream<T> s) {
  std::vector<T> values;
  for (manta::future<T>& f : s) values.push_back(std::move(f).get());
  return values;
}
std::vector<int> numbers(int n, int step = 1) {
  std::vector<int> values;
  for (int i = 0; i < n; ++i) values.push_back(i * step);
  return values;
}
// When not: whether the worker that had it was ended, or has not been told.
bool is_gone() {
  if (comes_true([] { return shared(living) == 0; })) return true;
  UNSCOPED_INFO("worker " << shared(runner)
                          << (kill(shared(runner), 0) == 0 ? " lives" : " is gone") << ", items "
                          << shared(made));
  return false;
}

}  // namespace

TEST_CASE("a generator in an isolated worker gives its items in order", "[isolation][stream]") {
  const manta::runtime rt(isolated());
  for (const int items : {0, 1, 63, 64, 65, 1000}) {
    CHECK(all_of(manta::remote<count_to>(items)) == numbers(items));
  }
  std::vector<int> squares;
  for (int i = 0; i < 100; ++i) squares.push_back(2 * i * i);
  CHECK(all_of(manta::remote<doubled>(100)) == squares);
}

TEST_CASE("a generator in an isolated worker runs ahead by its credits and no further",
          "[isolation][stream]") {
  const shared_numbers numbers_here;
  const manta::runtime rt(isolated());
  {
    auto s = manta::remote<endless>();
    CHECK(comes_true([] { return shared(made) == 64; }));
    CHECK(shared(runner) != getpid());
    for (int i = 0; i < 31; ++i) REQUIRE(s.next()->get() == i);
    CHECK(shared(made) == 64);  // less than half of the credits came back
    CHECK(s.next()->get() == 31);
    CHECK(comes_true([] { return shared(made) == 96; }));
    s.credits(4);
    for (int i = 32; i < 200; ++i) {
      REQUIRE(s.next()->get() == i);
      CHECK(shared(made) <= std::max(96, i + 5));
    }
    s.credits(1000);
    CHECK(comes_true([] { return shared(made) == 1200; }));
  }
  CHECK(is_gone());
  auto few = manta::remote<endless>.with({.stream_credits = 3})();
  CHECK(comes_true([] { return shared(made) == 3; }));
  for (int i = 0; i < 50; ++i) {
    REQUIRE(few.next()->get() == i);
    CHECK(shared(made) <= i + 4);
  }
}

TEST_CASE("an exception of a generator in an isolated worker is its last item",
          "[isolation][stream]") {
  const manta::runtime rt(isolated());
  for (const int n : {0, 1, 64, 200}) {
    auto s = manta::remote<fails_at>(n);
    for (int i = 0; i < n; ++i) REQUIRE(s.next()->get() == i);
    auto last = s.next();
    REQUIRE(last);
    CHECK(test::message_of<manta::task_error>([&] {
            last->get();
          }).find("no item " + std::to_string(n)) != std::string::npos);
    CHECK_FALSE(s.next());
  }
}

TEST_CASE("a generator in an isolated worker ends with its stream, wherever it is",
          "[isolation][stream]") {
  const shared_numbers numbers_here;
  const manta::runtime rt(isolated());
  {
    const auto s = manta::remote<endless>();
    CHECK(comes_true([] { return shared(made) == 64; }));  // it has no credits
    CHECK(shared(living) == 1);
  }
  CHECK(is_gone());
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(manta::remote<endless>());  // perhaps before it began
    auto s = manta::remote<endless>();            // while it runs
    for (int k = 0; k < i % 70; ++k) REQUIRE(s.next()->get() == k);
  }
  CHECK(is_gone());
  // Not even after a second is it killed that computes: it ends at its next item.
  shared(go_on) = 0;
  {
    auto s = manta::remote<computes_after>(1);
    CHECK(s.next()->get() == 0);
  }
  CHECK(shared(living) == 1);
  shared(go_on) = 1;
  CHECK(is_gone());
  CHECK(all_of(manta::remote<count_to>(10)) == numbers(10));
}

TEST_CASE("a cancelled stream of an isolated worker gives what was made, cancelled, and the end",
          "[isolation][stream]") {
  const shared_numbers numbers_here;
  const manta::runtime rt(isolated());
  auto s = manta::remote<endless>();
  CHECK(comes_true([] { return shared(made) == 64; }));
  CHECK(manta::cancel(s));
  CHECK(is_gone());
  for (int i = 0; i < 64; ++i) REQUIRE(s.next()->get() == i);
  auto last = s.next();
  REQUIRE(last);
  CHECK_THROWS_AS(last->get(), manta::cancelled);
  CHECK_FALSE(s.next());
}

TEST_CASE("a generator whose worker is killed gives what came, then worker_lost",
          "[isolation][stream]") {
  const shared_numbers numbers_here;
  const manta::runtime rt(isolated());
  for (const int taken : {1, 40}) {
    shared(made) = 0;
    shared(runs) = 0;
    auto s = manta::remote<endless>();
    for (int i = 0; i < taken; ++i) REQUIRE(s.next()->get() == i);
    CHECK(comes_true([&] { return shared(made) >= 64; }));
    kill(shared(runner), SIGKILL);
    int next = taken;
    std::string said;
    while (auto f = s.next(test::patience)) {
      const auto got = f->try_get();
      if (got) {
        CHECK(*got == next++);
      } else {
        CHECK(got.error().code() == manta::errc::worker_lost);
        said = got.error().message();
      }
    }
    CHECK(next >= 63);  // it says that it makes one before it gives it
    CHECK(said.find("items of it were handed over before") != std::string::npos);
    CHECK(shared(runs) == 1);  // items are out: it is not run again
    shared(living) = 0;
  }
}

TEST_CASE("a generator that gave nothing yet is run again when its worker is killed",
          "[isolation][stream]") {
  const shared_numbers numbers_here;
  const manta::runtime rt(isolated());
  auto s = manta::remote<computes_after>(0);
  CHECK(comes_true([] { return shared(runs) == 1; }));
  kill(shared(runner), SIGKILL);
  CHECK(comes_true([] { return shared(runs) == 2; }));
  shared(go_on) = 1;
  CHECK(s.next(test::patience)->get() == -1);
  CHECK_FALSE(s.next(test::patience));
}

TEST_CASE("large items and arrays come out of an isolated worker", "[isolation][stream]") {
  const manta::runtime rt(isolated());
  int n = 0;
  for (auto& f : manta::remote<large>.with({.stream_credits = 2})(20, 300'000)) {
    CHECK(f.get() == std::vector<double>(300'000, n++));
  }
  CHECK(n == 20);
  std::vector<manta::future<manta::array<int>>> kept;
  for (auto& f : manta::remote<arrays>.with({.stream_credits = 4})(10, 100'000)) {
    kept.push_back(f);
  }
  REQUIRE(kept.size() == 10);
  for (int i = 0; i < 10; ++i) {
    const manta::array<int>& one = kept[static_cast<std::size_t>(i)].get();
    CHECK(one.span().front() == i);
    CHECK(one.span().back() == i + 99'999);
  }
}

namespace {

long sum_of(int n) {
  long sum = 0;
  for (manta::future<int>& f : manta::remote<count_to>(n)) sum += f.get();
  return sum;
}
manta::coroutine<long> awaits_sum_of(int n) {
  auto s = manta::remote<count_to>(n);
  long sum = 0;
  while (auto f = co_await s.async_next()) sum += co_await *f;
  co_return sum;
}
// Another generator's, in whichever worker.
manta::stream<int> evens(int n) {
  auto from = manta::remote<count_to>(n);
  while (auto f = co_await from.async_next()) {
    const int x = co_await *f;
    if (x % 2 == 0) co_yield x;
  }
}
int reads_endless(int items) {
  auto s = manta::remote<endless>();
  int last = 0;
  for (int i = 0; i < items; ++i) last = s.next()->get();
  return last;
}
int reads_until_killed() {
  auto s = manta::remote<endless>();
  static_cast<void>(s.next()->get());
  shared(go_on) = getpid();
  comes_true([] { return false; });
  return 0;
}
long sums_arrays(int n) {
  long sum = 0;
  for (auto& f : manta::remote<arrays>.with({.stream_credits = 2})(n, 50'000)) {
    sum += f.get().span().front();
  }
  return sum;
}
std::string reads_failing(int n) {
  auto s = manta::remote<fails_at>(n);
  for (int i = 0; i < n; ++i) {
    if (s.next()->get() != i) return "a wrong item";
  }
  auto last = s.next();
  return last ? last->try_get().error().message() : "no last item";
}

}  // namespace

TEST_CASE("a task in an isolated worker reads another one's generator", "[isolation][stream]") {
  const shared_numbers numbers_here;
  const manta::runtime rt(isolated());
  const long n = 3000;
  CHECK(manta::remote<sum_of>(n).get(test::patience) == n * (n - 1) / 2);
  CHECK(manta::remote<awaits_sum_of>(n).get(test::patience) == n * (n - 1) / 2);
  CHECK(all_of(manta::remote<evens>(200)) == numbers(100, 2));
  CHECK(manta::remote<reads_endless>(500).get(test::patience) == 499);
  CHECK(is_gone());
  CHECK(manta::remote<sums_arrays>(20).get(test::patience) == 190);
  CHECK(manta::remote<reads_failing>(100).get(test::patience).find("no item 100") !=
        std::string::npos);
}

TEST_CASE("a generator ends when the worker that reads it is killed", "[isolation][stream]") {
  const shared_numbers numbers_here;
  const manta::runtime rt(isolated());
  const auto reader = manta::remote<reads_until_killed>.with({.max_retries = 0})();
  CHECK(comes_true([] { return shared(go_on) != 0 && shared(made) >= 64; }));
  CHECK(shared(living) == 1);
  kill(shared(go_on), SIGKILL);
  CHECK_THROWS_AS(reader.get(test::patience), manta::worker_lost);
  CHECK(is_gone());
}

namespace {

struct source {
  int begun = 0;
  manta::stream<int> items(int n) {
    ++begun;
    for (int i = 0; i < n; ++i) co_yield 10 * begun + i;
  }
  manta::stream<int> endless_items() {
    const guard local;
    for (int i = 0;; ++i) co_yield i;
  }
  int count() { return begun; }
};
int reads_actor(const manta::actor<source>& a) {
  int sum = 0;
  for (auto& f : manta::remote<&source::items>(a, 4)) sum += f.get();
  return sum;
}

}  // namespace

TEST_CASE("a method of an actor in an isolated worker can be a generator", "[isolation][stream]") {
  const shared_numbers numbers_here;
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<source>();
  CHECK(all_of(manta::remote<&source::items>(a, 3)) == std::vector<int>{10, 11, 12});
  CHECK(all_of(manta::remote<&source::items>.with({.stream_credits = 1})(a, 3)) ==
        std::vector<int>{20, 21, 22});
  CHECK(manta::remote<reads_actor>(a).get(test::patience) == 126);
  {
    auto s = manta::remote<&source::endless_items>(a);
    for (int i = 0; i < 100; ++i) REQUIRE(s.next()->get() == i);
  }
  CHECK(is_gone());
  CHECK(manta::remote<&source::count>(a).get(test::patience) == 3);
  auto s = manta::remote<&source::endless_items>(a);
  CHECK(s.next()->get() == 0);
  manta::kill(a);
  while (auto f = s.next(test::patience)) {
    if (const auto got = f->try_get(); !got) {
      CHECK(got.error().code() == manta::errc::cancelled);  // as any call that runs
    }
  }
}

TEST_CASE("the end of the runtime ends generators in isolated workers", "[isolation][stream]") {
  const shared_numbers numbers_here;
  manta::stream<int> ahead;
  {
    const manta::runtime rt(isolated());
    ahead = manta::remote<endless>();
    CHECK(comes_true([] { return shared(made) == 64; }));
  }
  for (int i = 0; i < 64; ++i) CHECK(ahead.next()->get() == i);
  CHECK_THROWS_AS(ahead.next()->get(), manta::cancelled);
  CHECK_FALSE(ahead.next());
}

}  // namespace stream_isolation_test
