// SPDX-License-Identifier: Apache-2.0
// Tasks in isolated workers: where they run, what goes there and comes back, what they may call.
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <future>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "isolation/support.hpp"

namespace task_test {

namespace {

using namespace std::chrono_literals;
using test::isolated;
using test::pid;
using test::shared;
using test::shared_numbers;
using test::square;

// Work of a length that is known: what the test is about.
int slow_pid(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return getpid();
}

// Two of them meet, each in a worker of its own.
int meets() {
  ++shared(0);
  return test::comes_true([] { return shared(0) >= 2; }) ? getpid() : -1;
}

struct record {
  std::string name;
  std::map<int, std::vector<double>> rows;
  std::optional<std::tuple<int, std::string>> more;
  bool operator==(const record&) const = default;
};

record grow(record r, int by) {
  for (auto& [key, row] : r.rows) row.resize(row.size() + static_cast<std::size_t>(by), 0.5);
  r.name += "!";
  return r;
}
std::vector<std::uint8_t> bytes(std::size_t n) {
  std::vector<std::uint8_t> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::uint8_t>(i * 131 >> 3U);
  return out;
}
std::uint64_t digest(const std::vector<std::uint8_t>& v) {
  std::uint64_t h = v.size();
  for (const std::uint8_t b : v) h = h * 1099511628211U + b;
  return h;
}
std::vector<std::uint8_t> echo(std::vector<std::uint8_t> v) { return v; }

double total(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}
double total_of(const std::vector<double>& values) { return total(values); }
double half(double x) { return x / 2; }
std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += w;
  return out;
}
std::vector<std::string> many_words(std::size_t n) {
  return std::vector<std::string>(n, std::string(1024, 'a'));
}
std::string word(int i) { return std::string(static_cast<std::size_t>(i), 'a'); }
std::unique_ptr<int> boxed(int x) { return std::make_unique<int>(x); }
int unboxed(std::unique_ptr<int> x) { return *x; }
void nothing() {}

}  // namespace

TEST_CASE("tasks run in processes of their own, as many as there are workers", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated(2));
  std::set<int> seen;
  std::vector<manta::future<int>> all;
  // A worker that starts late finds work, too.
  for (int i = 0; i < 2; ++i) all.push_back(manta::remote<meets>());
  for (int i = 2; i < 40; ++i) all.push_back(manta::remote<slow_pid>(5));
  for (auto& f : all) seen.insert(f.get());
  CHECK(seen.size() == 2);
  CHECK(seen.count(getpid()) == 0);
  CHECK(seen.count(-1) == 0);
  CHECK(rt.stats().tasks_run == 40);
}

TEST_CASE("values of any shape and size go there and come back", "[isolation]") {
  const manta::runtime rt(isolated());
  const record r{"r", {{1, {1, 2}}, {-7, {}}}, std::tuple{3, std::string("x")}};
  const record grown = manta::remote<grow>(r, 2).get();
  CHECK(grown.name == "r!");
  CHECK(grown.rows.at(1) == std::vector<double>{1, 2, 0.5, 0.5});
  CHECK(grown.more == r.more);
  CHECK(manta::remote<unboxed>(manta::remote<boxed>(5)).get() == 5);
  CHECK(*manta::remote<boxed>(6).get() == 6);
  CHECK_NOTHROW(manta::remote<nothing>().get());
  // Around the limits of what is beside the head, what fits a ring's message, and a ring.
  for (const std::size_t n :
       {0U, 1U, 4095U, 4096U, 100'000U, 262'100U, 262'200U, 1'048'576U, 9'999'999U}) {
    CAPTURE(n);
    const auto sent = bytes(n);
    CHECK(manta::remote<echo>(sent).get() == sent);
    CHECK(manta::remote<digest>(manta::remote<bytes>(n)).get() == digest(sent));
  }
}

TEST_CASE("many large values at once have to wait for room, and all come", "[isolation]") {
  const manta::runtime rt(isolated());
  std::vector<manta::future<std::vector<std::uint8_t>>> all;
  for (std::size_t i = 0; i < 40; ++i) all.push_back(manta::remote<echo>(bytes(300'000 + i)));
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i].get() == bytes(300'000 + i));
}

TEST_CASE("a value that no message can hold is refused where it is sent", "[isolation]") {
  const manta::runtime rt(isolated());
  // Many small ranges: a large one would go through the store (array_test.cpp).
  const std::vector<std::string> huge(70'000, std::string(1024, 'a'));
  CHECK_THROWS_AS(manta::remote<joined>(huge).get(), manta::encode_failed);
  CHECK_THROWS_AS(manta::remote<many_words>(70'000).get(), manta::encode_failed);
  CHECK(manta::remote<square>(4).get() == 16);
}

TEST_CASE("futures as arguments become values, converted where the parameter differs",
          "[isolation]") {
  const manta::runtime rt(isolated());
  CHECK(manta::remote<square>(manta::remote<square>(3)).get() == 81);
  CHECK(manta::remote<half>(manta::remote<square>(3)).get() == 4.5);
  const auto values = manta::put(std::vector<double>{1, 2, 3.5});
  CHECK(manta::remote<total>(values).get() == 6.5);
  CHECK(manta::remote<total_of>(values).get() == 6.5);
  std::vector<manta::future<double>> halves;
  for (int i = 0; i < 10; ++i) halves.push_back(manta::remote<half>(i));
  CHECK(manta::remote<total>(halves).get() == 22.5);
  CHECK(manta::remote<total_of>(halves).get() == 22.5);
  std::vector<manta::future<std::string>> words;
  for (int i = 1; i < 4; ++i) words.push_back(manta::remote<word>(i));
  CHECK(manta::remote<joined>(words).get() == "aaaaaa");
}

namespace {

struct odd_error : std::logic_error {
  using std::logic_error::logic_error;
};
int fails(const std::string& how) {
  if (how == "standard") throw std::out_of_range("beyond the end");
  if (how == "own") throw odd_error("of my own type");
  if (how == "int") throw 7;
  throw std::runtime_error(std::string(10'000'000, 'x'));
}
struct throws_when_read {
  int value = 0;
  template <class Archive>
  void save(Archive& out) const {
    out(value);
  }
  template <class Archive>
  void load(Archive& in) {
    in(value);
    throw std::runtime_error("can't be read");
  }
};
struct throws_when_written {
  int value = 0;
  template <class Archive>
  void save(Archive& out) const {
    out(value);
    throw std::runtime_error("can't be written");
  }
  template <class Archive>
  void load(Archive& in) {
    in(value);
  }
};
throws_when_read make_unreadable(int x) { return {x}; }
throws_when_written make_unwritable(int x) { return {x}; }
int take_unreadable(const throws_when_read& x) { return x.value; }
int take_unwritable(const throws_when_written& x) { return x.value; }

}  // namespace

TEST_CASE("an exception comes with its type, text and function", "[isolation]") {
  const manta::runtime rt(isolated());
  try {
    manta::remote<fails>("standard").get();
    FAIL("no exception came");
  } catch (const manta::task_error& e) {
    CHECK(e.type_name() == "std::out_of_range");
    CHECK(e.message() == "beyond the end");
    CHECK_THROWS_AS(std::rethrow_if_nested(e), std::out_of_range);
  }
  try {
    manta::remote<fails>("own").get();
    FAIL("no exception came");
  } catch (const manta::task_error& e) {
    CHECK(e.type_name().find("odd_error") != std::string::npos);
    CHECK(e.message() == "of my own type");
  }
  CHECK_THROWS_AS(manta::remote<fails>("int").get(), manta::task_error);
  // 10 MB of text: cut, with a mark that says so.
  try {
    manta::remote<fails>("long").get();
    FAIL("no exception came");
  } catch (const manta::task_error& e) {
    CHECK(e.message().size() <= 4096);
    CHECK(e.message().find("cut, of 10000000 bytes") != std::string::npos);
  }
  // The first cause comes through a chain of dependents.
  CHECK_THROWS_AS(manta::remote<half>(manta::remote<square>(manta::remote<fails>("own"))).get(),
                  manta::task_error);
}

TEST_CASE("values that fail on their way give typed errors, and the worker goes on",
          "[isolation]") {
  const manta::runtime rt(isolated(1));
  const int worker = manta::remote<pid>().get();
  CHECK_THROWS_AS(manta::remote<make_unreadable>(1).get(), manta::decode_failed);
  CHECK_THROWS_AS(manta::remote<take_unreadable>(throws_when_read{}).get(), manta::decode_failed);
  CHECK_THROWS(manta::remote<make_unwritable>(1).get());
  CHECK_THROWS(manta::remote<take_unwritable>(throws_when_written{}).get());
  CHECK(manta::remote<pid>().get() == worker);
}

namespace {

int fib(int n) {
  if (n < 2) return n;
  const auto a = manta::remote<fib>(n - 1);
  const auto b = manta::remote<fib>(n - 2);
  return a.get() + b.get();
}
int deep(int n) { return n == 0 ? 0 : 1 + manta::remote<deep>(n - 1).get(); }
int sum_of_many(int n) {
  std::vector<manta::future<int>> all;
  for (int i = 0; i < n; ++i) all.push_back(manta::remote<square>(i));
  auto [ready, pending] = manta::wait(all, {.count = all.size()});
  int sum = 0;
  for (auto& f : ready) sum += f.get();
  return sum;
}
manta::future<int> countdown(int n) {
  if (n == 0) return manta::remote<square>(9);
  return manta::remote<countdown>(n - 1);
}
int nested_error(int depth) {
  if (depth == 0) throw std::invalid_argument("at the bottom");
  return manta::remote<nested_error>(depth - 1).get();
}
int from_a_thread(int x) {
  return std::async(std::launch::async, [x] { return manta::remote<square>(x).get(); }).get();
}
int through_async(int x) {
  return manta::async([x] { return manta::remote<square>(x).get() + 1; }).get();
}
manta::coroutine<int> fib_awaited(int n) {
  if (n < 2) co_return n;
  const auto a = manta::remote<fib_awaited>(n - 1);
  const auto b = manta::remote<fib_awaited>(n - 2);
  const int x = co_await a;
  co_return x + co_await b;
}
manta::coroutine<int> awaits(int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += co_await manta::remote<square>(i);
  co_return sum;
}
int put_inside(int n) {
  const auto values = manta::put(std::vector<double>(static_cast<std::size_t>(n), 1.0));
  return static_cast<int>(manta::remote<total>(values).get() +
                          manta::remote<total_of>(values).get());
}

}  // namespace

TEST_CASE("tasks call tasks to any depth, wherever those run", "[isolation]") {
  const manta::runtime rt(isolated());
  CHECK(manta::remote<fib>(12).get() == 144);
  CHECK(manta::remote<deep>(300).get() == 300);
  // A worker that waits runs what it waits for: some 50 of them on its stack.
  const auto children = test::children_of(getpid());
  REQUIRE(children.size() == 1);
  if (!test::is_sanitized) CHECK(test::children_of(children.front()).size() < 60);
  CHECK(manta::remote<sum_of_many>(1000).get() == 332'833'500);
  CHECK(manta::remote<put_inside>(1000).get() == 2000);
  CHECK(manta::remote<countdown>(50).get() == 81);
  CHECK(manta::remote<awaits>(20).get() == 2470);
  CHECK_THROWS_AS(manta::remote<nested_error>(3).get(), manta::task_error);
}

namespace {

// Says that it runs, until it is told to end.
bool runs_until_told() {
  ++shared(0);
  return test::comes_true([] { return shared(1) != 0; });
}
int calls_square(int x) { return manta::remote<square>(x).get(); }
int prints(int n) {
  std::printf("task %d\n", n);
  std::printf("and more");
  return n;
}

}  // namespace

TEST_CASE("what a waiting task has called is not kept waiting by others", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto slow = manta::remote<runs_until_told>();
  REQUIRE(test::comes_true([&] { return numbers[0] == 1; }));
  for (int i = 0; i < 20; ++i) CHECK(manta::remote<calls_square>(i).get() == i * i);
  CHECK_FALSE(slow.is_ready());
  numbers[1] = 1;
  CHECK(slow.get(test::patience));
}

TEST_CASE("what a task prints is there when it has ended", "[isolation]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const int out = dup(1);
  dup2(ends[1], 1);
  {
    const manta::runtime rt(isolated(1));
    manta::remote<prints>(7).get();
  }
  dup2(out, 1);
  close(out);
  close(ends[1]);
  std::string text(1000, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(read(ends[0], text.data(), 1000), 0)));
  close(ends[0]);
  CHECK(text.find("prints, worker ") != std::string::npos);
  CHECK(text.find(") task 7\n") != std::string::npos);
  CHECK(text.find(") and more\n") != std::string::npos);
}

// A worker has places for 64 tasks, those that wait on its stack included.
TEST_CASE("short tasks come while many wait on each other's top", "[isolation]") {
  const manta::runtime rt(isolated(1));
  for (int i = 0; i < 5000; ++i) static_cast<void>(manta::remote<square>(i));
  std::vector<manta::future<int>> all;
  for (int depth = 45; depth < 60; ++depth) {
    all.push_back(manta::remote<deep>(depth));
    for (int i = 0; i < 200; ++i) all.push_back(manta::remote<square>(i));
  }
  for (auto& f : all) CHECK_NOTHROW(f.get(test::patience));
}

// Their slots go to others while they are suspended, and they end when those run there.
TEST_CASE("many tasks are suspended at once, or stand for others", "[isolation]") {
  const manta::runtime rt(isolated());
  CHECK(manta::remote<fib_awaited>(test::is_sanitized ? 10 : 14).get() ==
        (test::is_sanitized ? 55 : 377));
  std::vector<manta::future<int>> chains;
  for (int i = 0; i < 50; ++i) chains.push_back(manta::remote<countdown>(100));
  for (auto& f : chains) CHECK(f.get() == 81);
}

TEST_CASE("threads of a task call and wait like the task itself", "[isolation]") {
  const manta::runtime rt(isolated());
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 20; ++i) {
    all.push_back(manta::remote<from_a_thread>(i));
    all.push_back(manta::remote<through_async>(i));
  }
  for (int i = 0; i < 20; ++i) {
    CHECK(all[static_cast<std::size_t>(2 * i)].get() == i * i);
    CHECK(all[static_cast<std::size_t>(2 * i) + 1].get() == i * i + 1);
  }
}

TEST_CASE("several threads of the driver submit and wait at once", "[isolation]") {
  const manta::runtime rt(isolated());
  std::vector<std::thread> threads;
  std::array<long, 4> sums{};
  for (std::size_t t = 0; t < sums.size(); ++t) {
    threads.emplace_back([&sums, t] {
      for (int round = 0; round < 20; ++round) {
        std::vector<manta::future<int>> all;
        for (int i = 0; i < 100; ++i) all.push_back(manta::remote<square>(i));
        for (auto& f : all) sums[t] += f.get();
      }
    });
  }
  for (auto& t : threads) t.join();
  for (const long sum : sums) CHECK(sum == 20L * 328'350);
}

TEST_CASE("a get with a limit gives up in time, and the value comes later", "[isolation]") {
  const manta::runtime rt(isolated(1));
  const auto f = manta::remote<slow_pid>(300);
  CHECK_THROWS_AS(f.get(0ms), manta::timed_out);
  CHECK_THROWS_AS(f.get(20ms), manta::timed_out);
  CHECK(f.get() > 0);
}

namespace {

std::string told_name() { return manta::this_task::name(); }
int told_attempt() {
  if (shared(0).fetch_add(1) < 2) raise(SIGKILL);
  return manta::this_task::attempt();
}
int run_order(int i) {
  shared(static_cast<std::size_t>(i)) = ++shared(100);
  return i;
}
int wait_for(int i) {
  test::comes_true([i] { return shared(static_cast<std::size_t>(i)) != 0; });
  return i;
}

}  // namespace

TEST_CASE("a task knows its name and its attempt there, too", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  CHECK(manta::remote<told_name>.with({.name = "the third one"})().get() == "the third one");
  CHECK(manta::remote<told_attempt>().get() == 2);
}

TEST_CASE("what waits for a worker goes by priority", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated(1));
  const auto holds = manta::remote<wait_for>(200);
  std::vector<manta::future<int>> all;
  // Some of the first ones may have been sent ahead of the others.
  for (int i = 0; i < 80; ++i) all.push_back(manta::remote<run_order>(i));
  all.push_back(manta::remote<run_order>.with({.priority = manta::priority::high})(90));
  all.push_back(manta::remote<run_order>.with({.priority = manta::priority::low})(91));
  for (int i = 92; i < 100; ++i) all.push_back(manta::remote<run_order>(i));
  numbers[200] = 1;
  for (auto& f : all) f.get();
  CHECK(numbers[90] < numbers[79]);
  // Two threads may be sending at once, so one that was taken from the line earlier may come later:
  // of the 90, at most one behind the low one.
  CHECK(numbers[91] >= 89);
}

namespace {

// Answers how many of its kind run.
int hold() {
  const int now = ++shared(0);
  int most = shared(1);
  while (now > most && !shared(1).compare_exchange_weak(most, now)) {
  }
  std::this_thread::sleep_for(2ms);  // work in which others could begin, if they were let
  --shared(0);
  return now;
}
int hold_many(int n) {
  std::vector<manta::future<int>> all;
  for (int i = 0; i < n; ++i) {
    all.push_back(manta::remote<hold>.with({.resources = {{"license", 1}}})());
  }
  int most = 0;
  for (auto& f : all) most = std::max(most, f.get());
  return most;
}

}  // namespace

TEST_CASE("what tasks ask for is counted for all workers together", "[isolation]") {
  const shared_numbers numbers;
  manta::config c = isolated(4);
  c.resources = manta::resource_list{{"license", 2}};
  const manta::runtime rt(c);
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 20; ++i) {
    all.push_back(manta::remote<hold>.with({.resources = {{"license", 1}}})());
  }
  for (auto& f : all) CHECK(f.get() <= 2);
  CHECK(manta::remote<hold_many>(20).get() <= 2);
  CHECK(numbers[1] == 2);
  CHECK_THROWS_AS(manta::remote<square>.with({.resources = {{"license", 3}}})(1),
                  manta::infeasible);
}

}  // namespace task_test
