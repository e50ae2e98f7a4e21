// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support.hpp"

// semaphore, barrier, actor_pool and progress.

namespace library_test {

using namespace std::chrono_literals;

namespace {

test::everywhere<test::common_gate> opened;

struct adder {
  explicit adder(int b) : base(b) {}
  int add(int x) { return base + x; }
  int slow(int x) {
    static_cast<void>(opened->wait());
    return base + x;
  }
  void nothing() {}
  std::string say(const std::string& text, const std::vector<int>& numbers) {
    return text + std::to_string(numbers.size() + static_cast<std::size_t>(numbers[0]));
  }
  std::unique_ptr<int> own(int x) { return std::make_unique<int>(x); }
  int fail(int x) { throw std::runtime_error("fail " + std::to_string(x)); }
  int base;
};

struct broken {
  broken() { throw std::runtime_error("no constructor"); }
  int one() { return 1; }
};

std::vector<manta::actor<adder>> adders(int n) {
  std::vector<manta::actor<adder>> out;
  for (int i = 0; i < n; ++i) out.push_back(manta::spawn<adder>(100));
  return out;
}

}  // namespace

TEST_CASE("a semaphore's permits are counted and come back with their scope",
          "[semaphore][stays:local]") {
  const manta::semaphore s(3);
  CHECK(s.total() == 3);
  {
    manta::permit two = s.acquire(2);
    CHECK(two.count() == 2);
    CHECK(s.available() == 1);
    CHECK_FALSE(s.try_acquire(2));
    CHECK_FALSE(s.acquire(2, 1ms));
    const auto one = s.try_acquire();
    REQUIRE(one);
    CHECK(s.available() == 0);
    manta::permit moved = std::move(two);
    CHECK(two.count() == 0);
    moved.release();
    moved.release();
    CHECK(s.available() == 2);
    moved = s.acquire(1);
    CHECK(s.available() == 1);
  }
  CHECK(s.available() == 3);
}

TEST_CASE("a semaphore refuses what can never be", "[semaphore][stays:refused]") {
  CHECK_THROWS_AS(manta::semaphore(0), manta::invalid_argument);
  CHECK_THROWS_AS(manta::semaphore(static_cast<std::size_t>(-1)), manta::invalid_argument);
  const manta::semaphore s(3);
  CHECK_THROWS_AS(s.acquire(0), manta::invalid_argument);
  CHECK_THROWS_AS(s.try_acquire(4), manta::invalid_argument);
  const auto said =
      test::message_of<manta::invalid_argument>([&s] { static_cast<void>(s.acquire(4, 1ms)); });
  CHECK(said.find("asked for 4 permits, allowed 1 to 3") != std::string::npos);
  CHECK_THROWS_AS(manta::semaphore().acquire(), manta::invalid_argument);
}

TEST_CASE("never more than the permits are held at once, whoever asks", "[semaphore][anywhere]") {
  static test::everywhere<std::atomic<int>> most;
  static test::everywhere<std::atomic<int>> held;
  *most = *held = 0;
  const manta::runtime rt(test::workers(4));
  const manta::semaphore s(3);
  constexpr auto ask = [](const manta::semaphore& permits, unsigned t, unsigned turns) {
    for (unsigned i = 0; i < turns; ++i) {
      const std::size_t count = 1 + (t + i) % 3;
      std::optional<manta::permit> p;
      if (i % 3 == 0) {
        p = permits.acquire(count, 50us);
        if (!p) continue;
      } else {
        p = permits.acquire(count);
      }
      const int now = *held += static_cast<int>(count);
      int old = *most;
      while (old < now && !most->compare_exchange_weak(old, now)) {
      }
      *held -= static_cast<int>(count);
    }
  };
  std::vector<manta::future<void>> tasks;
  const unsigned turns = test::in_processes() ? 50 : 200;
  for (unsigned t = 0; t < 12; ++t) tasks.push_back(manta::remote<ask>(s, t, turns));
  for (const auto& t : tasks) t.get(test::patience);
  CHECK(*most <= 3);
  CHECK(s.available() == 3);
}

TEST_CASE("a large request is not overtaken, and one that gives up lets others pass",
          "[semaphore][stays:local]") {
  manta::exec::semaphore_core core(3);
  struct listener : manta::exec::waiter {
    int told = 0;
    listener() {
      fire = [](manta::exec::waiter* w) noexcept { ++static_cast<listener*>(w)->told; };
    }
  };
  std::vector<listener> told(3);
  std::vector<manta::exec::permit_request> requests(3);
  const std::vector<std::size_t> counts{3, 1, 1};
  CHECK(core.attempt(1));
  for (std::size_t i = 0; i < 3; ++i) {
    requests[i].count = counts[i];
    requests[i].tell = &told[i];
    CHECK_FALSE(core.enlist(requests[i]));  // two are free, but the first one waits for three
  }
  CHECK_FALSE(core.attempt(1));
  core.release(1);
  CHECK(told[0].told == 1);
  CHECK(told[1].told == 0);
  core.release(3);
  CHECK(told[1].told == 1);
  CHECK(told[2].told == 1);
  CHECK_FALSE(core.withdraw(requests[1]));
  CHECK(core.available() == 1);
  CHECK_FALSE(core.enlist(requests[0]));
  CHECK_FALSE(core.enlist(requests[1]));
  CHECK(core.withdraw(requests[0]));
  CHECK(told[1].told == 2);
  CHECK(core.available() == 0);
}

TEST_CASE("a barrier lets nobody pass before all have come, round after round",
          "[barrier][anywhere]") {
  constexpr int parties = 6;  // more than workers: those who wait lend their cores
  constexpr std::size_t rounds = 50;
  using counts = std::array<std::atomic<int>, rounds>;
  static test::everywhere<counts> arrived;
  static test::everywhere<counts> last;
  for (std::size_t r = 0; r < rounds; ++r) (*arrived)[r] = (*last)[r] = 0;
  const manta::runtime rt(test::two_workers());
  const manta::barrier b(parties);
  CHECK(b.parties() == parties);
  constexpr auto come = [](const manta::barrier& to) {
    int right = 0;
    for (std::size_t r = 0; r < rounds; ++r) {
      ++(*arrived)[r];
      const manta::barrier_arrival a = to.arrive_and_wait();
      if (a.is_last) ++(*last)[r];
      right += (*arrived)[r] == parties && a.generation == r ? 1 : 0;
    }
    return right + static_cast<int>(to.parties());
  };
  std::vector<manta::future<int>> tasks;
  for (int p = 0; p < parties; ++p) tasks.push_back(manta::remote<come>(b));
  for (const auto& t : tasks) CHECK(t.get(test::patience) == rounds + parties);
  CHECK(std::all_of(last->begin(), last->end(), [](const auto& n) { return n == 1; }));
}

TEST_CASE("tasks that wait for permits or parties end with the runtime", "[barrier][anywhere]") {
  static test::everywhere<test::common_gate> started;
  started->shut(8);
  const manta::semaphore s(2);
  const manta::permit all = s.acquire(2);
  const manta::barrier b(10);
  constexpr auto wait = [](const manta::semaphore& permits, const manta::barrier& meeting, int i) {
    started->arrive();
    if (i % 2 == 0) {
      static_cast<void>(permits.acquire());
    } else {
      meeting.arrive_and_wait();
    }
  };
  std::vector<manta::future<void>> waiting;
  {
    const manta::runtime rt(test::two_workers());
    for (int i = 0; i < 8; ++i) waiting.push_back(manta::remote<wait>(s, b, i));
    CHECK(started->wait());
  }
  for (const auto& w : waiting) CHECK_THROWS_AS(w.get(0s), manta::cancelled);
  CHECK(s.available() == 0);
  // The arrivals were taken back: ten are needed again, each by a thread of its own.
  std::vector<std::thread> threads;
  std::atomic<int> last{0};
  for (int i = 0; i < 10; ++i) {
    threads.emplace_back([&last, b] {
      if (b.arrive_and_wait().is_last) ++last;
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(last == 1);
}

TEST_CASE("a barrier for one never waits, for none is refused", "[barrier][stays:local]") {
  const manta::barrier b(1);
  CHECK(b.arrive_and_wait().is_last);
  CHECK(b.arrive_and_wait().generation == 1);
  CHECK_THROWS_AS(manta::barrier(0), manta::invalid_argument);
  CHECK_THROWS_AS(manta::barrier().arrive_and_wait(), manta::invalid_argument);
  CHECK_FALSE(manta::barrier().valid());
}

TEST_CASE("a pool's calls go to its actors and come back in order", "[actor_pool][anywhere]") {
  const manta::runtime rt(test::workers(3));
  const manta::actor_pool<adder> pool(adders(3));
  CHECK(pool.size() == 3);
  CHECK(pool.idle() == 3);
  std::vector<int> in(1000);
  std::iota(in.begin(), in.end(), 0);
  const auto out = pool.map<&adder::add>(in);
  int right = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    right += out[i].get() == 100 + static_cast<int>(i) ? 1 : 0;
  }
  CHECK(right == 1000);
  long sum = 0;
  for (auto& f : pool.map_unordered<&adder::add>(in)) sum += f.get();
  CHECK(sum == 999L * 500 + 100000);
  pool.submit<&adder::nothing>().get();
  CHECK(*pool.submit<&adder::own>(7).get() == 7);
  auto movable = pool.submit<&adder::own>(8);
  CHECK(*std::move(movable).get() == 8);
  CHECK(pool.submit<&adder::add>(manta::put(5)).get() == 105);
  CHECK(pool.idle() == 3);
}

TEST_CASE("a call waits when all actors of the pool are busy, without a thread",
          "[actor_pool][anywhere]") {
  const manta::runtime rt(test::workers(3));
  opened->shut();
  const test::opens_at_end opens(*opened);
  const manta::actor_pool<adder> pool(adders(1));
  const auto slow = pool.submit<&adder::slow>(1);
  std::vector<manta::future<int>> waiting;
  for (int i = 0; i < 100; ++i) waiting.push_back(pool.submit<&adder::add>(i));
  CHECK_FALSE(pool.pop());
  CHECK_THROWS_AS(waiting[0].get(1ms), manta::timed_out);
  // Another actor takes over what waits.
  pool.push(manta::spawn<adder>(200));
  CHECK(waiting[99].get(test::patience) == 299);
  CHECK_FALSE(slow.is_ready());
  opened->open();
  CHECK(slow.get(test::patience) == 101);
  manta::get(waiting);
  REQUIRE(pool.pop());
  CHECK(pool.size() == 1);
}

TEST_CASE("a pool's call that waits has its own arguments", "[actor_pool][anywhere]") {
  const manta::runtime rt(test::workers(3));
  opened->shut();
  const test::opens_at_end opens(*opened);
  const manta::actor_pool<adder> pool(adders(1));
  const auto slow = pool.submit<&adder::slow>(1);
  std::string text(100, 'a');
  std::vector<int> numbers{5, 6};
  const auto said = pool.submit<&adder::say>(text.c_str(), numbers);
  text.assign(100, 'b');
  numbers[0] = 1000;
  opened->open();
  CHECK(said.get(test::patience) == std::string(100, 'a') + "7");
}

TEST_CASE("the error of a callback names on_ready", "[on_ready][stays:async]") {
  const manta::runtime rt(test::workers(1));
  const auto bad = manta::on_ready(
      manta::put(1), [](const manta::future<int>&) { throw std::runtime_error("no"); });
  const auto said = test::message_of<manta::task_error>([&bad] { bad.get(); });
  CHECK(said.find("on_ready") != std::string::npos);
  CHECK(said.find("ready_callback") == std::string::npos);
}

TEST_CASE("a call that throws gives its actor back, an actor that is lost leaves the pool",
          "[actor_pool][anywhere]") {
  const manta::runtime rt(test::workers(3));
  const manta::actor_pool<adder> pool(adders(1));
  const auto said = test::message_of<manta::task_error>(
      [&pool] { static_cast<void>(pool.submit<&adder::fail>(3).get()); });
  CHECK(said.find("fail 3") != std::string::npos);
  CHECK(pool.submit<&adder::add>(1).get() == 101);

  const manta::actor_pool<broken> lost({manta::spawn<broken>(), manta::spawn<broken>()});
  std::vector<manta::future<int>> calls;
  const auto submit = [&] { calls.push_back(lost.submit<&broken::one>()); };
  try {
    for (int i = 0; i < 10; ++i) submit();
  } catch (const manta::invalid_argument&) {
    // The pool may be empty by then.
  }
  for (const auto& c : calls) CHECK_THROWS_AS(c.get(test::patience), manta::actor_lost);
  CHECK(lost.size() == 0);
  CHECK_THROWS_AS(submit(), manta::invalid_argument);
  CHECK_THROWS_AS(pool.push({}), manta::invalid_argument);
}

TEST_CASE("a call that comes just as a pool's last actor is lost fails as those that waited do",
          "[actor_pool][anywhere]") {
  const manta::runtime rt(test::workers(2));
  std::atomic<int> odd{0};
  const int rounds = test::in_processes() ? 30 : 300;  // two processes in each
  for (int round = 0; round < rounds; ++round) {
    const manta::actor_pool<broken> lost({manta::spawn<broken>(), manta::spawn<broken>()});
    const auto caller = [&] {
      std::vector<manta::future<int>> calls;
      try {
        for (int i = 0; i < 20; ++i) calls.push_back(lost.submit<&broken::one>());
      } catch (const manta::invalid_argument&) {
        // The pool may be empty by then.
      } catch (...) {
        ++odd;
      }
      for (const auto& c : calls) {
        const auto is = c.try_get();
        if (c.is_ready() && (is || is.error().code() != manta::errc::actor_lost)) ++odd;
      }
    };
    std::thread other(caller);
    caller();
    other.join();
  }
  CHECK(odd == 0);
}

TEST_CASE("calls that wait for their turn end with the runtime", "[actor_pool][anywhere]") {
  std::vector<manta::future<int>> calls;
  opened->shut();
  {
    const manta::runtime rt(test::workers(1));
    const test::opens_at_end opens(*opened);
    const manta::actor_pool<adder> pool(adders(2));
    CHECK(pool.submit<&adder::add>(1).get() >= 101);  // they are there
    for (int i = 0; i < 5000; ++i) calls.push_back(pool.submit<&adder::slow>(i));
    opened->open();  // some calls come to it while the runtime ends
  }
  int ended = 0;
  int odd = 0;
  for (const auto& c : calls) {
    if (!c.is_ready()) continue;
    ++ended;
    const auto result = c.try_get();
    if (!result && result.error().code() != manta::errc::cancelled &&
        result.error().code() != manta::errc::actor_lost) {
      ++odd;
    }
  }
  CHECK(ended == 5000);
  CHECK(odd == 0);
}

TEST_CASE("progress waits for all and draws its line where there is a terminal",
          "[progress][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<int>> futures;
  constexpr auto some_fail = [](int i) {
    if (i % 50 == 0) throw std::runtime_error("some fail");
    return i;
  };
  for (int i = 0; i < 100; ++i) futures.push_back(manta::remote<some_fail>(i));
  std::ostringstream shown;
  manta::progress(futures, {.title = "test", .stream = &shown, .is_terminal = true});
  CHECK(std::all_of(futures.begin(), futures.end(), [](const auto& f) { return f.is_ready(); }));
  const std::string text = shown.str();
  CHECK(text.find("\rtest 100/100, 2 failed, ") != std::string::npos);
  CHECK(text.back() == '\n');
  std::ostringstream quiet;
  manta::progress(futures, {.stream = &quiet});
  manta::progress(futures, {.stream = &quiet, .is_terminal = false});
  CHECK(quiet.str().empty());
  manta::progress(std::vector<manta::future<int>>{}, {.stream = &shown, .is_terminal = true});
}

TEST_CASE("progress says rate and time left, and draws ten times a second at most",
          "[progress][stays:local]") {
  using manta::detail::progress_text;
  CHECK(progress_text("", 0, 0, 100, 5s) == "0/100");
  CHECK(progress_text("render", 37, 0, 100, 10s) == "render 37/100, 3.70/s, 17 s left");
  CHECK(progress_text("", 500, 2, 1000, 10s) == "500/1000, 2 failed, 50.0/s, 10 s left");
  CHECK(progress_text("", 1, 0, 100, 10s) == "1/100, 0.10/s, 16 min 30 s left");
  CHECK(progress_text("", 1, 0, 100, 500s) == "1/100, 0.00/s, 13 h 45 min left");
  CHECK(progress_text("", 100, 0, 100, 1s) == "100/100, 100/s in 1 s");
  std::ostringstream shown;
  manta::detail::progress_line line(1000, {.stream = &shown, .is_terminal = true});
  const auto start = manta::base::now();
  for (int ms = 0; ms < 1000; ++ms) {
    line.step(false);
    line.refresh(start + std::chrono::milliseconds(ms));
  }
  CHECK(line.drawn() == 10);
}

namespace {

test::everywhere<std::array<test::common_gate, 2>> began;
test::everywhere<std::array<test::common_gate, 2>> go_on;
test::everywhere<std::atomic<bool>> was_shared;

struct pool_member {
  int hold(std::size_t turn) {
    if (++inside > 1) *was_shared = true;
    (*began)[turn].open();
    static_cast<void>((*go_on)[turn].wait());
    --inside;
    return 1;
  }
  int one() {
    if (inside > 0) *was_shared = true;
    return 1;
  }
  int ask(manta::actor<pool_member> other) { return manta::remote<&pool_member::one>(other).get(); }
  std::atomic<int> inside{0};
};

}  // namespace

TEST_CASE("a pool's actor that is late is handed on when its method has returned",
          "[actor_pool][anywhere]") {
  *was_shared = false;
  for (std::size_t turn : {0U, 1U}) {
    (*began)[turn].shut();
    (*go_on)[turn].shut();
  }
  const manta::runtime rt(test::workers(3));
  const manta::actor_pool<pool_member> pool(
      {manta::spawn<pool_member>.with({.max_concurrency = 4})()});
  const test::opens_at_end opens((*go_on)[0]);
  const test::opens_at_end opens_again((*go_on)[1]);
  {
    const manta::deadline_scope within(std::chrono::milliseconds(200));
    const auto late = pool.submit<&pool_member::hold>(std::size_t{0});
    REQUIRE((*began)[0].wait());
    CHECK_THROWS_AS(late.get(test::patience), manta::timed_out);
  }
  CHECK(pool.idle() == 0);
  auto next = pool.submit<&pool_member::one>();
  (*go_on)[0].open();
  CHECK(next.get(test::patience) == 1);
  const auto cancelled = pool.submit<&pool_member::hold>(std::size_t{1});
  REQUIRE((*began)[1].wait());
  CHECK(manta::cancel(cancelled));
  CHECK(pool.idle() == 0);
  next = pool.submit<&pool_member::one>();
  (*go_on)[1].open();
  CHECK(next.get(test::patience) == 1);
  CHECK_FALSE(*was_shared);
}

TEST_CASE("an actor that tells of another one's loss stays in the pool", "[actor_pool][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const manta::actor_pool<pool_member> pool({manta::spawn<pool_member>()});
  const auto other = manta::spawn<pool_member>();
  manta::kill(other);
  CHECK_THROWS_AS(pool.submit<&pool_member::ask>(other).get(test::patience), manta::actor_lost);
  CHECK(pool.size() == 1);
  CHECK(pool.submit<&pool_member::one>().get(test::patience) == 1);
}

}  // namespace library_test
