// SPDX-License-Identifier: Apache-2.0
// How actors end: killed, retired, from inside, with a constructor that failed; who is told, and
// that nothing hangs or leaks.
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/support.hpp"

namespace actor_end_test {

namespace {

using namespace std::chrono_literals;
using manta::end_reason;

test::everywhere<std::atomic<int>> alive;
test::everywhere<test::common_gate> began;
test::everywhere<test::common_gate> go;
test::everywhere<test::common_gate> died;

/// The gates of one case: shut when it begins, and nobody is at them when it ends.
struct own_gates {
  own_gates() {
    began->shut();
    go->shut();
    died->shut();
  }
  own_gates(const own_gates&) = delete;
  own_gates& operator=(const own_gates&) = delete;
  ~own_gates() { go->open(); }
};

enum class construction : int { held };

/// Counts its living instances; methods that end when they are told.
struct worker {
  int calls = 0;

  worker() { ++*alive; }
  explicit worker(int x) {
    if (x < 0) throw std::domain_error("x is negative");
    ++*alive;
  }
  explicit worker(construction /*held*/) {
    began->open();
    go->wait();
    ++*alive;
  }
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;
  ~worker() {
    --*alive;
    died->open();
  }

  int call() { return ++calls; }
  int add(int x) { return calls += x; }
  int hold() {
    began->open();
    go->wait();
    return ++calls;
  }
  bool until_stopped() {
    began->open();
    while (!manta::this_task::is_cancelled()) std::this_thread::yield();
    return true;
  }
  int leave(int x) {
    manta::this_actor::exit();
    return x;
  }
  manta::actor<worker> self() { return manta::this_actor::handle<worker>(); }
  manta::actor<worker> kept;
  void keep_self() { kept = manta::this_actor::handle<worker>(); }
  void keep(manta::actor<worker> other) { kept = std::move(other); }
  bool wait_for_own_end() {
    return manta::monitor(manta::this_actor::handle<worker>()).get().reason == end_reason::killed;
  }
};

int wait_to_go(int x) {
  go->wait();
  return x;
}

int call_if_alive(const manta::weak_actor<worker>& to) {
  const auto a = to.lock();
  return a.valid() ? manta::remote<&worker::call>(a).get() : -1;
}
int call_last(const std::vector<manta::weak_actor<worker>>& all) {
  return call_if_alive(all.back()) - (all.front() == all.back() ? 0 : 1000);
}
manta::weak_actor<worker> weakened(const manta::actor<worker>& a) { return a; }

template <class F>
manta::errc code_of(const F& f) {
  const auto r = f.try_get(test::patience);
  return r ? manta::errc::task_error : r.error().code();
}
template <class F>
std::string text_of(const F& f) {
  const auto r = f.try_get(test::patience);
  return r ? std::string() : r.error().message();
}

bool all_gone() {
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (manta::exec::actor_core::alive() != 0 || *alive != 0) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

TEST_CASE("kill fails what waits, stops what runs, and frees the object",
          "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const own_gates gates;
  const auto a = manta::spawn<worker>();
  const auto running = manta::remote<&worker::until_stopped>(a);
  std::vector<manta::future<int>> queued;
  for (int i = 0; i < 50; ++i) queued.push_back(manta::remote<&worker::call>(a));
  const auto end = manta::monitor(a);
  REQUIRE(began->wait());
  CHECK_FALSE(end.is_ready());
  manta::kill(a);
  CHECK(running.get(test::patience));  // it was asked to stop, and its answer is delivered
  int lost = 0;
  for (const auto& f : queued) lost += code_of(f) == manta::errc::actor_lost ? 1 : 0;
  CHECK(lost == 50);
  CHECK(text_of(queued.front()).find("::worker was killed") != std::string::npos);
  CHECK(end.get(test::patience).reason == end_reason::killed);
  CHECK(end.get().message.find("::worker was killed") != std::string::npos);
  CHECK(died->wait(0ns));  // who is told finds the object gone
  CHECK(code_of(manta::remote<&worker::call>(a)) == manta::errc::actor_lost);
  CHECK(all_gone());
}

TEST_CASE("queued calls of a killed actor fail though a method still runs",
          "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const own_gates gates;
  const auto a = manta::spawn<worker>();
  const auto running = manta::remote<&worker::hold>(a);
  std::vector<manta::future<int>> queued;
  for (int i = 0; i < 20; ++i) queued.push_back(manta::remote<&worker::call>(a));
  REQUIRE(began->wait());
  for (int i = 0; i < 20; ++i) queued.push_back(manta::remote<&worker::call>(a));
  manta::kill(a);
  int lost = 0;
  for (const auto& f : queued) {
    // Which have begun is known where the actor lives.
    const bool is_told = f.is_ready() || test::in_processes() || test::in_nodes();
    lost += is_told && code_of(f) == manta::errc::actor_lost ? 1 : 0;
  }
  CHECK(lost == 40);
  CHECK_FALSE(running.is_ready());
  CHECK(*alive == 1);
  go->open();
  CHECK(running.get(test::patience) == 1);
  CHECK(all_gone());
}

TEST_CASE("kill of an idle actor, twice, and of one that ended", "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const own_gates gates;
  const auto a = manta::spawn<worker>();
  CHECK(manta::remote<&worker::call>(a).get(test::patience) == 1);
  const auto first = manta::monitor(a);
  const auto second = manta::monitor(a);
  manta::kill(a);
  manta::kill(a);
  CHECK(died->wait());
  CHECK(first.get(test::patience).reason == end_reason::killed);
  CHECK(second.get(test::patience).reason == end_reason::killed);
  manta::kill(a);
  manta::retire(a);
  const auto late = manta::monitor(a);
  REQUIRE(late.is_ready());
  CHECK(late.get().reason == end_reason::killed);
  CHECK(late.get().message == first.get().message);
  CHECK(all_gone());
}

TEST_CASE("kill before the construction: nothing is made and every call fails",
          "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const own_gates gates;
  const auto late = manta::remote<wait_to_go>(1);
  const auto a = manta::spawn<worker>(late);
  std::vector<manta::future<int>> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(manta::remote<&worker::call>(a));
  const auto end = manta::monitor(a);
  manta::kill(a);
  int lost = 0;
  for (const auto& f : calls) lost += code_of(f) == manta::errc::actor_lost ? 1 : 0;
  CHECK(lost == 10);  // at once, though the argument is not there
  CHECK(end.get(test::patience).reason == end_reason::killed);
  CHECK(code_of(manta::remote<&worker::call>(a)) == manta::errc::actor_lost);
  go->open();
  CHECK(late.get(test::patience) == 1);
  CHECK(all_gone());
}

TEST_CASE("kill during the construction: the object is made, and ended", "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const own_gates gates;
  const auto a = manta::spawn<worker>(construction::held);
  const auto call = manta::remote<&worker::call>(a);
  REQUIRE(began->wait());
  const auto end = manta::monitor(a);
  manta::kill(a);
  CHECK(code_of(call) == manta::errc::actor_lost);
  CHECK_FALSE(end.is_ready());
  go->open();
  CHECK(end.get(test::patience).reason == end_reason::killed);
  CHECK(all_gone());
}

TEST_CASE("calls that wait for arguments fail with their killed actor", "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const own_gates gates;
  const auto late = manta::remote<wait_to_go>(1);
  const auto a = manta::spawn<worker>();
  const auto held = manta::remote<&worker::add>(a, late);
  const auto behind = manta::remote<&worker::call>(a);
  manta::kill(a);
  CHECK(code_of(held) == manta::errc::actor_lost);
  CHECK(code_of(behind) == manta::errc::actor_lost);
  go->open();
  CHECK(late.get(test::patience) == 1);
  CHECK(all_gone());
}

// So many that a walk over all of them for each one would take minutes.
TEST_CASE("hundreds of thousands of calls that wait for arguments fail at once",
          "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const own_gates gates;
  const auto late = manta::remote<wait_to_go>(1);
  const auto a = manta::spawn<worker>();
  std::vector<manta::future<int>> held;
  for (int i = test::trips(test::copies_values() ? 100'000 : 400'000); i > 0; --i) {
    held.push_back(manta::remote<&worker::add>(a, late));
  }
  manta::kill(a);
  int lost = 0;
  for (const auto& one : held) lost += code_of(one) == manta::errc::actor_lost ? 1 : 0;
  CHECK(lost == static_cast<int>(held.size()));
  go->open();
  CHECK(late.get(test::patience) == 1);
  CHECK(all_gone());
}

// What could break: it is put behind the last of those that the killer fails, and nobody looks.
TEST_CASE("a call that waits for its argument fails with its actor, whenever it was made",
          "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const own_gates gates;
  const auto late = manta::remote<wait_to_go>(1);
  int pending = 0;
  for (int round = test::trips(400); round > 0; --round) {
    const auto a = manta::spawn<worker>();
    std::vector<manta::future<int>> made;
    std::atomic<bool> is_dead{false};
    test::gate begun;
    std::thread caller([&] {
      for (int after = 0; after < 20;) {
        after += is_dead ? 1 : 0;
        made.push_back(manta::remote<&worker::add>(a, late));
        begun.open();
      }
    });
    begun.wait();
    manta::kill(a);
    is_dead = true;
    caller.join();
    for (const auto& one : made) {
      pending += code_of(one) == manta::errc::actor_lost ? 0 : 1;
      if (pending != 0) break;
    }
    if (pending != 0) break;
  }
  CHECK(pending == 0);
  go->open();
  CHECK(late.get(test::patience) == 1);
  CHECK(all_gone());
}

TEST_CASE("a retired actor finishes what was called, held calls included",
          "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const own_gates gates;
  const auto late = manta::remote<wait_to_go>(10);
  const auto a = manta::spawn<worker>();
  std::vector<manta::future<int>> before;
  for (int i = 0; i < 10; ++i) before.push_back(manta::remote<&worker::call>(a));
  const auto held = manta::remote<&worker::add>(a, late);
  const auto end = manta::monitor(a);
  manta::retire(a);
  manta::retire(a);
  const auto after = manta::remote<&worker::call>(a);
  CHECK(code_of(after) == manta::errc::actor_lost);
  CHECK(text_of(after).find("was retired") != std::string::npos);
  for (int i = 0; i < 10; ++i) {
    CHECK(before[static_cast<std::size_t>(i)].get(test::patience) == i + 1);
  }
  CHECK_FALSE(end.is_ready());
  go->open();
  CHECK(held.get(test::patience) == 20);
  CHECK(end.get(test::patience).reason == end_reason::ended);
  CHECK(end.get().message.find("was retired") != std::string::npos);
  CHECK(all_gone());
}

TEST_CASE("a retired actor can still be killed", "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const own_gates gates;
  const auto a = manta::spawn<worker>();
  const auto running = manta::remote<&worker::until_stopped>(a);
  const auto queued = manta::remote<&worker::call>(a);
  REQUIRE(began->wait());
  manta::retire(a);
  CHECK_FALSE(queued.is_ready());
  const auto end = manta::monitor(a);
  manta::kill(a);
  CHECK(code_of(queued) == manta::errc::actor_lost);
  CHECK(running.get(test::patience));
  CHECK(end.get(test::patience).reason == end_reason::killed);
  CHECK(all_gone());
}

TEST_CASE("a method that leaves delivers its answer, and the actor ends",
          "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const own_gates gates;
  const auto a = manta::spawn<worker>();
  const auto first = manta::remote<&worker::hold>(a);
  const auto leave = manta::remote<&worker::leave>(a, 7);
  const auto after = manta::remote<&worker::call>(a);
  const auto end = manta::monitor(a);
  go->open();
  CHECK(first.get(test::patience) == 1);
  CHECK(leave.get(test::patience) == 7);
  CHECK(code_of(after) == manta::errc::actor_lost);
  CHECK(text_of(after).find("this_actor::exit") != std::string::npos);
  CHECK(end.get(test::patience).reason == end_reason::exited);
  CHECK(all_gone());
  // Its last mail, run in place.
  const auto b = manta::spawn<worker>();
  manta::remote<&worker::call>(b).get(test::patience);
  CHECK(manta::remote<&worker::leave>(b, 8).get() == 8);
  CHECK(manta::monitor(b).get(test::patience).reason == end_reason::exited);
  CHECK(all_gone());
}

TEST_CASE("monitors hear of a constructor that failed, a last handle, and the runtime",
          "[actor][end][anywhere]") {
  manta::future<manta::actor_end> at_the_end;
  {
    const manta::runtime rt(test::two_workers());
    const auto bad = manta::spawn<worker>(-1);
    const auto end = manta::monitor(bad);
    CHECK(end.get(test::patience).reason == end_reason::constructor_failed);
    CHECK(end.get().message.find("x is negative") != std::string::npos);
    auto a = manta::spawn<worker>();
    const auto ended = manta::monitor(a);
    const auto call = manta::remote<&worker::call>(a);
    a = {};
    CHECK(ended.get(test::patience).reason == end_reason::ended);
    CHECK(ended.get().message.find("last handle") != std::string::npos);
    CHECK(call.is_ready());
    const auto b = manta::spawn<worker>();
    at_the_end = manta::monitor(b);
    manta::remote<&worker::keep_self>(b).get(test::patience);
    for (int i = 0; i < 1000; ++i) static_cast<void>(manta::monitor(b));  // nobody wants those
  }
  REQUIRE(at_the_end.is_ready());
  CHECK(at_the_end.get().reason == end_reason::runtime_ended);
  CHECK(all_gone());
}

TEST_CASE("weak handles give an actor while it lives and keep nothing", "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  manta::weak_actor<worker> weak;
  CHECK_FALSE(weak.lock().valid());
  {
    auto a = manta::spawn<worker>();
    weak = a;
    const manta::weak_actor<worker> copy = weak;
    CHECK(copy == weak);
    CHECK(weak.lock() == a);
    CHECK(manta::remote<&worker::call>(weak.lock()).get(test::patience) == 1);
    const auto end = manta::monitor(a);
    a = {};
    CHECK(end.get(test::patience).reason == end_reason::ended);
    CHECK_FALSE(weak.lock().valid());
  }
  const auto b = manta::spawn<worker>();
  weak = b;
  manta::kill(b);
  CHECK_FALSE(weak.lock().valid());
  CHECK(all_gone());
}

TEST_CASE("a weak handle goes into tasks and comes out of them", "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  auto a = manta::spawn<worker>();
  if (test::in_processes()) {  // to an isolated worker it can't go yet
    CHECK(code_of(manta::remote<weakened>(a)) == manta::errc::unsupported);
    CHECK(code_of(manta::remote<call_if_alive>(manta::weak_actor<worker>(a))) ==
          manta::errc::unsupported);
    return;
  }
  const auto weak = manta::remote<weakened>(a).get(test::patience);
  CHECK(weak == manta::weak_actor<worker>(a));
  CHECK(weak.lock() == a);
  CHECK(manta::remote<call_if_alive>(weak).get(test::patience) == 1);
  CHECK(manta::remote<call_if_alive>(manta::remote<weakened>(a)).get(test::patience) == 2);
  const auto kept = manta::put(std::vector<manta::weak_actor<worker>>{weak, a, weak});
  CHECK(manta::remote<call_last>(kept).get(test::patience) == 3);
  const auto end = manta::monitor(a);
  a = {};
  CHECK(manta::remote<call_if_alive>(weak).get(test::patience) == -1);
  CHECK(end.get(test::patience).reason == end_reason::ended);
  CHECK(manta::remote<call_if_alive>(weak).get(test::patience) == -1);
  CHECK_FALSE(weak.lock().valid());
  CHECK(all_gone());
}

TEST_CASE("an actor gives its own handle, and that alone keeps it alive",
          "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  auto a = manta::spawn<worker>();
  auto own = manta::remote<&worker::self>(a).get(test::patience);
  CHECK(own == a);
  own = {};
  // The method runs when the last handle has gone already.
  const own_gates gates;
  const auto first = manta::remote<&worker::hold>(a);
  auto later = manta::remote<&worker::self>(a);
  REQUIRE(began->wait());
  a = {};
  go->open();
  auto again = std::move(later).get(test::patience);
  CHECK(*alive == 1);
  CHECK(manta::remote<&worker::call>(again).get(test::patience) == 2);
  later = {};
  again = {};
  CHECK(all_gone());
  CHECK_THROWS_AS(manta::this_actor::handle<worker>(), manta::invalid_argument);
  CHECK_THROWS_AS(manta::this_actor::exit(), manta::invalid_argument);
}

TEST_CASE("actors that hold themselves or each other go when one is ended",
          "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  {
    const auto a = manta::spawn<worker>();
    manta::remote<&worker::keep_self>(a).get(test::patience);
    manta::kill(a);
    const auto b = manta::spawn<worker>();
    manta::remote<&worker::keep_self>(b).get(test::patience);
    CHECK(manta::remote<&worker::leave>(b, 1).get(test::patience) == 1);
    const auto c = manta::spawn<worker>();
    const auto d = manta::spawn<worker>();
    manta::remote<&worker::keep>(c, d).get(test::patience);
    manta::remote<&worker::keep>(d, c).get(test::patience);
    manta::retire(c);
  }
  CHECK(all_gone());
}

TEST_CASE("a method that waits for its own actor's end gets self_wait", "[actor][end][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<worker>();
  CHECK(code_of(manta::remote<&worker::wait_for_own_end>(a)) == manta::errc::self_wait);
}

TEST_CASE("empty handles are refused", "[actor][end][stays:refused]") {
  const manta::runtime rt(test::two_workers());
  const manta::actor<worker> none;
  CHECK_THROWS_AS(manta::kill(none), manta::invalid_argument);
  CHECK_THROWS_AS(manta::retire(none), manta::invalid_argument);
  CHECK_THROWS_AS(manta::monitor(none), manta::invalid_argument);
  CHECK_FALSE(manta::weak_actor<worker>(none).lock().valid());
}

// What could break: two ends of one actor both free it, a call is neither run nor failed, a monitor
// is not told.
TEST_CASE("ends of all kinds race with calls and with the last handle", "[actor][end][anywhere]") {
  const bool is_slow = test::is_sanitized || test::in_processes() || test::in_nodes();
  const int rounds = is_slow ? 150 : 1500;
  const manta::runtime rt(test::workers(3));
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::thread> threads;
    std::vector<manta::future<int>> answers[3];
    std::vector<manta::future<manta::actor_end>> ends;
    {
      auto a = round % 11 == 0 ? manta::spawn<worker>(-1) : manta::spawn<worker>();
      const auto argument = manta::async([] { return 1; });
      ends.push_back(manta::monitor(a));
      for (int t = 0; t < 3; ++t) {
        threads.emplace_back([a, t, round, argument, &answers]() mutable {
          for (int i = 0; i < 20; ++i) {
            answers[t].push_back(i % 5 == 0 ? manta::remote<&worker::add>(a, argument)
                                            : manta::remote<&worker::call>(a));
            if (i != 10) continue;
            if (t == 0 && round % 3 != 0) manta::kill(a);
            if (t == 1 && round % 2 == 0) manta::retire(a);
            if (t == 2 && round % 5 == 0) answers[t].push_back(manta::remote<&worker::leave>(a, 1));
          }
          if (t == 0) answers[t].back().try_get();
          a = {};
        });
      }
      a = {};
    }
    for (std::thread& t : threads) t.join();
    for (const auto& some : answers) {
      for (const auto& f : some) {
        const auto r = f.try_get(test::patience);
        wrong += r || r.error().code() == manta::errc::actor_lost ? 0 : 1;
      }
    }
    wrong += ends.front().try_get(test::patience) ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(all_gone());
}

namespace {

struct bystander {
  int one() { return 1; }
};
int waits_for_end(manta::actor<bystander> a) {
  const auto end = manta::monitor(a);
  a = {};
  began->open();
  return end.get().reason == manta::end_reason::runtime_ended ? 1 : 0;
}

}  // namespace

// Of one node: another one is told that the actor's process is lost.
TEST_CASE("the end of the runtime tells a task that waits for a monitor",
          "[actor][end][anywhere][one_node]") {
  manta::actor<bystander> kept;
  manta::future<int> f;
  {
    const manta::runtime rt(test::two_workers());
    kept = manta::spawn<bystander>();
    CHECK(manta::remote<&bystander::one>(kept).get() == 1);
    const own_gates gates;
    f = manta::remote<waits_for_end>(kept);
    REQUIRE(began->wait());
  }
  REQUIRE(f.is_ready());
  const auto got = f.try_get();
  if (got) CHECK(got.value() == 1);
}

}  // namespace actor_end_test
