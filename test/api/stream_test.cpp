// SPDX-License-Identifier: Apache-2.0
// Generators: items in order, credits, errors at an item, and every way to end one early.
#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <manta/base/pause.hpp>

#include "api/coroutine_support.hpp"
#include "api/support.hpp"

namespace stream_test {

namespace {

using namespace std::chrono_literals;
using test::are_suspended;
using test::eventually;
using test::tracked;

int twice(int x) { return 2 * x; }

int no_number(int x) { throw std::out_of_range("no number " + std::to_string(x)); }

manta::stream<int> count_to(int n) {
  for (int i = 0; i < n; ++i) co_yield i;
}
manta::stream<int> doubled(int n) {
  for (int i = 0; i < n; ++i) co_yield co_await manta::remote<twice>(i);
}
manta::stream<std::unique_ptr<int>> boxes(int n) {
  for (int i = 0; i < n; ++i) co_yield std::make_unique<int>(i);
}
manta::stream<int> fails_at(int n) {
  for (int i = 0; i < n; ++i) co_yield i;
  throw std::runtime_error("no item " + std::to_string(n));
}

test::everywhere<std::atomic<int>> made;
test::everywhere<std::atomic<int>> living;
struct guard {
  guard() { ++*living; }
  guard(const guard&) = delete;
  ~guard() { --*living; }
};
manta::stream<int> endless() {
  const guard local;
  for (int i = 0;; ++i) {
    *made = i + 1;
    co_yield i;
  }
}
// The same, which tells nobody: it may begin when its stream was dropped already, and as late.
manta::stream<int> endless_unseen() {
  const guard local;
  for (int i = 0;; ++i) co_yield i;
}
manta::stream<int> waits_forever(manta::future<int> never) {
  const guard local;
  co_yield 1;
  co_yield co_await never;
}
bool is_gone() {
  return eventually([] { return *living == 0; });
}
/// So many coroutines wait. Of those in other processes nobody counts the ones that are suspended.
bool are_asleep(std::size_t n) {
  return test::in_processes() || test::in_nodes() || are_suspended(n);
}
/// The generator has made so many items, and waits for its credits.
bool runs_ahead_to(int n) {
  return eventually([n] { return *made >= n; }) && are_asleep(1) && *made == n;
}

test::everywhere<test::common_gate> gate;
int when_open(int x) { return gate->wait() ? x : -1; }

template <class T>
std::vector<T> all_of(manta::stream<T> s) {
  std::vector<T> values;
  for (manta::future<T>& f : s) values.push_back(std::move(f).get());
  return values;
}
std::vector<int> numbers(int n, int step) {
  std::vector<int> values;
  for (int i = 0; i < n; ++i) values.push_back(i * step);
  return values;
}

}  // namespace

TEST_CASE("a generator's items come as futures in order", "[stream][anywhere]") {
  for (const int n : {1, 2, 4}) {
    const manta::runtime rt(test::workers(n));
    for (const int items : {0, 1, 63, 64, 65, 1000}) {
      REQUIRE(all_of(manta::remote<count_to>(items)) == numbers(items, 1));
      REQUIRE(all_of(manta::remote<doubled>(items)) == numbers(items, 2));
    }
  }
}

TEST_CASE("items are moved out of their futures, which outlive the stream", "[stream][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<std::unique_ptr<int>>> kept;
  {
    auto s = manta::remote<boxes>(100);
    CHECK(s.valid());
    for (int i = 0; i < 50; ++i) {
      auto f = s.next();
      REQUIRE(f);
      CHECK(f->is_ready());
      kept.push_back(std::move(*f));
    }
  }
  for (int i = 0; i < 50; ++i) {
    CHECK(*std::move(kept[static_cast<std::size_t>(i)]).get() == i);
  }
}

TEST_CASE("a generator runs ahead by its credits and no further", "[stream][anywhere]") {
  const manta::runtime rt(test::two_workers());
  *made = 0;
  {
    auto s = manta::remote<endless>();
    CHECK(runs_ahead_to(64));
    for (int i = 0; i < 31; ++i) CHECK(s.next()->get() == i);
    CHECK(*made == 64);  // less than half of the credits came back
    CHECK(s.next()->get() == 31);
    CHECK(eventually([] { return *made == 96; }));
    s.credits(4);
    for (int i = 32; i < 200; ++i) {
      CHECK(s.next()->get() == i);
      CHECK(*made <= std::max(96, i + 5));
    }
    CHECK_THROWS_AS(s.credits(0), manta::invalid_argument);
  }
  CHECK(is_gone());
}

TEST_CASE("a call says how far its generator runs ahead", "[stream][anywhere]") {
  // Credits that are set on the stream come too late for what runs at once.
  const manta::runtime rt(test::two_workers());
  *made = 0;
  {
    auto s = manta::remote<endless>.with({.stream_credits = 3})();
    CHECK(runs_ahead_to(3));
    CHECK(s.next()->get() == 0);
  }
  CHECK(is_gone());
  CHECK_THROWS_WITH(manta::remote<endless>.with({.stream_credits = 0})(),
                    Catch::Matchers::Contains("stream credits: asked 0, allowed 1 to 2147483648"));
}

TEST_CASE("an exception is in the future of the item that was not made", "[stream][anywhere]") {
  const manta::runtime rt(test::two_workers());
  for (const int n : {0, 1, 64, 200}) {
    auto s = manta::remote<fails_at>(n);
    for (int i = 0; i < n; ++i) REQUIRE(s.next()->get() == i);
    auto last = s.next();
    REQUIRE(last);
    CHECK(test::message_of<manta::task_error>([&] {
            last->get();
          }).find("no item " + std::to_string(n)) != std::string::npos);
    CHECK(!s.next());
    CHECK(!s.next());
  }
  // What the generator needs has failed: it never begins.
  auto s = manta::remote<count_to>(manta::remote<no_number>(1));
  CHECK_THROWS_AS(s.next()->get(), manta::task_error);
  CHECK(!s.next());
}

TEST_CASE("dropping the stream destroys its generator wherever it is", "[stream][anywhere]") {
  const manta::runtime rt(test::two_workers());
  gate->shut();
  const test::opens_at_end opens(*gate);
  static_cast<void>(manta::remote<endless_unseen>());  // perhaps before it began
  CHECK(is_gone());
  *made = 0;
  {
    const auto s = manta::remote<endless>();
    CHECK(runs_ahead_to(64));  // out of credits
  }
  CHECK(is_gone());
  const auto never = manta::remote<when_open>(1);
  {
    auto s = manta::remote<waits_forever>(never);
    CHECK(s.next()->get() == 1);
    CHECK(are_asleep(1));  // in co_await
  }
  CHECK(is_gone());
  for (int i = 0; i < 200; ++i) {
    auto s = manta::remote<endless>();  // while it runs
    for (int k = 0; k < i % 70; ++k) CHECK(s.next()->get() == k);
  }
  CHECK(is_gone());
  CHECK(are_suspended(0));
}

// The drop comes before, while and after the generator suspends for want of credits.
TEST_CASE("a stream dropped just when its credits are used up gets no item more",
          "[stream][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const bool is_slow = test::is_sanitized || test::in_processes() || test::in_nodes();
  const int rounds = is_slow ? 2'000 : 20'000;
  int most = 0;
  for (int i = 0; i < rounds; ++i) {
    *made = 0;
    {
      const auto s = manta::remote<endless>.with({.stream_credits = 2})();
      REQUIRE(eventually([] { return *made >= 2; }));
      for (int k = 0; k < i % 64; ++k) manta::base::pause();
    }
    REQUIRE(is_gone());
    most = std::max(most, made->load());
  }
  CHECK(most == 2);
}

TEST_CASE("a cancelled stream gives what was made, cancelled, and the end", "[stream][anywhere]") {
  const manta::runtime rt(test::two_workers());
  *made = 0;
  auto s = manta::remote<endless>();
  CHECK(runs_ahead_to(64));
  CHECK(cancel(s));
  CHECK(is_gone());
  for (int i = 0; i < 64; ++i) REQUIRE(s.next()->get() == i);
  auto last = s.next();
  REQUIRE(last);
  CHECK_THROWS_AS(last->get(), manta::cancelled);
  CHECK(!s.next());
  CHECK(!cancel(s));
}

TEST_CASE("next with a timeout can be asked again", "[stream][anywhere]") {
  const manta::runtime rt(test::two_workers());
  gate->shut();
  const test::opens_at_end opens(*gate);
  auto s = manta::remote<waits_forever>(manta::remote<when_open>(5));
  CHECK(s.next(test::patience)->get() == 1);
  CHECK_THROWS_AS(s.next(0ms), manta::timed_out);
  CHECK_THROWS_AS(s.next(1ms), manta::timed_out);
  gate->open();
  CHECK(s.next(test::patience)->get() == 5);
  CHECK(!s.next(test::patience));
}

namespace {
manta::coroutine<long> sum_of(manta::stream<int> s) {
  long sum = 0;
  while (auto f = co_await s.async_next()) sum += co_await *f;
  co_return sum;
}
manta::coroutine<long> sum_of_waiting(manta::future<int> never) {
  auto s = manta::remote<waits_forever>(std::move(never));
  long sum = 0;
  while (auto f = co_await s.async_next()) sum += co_await *f;
  co_return sum;
}
long sum_in_task(manta::stream<int> s) {
  long sum = 0;
  for (auto& f : s) sum += f.get();
  return sum;
}
manta::stream<int> evens(manta::stream<int> from) {
  while (auto f = co_await from.async_next()) {
    const int x = co_await *f;
    if (x % 2 == 0) co_yield x;
  }
}
}  // namespace

TEST_CASE("streams are consumed by coroutines, tasks and other generators", "[stream][nodes]") {
  for (const int n : {1, 2, 4}) {
    const manta::runtime rt(test::workers(n));
    const int items = test::is_sanitized ? 500 : test::trips(5000);
    const long sum = static_cast<long>(items) * (items - 1) / 2;
    CHECK(manta::remote<sum_of>(manta::remote<count_to>(items)).get() == sum);
    CHECK(manta::remote<sum_in_task>(manta::remote<count_to>(items)).get() == sum);
    CHECK(manta::remote<sum_of>(manta::remote<doubled>(items)).get() == 2 * sum);
    CHECK(all_of(manta::remote<evens>(manta::remote<evens>(manta::remote<count_to>(100)))) ==
          numbers(50, 2));
  }
}

TEST_CASE("a chain of generators ends when its last stream is dropped", "[stream][nodes]") {
  const manta::runtime rt(test::two_workers());
  {
    auto s = manta::remote<evens>(manta::remote<evens>(manta::remote<endless>()));
    for (int i = 0; i < 100; ++i) CHECK(s.next()->get() == 2 * i);
  }
  CHECK(is_gone());
  CHECK(are_suspended(0));
}

TEST_CASE("the end of the runtime ends generators and who waits for them", "[stream][anywhere]") {
  manta::future<long> sum;
  manta::stream<int> ahead;
  manta::stream<int> blocked;
  gate->shut();
  *made = 0;
  std::thread late;
  {
    const manta::runtime rt(test::two_workers());
    const auto never = manta::remote<when_open>(1);
    ahead = manta::remote<endless>();
    blocked = manta::remote<waits_forever>(never);
    sum = manta::remote<sum_of_waiting>(never);
    CHECK(blocked.next()->get() == 1);
    CHECK(eventually([] { return *living == 3 && *made == 64; }));
    CHECK(are_asleep(4));
    late = std::thread([] {
      static_cast<void>(is_gone() && are_suspended(0));
      gate->open();
    });
  }
  late.join();
  CHECK(*living == 0);
  // Between nodes that of its generator, whose node it sees leave, may come first.
  const auto summed = sum.try_get();
  REQUIRE_FALSE(summed.has_value());
  const bool is_left = test::in_nodes() && summed.error().code() == manta::errc::node_lost;
  CHECK((is_left || summed.error().code() == manta::errc::cancelled));
  for (int i = 0; i < 64; ++i) CHECK(ahead.next()->get() == i);
  CHECK_THROWS_AS(ahead.next()->get(), manta::cancelled);
  CHECK(!ahead.next());
  CHECK_THROWS_AS(blocked.next()->get(), manta::cancelled);
}

namespace {

struct own_reader {
  manta::stream<int> items() { co_yield 1; }
  int read_own() {
    auto s = manta::remote<&own_reader::items>(manta::this_actor::handle<own_reader>());
    const auto first = s.next();
    return first ? first->get() : 0;
  }
  manta::coroutine<int> await_own() {
    auto s = manta::remote<&own_reader::items>(manta::this_actor::handle<own_reader>());
    const auto first = co_await s.async_next();
    co_return first ? first->get() : 0;
  }
};

}  // namespace

TEST_CASE("a method that reads its own actor's stream is told", "[stream][actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<own_reader>();
  CHECK_THROWS_AS(manta::remote<&own_reader::read_own>(a).get(test::patience), manta::self_wait);
  CHECK_THROWS_AS(manta::remote<&own_reader::await_own>(a).get(test::patience), manta::self_wait);
}

TEST_CASE("an empty stream and a generator called directly are refused", "[stream][nodes]") {
  const manta::runtime rt(test::two_workers());
  manta::stream<int> empty;
  CHECK(!empty.valid());
  CHECK_THROWS_AS(empty.next(), manta::invalid_argument);
  manta::stream<int> direct = count_to(3);
  CHECK(!direct.valid());
  CHECK_THROWS_AS(direct.next(), manta::invalid_argument);
  auto s = manta::remote<count_to>(3);
  const manta::stream<int> moved = std::move(s);
  CHECK_THROWS_AS(s.next(), manta::invalid_argument);
}

namespace {

void spin(int turns) {
  volatile int sink = 0;
  for (int i = 0; i < turns; ++i) sink = sink + i;
}
manta::stream<int> yields_for(int spins) {
  for (int i = 0;; ++i) {
    spin(spins);
    co_yield i;
  }
}
int reads_until_cancelled(int spins) {
  int last = -1;
  for (manta::future<int>& f : manta::remote<yields_for>(spins)) last = f.get();
  return last;
}

}  // namespace

// The item comes while its reader is being stopped: the reader's waiter must outlive the telling.
TEST_CASE("a reader is cancelled just when the next item comes", "[stream][cancel][anywhere]") {
  const manta::runtime rt(test::workers(3));
  CHECK(manta::remote<twice>(2).get() == 4);  // on a busy machine all others may go before they run
  for (int round = 0; round < 300; ++round) {
    const auto f = manta::remote<reads_until_cancelled>(round * 37 % 3000);
    spin(round * 101 % 20000);
    CHECK(manta::cancel(f));
    CHECK_THROWS_AS(f.get(test::patience), manta::cancelled);
  }
}

TEST_CASE("retries are refused for a generator, whose items are out", "[stream][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const manta::options again{.max_retries = 2, .retry_exceptions = manta::any_exception()};
  const std::string said = test::message_of<manta::invalid_argument>(
      [&] { static_cast<void>(manta::remote<count_to>.with(again)(3)); });
  CHECK(said.find("retry_exceptions: asked for a generator") != std::string::npos);
  CHECK(manta::remote<count_to>.with({.max_retries = 2})(3).next()->get() == 0);
}

TEST_CASE("async of a generator lambda gives a stream, and keeps its captures",
          "[stream][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const int before = tracked::alive;
  auto items = manta::async([v = std::vector<int>(200, 7), t = tracked(1)]() -> manta::stream<int> {
    for (const int x : v) co_yield x + co_await manta::remote<twice>(t.value);
  });
  STATIC_REQUIRE(std::is_same_v<decltype(items), manta::stream<int>>);
  items.credits(3);
  int sum = 0;
  for (manta::future<int>& f : items) sum += std::move(f).get();
  CHECK(sum == 1800);
  CHECK(eventually([&] { return tracked::alive == before; }));

  auto bad = manta::async([text = std::string(100, 'x')]() -> manta::stream<int> {
    co_yield 1;
    throw std::runtime_error(text);
  });
  CHECK(bad.next()->get() == 1);
  CHECK(bad.next()->try_get().error().message().find(std::string(100, 'x')) != std::string::npos);
  CHECK_FALSE(bad.next());
}

TEST_CASE("a dropped or ended stream of async destroys the generator and its captures",
          "[stream][stays:async]") {
  const int before = tracked::alive;
  const auto endless_with = [](int credits) {
    auto s = manta::async([t = tracked(3), p = std::make_unique<int>(4)]() -> manta::stream<int> {
      const guard local;
      for (;;) co_yield t.value + *p;
    });
    s.credits(static_cast<std::size_t>(credits));
    return s;
  };
  {
    const manta::runtime rt(test::two_workers());
    {
      auto s = endless_with(2);
      CHECK(s.next()->get() == 7);
      static_cast<void>(endless_with(64));
    }
    CHECK(is_gone());
    CHECK(eventually([&] { return tracked::alive == before; }));
    auto cancelled = endless_with(1);
    CHECK(cancelled.next()->get() == 7);
    CHECK(manta::cancel(cancelled));
    CHECK(is_gone());
    auto ended = endless_with(1);
    CHECK(ended.next()->get() == 7);
  }
  CHECK(is_gone());
  CHECK(tracked::alive == before);
}

}  // namespace stream_test
