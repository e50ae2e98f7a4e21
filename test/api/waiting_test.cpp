// SPDX-License-Identifier: Apache-2.0
// What a thread that waits may count on: whose value it is, whose cores, and which waits never end.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "api/support.hpp"

namespace waiting_test {

using namespace std::chrono_literals;

namespace {

std::unique_ptr<int> make_owned(int x) { return std::make_unique<int>(x); }
int plus_one(int x) { return x + 1; }
int with_inner_cores(int x) { return manta::remote<plus_one>.with({.cpus = 2})(x).get(); }

test::everywhere<std::atomic<bool>> inside;
test::everywhere<std::atomic<bool>> go;
test::everywhere<std::atomic<bool>> ended;

struct selfish {
  manta::actor<selfish> me;
  void know(manta::actor<selfish> self) { me = std::move(self); }
  int value() { return 7; }
  int wait_for_own_call() {
    auto [ready, pending] =
        manta::wait(std::vector{manta::remote<&selfish::value>(me)}, {.count = 1});
    return static_cast<int>(ready.size());
  }
  manta::future<int> start() {
    return manta::async([] {
      while (!*go) std::this_thread::yield();
      return 7;
    });
  }
  int get_of(const std::vector<manta::future<int>>& f) {
    std::thread opener([] { *go = true; });
    const int x = f[0].get();
    opener.join();
    return x;
  }
};

struct tells_its_end {
  tells_its_end() = default;
  tells_its_end(const tells_its_end&) = delete;
  tells_its_end& operator=(const tells_its_end&) = delete;
  ~tells_its_end() { *ended = true; }
  int one() { return 1; }
};

bool becomes_true(const std::atomic<bool>& flag) {
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (!flag && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return flag;
}

}  // namespace

// The waiter was told while the worker still held the job: the value seemed shared, and was not
// moved.
TEST_CASE("a waiter that slept moves the value out like any other", "[wait][value][anywhere]") {
  manta::config sleepy;
  sleepy.workers = 2;
  sleepy.spin_us = 0;
  const manta::runtime rt(sleepy);
  int moved = 0;
  for (int i = 0; i < 2000; ++i) {
    auto f = manta::remote<make_owned>(i);
    static_cast<void>(f.try_get(1ns));  // so that it runs elsewhere
    moved += *std::move(f).get() == i ? 1 : 0;
  }
  CHECK(moved == 2000);
}

// Cores taken at the call, while arguments are still made, were kept from the tasks that make them.
TEST_CASE("a task that waits for its arguments does not hold the cores it will need",
          "[options][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::remote<with_inner_cores>(1);
  const auto b = manta::remote<plus_one>.with({.cpus = 2})(a);
  CHECK(b.get(test::patience) == 3);
}

TEST_CASE("the runtime ends tasks that wait for cores", "[options][lifecycle][stays:amounts]") {
  std::vector<manta::future<int>> waiting;
  {
    const manta::runtime rt(test::two_workers());
    for (int i = 0; i < 100; ++i) {
      waiting.push_back(manta::remote<with_inner_cores>.with({.cpus = 2})(i));
    }
  }
  int count = 0;
  for (const auto& f : waiting) count += f.is_ready() ? 1 : 0;
  CHECK(count == 100);
}

TEST_CASE("an actor that waits for its own call gets self_wait from wait, too",
          "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<selfish>();
  manta::remote<&selfish::know>(a, a).get();
  try {
    manta::remote<&selfish::wait_for_own_call>(a).get();
    FAIL("it answered");
  } catch (const manta::self_wait&) {
  }
  manta::remote<&selfish::know>(a, manta::actor<selfish>()).get();
}

namespace {

int get_once_known(std::shared_ptr<manta::future<int>> own) {
  while (!*go) std::this_thread::yield();
  return own->get();
}
}  // namespace

TEST_CASE("a task that waits for its own result gets self_wait", "[wait][stays:async]") {
  const manta::runtime rt(test::two_workers());
  const auto own = std::make_shared<manta::future<int>>();
  *go = false;
  const auto f = manta::remote<get_once_known>(own);
  *own = f;
  *go = true;
  CHECK_THROWS_AS(f.get(test::patience), manta::self_wait);
  *own = {};
}

TEST_CASE("an actor may wait for what its earlier call delegated to a task",
          "[actor][anywhere][actors_home][stays:async]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<selfish>();
  *go = false;
  const auto started = manta::remote<&selfish::start>(a);
  while (!started.is_ready() && manta::remote<&selfish::value>(a).get() != 7) {
  }
  const auto answer = manta::remote<&selfish::get_of>(a, std::vector{started, started});
  CHECK(answer.get(test::patience) == 7);
}

namespace {

struct where {
  int calls = 0;
  std::thread::id on() {
    ++calls;
    return std::this_thread::get_id();
  }
  int count() const { return calls; }
  int count_of(const manta::actor<where>& other) {
    return manta::remote<&where::count>(other).get();
  }
};

}  // namespace

// Of one node: the thread that looks for what other nodes could have puts an actor that waits in
// line elsewhere, and then it is a worker's.
TEST_CASE("an untimed get runs an idle actor's call itself", "[actor][wait][one_node]") {
  *inside = *go = false;
  const manta::runtime rt(test::workers(1));
  const auto a = manta::spawn<where>();
  const auto b = manta::spawn<where>();
  CHECK(manta::remote<&where::on>(a).get(test::patience) != std::this_thread::get_id());
  CHECK(manta::remote<&where::count>(b).get(test::patience) == 0);
  const auto busy = manta::async([] {
    *inside = true;
    while (!*go) std::this_thread::yield();
  });
  REQUIRE(becomes_true(*inside));  // the only worker is taken; nobody else can run a call
  CHECK(manta::remote<&where::on>(a).get() == std::this_thread::get_id());
  CHECK(manta::remote<&where::on>(a).get() == std::this_thread::get_id());
  // A method's call of another actor, too.
  CHECK(manta::remote<&where::count_of>(b, a).get() == 3);
  // A timed get runs nothing; nor does one whose call is not the latest.
  const auto timed = manta::remote<&where::on>(a);
  CHECK_THROWS_AS(timed.get(1ms), manta::timed_out);
  const auto latest = manta::remote<&where::on>(a);
  CHECK_THROWS_AS(timed.get(1ms), manta::timed_out);
  CHECK(latest.get() == std::this_thread::get_id());
  CHECK(timed.is_ready());
  *go = true;
  busy.get();
}

// What could break: a call that comes while the waiter leaves the actor is seen by nobody.
TEST_CASE("callers that run an actor in turn lose no call", "[actor][wait][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<where>();
  const int rounds = test::trips(30000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([a, t, rounds] {
      for (int i = 0; i < rounds; ++i) {
        auto f = manta::remote<&where::on>(a);
        if (t != 0 || i % 16 == 0) f.get();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(manta::remote<&where::count>(a).get(test::patience) == 3 * rounds);
}

// A thread that manta had never seen counted as one that comes after the end: the actor stayed.
TEST_CASE("an actor ends when its last handle goes on a thread that is new here",
          "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  *ended = false;
  auto last = manta::spawn<tells_its_end>();
  CHECK(manta::remote<&tells_its_end::one>(last).get() == 1);
  std::thread([handle = std::move(last)]() mutable { handle = {}; }).join();
  CHECK(becomes_true(*ended));
}

TEST_CASE("a second runtime that is refused changes nothing of the first",
          "[lifecycle][anywhere][amounts_home][stays:amounts]") {
  const manta::runtime rt(test::two_workers());
  *inside = *go = false;
  constexpr auto hold = [](int x) {
    *inside = true;
    while (!*go) std::this_thread::yield();
    return x;
  };
  const auto first = manta::remote<hold>.with({.cpus = 2})(1);
  REQUIRE(becomes_true(*inside));
  CHECK_THROWS_AS(manta::runtime(test::two_workers()), manta::invalid_argument);
  const auto second = manta::remote<plus_one>.with({.cpus = 2})(1);
  CHECK_THROWS_AS(second.get(20ms), manta::timed_out);
  *go = true;
  CHECK(second.get(test::patience) == 2);
  CHECK(first.get() == 1);
}

}  // namespace waiting_test
