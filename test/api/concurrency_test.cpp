// SPDX-License-Identifier: Apache-2.0
// Actors that run several calls at a time, groups of calls, and mailboxes with a cap.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/support.hpp"
#include "exec/support.hpp"

namespace concurrency_test {

namespace {

using Catch::Matchers::Contains;
using namespace std::chrono_literals;

test::everywhere<std::atomic<int>> alive;

/// How many are inside now, and the most there were.
struct meter {
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::atomic<int> calls{0};
  void enter() {
    const int now = ++inside;
    int seen = most;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
  }
  void leave() {
    ++calls;
    --inside;
  }
};
using meters = std::array<meter, 4>;

test::everywhere<meters> shared;
test::everywhere<test::common_gate> began;
test::everywhere<test::common_gate> go;
test::everywhere<test::common_gate> all_inside;

/// The meters and gates of one case: as new when it begins, and nobody is held when it ends.
struct own_meters {
  own_meters() {
    for (meter& m : *shared) m.inside = m.most = m.calls = 0;
    began->shut();
    go->shut();
  }
  own_meters(const own_meters&) = delete;
  own_meters& operator=(const own_meters&) = delete;
  ~own_meters() { go->open(); }
  meters& operator*() const { return *shared; }
};
}  // namespace
}  // namespace concurrency_test

namespace manta::codec {
template <>
struct custom<std::shared_ptr<std::vector<manta::future<int>>>>
    : test::stays_shared<std::vector<manta::future<int>>> {};
}  // namespace manta::codec

namespace concurrency_test {
namespace {
struct crew {
  crew() { ++*alive; }
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;
  ~crew() {
    // Whoever is still inside would use a dead object.
    for (meter& m : *shared) m.calls += m.inside != 0 ? 1'000'000 : 0;
    --*alive;
  }

  int work(int group, int spins) {
    meter& m = (*shared)[static_cast<std::size_t>(group)];
    m.enter();
    for (int i = 0; i < spins; ++i) std::this_thread::yield();
    m.leave();
    return group;
  }
  /// All of them have to be inside before one of them goes on.
  bool meet(int group) {
    meter& m = (*shared)[static_cast<std::size_t>(group)];
    m.enter();
    // A wait of manta's lends the core; the future is of a task that ends with the last arrival.
    all_inside->arrive();
    const bool met = manta::async([] { return all_inside->wait(); }).get(test::patience);
    m.leave();
    return met;
  }
  int hold() {
    began->open();
    go->wait();
    return 1;
  }
  bool until_stopped() {
    began->arrive();
    while (!manta::this_task::is_cancelled()) std::this_thread::yield();
    return true;
  }
  int one() { return 1; }
  int ask_weak(manta::weak_actor<crew> me) { return manta::remote<&crew::one>(me.lock()).get(); }
  int ask_self() { return manta::remote<&crew::one>(manta::this_actor::handle<crew>()).get(); }
  int ask_group(std::string group) {
    const auto me = manta::this_actor::handle<crew>();
    return manta::remote<&crew::one>.with({.group = group})(me).get();
  }
  int many_to_self(int n) {
    const auto me = manta::this_actor::handle<crew>();
    for (int i = 0; i < n; ++i) static_cast<void>(manta::remote<&crew::one>(me));
    return n;
  }
  int leave() {
    manta::this_actor::exit();
    return 3;
  }
};

bool all_gone() {
  return manta_test::happens([] { return manta::exec::actor_core::alive() == 0 && *alive == 0; });
}

template <class F>
manta::errc code_of(const F& f) {
  const auto r = f.try_get(test::patience);
  return r ? manta::errc::task_error : r.error().code();
}

}  // namespace

TEST_CASE("max_concurrency calls run at a time, and never more", "[actor][concurrency][anywhere]") {
  const manta::runtime rt(test::workers(4));
  const own_meters m;
  {
    const auto a = manta::spawn<crew>.with({.max_concurrency = 3})();
    all_inside->shut(3);
    std::vector<manta::future<bool>> met;
    for (int i = 0; i < 3; ++i) met.push_back(manta::remote<&crew::meet>(a, 0));
    for (const auto& f : met) CHECK(f.get(test::patience));
    std::vector<manta::future<int>> answers;
    for (int i = 0; i < 500; ++i) answers.push_back(manta::remote<&crew::work>(a, 0, i % 20));
    for (const auto& f : answers) CHECK(f.get(test::patience) == 0);
    CHECK((*m)[0].most == 3);
  }
  CHECK(all_gone());
  CHECK((*m)[0].calls == 503);
}

TEST_CASE("groups have limits of their own and do not wait for each other",
          "[actor][concurrency][anywhere]") {
  const manta::runtime rt(test::workers(4));
  const own_meters m;
  const auto a = manta::spawn<crew>.with({.groups = {{"io", 2}, {"slow", 1}}})();
  const auto blocked = manta::remote<&crew::hold>.with({.group = "slow"})(a);
  const auto behind = manta::remote<&crew::one>.with({.group = "slow"})(a);
  REQUIRE(began->wait());
  // The default group and the other go on.
  CHECK(manta::remote<&crew::one>(a).get(test::patience) == 1);
  all_inside->shut(2);
  const auto first = manta::remote<&crew::meet>.with({.group = "io"})(a, 1);
  const auto second = manta::remote<&crew::meet>.with({.group = "io"})(a, 1);
  CHECK(first.get(test::patience));
  CHECK(second.get(test::patience));
  CHECK_FALSE(behind.is_ready());
  go->open();
  CHECK(behind.get(test::patience) == 1);
  CHECK(blocked.get(test::patience) == 1);
  CHECK_THROWS_AS(manta::remote<&crew::one>.with({.group = "disk"})(a), manta::invalid_argument);
  CHECK_THROWS_WITH(manta::remote<&crew::one>.with({.group = "disk"})(a),
                    Contains("disk") && Contains("io, slow"));
  const auto plain = manta::spawn<crew>();
  CHECK_THROWS_WITH(manta::remote<&crew::one>.with({.group = "io"})(plain),
                    Contains("no groups; leave the option unset") && !Contains("one of those"));
}

// Against the plain rule: in every group at most `limit` inside, every call once, the object gone
// only after the last. A lane that is not counted, or counted twice, shows as too many or as a
// hang.
TEST_CASE("limits hold and every call runs once, whoever calls", "[actor][concurrency][anywhere]") {
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  manta_test::dice random(seed);
  const manta::runtime rt(test::workers(4));
  const int rounds = test::in_processes() ? 40 : test::trips(150);  // a process in each
  for (int round = 0; round < rounds; ++round) {
    const own_meters m;
    std::array<int, 3> limits{};
    for (int& l : limits) l = 1 + static_cast<int>(random.below(4));
    std::array<int, 3> sent{};
    {
      auto a = manta::spawn<crew>.with(
          {.max_concurrency = limits[0], .groups = {{"b", limits[1]}, {"c", limits[2]}}})();
      std::vector<std::thread> threads;
      std::array<std::array<int, 3>, 3> counts{};
      for (std::size_t t = 0; t < 3; ++t) {
        threads.emplace_back([a, t, &counts, own = random.next()] {
          manta_test::dice dice(own);
          const int n = static_cast<int>(dice.below(200));
          for (int i = 0; i < n; ++i) {
            const std::size_t g = dice.below(3);
            const int spins = dice.one_in(4) ? static_cast<int>(dice.below(20)) : 0;
            const int group = static_cast<int>(g);
            ++counts[t][g];
            const auto f = g == 0 ? manta::remote<&crew::work>(a, group, spins)
                                  : manta::remote<&crew::work>.with({.group = g == 1 ? "b" : "c"})(
                                        a, group, spins);
            if (dice.one_in(16)) static_cast<void>(f.get());
          }
        });
      }
      a = {};  // the threads' handles are the last
      for (std::thread& t : threads) t.join();
      for (const auto& c : counts) {
        for (std::size_t g = 0; g < 3; ++g) sent[g] += c[g];
      }
    }
    REQUIRE(all_gone());
    for (std::size_t g = 0; g < 3; ++g) {
      REQUIRE((*m)[g].calls == sent[g]);
      REQUIRE((*m)[g].most <= limits[g]);
      REQUIRE((*m)[g].inside == 0);
    }
  }
}

TEST_CASE("concurrent actors are killed, retired and left like others",
          "[actor][concurrency][anywhere]") {
  const manta::runtime rt(test::workers(4));
  const own_meters m;
  {
    const auto a = manta::spawn<crew>.with({.max_concurrency = 2})();
    began->shut(2);
    const auto x = manta::remote<&crew::until_stopped>(a);
    const auto y = manta::remote<&crew::until_stopped>(a);
    std::vector<manta::future<int>> queued;
    for (int i = 0; i < 20; ++i) queued.push_back(manta::remote<&crew::one>(a));
    REQUIRE(began->wait());
    const auto end = manta::monitor(a);
    manta::kill(a);
    for (const auto& f : queued) CHECK(code_of(f) == manta::errc::actor_lost);
    CHECK(x.get(test::patience));
    CHECK(y.get(test::patience));
    CHECK(end.get(test::patience).reason == manta::end_reason::killed);
    CHECK(code_of(manta::remote<&crew::one>(a)) == manta::errc::actor_lost);
  }
  {
    const auto a = manta::spawn<crew>.with({.max_concurrency = 2})();
    began->shut();
    const auto held = manta::remote<&crew::hold>(a);
    std::vector<manta::future<int>> before;
    for (int i = 0; i < 20; ++i) before.push_back(manta::remote<&crew::one>(a));
    const auto end = manta::monitor(a);
    manta::retire(a);
    CHECK(code_of(manta::remote<&crew::one>(a)) == manta::errc::actor_lost);
    for (const auto& f : before) CHECK(f.get(test::patience) == 1);
    CHECK_FALSE(end.is_ready());
    go->open();
    CHECK(held.get(test::patience) == 1);
    CHECK(end.get(test::patience).reason == manta::end_reason::ended);
  }
  {
    const auto a = manta::spawn<crew>.with({.max_concurrency = 2})();
    CHECK(manta::remote<&crew::leave>(a).get(test::patience) == 3);
    CHECK(manta::monitor(a).get(test::patience).reason == manta::end_reason::exited);
  }
  CHECK(all_gone());
}

TEST_CASE("a concurrent actor may wait for itself where another lane is free",
          "[actor][concurrency][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const own_meters m;
  const auto a = manta::spawn<crew>.with({.max_concurrency = 2, .groups = {{"one", 1}}})();
  const manta::weak_actor<crew> me = a;
  // A weak handle can't go to an isolated worker yet.
  if (!test::in_processes()) {
    CHECK(manta::remote<&crew::ask_weak>(a, me).get(test::patience) == 1);
  }
  CHECK(manta::remote<&crew::ask_self>(a).get(test::patience) == 1);
  CHECK(manta::remote<&crew::ask_group>(a, "one").get(test::patience) == 1);
  const auto f = manta::remote<&crew::ask_group>.with({.group = "one"})(a, "one");
  CHECK(code_of(f) == manta::errc::self_wait);
}

TEST_CASE("the end of the runtime ends concurrent actors and their calls",
          "[actor][concurrency][anywhere]") {
  const int rounds = test::in_processes() ? 50 : test::trips(200);  // four processes in each
  for (int round = 0; round < rounds; ++round) {
    const own_meters m;
    std::vector<manta::future<int>> answers;
    {
      const manta::runtime rt(test::two_workers());
      const auto a = manta::spawn<crew>.with({.max_concurrency = 1 + round % 4})();
      const auto b = manta::spawn<crew>.with({.groups = {{"g", 2}}, .mailbox_cap = 50})();
      for (int i = 0; i < 100; ++i) {
        answers.push_back(manta::remote<&crew::work>(a, 0, i % 7));
        answers.push_back(manta::remote<&crew::work>.with({.group = "g"})(b, 1, i % 3));
      }
    }
    int wrong = 0;
    for (const auto& f : answers) {
      const auto r = f.try_get(0ns);
      wrong += r || r.error().code() == manta::errc::cancelled ? 0 : 1;
    }
    REQUIRE(wrong == 0);
    REQUIRE(all_gone());
  }
}

TEST_CASE("a full mailbox refuses calls when it was asked to", "[actor][mailbox][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const own_meters m;
  const auto a =
      manta::spawn<crew>.with({.mailbox_cap = 3, .on_full = manta::full_policy::refuse})();
  const auto running = manta::remote<&crew::hold>(a);
  REQUIRE(began->wait());
  std::vector<manta::future<int>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(manta::remote<&crew::one>(a));
  CHECK_THROWS_AS(manta::remote<&crew::one>(a), manta::mailbox_full);
  CHECK_THROWS_WITH(manta::remote<&crew::one>(a), Contains("cap is 3"));
  const auto kept = std::make_unique<int>(1);
  go->open();
  for (const auto& f : waiting) CHECK(f.get(test::patience) == 1);
  for (int i = 0; i < 100; ++i) CHECK(manta::remote<&crew::one>(a).get(test::patience) == 1);
}

TEST_CASE("a full mailbox makes callers wait, and none is forgotten",
          "[actor][mailbox][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const int calls = test::trips(5000);
  for (const int concurrency : {1, 3}) {
    const own_meters m;
    const auto a = manta::spawn<crew>.with({.max_concurrency = concurrency, .mailbox_cap = 2})();
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([a, calls] {
        for (int i = 0; i < calls; ++i) static_cast<void>(manta::remote<&crew::work>(a, 0, 0));
      });
    }
    constexpr auto send = [](manta::actor<crew> to, int n) {
      for (int i = 0; i < n; ++i) static_cast<void>(manta::remote<&crew::work>(to, 0, 0));
      return true;
    };
    std::vector<manta::future<bool>> tasks;  // more than there are workers: they lend their cores
    for (int t = 0; t < 4; ++t) tasks.push_back(manta::remote<send>(a, calls / 10));
    for (std::thread& t : threads) t.join();
    for (const auto& f : tasks) CHECK(f.get(test::patience));
    CHECK(manta_test::happens([&] { return (*m)[0].calls == 3 * calls + 4 * (calls / 10); }));
  }
}

TEST_CASE("who waits for a place has a time limit, and can be cancelled",
          "[actor][mailbox][anywhere]") {
  const manta::runtime rt(test::workers(3));
  const own_meters m;
  const auto a = manta::spawn<crew>.with({.mailbox_cap = 1})();
  const auto running = manta::remote<&crew::until_stopped>(a);
  REQUIRE(began->wait());
  const auto waiting = manta::remote<&crew::one>(a);
  const manta::call_options soon{.timeout = std::chrono::milliseconds(10)};
  CHECK_THROWS_AS(manta::remote<&crew::one>.with(soon)(a), manta::timed_out);
  {
    const manta::deadline_scope within(std::chrono::milliseconds(10));
    CHECK_THROWS_AS(manta::remote<&crew::one>(a), manta::timed_out);
  }
  const auto calls = std::make_shared<test::gate>();
  const auto f = manta::async([a, calls] {
    calls->open();
    return manta::remote<&crew::one>(a);
  });
  REQUIRE(calls->wait());
  CHECK(manta::cancel(f));
  CHECK(code_of(f) == manta::errc::cancelled);
  manta::cancel(running);
  CHECK(running.get(test::patience));
  waiting.get(test::patience);
  manta::remote<&crew::one>(a).get(test::patience);  // the places are right still
}

TEST_CASE("who waits for a place goes on when the actor is killed", "[actor][mailbox][anywhere]") {
  std::atomic<int> lost{0};
  const manta::runtime rt(test::two_workers());
  const own_meters m;
  const auto a = manta::spawn<crew>.with({.mailbox_cap = 1})();
  const auto running = manta::remote<&crew::until_stopped>(a);
  REQUIRE(began->wait());
  const auto waiting = manta::remote<&crew::one>(a);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([a, &lost] {
      lost += code_of(manta::remote<&crew::one>(a)) == manta::errc::actor_lost ? 1 : 0;
    });
  }
  manta::kill(a);
  for (std::thread& t : threads) t.join();
  CHECK(lost == 3);
  CHECK(code_of(waiting) == manta::errc::actor_lost);
  CHECK(running.get(test::patience));
}

// Of one process: an actor elsewhere does not count its own calls (README.md says so).
TEST_CASE("an actor that fills its own mailbox gets a typed error", "[actor][mailbox][one_node]") {
  const manta::runtime rt(test::two_workers());
  const own_meters m;
  const auto a = manta::spawn<crew>.with({.mailbox_cap = 2})();
  CHECK(manta::remote<&crew::many_to_self>(a, 2).get(test::patience) == 2);
  CHECK(code_of(manta::remote<&crew::many_to_self>(a, 3)) == manta::errc::self_wait);
}

TEST_CASE("options of concurrency are checked at the call", "[actor][concurrency][stays:refused]") {
  const manta::runtime rt(test::two_workers());
  const own_meters m;
  const auto refused = [](manta::actor_options o) {
    return test::message_of<manta::invalid_argument>([&] { manta::spawn<crew>.with(o)(); });
  };
  CHECK_THAT(refused({.max_concurrency = 0}), Contains("max_concurrency: asked 0, allowed 1 to"));
  CHECK_THAT(refused({.max_concurrency = 65537}), Contains("max_concurrency: asked 65537"));
  CHECK_THAT(refused({.groups = {{"", 1}}}), Contains("empty name"));
  CHECK_THAT(refused({.groups = {{"a", 0}}}), Contains("\"a\"") && Contains("asked 0"));
  CHECK_THAT(refused({.groups = {{"a", 1}, {"a", 2}}}), Contains("twice"));
  CHECK_THAT(refused({.mailbox_cap = std::size_t{1} << 31U}), Contains("mailbox_cap"));
  const auto a = manta::spawn<crew>();
  CHECK_THROWS_AS(manta::remote<&crew::one>.with({.group = ""})(a), manta::invalid_argument);
}

namespace {

struct late_self {
  int other(int x) { return x + 1; }
  int call_self() {
    static_cast<void>(go->wait());
    return manta::remote<&late_self::other>(manta::this_actor::handle<late_self>(), 4).get();
  }
  manta::coroutine<int> await_self() {
    static_cast<void>(go->wait());
    co_return co_await manta::remote<&late_self::other>(manta::this_actor::handle<late_self>(), 5);
  }
};

}  // namespace

TEST_CASE("a method calls its own actor after the last handle went",
          "[actor][concurrency][anywhere]") {
  const manta::runtime rt(test::workers(2));
  for (int round = 0; round < 20; ++round) {
    auto a = manta::spawn<late_self>.with({.max_concurrency = 3})();
    go->shut();
    const auto end = manta::monitor(a);
    const auto f = manta::remote<&late_self::call_self>(a);
    const auto g = manta::remote<&late_self::await_self>(a);
    a = {};
    go->open();
    CHECK(f.get(test::patience) == 5);
    CHECK(g.get(test::patience) == 6);
    CHECK(end.get(test::patience).reason == manta::end_reason::ended);
  }
}

namespace {

struct canceller {
  using calls = std::vector<manta::future<int>>;
  // Leaves as many entries in its worker's queue as make it look for stale ones.
  int cancel_and_sweep(std::shared_ptr<test::gate> starts, std::shared_ptr<calls> queued) {
    static_cast<void>(starts->wait());
    for (const auto& f : *queued) manta::cancel(f);
    std::vector<manta::future<int>> many;
    for (int i = 0; i < 80; ++i) many.push_back(manta::async([i] { return i; }));
    int sum = 0;
    for (const auto& f : many) sum += f.get();
    return sum;
  }
  int never(std::shared_ptr<int> kept) { return *kept; }
};

}  // namespace

TEST_CASE("cancelled calls that have a lane leave it",
          "[actor][concurrency][actors_home][stays:shared]") {
  const manta::runtime rt(test::workers(1));
  auto a = manta::spawn<canceller>.with({.max_concurrency = 3})();
  const auto end = manta::monitor(a);
  const auto kept = std::make_shared<int>(1);
  const auto ready = std::make_shared<test::gate>();
  const auto starts = std::make_shared<test::gate>();
  // The only worker begins when all three are there: then each has a lane in its queue.
  const auto held = manta::async([ready] { return ready->wait() ? 1 : 0; });
  const auto queued = std::make_shared<canceller::calls>();
  const auto sum = manta::remote<&canceller::cancel_and_sweep>(a, starts, queued);
  for (int i = 0; i < 2; ++i) queued->push_back(manta::remote<&canceller::never>(a, kept));
  ready->open();
  starts->open();
  CHECK(sum.get(test::patience) == 79 * 40);
  a = {};
  CHECK(end.get(test::patience).reason == manta::end_reason::ended);
  queued->clear();
  const auto until = std::chrono::steady_clock::now() + test::patience;
  while (kept.use_count() > 1 && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
  }
  CHECK(kept.use_count() == 1);
  CHECK(held.get() == 1);
}

}  // namespace concurrency_test
