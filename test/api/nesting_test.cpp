// SPDX-License-Identifier: Apache-2.0
// Tasks that make tasks: recursion, blocking in tasks, fan-out and delegation.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "api/support.hpp"

namespace nesting_test {

namespace {

using namespace std::chrono_literals;

int fib(int n) {
  if (n < 2) return n;
  const auto a = manta::remote<fib>(n - 1);
  const auto b = manta::remote<fib>(n - 2);
  return a.get() + b.get();
}
bool is_odd(int n);
bool is_even(int n) { return n == 0 ? true : manta::remote<is_odd>(n - 1).get(); }
bool is_odd(int n) { return n == 0 ? false : manta::remote<is_even>(n - 1).get(); }
int depth(int n) { return n == 0 ? 0 : 1 + manta::remote<depth>(n - 1).get(); }
int timed_depth(int n) {
  return n == 0 ? 0 : 1 + manta::remote<timed_depth>(n - 1).get(test::patience);
}
int identity(int x) { return x; }

manta::future<long> count_down(long n, long sum) {
  if (n == 0) return manta::put(sum);
  return manta::remote<count_down>(n - 1, sum + 1);
}
manta::future<int> delegate_once(int x) { return manta::remote<identity>(x); }
manta::future<int> delegate_twice(int x) { return manta::remote<delegate_once>(x); }

long resident_kib() {
  std::FILE* const f = std::fopen("/proc/self/statm", "r");
  long total = 0;
  long resident = 0;
  const int n = f == nullptr ? 0 : std::fscanf(f, "%ld %ld", &total, &resident);
  if (f != nullptr) std::fclose(f);
  return n == 2 ? resident * (sysconf(_SC_PAGESIZE) / 1024) : 0;
}
std::size_t threads_now() {
  namespace fs = std::filesystem;
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator{}));
}

struct accumulator {
  int sum = 0;
  int add(int x) { return sum += x; }
  int total() { return sum; }
  int add_by_task(int x) {
    sum += manta::remote<identity>(x).get();
    return sum;
  }
  manta::future<int> delegated(int x) { return manta::remote<identity>(x + sum); }
  manta::future<long> long_chain(long n) { return manta::remote<count_down>(n, 0L); }
};
struct nest {
  manta::actor<accumulator> inner = manta::spawn<accumulator>();
  int add(int x) { return manta::remote<&accumulator::add>(inner, x).get(); }
};

}  // namespace

TEST_CASE("a task calls itself and waits", "[nesting][anywhere]") {
  for (const int n : {1, 2, 4}) {
    const manta::runtime rt(test::workers(n));
    const bool is_short = test::is_sanitized || test::in_nodes();
    CHECK(manta::remote<fib>(is_short ? 12 : 18).get() == (is_short ? 144 : 2584));
  }
}

TEST_CASE("two functions call each other and wait", "[nesting][anywhere]") {
  const manta::runtime rt(test::two_workers());
  CHECK(manta::remote<is_even>(200).get());
  CHECK_FALSE(manta::remote<is_even>(201).get());
}

TEST_CASE("a depth of 1,000 blocking gets works on one and on two workers", "[nesting][anywhere]") {
  for (const int n : {1, 2}) {
    const manta::runtime rt(test::workers(n));
    CHECK(manta::remote<depth>(1000).get() == 1000);
  }
}

TEST_CASE("a depth of 300 timed gets, which never run in place, works on two workers",
          "[nesting][anywhere]") {
  const manta::runtime rt(test::two_workers());
  CHECK(manta::remote<timed_depth>(300).get() == 300);
  if (!test::in_processes()) CHECK(rt.stats().threads_lent > 0);
}

TEST_CASE("a fan-out of 10,000 tasks from a task is summed", "[nesting][anywhere]") {
  const manta::runtime rt(test::two_workers());
  constexpr auto fan = [](int n) {
    std::vector<manta::future<int>> parts;
    for (int i = 0; i < n; ++i) parts.push_back(manta::remote<identity>(1));
    int sum = 0;
    for (const auto& p : parts) sum += p.get();
    return sum;
  };
  CHECK(manta::remote<fan>(10000).get() == 10000);
}

TEST_CASE("tasks, actors and objects are made and used inside each other", "[nesting][anywhere]") {
  const manta::runtime rt(test::two_workers());
  // task -> actor -> task -> put, and back.
  constexpr auto outer = [](int n) {
    const auto a = manta::spawn<accumulator>();
    manta::future<int> last;
    for (int i = 0; i < n; ++i) last = manta::remote<&accumulator::add_by_task>(a, i);
    // Another caller's calls may be between these; in one node those of who was told of `a` behind
    // them are not.
    if (test::in_nodes()) last.get();
    const auto inner = [](manta::actor<accumulator> b, int x) {
      return manta::remote<&accumulator::add>(b, manta::put(x)).get();
    };
    return manta::remote<inner>(a, 1000).get();
  };
  CHECK(manta::remote<outer>(10).get() == 1045);
  const auto n = manta::spawn<nest>();
  CHECK(manta::remote<&nest::add>(n, 4).get() == 4);
  CHECK(manta::remote<&nest::add>(n, manta::remote<&nest::add>(n, 1)).get() == 10);
}

TEST_CASE("a blocked task lends its core to another one", "[nesting][anywhere]") {
  static test::everywhere<test::common_gate> go;
  static test::everywhere<test::common_gate> ran;
  go->shut();
  ran->shut();
  const manta::runtime rt(test::workers(1));
  const test::opens_at_end opens(*go);
  constexpr auto when_open = [](int x) { return go->wait() ? x : -1; };
  constexpr auto waits = [](const manta::future<int>& f) { return f.get(test::patience); };
  constexpr auto waits_too = [](const manta::future<int>& f) {
    ran->open();
    return f.get(test::patience);
  };
  const auto late = manta::remote<when_open>(1);
  const auto blocked = manta::remote<waits>(late);
  // `late` holds the only worker until the gate opens, and what opens it is queued behind both:
  // unless somebody steps in for a blocked get this times out.
  const auto opener = manta::remote<waits_too>(late);
  go->open();
  CHECK(ran->wait());
  CHECK(blocked.get(test::patience) == 1);
  CHECK(opener.get(test::patience) == 1);
}

TEST_CASE("a task waits for a task that only another queued task can release",
          "[nesting][anywhere]") {
  // On one worker: a blocks on b's result in a timed get, b on c's.
  const manta::runtime rt(test::workers(1));
  const auto chain = manta::async([] {
    const auto c = manta::remote<identity>(1);
    const auto b = manta::async([c] { return c.get(test::patience) + 1; });
    const auto a = manta::async([b] { return b.get(test::patience) + 1; });
    return a.get(test::patience) + 1;
  });
  CHECK(chain.get(test::patience) == 4);
}

TEST_CASE("10,000 blocked tasks do not make 10,000 threads", "[nesting][stays:async]") {
  manta::config c = test::two_workers();
  c.extra_threads = 16;
  std::atomic<int> blocked{0};
  const manta::runtime rt(c);
  test::scoped_gate go;
  const auto late = manta::async([&go] {
    go.wait();
    return 1;
  });
  std::vector<manta::future<int>> waiting;
  for (int i = 0; i < 10000; ++i) {
    waiting.push_back(manta::async([late, &blocked] {
      ++blocked;
      return late.get(test::patience * 2);
    }));
  }
  // Up to the soft limit a thread steps in for each blocked one; beyond it growth is slow.
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (blocked < 16 && std::chrono::steady_clock::now() < end) {
    static_cast<void>(late.try_get(1ms));
  }
  CHECK(blocked >= 16);
  const std::size_t threads = threads_now();
  go.open();
  CHECK(threads < 1000);
  int sum = 0;
  for (const auto& f : waiting) sum += f.get(test::patience);
  CHECK(sum == 10000);
}

TEST_CASE("a returned future is flattened, however deep", "[delegation][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const manta::future<int> one = manta::remote<delegate_once>(5);
  const manta::future<int> two = manta::remote<delegate_twice>(6);
  CHECK(one.get() == 5);
  CHECK(two.get() == 6);
  CHECK(manta::remote<identity>(manta::remote<delegate_once>(7)).get() == 7);
  CHECK(*manta::async([] { return manta::async([] { return std::make_unique<int>(8); }); }).get() ==
        8);
  manta::async([] { return manta::async([] {}); }).get();
  CHECK(manta::remote<delegate_once>(7).get(test::patience) == 7);
}

TEST_CASE("a delegated value is moved out of its last future", "[delegation][anywhere]") {
  const manta::runtime rt(test::two_workers());
  static constexpr auto inner = [] { return std::make_unique<int>(8); };
  constexpr auto outer = [] { return manta::remote<inner>(); };
  auto f = manta::remote<outer>();
  CHECK(*std::move(f).get() == 8);
}

TEST_CASE("an error of the delegate arrives with its own cause", "[delegation][anywhere]") {
  const manta::runtime rt(test::two_workers());
  static constexpr auto inner = []() -> int { throw std::logic_error("inner cause"); };
  constexpr auto outer = [] { return manta::remote<inner>(); };
  constexpr auto none = [] { return manta::future<int>{}; };
  const auto f = manta::remote<outer>();
  const std::string said = test::message_of<manta::task_error>([&] { f.get(); });
  CHECK(said.find("inner cause") != std::string::npos);
  CHECK_THROWS_AS(manta::remote<none>().get(), manta::invalid_argument);
}

TEST_CASE("tail calls need no stack and no growing memory, up to 1,000,000 of them at home",
          "[delegation][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const long n = test::in_nodes()        ? (test::is_sanitized ? 500 : 2000)
                 : test::in_processes()  ? 10000
                 : test::is_sanitized    ? 50000
                 : test::copies_values() ? 200000
                                         : 1000000;
  CHECK(manta::remote<count_down>(1000L, 0L).get() == 1000);
  const long before = resident_kib();
  CHECK(manta::remote<count_down>(n, 0L).get() == n);
  if (!test::is_sanitized) CHECK(resident_kib() - before < 32 * 1024);
  // The same when somebody looks at it while it runs.
  const auto watched = manta::remote<count_down>(n / 10, 0L);
  while (!watched.is_ready()) static_cast<void>(watched.try_get(1ms));
  CHECK(watched.get() == n / 10);
}

TEST_CASE("many chains of delegation run at the same time", "[delegation][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<long>> chains;
  for (int i = 0; i < 50; ++i) chains.push_back(manta::remote<count_down>(500L, 0L));
  long sum = 0;
  for (const long v : manta::get(chains)) sum += v;
  CHECK(sum == 50 * 500);
}

namespace {

// Has futures where tasks find them that began before there were any.
struct keeper {
  std::vector<manta::future<int>> futures;
  void keep(std::vector<manta::future<int>> all) { futures = std::move(all); }
  std::vector<manta::future<int>> all() const { return futures; }
};
test::everywhere<test::common_gate> filled;
manta::future<int> gives(const manta::actor<keeper>& from, std::size_t i) {
  if (!filled->wait()) throw std::runtime_error("nobody filled the keeper");
  return manta::remote<&keeper::all>(from).get().at(i);
}

}  // namespace

TEST_CASE("a task that returns its own future is a typed error", "[delegation][anywhere]") {
  const manta::runtime rt(test::two_workers());
  filled->shut();
  const test::opens_at_end opens(*filled);
  const auto from = manta::spawn<keeper>();
  const auto own = manta::remote<gives>(from, std::size_t{0});
  manta::remote<&keeper::keep>(from, std::vector{own}).get();
  filled->open();
  CHECK_THROWS_AS(own.get(test::patience), manta::invalid_argument);
  const std::string said = test::message_of<manta::invalid_argument>([&] { own.get(); });
  CHECK(said.find("cycle") != std::string::npos);
}

TEST_CASE("tasks that return each other's future in a ring are a typed error",
          "[delegation][anywhere]") {
  const manta::runtime rt(test::workers(4));  // one for the keeper
  filled->shut();
  const test::opens_at_end opens(*filled);
  const auto from = manta::spawn<keeper>();
  std::vector<manta::future<int>> ring;
  for (std::size_t i = 0; i < 3; ++i) ring.push_back(manta::remote<gives>(from, (i + 1) % 3));
  manta::remote<&keeper::keep>(from, ring).get();
  filled->open();
  for (const auto& f : ring) {
    CHECK_THROWS_AS(f.get(test::patience), manta::invalid_argument);
  }
}

TEST_CASE("an actor's method may delegate, and the actor is free meanwhile",
          "[delegation][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<accumulator>();
  static_cast<void>(manta::remote<&accumulator::add>(a, 1));
  const manta::future<int> d = manta::remote<&accumulator::delegated>(a, 10);
  CHECK(manta::remote<&accumulator::add>(a, 1).get(test::patience) == 2);
  CHECK(d.get(test::patience) == 11);
  const long links = test::in_nodes() ? 500 : 10000;
  CHECK(manta::remote<&accumulator::long_chain>(a, links).get() == links);
}

}  // namespace nesting_test
