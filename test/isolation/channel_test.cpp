// SPDX-License-Identifier: Apache-2.0
// Channels, semaphores and barriers of the driver that tasks in isolated workers use: the same
// thing, waits that end, and what a worker's death leaves behind.
#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "isolation/support.hpp"

namespace channel_isolation_test {

namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::isolated;
using test::shared;
using test::shared_numbers;

enum cell : std::size_t { begun, inside, most_inside, who };

void sends(const manta::channel<int>& to, int from, int n) {
  for (int i = 0; i < n; ++i) to.send(from + i);
}
long sums(const manta::channel<int>& from) {
  long sum = 0;
  for (const int x : from) sum += x;
  return sum;
}
void passes_on(const manta::channel<int>& from, const manta::channel<int>& to) {
  for (const int x : from) to.send(x);
  to.close();
}
std::string receives_closed(const manta::channel<int>& from) {
  try {
    static_cast<void>(from.receive());
    return "an item";
  } catch (const manta::channel_closed&) {
    return "closed";
  }
}

}  // namespace

TEST_CASE("tasks in isolated workers send into a channel of the driver", "[isolation][channel]") {
  const manta::runtime rt(isolated());
  const manta::channel<int> c(4);
  const auto one = manta::remote<sends>(c, 0, 500);
  const auto two = manta::remote<sends>(c, 1000, 500);
  long sum = 0;
  int last_one = -1;
  int last_two = 999;
  for (int i = 0; i < 1000; ++i) {
    const int x = c.receive();
    sum += x;
    int& last = x < 1000 ? last_one : last_two;
    CHECK(x == last + 1);  // each sender's in order
    last = x;
    REQUIRE(c.size() <= 4);
  }
  CHECK(sum == 499L * 500 / 2 * 2 + 500 * 1000);
  one.get();
  two.get();
}

TEST_CASE("tasks in isolated workers receive from a channel of the driver, until it is closed",
          "[isolation][channel]") {
  const manta::runtime rt(isolated());
  const manta::channel<int> c(8);
  const auto one = manta::remote<sums>(c);
  const auto two = manta::remote<sums>(c);
  for (int i = 0; i < 1000; ++i) c.send(i);
  CHECK(c.close());
  CHECK(one.get(test::patience) + two.get(test::patience) == 999L * 1000 / 2);
  CHECK(manta::remote<receives_closed>(c).get(test::patience) == "closed");
}

TEST_CASE("channels connect tasks in several isolated workers", "[isolation][channel]") {
  const manta::runtime rt(isolated());
  const manta::channel<int> first(2);
  const manta::channel<int> second(2);
  const manta::channel<int> third(2);
  const auto a = manta::remote<passes_on>(first, second);
  const auto b = manta::remote<passes_on>(second, third);
  const auto end = manta::remote<sums>(third);
  for (int i = 0; i < 200; ++i) first.send(i);
  first.close();
  CHECK(end.get(test::patience) == 199L * 200 / 2);
}

namespace {

struct job {
  std::string name;
  std::vector<double> values;
  manta::channel<std::string> answer;
};
void works(const manta::channel<job>& from) {
  for (const job& one : from) {
    one.answer.send(one.name + " " + std::to_string(one.values.size()));
  }
}
int tries(const manta::channel<int>& c) {
  int met = 0;
  met += c.try_send(1) ? 1 : 0;
  met += c.try_send(2) ? 10 : 0;  // it is full
  met += c.send(3, 5ms) ? 100 : 0;
  met += c.size() == 1 && c.capacity() == 1 && !c.is_closed() ? 1000 : 0;
  met += c.try_receive() == 1 ? 10000 : 0;
  met += !c.receive(5ms) ? 100000 : 0;
  return met;
}
manta::coroutine<long> awaits(manta::channel<int> from, manta::channel<int> to) {
  long sum = 0;
  while (auto x = co_await from.async_next()) {
    sum += *x;
    co_await to.async_send(*x);
  }
  co_return sum;
}
int selects(const manta::channel<int>& a, const manta::channel<int>& b) {
  int sum = 0;
  for (int i = 0; i < 100; ++i) {
    manta::select(manta::on_receive(a, [&](int x) { sum += x; }),
                  manta::on_receive(b, [&](int x) { sum += 1000 * x; }));
  }
  return sum;
}
manta::channel<int> gives_back(manta::channel<int> c) { return c; }
int makes_own() {
  const manta::channel<int> c(1);
  c.send(5);
  static_cast<void>(manta::remote<gives_back>(c).get());
  return c.receive();
}

}  // namespace

TEST_CASE("channels are inside of what goes through channels", "[isolation][channel]") {
  const manta::runtime rt(isolated());
  const manta::channel<job> jobs(2);
  const manta::channel<std::string> answers(2);
  const auto worker = manta::remote<works>(jobs);
  for (int i = 0; i < 20; ++i) {
    jobs.send({"n" + std::to_string(i), std::vector<double>(100'000), answers});
    CHECK(answers.receive() == "n" + std::to_string(i) + " 100000");
  }
  jobs.close();
  worker.get(test::patience);
}

TEST_CASE("a channel of another process has all that a channel has", "[isolation][channel]") {
  const manta::runtime rt(isolated());
  CHECK(manta::remote<tries>(manta::channel<int>(1)).get(test::patience) == 111001);
  const manta::channel<int> in(2);
  const manta::channel<int> out(2);
  const auto sum = manta::remote<awaits>(in, out);
  for (int i = 0; i < 100; ++i) {
    in.send(i);
    CHECK(out.receive() == i);
  }
  in.close();
  CHECK(sum.get(test::patience) == 4950);
  const manta::channel<int> a(4);
  const manta::channel<int> b(4);
  const auto chosen = manta::remote<selects>(a, b);
  for (int i = 0; i < 50; ++i) {
    a.send(1);
    b.send(1);
  }
  CHECK(chosen.get(test::patience) == 50 * 1001);
  CHECK(a.size() + b.size() == 0);
  CHECK(manta::remote<gives_back>(a).get(test::patience) == a);
  CHECK(test::message_of<manta::exception>([] {
          manta::remote<makes_own>().get(test::patience);
        }).find("made in an isolated worker") != std::string::npos);
}

TEST_CASE("a task that waits at a channel of another process is cancelled",
          "[isolation][channel]") {
  const shared_numbers numbers;
  const manta::channel<int> left_over(1);
  manta::future<long> at_end;
  {
    const manta::runtime rt(isolated());
    const manta::channel<int> c(1);
    for (int i = 0; i < 20; ++i) {
      const auto f = manta::remote<sums>(c);
      if (i % 2 == 0) std::this_thread::yield();
      manta::cancel(f);
      CHECK_THROWS_AS(f.get(test::patience), manta::cancelled);
    }
    c.send(7);
    CHECK(c.receive(0ms) == 7);  // nobody waits for it any more
    at_end = manta::remote<sums>(left_over);
    left_over.send(1);
    CHECK(comes_true([&] { return left_over.size() == 0; }));
  }
  CHECK_THROWS_AS(at_end.get(), manta::cancelled);  // the runtime did not wait for it
}

namespace {

void takes_and_waits(const manta::channel<int>& c) {
  shared(who) = getpid();
  static_cast<void>(c.receive());
}
int inside_of(const manta::semaphore& s, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    const manta::permit held = s.acquire();
    const int now = ++shared(inside);
    int before = shared(most_inside);
    while (before < now && !shared(most_inside).compare_exchange_weak(before, now)) {
    }
    --shared(inside);
  }
  return rounds;
}
manta::coroutine<std::size_t> awaits_permit(manta::semaphore s, std::size_t n) {
  const manta::permit held = co_await s.async_acquire(n);
  co_return held.count();
}
std::size_t tries_permits(const manta::semaphore& s) {
  const auto one = s.try_acquire(2);
  const auto none = s.try_acquire(2);
  const auto late = s.acquire(2, 5ms);
  return (one ? 1U : 0U) + (none ? 10U : 0U) + (late ? 100U : 0U) + 1000 * s.available() +
         10000 * s.total();
}
void holds_for_ever(const manta::semaphore& s) {
  const manta::permit held = s.acquire(2);
  shared(who) = getpid();
  comes_true([] { return false; });
}

}  // namespace

TEST_CASE("a worker that is killed while it waits at a channel leaves nothing behind",
          "[isolation][channel]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const manta::channel<int> c(1);
  const auto f = manta::remote<takes_and_waits>.with({.max_retries = 0})(c);
  CHECK(comes_true([] { return shared(who) != 0; }));
  kill(shared(who), SIGKILL);
  CHECK_THROWS_AS(f.get(test::patience), manta::worker_lost);
  c.send(1);
  CHECK(c.receive(test::patience) == 1);
}

TEST_CASE("a semaphore of the driver bounds tasks in isolated workers", "[isolation][semaphore]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated(4));
  const manta::semaphore s(2);
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 4; ++i) all.push_back(manta::remote<inside_of>(s, 100));
  {
    const manta::permit mine = s.acquire();
    CHECK(mine.count() == 1);
  }
  for (const auto& f : all) CHECK(f.get(test::patience) == 100);
  CHECK(shared(most_inside) <= 2);
  CHECK(comes_true([&] { return s.available() == 2; }));
  CHECK(manta::remote<awaits_permit>(s, 2).get(test::patience) == 2);
  CHECK(comes_true([&] { return s.available() == 2; }));
  CHECK(manta::remote<tries_permits>(s).get(test::patience) == 20001);
  CHECK(comes_true([&] { return s.available() == 2; }));
}

TEST_CASE("permits of a worker that is killed are given back", "[isolation][semaphore]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const manta::semaphore s(2);
  const auto f = manta::remote<holds_for_ever>.with({.max_retries = 0})(s);
  CHECK(comes_true([] { return shared(who) != 0; }));
  CHECK(s.available() == 0);
  const auto waits = manta::remote<awaits_permit>(s, 1);
  kill(shared(who), SIGKILL);
  CHECK_THROWS_AS(f.get(test::patience), manta::worker_lost);
  CHECK(waits.get(test::patience) == 1);
  CHECK(comes_true([&] { return s.available() == 2; }));
}

namespace {

std::vector<bool> comes_to(const manta::barrier& b, int rounds) {
  std::vector<bool> last;
  for (int i = 0; i < rounds; ++i) {
    const manta::barrier_arrival mine = b.arrive_and_wait();
    last.push_back(mine.is_last && mine.generation == static_cast<std::uint64_t>(i));
  }
  return last;
}
void waits_at(const manta::barrier& b) {
  shared(who) = getpid();
  b.arrive_and_wait();
}
bool is_empty(const manta::barrier& b) { return !b.valid(); }
manta::barrier hands_back(manta::barrier b) { return b; }
manta::barrier makes_one() { return manta::barrier(2); }

}  // namespace

TEST_CASE("a barrier of the driver holds tasks in isolated workers and its own threads",
          "[isolation][barrier]") {
  constexpr int rounds = 20;
  const manta::runtime rt(isolated());
  const manta::barrier b(3);
  const auto one = manta::remote<comes_to>(b, rounds);
  const auto two = manta::remote<comes_to>(b, rounds);
  const std::vector<bool> mine = comes_to(b, rounds);
  const std::vector<bool> first = one.get(test::patience);
  const std::vector<bool> second = two.get(test::patience);
  int last = 0;
  for (std::size_t i = 0; i < rounds; ++i) last += mine[i] + first[i] + second[i];
  CHECK(last == rounds);
  CHECK(manta::remote<is_empty>(manta::barrier()).get(test::patience));
}

TEST_CASE("the arrival of a worker that is killed, or of a task that is cancelled, is taken back",
          "[isolation][barrier]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const manta::barrier b(2);
  const auto killed = manta::remote<waits_at>.with({.max_retries = 0})(b);
  CHECK(comes_true([] { return shared(who) != 0; }));
  kill(shared(who), SIGKILL);
  CHECK_THROWS_AS(killed.get(test::patience), manta::worker_lost);
  shared(who) = 0;
  const auto stopped = manta::remote<waits_at>(b);
  CHECK(comes_true([] { return shared(who) != 0; }));
  manta::cancel(stopped);
  CHECK_THROWS_AS(stopped.get(test::patience), manta::cancelled);
  // Two are needed again.
  const auto one = manta::remote<comes_to>(b, 1);
  CHECK_THROWS_AS(one.get(20ms), manta::timed_out);
  const std::vector<bool> mine = comes_to(b, 1);
  CHECK(one.get(test::patience)[0] != mine[0]);
}

TEST_CASE("a barrier comes back as the same, and one that a worker made can't leave it",
          "[isolation][barrier]") {
  const manta::runtime rt(isolated());
  const manta::barrier b(2);
  const manta::barrier same = manta::remote<hands_back>(b).get(test::patience);
  const auto there = manta::remote<comes_to>(b, 1);
  const std::vector<bool> mine = comes_to(same, 1);
  CHECK(there.get(test::patience)[0] != mine[0]);
  CHECK_THROWS_AS(manta::remote<makes_one>().get(test::patience), manta::unsupported);
}

namespace {

struct keeper {
  manta::channel<int> kept;
  void keep(manta::channel<int> c) { kept = std::move(c); }
  void say(int x) { kept.send(x); }
};

}  // namespace

TEST_CASE("an actor in an isolated worker keeps a channel between its calls",
          "[isolation][channel]") {
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<keeper>();
  manta::channel<int> c(1);
  manta::remote<&keeper::keep>(a, c).get(test::patience);
  for (int i = 0; i < 10; ++i) {
    const auto said = manta::remote<&keeper::say>(a, i);
    CHECK(c.receive(test::patience) == i);
    said.get(test::patience);
  }
}

}  // namespace channel_isolation_test
