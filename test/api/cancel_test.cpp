// SPDX-License-Identifier: Apache-2.0
// Cancelling work by hand: what is queued never runs, what runs is asked, children follow.
#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "api/support.hpp"

namespace cancel_test {

namespace {

// What the tasks of one case share with it.
struct board {
  test::common_gate entered;
  test::common_gate release;
  std::atomic<int> ran{0};
  std::atomic<int> saw_stop{0};
};
test::everywhere<board> shown;

// The board of one case: as new when it begins, and nobody is held there when it ends.
struct own_board {
  own_board() {
    shown->entered.shut();
    shown->release.shut();
    shown->ran = 0;
    shown->saw_stop = 0;
  }
  own_board(const own_board&) = delete;
  own_board& operator=(const own_board&) = delete;
  ~own_board() { shown->release.open(); }
  board* operator->() const { return &*shown; }
};

int hold_worker() {
  shown->entered.open();
  shown->release.wait();
  return 1;
}
int count_run(int x) {
  ++shown->ran;
  return x;
}
// Looks until it is asked to stop; false when that takes too long.
bool wait_for_stop() {
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (!manta::this_task::is_cancelled()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  ++shown->saw_stop;
  return true;
}
int stoppable(int x) {
  shown->entered.open();
  wait_for_stop();
  manta::this_task::check();
  return x;
}
int stubborn(int x) {
  shown->entered.open();
  wait_for_stop();
  return x;
}
int calls_when_stopped(int x) {
  shown->entered.open();
  wait_for_stop();
  return manta::remote<count_run>(x).get();
}
int chain(int depth) {
  if (depth == 0) return stoppable(0);
  return manta::remote<chain>(depth - 1).get();
}
manta::future<int> delegates(int x) { return manta::remote<stoppable>(x); }

struct worker {
  int calls = 0;
  int hold() {
    shown->entered.open();
    shown->release.wait();
    return ++calls;
  }
  int add() { return ++calls; }
  int obey() {
    shown->entered.open();
    wait_for_stop();
    return ++calls;
  }
};

template <class T>
manta::errc code_of(const manta::future<T>& f) {
  const auto got = f.try_get(test::patience);
  return got ? manta::errc::task_error : got.error().code();
}

}  // namespace

// Of one node: another one would run what is queued here behind a busy worker.
TEST_CASE("queued work that is cancelled never runs and ends at once",
          "[cancel][anywhere][one_node]") {
  const own_board b;
  const manta::runtime rt(test::workers(1));
  const auto held = manta::remote<hold_worker>();
  REQUIRE(b->entered.wait());
  std::vector<manta::future<int>> queued;
  for (int i = 0; i < 100; ++i) queued.push_back(manta::remote<count_run>(i));
  CHECK(manta::cancel(queued[3]));
  CHECK(queued[3].is_ready());
  CHECK(code_of(queued[3]) == manta::errc::cancelled);
  CHECK_FALSE(manta::cancel(queued[3]));
  CHECK(manta::cancel(queued) == 99);
  b->release.open();
  CHECK(held.get() == 1);
  CHECK(manta::remote<count_run>(7).get() == 7);  // the queue goes on behind them
  CHECK(b->ran == 1);
}

TEST_CASE("queued work that is cancelled ends while the workers are busy", "[cancel][anywhere]") {
  const own_board b;
  const manta::runtime rt(test::workers(1));
  const auto held = manta::remote<hold_worker>();
  REQUIRE(b->entered.wait());
  const auto elsewhere = manta::remote<hold_worker>();  // another node's worker, where there is one
  std::vector<manta::future<int>> queued;
  for (int i = 0; i < 100; ++i) queued.push_back(manta::remote<count_run>(i));
  static_cast<void>(manta::cancel(queued));
  int ended = 0;
  for (const auto& f : queued) ended += code_of(f) == manta::errc::cancelled ? 1 : 0;
  CHECK(ended == 100);
  CHECK(b->ran == 0);
  b->release.open();
  CHECK(held.get() == 1);
  CHECK(elsewhere.get() == 1);
  CHECK(manta::remote<count_run>(7).get() == 7);
}

TEST_CASE("work that has ended is not changed by cancel", "[cancel][anywhere]") {
  const manta::runtime rt(test::two_workers());
  constexpr auto five = [] { return 5; };
  const auto f = manta::remote<five>();
  CHECK(f.get() == 5);
  CHECK_FALSE(manta::cancel(f));
  CHECK(f.get() == 5);
  CHECK_FALSE(manta::cancel(manta::put(1)));
}

TEST_CASE("running work is asked to stop and may answer all the same", "[cancel][anywhere]") {
  const own_board b;
  const manta::runtime rt(test::two_workers());
  SECTION("it ends as cancelled when it checks") {
    const auto f = manta::remote<stoppable>(1);
    REQUIRE(b->entered.wait());
    CHECK(manta::cancel(f));
    CHECK(code_of(f) == manta::errc::cancelled);
  }
  SECTION("its value stands when it returns one") {
    const auto f = manta::remote<stubborn>(2);
    REQUIRE(b->entered.wait());
    CHECK(manta::cancel(f));
    CHECK(f.get() == 2);
  }
  CHECK(b->saw_stop == 1);
}

TEST_CASE("a stop token is injected, and its callback is called", "[cancel][anywhere]") {
  static const test::everywhere<std::atomic<int>> called;
  static const test::everywhere<test::common_gate> entered;
  static const test::everywhere<test::common_gate> stopped;
  *called = 0;
  entered->shut();
  stopped->shut();
  const manta::runtime rt(test::two_workers());
  constexpr auto task = [](int x, std::stop_token token) {
    const std::stop_callback on_stop(token, [] {
      ++*called;
      stopped->open();
    });
    entered->open();
    stopped->wait();
    return x + (token.stop_requested() ? 100 : 0);
  };
  const auto f = manta::remote<task>(1);
  REQUIRE(entered->wait());
  CHECK(manta::cancel(f));
  CHECK(f.get() == 101);
  CHECK(*called == 1);
  // A token that the caller gives is the caller's.
  std::stop_source mine;
  mine.request_stop();
  if (test::in_processes()) {  // and stays in its process
    CHECK_THROWS_AS(manta::remote<task>(2, mine.get_token()).get(), manta::unsupported);
  } else {
    CHECK(manta::remote<task>(2, mine.get_token()).get() == 102);
  }
  CHECK_FALSE(manta::this_task::stop_token().stop_possible());
}

TEST_CASE("cancel reaches children that run, that wait and that come later", "[cancel][anywhere]") {
  const own_board b;
  const manta::runtime rt(test::workers(3));
  SECTION("five levels down, blocked in get") {
    const auto f = manta::remote<chain>(5);
    REQUIRE(b->entered.wait());
    CHECK(manta::cancel(f));
    CHECK(code_of(f) == manta::errc::cancelled);
    CHECK(b->saw_stop == 1);
  }
  SECTION("calls that a cancelled task makes afterwards never run") {
    const auto f = manta::async([] {
      shown->entered.open();
      wait_for_stop();
      std::vector<manta::future<int>> late;
      for (int i = 0; i < 10; ++i) late.push_back(manta::remote<count_run>(i));
      int cancelled = 0;
      for (const auto& one : late) cancelled += code_of(one) == manta::errc::cancelled ? 1 : 0;
      return cancelled;
    });
    REQUIRE(b->entered.wait());
    CHECK(manta::cancel(f));
    CHECK(f.get() == 10);
    CHECK(b->ran == 0);
  }
  SECTION("not when that is turned off, wherever it runs") {
    if (test::in_processes()) return;  // an isolated worker is told of all stops alike, for now
    const auto f = manta::remote<calls_when_stopped>(4);
    REQUIRE(b->entered.wait());
    CHECK(manta::cancel(f, {.recursive = false}));
    CHECK(f.get() == 4);
    CHECK(b->ran == 1);
  }
  SECTION("not when that is turned off") {
    const auto f = manta::async([] {
      shown->entered.open();
      wait_for_stop();
      return manta::remote<count_run>(4).get();
    });
    REQUIRE(b->entered.wait());
    CHECK(manta::cancel(f, {.recursive = false}));
    CHECK(f.get() == 4);
    CHECK(b->ran == 1);
  }
}

TEST_CASE("cancelling one task leaves its siblings and later tasks alone", "[cancel][anywhere]") {
  const own_board b;
  const manta::runtime rt(test::two_workers());
  const auto f = manta::remote<stoppable>(1);
  REQUIRE(b->entered.wait());
  CHECK(manta::cancel(f));
  CHECK(code_of(f) == manta::errc::cancelled);
  int sum = 0;
  for (int i = 0; i < 1000; ++i)
    sum += manta::async([i] { return manta::remote<count_run>(i).get(); }).get();
  CHECK(sum == 499500);
}

TEST_CASE("cancel follows a delegating task to what it stands for", "[cancel][anywhere]") {
  const own_board b;
  const manta::runtime rt(test::two_workers());
  const manta::future<int> f = manta::remote<delegates>(3);
  REQUIRE(b->entered.wait());
  CHECK(manta::cancel(f));
  CHECK(code_of(f) == manta::errc::cancelled);
}

TEST_CASE("work cancelled while it waits for an argument ends now, its arguments later",
          "[cancel][anywhere]") {
  const own_board b;
  const manta::runtime rt(test::two_workers());
  const auto slow = manta::remote<hold_worker>();
  REQUIRE(b->entered.wait());
  const auto token = std::make_shared<int>(1);
  constexpr auto use = [](int x, const std::shared_ptr<int>& /*kept*/) {
    ++shown->ran;
    return x;
  };
  auto waiting = manta::remote<use>(slow, token);
  const auto dependent = manta::remote<count_run>(waiting);
  CHECK(token.use_count() == 2);
  CHECK(manta::cancel(waiting));
  CHECK(code_of(waiting) == manta::errc::cancelled);
  CHECK(code_of(dependent) == manta::errc::cancelled);
  b->release.open();
  CHECK(slow.get() == 1);
  waiting = {};
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (token.use_count() != 1 && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  CHECK(token.use_count() == 1);
  CHECK(b->ran == 0);
}

TEST_CASE("an actor's queued call is cancelled alone, and its order holds", "[cancel][anywhere]") {
  const own_board b;
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<worker>();
  const auto held = manta::remote<&worker::hold>(a);
  REQUIRE(b->entered.wait());
  std::vector<manta::future<int>> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(manta::remote<&worker::add>(a));
  CHECK(manta::cancel(calls[4]));
  // Whether it has begun is known where the actor lives.
  if (!test::in_processes() && !test::in_nodes()) CHECK(calls[4].is_ready());
  CHECK(code_of(calls[4]) == manta::errc::cancelled);
  CHECK_FALSE(held.is_ready());
  CHECK_FALSE(manta::cancel(calls[4]));
  b->release.open();
  CHECK(held.get() == 1);
  CHECK(calls[3].get() == 5);
  CHECK(calls[5].get() == 6);
  CHECK(calls[9].get() == 10);
}

TEST_CASE("an actor's running call is asked to stop and the actor goes on", "[cancel][anywhere]") {
  const own_board b;
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<worker>();
  const auto f = manta::remote<&worker::obey>(a);
  REQUIRE(b->entered.wait());
  CHECK(manta::cancel(f));
  CHECK(f.get() == 1);
  CHECK(manta::remote<&worker::add>(a).get() == 2);
}

TEST_CASE("of 5,000 tasks with dependents 5 % are cancelled and every future ends",
          "[cancel][anywhere]") {
  const own_board b;
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<int>> first;
  std::vector<manta::future<int>> second;
  for (int i = 0; i < 5000; ++i) {
    first.push_back(manta::remote<count_run>(i));
    second.push_back(manta::remote<count_run>(first.back()));
    if (i % 20 == 7) manta::cancel(i % 40 == 7 ? first.back() : second.back());
  }
  int ended = 0;
  int values = 0;
  for (int i = 0; i < 5000; ++i) {
    for (const auto* list : {&first, &second}) {
      const auto got = (*list)[static_cast<std::size_t>(i)].try_get(test::patience);
      const bool is_cancelled = !got && got.error().code() == manta::errc::cancelled;
      const bool is_right = got && got.value() == i;
      values += is_right ? 1 : 0;
      ended += is_cancelled || is_right ? 1 : 0;
    }
  }
  CHECK(ended == 10000);
  CHECK(values >= 10000 - 3 * 250);
}

TEST_CASE("what cancel can't do is refused in words", "[cancel][stays:refused]") {
  const manta::runtime rt(test::two_workers());
  const auto f = manta::async([] { return 1; });
  const std::string said =
      test::message_of<manta::unsupported>([&f] { manta::cancel(f, {.force = true}); });
  CHECK(said.find("isolated worker: .isolation = ") != std::string::npos);
  CHECK_THROWS_AS(manta::cancel(manta::future<int>()), manta::invalid_argument);
}

TEST_CASE("cancelled arguments and results are destroyed exactly once",
          "[cancel][anywhere][stays:engine]") {
  const own_board b;
  test::tracked::reset();
  const int before = test::tracked::alive;
  {
    const manta::runtime rt(test::two_workers());
    constexpr auto pass = [](test::tracked t) { return t; };
    std::vector<manta::future<test::tracked>> futures;
    for (int i = 0; i < 2000; ++i) {
      futures.push_back(manta::remote<pass>(test::tracked(i)));
      if (i % 3 == 0) manta::cancel(futures.back());
    }
    for (const auto& f : futures) static_cast<void>(f.try_get(test::patience));
  }
  CHECK(test::tracked::alive == before);
}

}  // namespace cancel_test
