// SPDX-License-Identifier: Apache-2.0
// The runtime's life: before, after, twice, and its end with work in every state. What needs a
// process of its own is in e2e/process_test.cpp.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/support.hpp"

namespace lifecycle_test {

namespace {

using namespace std::chrono_literals;

int identity(int x) { return x; }

// What goes on until the test says so; it is running when `entered` is open.
test::everywhere<test::common_gate> entered;
test::everywhere<test::common_gate> go;
test::everywhere<test::common_gate> blocked;
int hog() {
  entered->open();
  return go->wait() ? 1 : -1;
}
/// Shuts these gates, and lets everybody go at the end.
class shut_gates {
 public:
  explicit shut_gates(int arrivals_at_blocked = 1) : opens_(*go) {
    entered->shut();
    go->shut();
    blocked->shut(arrivals_at_blocked);
  }

 private:
  test::opens_at_end opens_;
};
int by_get(const manta::future<int>& f) {
  blocked->arrive();
  return f.get();
}
int by_timed_get(const manta::future<int>& f) {
  blocked->arrive();
  return f.get(test::patience * 10);
}
int by_wait(const manta::future<int>& f) {
  blocked->arrive();
  const auto found = manta::wait(std::vector{f});
  return found.ready.at(0).get();
}

struct counter {
  int n = 0;
  int add(int x) { return n += x; }
  int wait_for_go() {
    n += hog();
    return n;
  }
  int get_in_method(manta::future<int> f) { return n += f.get(); }
};

/// Ends the runtime on its own thread when told, while the test goes on.
class ending {
 public:
  explicit ending(std::optional<manta::runtime>& rt)
      : thread_([&rt, this] {
          is_ending_.open();
          rt.reset();
          has_ended_.open();
        }) {}
  ~ending() { thread_.join(); }
  bool has_begun() { return is_ending_.wait(); }
  bool has_ended() { return has_ended_.wait(); }
  bool has_ended_now() { return has_ended_.wait(0ns); }

 private:
  test::gate is_ending_;
  test::gate has_ended_;
  std::thread thread_;
};

manta::errc code_of(const manta::future<int>& f) {
  const auto r = f.try_get(test::patience);
  REQUIRE_FALSE(r);
  return r.error().code();
}

/// Whether a task that is called now never begins. In workers the end
/// refuses calls, then cancels those that wait.
bool are_calls_cancelled() {
  const auto r = manta::remote<identity>(1).try_get(0s);
  return !r && r.error().code() == manta::errc::cancelled;
}

/// Waits until the runtime refuses new calls, so that its end has begun.
void await_refusal() {
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (std::chrono::steady_clock::now() < end) {
    try {
      static_cast<void>(manta::put(1));
      if (test::in_processes() && are_calls_cancelled()) return;
    } catch (const manta::exception&) {
      return;
    }
    std::this_thread::yield();
  }
}

}  // namespace

TEST_CASE("calls before any runtime and after the last one throw no_runtime",
          "[lifecycle][stays:refused]") {
  const auto all_are_refused = [] {
    CHECK_THROWS_AS(manta::remote<identity>(1), manta::no_runtime);
    CHECK_THROWS_AS(manta::remote<identity>.with({.cpus = 1})(1), manta::no_runtime);
    CHECK_THROWS_AS(manta::put(1), manta::no_runtime);
    CHECK_THROWS_AS(manta::async([] {}), manta::no_runtime);
    CHECK_THROWS_AS(manta::spawn<counter>(), manta::no_runtime);
  };
  all_are_refused();
  { const manta::runtime rt(test::two_workers()); }
  all_are_refused();
  const std::string said =
      test::message_of<manta::no_runtime>([] { static_cast<void>(manta::put(1)); });
  CHECK(said.find("manta::runtime") != std::string::npos);
}

TEST_CASE("runtimes follow each other, and a second one at once is refused",
          "[lifecycle][anywhere]") {
  for (int i = 0; i < 20; ++i) {
    const manta::runtime rt(test::workers(1 + i % 3));
    CHECK(rt.workers() == 1 + i % 3);
    CHECK(manta::remote<identity>(i).get() == i);
    CHECK_THROWS_AS(manta::runtime(test::two_workers()), manta::invalid_argument);
    // The refused one has left the first one whole.
    CHECK(manta::remote<identity>(i).get() == i);
  }
}

TEST_CASE("a struct's bad field is invalid_config with key and range",
          "[lifecycle][stays:refused]") {
  manta::config c;
  for (const int bad : {0, -2, 1025, 1 << 30}) {
    c.workers = bad;
    const std::string said =
        test::message_of<manta::invalid_config>([&c] { manta::runtime rt(c); });
    CHECK(said.find("workers") != std::string::npos);
    CHECK(said.find("1024") != std::string::npos);
  }
  c = {};
  c.spin_us = -2;
  CHECK_THROWS_AS(manta::runtime(c), manta::invalid_config);
  c = {};
  c.extra_threads = 1000000;
  CHECK_THROWS_AS(manta::runtime(c), manta::invalid_config);
  CHECK_THROWS_AS(manta::put(1), manta::no_runtime);
}

TEST_CASE("futures outlive the runtime with their values and errors", "[lifecycle][anywhere]") {
  constexpr auto kept = [] { return std::string("kept"); };
  constexpr auto fail = []() -> int { throw std::runtime_error("kept, too"); };
  constexpr auto nothing = [] {};
  manta::future<std::string> value;
  manta::future<int> failed;
  manta::future<void> none;
  {
    const manta::runtime rt(test::two_workers());
    value = manta::remote<kept>();
    failed = manta::remote<fail>();
    none = manta::remote<nothing>();
    value.get();
    none.get();
    static_cast<void>(failed.try_get());
  }
  CHECK(value.get() == "kept");
  CHECK(value.get(0s) == "kept");
  CHECK_THROWS_AS(failed.get(), manta::task_error);
  none.get();
  CHECK(manta::wait(std::vector{value}).ready.size() == 1);
  CHECK(manta::get(std::vector{value})[0] == "kept");
  CHECK(std::move(value).get() == "kept");
}

TEST_CASE("actor handles outlive the runtime, their calls are refused", "[lifecycle][anywhere]") {
  manta::actor<counter> a;
  manta::future<int> before;
  {
    const manta::runtime rt(test::two_workers());
    a = manta::spawn<counter>();
    before = manta::remote<&counter::add>(a, 5);
    before.get();
  }
  CHECK(before.get() == 5);
  CHECK_THROWS_AS(manta::remote<&counter::add>(a, 1), manta::no_runtime);
  const manta::actor<counter> copy = a;
  a = {};
  // In a later runtime the old handle is to an actor that has ended.
  const manta::runtime rt(test::two_workers());
  const auto late = manta::remote<&counter::add>(copy, 1);
  const auto r = late.try_get(test::patience);
  CHECK_FALSE(r);
}

// Of one node: another one would run what is queued here behind a busy worker.
TEST_CASE("at the end running tasks finish and queued ones are cancelled",
          "[lifecycle][anywhere][one_node]") {
  std::optional<manta::runtime> rt(std::in_place, test::workers(1));
  const shut_gates at_end;
  const auto running = manta::remote<hog>();
  REQUIRE(entered->wait());
  std::vector<manta::future<int>> queued;
  for (int i = 0; i < 1000; ++i) queued.push_back(manta::remote<identity>(i));
  const auto dependent = manta::remote<identity>(queued.back());
  const auto on_running = manta::remote<identity>(running);
  {
    ending end(rt);
    REQUIRE(end.has_begun());
    await_refusal();
    CHECK(code_of(queued.back()) == manta::errc::cancelled);  // while the one before still runs
    go->open();
    CHECK(end.has_ended());
  }
  CHECK(running.get() == 1);
  int wrong = 0;
  for (const auto& f : queued) wrong += code_of(f) == manta::errc::cancelled ? 0 : 1;
  CHECK(wrong == 0);
  CHECK(code_of(dependent) == manta::errc::cancelled);
  CHECK(code_of(on_running) == manta::errc::cancelled);
  CHECK_THROWS_AS(dependent.get(), manta::cancelled);
}

// Of one node: another one would run what is never to begin.
TEST_CASE("the end wakes tasks and threads that wait for work that never began",
          "[lifecycle][anywhere][one_node]") {
  std::optional<manta::runtime> rt(std::in_place, test::workers(1));
  const shut_gates at_end;
  const auto running = manta::remote<hog>();
  REQUIRE(entered->wait());
  const auto never = manta::remote<identity>(1);
  const auto after = manta::remote<identity>(never);
  std::atomic<int> woken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([after, &woken] {
      const auto r = after.try_get(test::patience);
      if (!r && r.error().code() == manta::errc::cancelled) ++woken;
    });
  }
  {
    ending end(rt);
    await_refusal();
    CHECK(code_of(never) == manta::errc::cancelled);
    go->open();
    CHECK(end.has_ended());
  }
  for (auto& t : threads) t.join();
  CHECK(woken == 4);
  CHECK(code_of(after) == manta::errc::cancelled);
}

TEST_CASE("the end wakes a task that is blocked in get, wait and timed get",
          "[lifecycle][anywhere][amounts_home]") {
  for (int round = 0; round < 3; ++round) {
    std::optional<manta::runtime> rt(std::in_place, test::workers(2));
    const shut_gates at_end(3);
    // It holds one worker; whatever the others wait for is queued for the cores named by it.
    const auto running = manta::remote<hog>.with({.cpus = 2})();
    REQUIRE(entered->wait());
    const auto never = manta::remote<identity>.with({.cpus = 2})(1);
    const std::vector waiting{manta::remote<by_get>(never), manta::remote<by_timed_get>(never),
                              manta::remote<by_wait>(never)};
    REQUIRE(blocked->wait());
    {
      ending end(rt);
      await_refusal();
      go->open();
      CHECK(end.has_ended());
    }
    CHECK(running.get() == 1);
    // In workers calls are refused before those that wait are cancelled: it may have its cores.
    if (test::in_processes() && never.try_get(test::patience)) continue;
    CHECK(code_of(never) == manta::errc::cancelled);
    for (const auto& f : waiting) CHECK(code_of(f) == manta::errc::cancelled);
  }
}

// An actor's turn ends after some hundred calls; at the end of the runtime its next turn never
// comes, and who waits for a later call must be told all the same.
TEST_CASE("the end wakes a task that waits for a call far back in a mailbox",
          "[lifecycle][anywhere]") {
  std::optional<manta::runtime> rt(std::in_place, test::workers(2));
  const shut_gates at_end;
  const auto a = manta::spawn<counter>();
  const auto first = manta::remote<&counter::wait_for_go>(a);
  REQUIRE(entered->wait());
  std::vector<manta::future<int>> calls;
  for (int i = 0; i < 5000; ++i) calls.push_back(manta::remote<&counter::add>(a, 1));
  const auto waiting = manta::remote<by_get>(calls.back());
  REQUIRE(blocked->wait());
  {
    ending end(rt);
    await_refusal();
    go->open();
    CHECK(end.has_ended());
  }
  CHECK(first.get() == 1);
  const auto r = waiting.try_get(test::patience);
  CHECK((r || r.error().code() == manta::errc::cancelled));
  for (const auto& f : calls) {
    const auto c = f.try_get(0s);
    CHECK((c || c.error().code() == manta::errc::cancelled));
  }
}

TEST_CASE("the end wakes a task that waits for an idle actor's call with a late argument",
          "[lifecycle][anywhere]") {
  std::optional<manta::runtime> rt(std::in_place, test::workers(2));
  const shut_gates at_end;
  const auto late = manta::remote<hog>();
  REQUIRE(entered->wait());
  const auto a = manta::spawn<counter>();
  manta::remote<&counter::add>(a, 1).get();
  const auto held = manta::remote<&counter::add>(a, late);
  const auto behind = manta::remote<&counter::add>(a, 1);
  const auto waiting = manta::remote<by_get>(behind);
  REQUIRE(blocked->wait());
  {
    ending end(rt);
    await_refusal();
    go->open();
    CHECK(end.has_ended());
  }
  CHECK(late.get() == 1);
  for (const auto& f : {held, behind, waiting}) {
    const auto r = f.try_get(test::patience);
    CHECK((r || r.error().code() == manta::errc::cancelled));
  }
}

// Of one node: another one's workers are free, and construct it.
TEST_CASE("calls of an actor whose construction never began are cancelled like any",
          "[lifecycle][one_node]") {
  std::optional<manta::runtime> rt(std::in_place, test::workers(1));
  const shut_gates at_end;
  const auto running = manta::remote<hog>();
  REQUIRE(entered->wait());
  const auto a = manta::spawn<counter>();
  std::vector<manta::future<int>> calls;
  for (int i = 0; i < 600; ++i) calls.push_back(manta::remote<&counter::add>(a, 1));
  {
    ending end(rt);
    await_refusal();
    go->open();
    CHECK(end.has_ended());
  }
  int wrong = 0;
  for (const auto& f : calls) wrong += code_of(f) == manta::errc::cancelled ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("the end waits for an actor whose method is blocked, and destroys the actor",
          "[lifecycle][anywhere]") {
  static test::everywhere<std::atomic<int>> living;
  *living = 0;
  struct mortal {
    mortal() { ++*living; }
    mortal(const mortal&) = delete;
    ~mortal() { --*living; }
    int wait_for_go() { return hog(); }
  };
  std::optional<manta::runtime> rt(std::in_place, test::two_workers());
  const shut_gates at_end;
  const auto kept = manta::spawn<mortal>();
  static_cast<void>(manta::spawn<mortal>());
  const auto running = manta::remote<&mortal::wait_for_go>(kept);
  REQUIRE(entered->wait());
  {
    ending end(rt);
    await_refusal();
    CHECK_FALSE(end.has_ended_now());
    CHECK(*living >= 1);
    go->open();
    CHECK(end.has_ended());
  }
  CHECK(running.get() == 1);
  CHECK(*living == 0);
}

TEST_CASE("a runtime ends with 10,000 dependents of a task that never began",
          "[lifecycle][anywhere]") {
  std::vector<manta::future<int>> chain;
  {
    const manta::runtime rt(test::workers(1));
    const shut_gates at_end;
    manta::future<int> f = manta::remote<hog>();
    REQUIRE(entered->wait());
    for (int i = 0; i < 10000; ++i) {
      f = manta::remote<identity>(f);
      chain.push_back(f);
    }
    go->open();
  }
  // Each has ended one way or the other.
  int ended = 0;
  for (const auto& f : chain) ended += f.is_ready() ? 1 : 0;
  CHECK(ended == 10000);
}

TEST_CASE("a task's destructors and an actor's destructor may use futures and calls",
          "[lifecycle][anywhere]") {
  struct caller {
    std::shared_ptr<std::atomic<int>> outcome;
    caller() = default;
    explicit caller(std::shared_ptr<std::atomic<int>> o) : outcome(std::move(o)) {}
    caller(caller&&) = default;
    void save(manta::codec::out_archive& ar) const { ar(outcome); }
    void load(manta::codec::in_archive& ar) { ar(outcome); }
    ~caller() {
      if (!outcome) return;
      try {
        *outcome = manta::remote<identity>(7).get(test::patience);
      } catch (const manta::exception& e) {
        *outcome = -1 - static_cast<int>(e.code());
      }
    }
  };
  const auto from_argument = std::make_shared<std::atomic<int>>(0);
  const auto from_result = std::make_shared<std::atomic<int>>(0);
  const auto from_actor = std::make_shared<std::atomic<int>>(0);
  const auto from_late_result = std::make_shared<std::atomic<int>>(0);
  manta::future<caller> outlives;
  {
    const manta::runtime rt(test::two_workers());
    manta::async([c = caller(from_argument)] {}).get();
    {
      manta::async([from_result] { return caller(from_result); }).get();
    }
    { const auto a = manta::spawn<caller>(caller(from_actor)); }
    outlives = manta::async([from_late_result] { return caller(from_late_result); });
    outlives.get();
    const auto end = std::chrono::steady_clock::now() + test::patience;
    const auto is_over = [&from_actor] {
      return *from_actor != 0 && manta::exec::actor_core::alive() == 0;
    };
    while (!is_over() && std::chrono::steady_clock::now() < end) {
      static_cast<void>(manta::remote<identity>(1).get());
    }
  }
  CHECK(*from_argument == 7);
  CHECK(*from_result == 7);
  CHECK(*from_actor == 7);
  outlives = {};
  CHECK(*from_late_result == -1 - static_cast<int>(manta::errc::no_runtime));
}

TEST_CASE("20 threads of the program call, wait and end", "[lifecycle][anywhere]") {
  std::atomic<int> right{0};
  const manta::runtime rt(test::two_workers());
  const auto shared = manta::remote<identity>(3);
  const auto a = manta::spawn<counter>();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 20; ++t) {
      threads.emplace_back([&right, &shared, a, t] {
        int sum = 0;
        for (int i = 0; i < 100; ++i) sum += manta::remote<identity>(i).get();
        sum += shared.get() + manta::remote<identity>(shared).get();
        static_cast<void>(manta::remote<&counter::add>(a, 1));
        // What it leaves behind is run though it has gone.
        static_cast<void>(manta::remote<identity>(t));
        if (sum == 4950 + 6) ++right;
      });
    }
    for (auto& t : threads) t.join();
  }
  CHECK(right == 60);
  CHECK(manta::remote<&counter::add>(a, 0).get() == 60);
}

TEST_CASE("a thread's unfinished work is done though the thread has ended",
          "[lifecycle][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<int>> left;
  for (int t = 0; t < 50; ++t) {
    std::thread([&left, t] {
      for (int i = 0; i < 20; ++i) left.push_back(manta::remote<identity>(t));
    }).join();
  }
  int sum = 0;
  for (const auto& f : left) sum += f.get(test::patience);
  CHECK(sum == 20 * 49 * 50 / 2);
}

TEST_CASE("threads that call while the runtime ends get values or typed errors",
          "[lifecycle][anywhere]") {
  for (int round = 0; round < 10; ++round) {
    std::optional<manta::runtime> rt(std::in_place, test::two_workers());
    std::atomic<int> untyped{0};
    std::atomic<int> unended{0};
    const auto a = manta::spawn<counter>();
    test::gate started(3);
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, a] {
        std::vector<manta::future<int>> made;
        try {
          for (int i = 0;; ++i) {
            made.push_back(manta::remote<identity>(i));
            made.push_back(manta::remote<&counter::add>(a, made.back()));
            made.push_back(manta::remote<&counter::add>(a, 1));
            if (i == 10) started.arrive();
            if (i > 1000000) break;
          }
        } catch (const manta::no_runtime&) {
        } catch (const manta::cancelled&) {
        } catch (...) {
          ++untyped;
        }
        for (const auto& f : made) {
          const auto r = f.try_get(test::patience);
          if (!r && r.error().code() != manta::errc::cancelled) ++unended;
        }
      });
    }
    REQUIRE(started.wait());
    rt.reset();
    for (auto& t : threads) t.join();
    CHECK(untyped == 0);
    CHECK(unended == 0);
  }
}

// Of one node: the counters are each node's own.
TEST_CASE("the counters agree with what ran", "[lifecycle][anywhere][one_node]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<int>> many;
  for (int i = 0; i < 100; ++i) many.push_back(manta::remote<identity>(i));
  manta::get(many);
  const auto a = manta::spawn<counter>();
  for (int i = 0; i < 10; ++i) manta::remote<&counter::add>(a, 1).get();
  const manta::runtime_stats s = rt.stats();
  CHECK(s.tasks_run == 111);  // with the actor's constructor
  CHECK(s.actor_calls == 10);
  CHECK(s.tasks_submitted >= 101);
  CHECK(s.workers.size() >= 2);
  CHECK(s.uptime_seconds > 0);
  for (const manta::worker_stats& w : s.workers) {
    CHECK(w.utilisation >= 0);
    CHECK(w.utilisation <= 1.0);
  }
}

}  // namespace lifecycle_test
