// SPDX-License-Identifier: Apache-2.0
// Actors: order, handles, life and death.
#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/support.hpp"

namespace actor_test {

namespace {

using namespace std::chrono_literals;

struct counter {
  int n = 0;
  counter() = default;
  explicit counter(int start) : n(start) {}
  int add(int x) { return n += x; }
  int get() const { return n; }
  int quiet() const noexcept { return n; }
  void set(int x) noexcept { n = x; }
  int twice() { return n *= 2; }
  int scale(int x) { return n * x; }
  double scale(double x) { return n * x; }
  [[noreturn]] int fail() { throw std::logic_error("method failed"); }
};

/// Writes down who called with what.
struct recorder {
  std::vector<std::pair<int, int>> seen;
  int record(int caller, int index) {
    seen.emplace_back(caller, index);
    return index;
  }
  const std::vector<std::pair<int, int>>& all_ref() const { return seen; }
  std::vector<std::pair<int, int>> all() const { return seen; }
};

/// Whether each caller's indices are 0, 1, 2, ...
bool is_in_order(const std::vector<std::pair<int, int>>& seen) {
  std::map<int, int> next;
  return std::all_of(seen.begin(), seen.end(),
                     [&next](const auto& s) { return s.second == next[s.first]++; });
}

int identity(int x) { return x; }
int slow_identity(int x, int rounds) {
  volatile int sink = 0;
  for (int i = 0; i < rounds; ++i) sink = sink + i;
  return x;
}
int call_add(manta::actor<counter> a, int x) { return manta::remote<&counter::add>(a, x).get(); }

/// `n` calls, a third of them with futures that are ready in any order; answers whether all agreed.
bool record_many(const manta::actor<recorder>& a, int caller, int n) {
  std::mt19937 random(static_cast<unsigned>(caller) * 7919U + 1U);
  std::vector<manta::future<int>> answers;
  for (int i = 0; i < n; ++i) {
    if (random() % 3 == 0) {
      auto late = manta::remote<slow_identity>(i, static_cast<int>(random() % 20000));
      answers.push_back(manta::remote<&recorder::record>(a, caller, std::move(late)));
    } else {
      answers.push_back(manta::remote<&recorder::record>(a, caller, i));
    }
  }
  bool is_right = true;
  for (int i = 0; i < n; ++i) is_right &= answers[static_cast<std::size_t>(i)].get() == i;
  return is_right;
}

}  // namespace

TEST_CASE("an actor keeps its state from call to call", "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const manta::actor<counter> a = manta::spawn<counter>();
  for (int i = 1; i <= 100; ++i) CHECK(manta::remote<&counter::add>(a, 1).get() == i);
  const auto b = manta::spawn<counter>(5);
  CHECK(manta::remote<&counter::get>(b).get() == 5);
  CHECK(manta::remote<&counter::get>(a).get() == 100);
}

TEST_CASE("const, noexcept, overloaded, void methods are called", "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<counter>(3);
  CHECK(manta::remote<&counter::quiet>(a).get() == 3);
  manta::remote<&counter::set>(a, 4).get();
  CHECK(manta::remote<static_cast<int (counter::*)(int)>(&counter::scale)>(a, 2).get() == 8);
  CHECK(manta::remote<static_cast<double (counter::*)(double)>(&counter::scale)>(a, 0.5).get() ==
        2.0);
  CHECK(manta::remote<&counter::twice>(a).get() == 8);
}

namespace {

struct shape {
  virtual ~shape() = default;
  virtual std::string name() const { return "shape"; }
  std::string base_only() { return "base " + name(); }
};
struct circle : shape {
  std::string name() const override { return "circle"; }
  int sides() { return 0; }
};

}  // namespace

TEST_CASE("virtual methods dispatch and methods of a base are called on the derived actor",
          "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto c = manta::spawn<circle>();
  CHECK(manta::remote<&shape::name>(c).get() == "circle");
  CHECK(manta::remote<&circle::name>(c).get() == "circle");
  CHECK(manta::remote<&shape::base_only>(c).get() == "base circle");
  CHECK(manta::remote<&circle::base_only>(c).get() == "base circle");
  CHECK(manta::remote<&circle::sides>(c).get() == 0);
}

TEST_CASE("methods run one at a time", "[actor][anywhere]") {
  const manta::runtime rt(test::workers(4));
  const auto a = manta::spawn<counter>();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([a] {
      for (int i = 0; i < 2000; ++i) static_cast<void>(manta::remote<&counter::add>(a, 1));
    });
  }
  for (auto& t : threads) t.join();
  // The count is not atomic: a lost update, or the thread sanitizer, shows two at a time.
  CHECK(manta::remote<&counter::get>(a).get() == 8000);
}

TEST_CASE("each caller's calls run in its order, whatever their arguments wait for",
          "[actor][anywhere]") {
  std::atomic<int> right{0};
  const manta::runtime rt(test::workers(3));
  constexpr int calls = test::is_sanitized ? 200 : 1000;
  const auto a = manta::spawn<recorder>();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([a, t, &right] { right += record_many(a, t, calls) ? 1 : 0; });
  }
  std::vector<manta::future<bool>> tasks;
  for (int t = 3; t < 6; ++t) {
    tasks.push_back(manta::async([a, t] { return record_many(a, t, calls); }));
  }
  const bool is_mine_right = record_many(a, 6, calls);
  for (auto& t : threads) t.join();
  CHECK(right == 3);
  CHECK(is_mine_right);
  for (const bool b : manta::get(tasks)) CHECK(b);
  const auto seen = manta::remote<&recorder::all>(a).get();
  CHECK(seen.size() == 7 * calls);
  CHECK(is_in_order(seen));
}

TEST_CASE("a call whose argument is late does not hold up other callers", "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  test::scoped_gate go;
  const auto late = manta::async([&go] {
    go.wait();
    return 0;
  });
  const auto a = manta::spawn<recorder>();
  const auto held = manta::remote<&recorder::record>(a, 1, late);
  const auto behind = manta::remote<&recorder::record>(a, 1, 1);
  const auto other =
      manta::async([a] { return manta::remote<&recorder::record>(a, 2, 0).get(test::patience); });
  CHECK(other.get(test::patience) == 0);
  CHECK_FALSE(held.is_ready());
  CHECK_FALSE(behind.is_ready());
  go.open();
  CHECK(behind.get(test::patience) == 1);
  const std::vector<std::pair<int, int>> expected{{2, 0}, {1, 0}, {1, 1}};
  CHECK(manta::remote<&recorder::all>(a).get() == expected);
}

TEST_CASE("a failed argument fails the call, not the actor, and keeps the order",
          "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<counter>(1);
  const auto bad = manta::async([]() -> int { throw std::runtime_error("argument"); });
  const auto f = manta::remote<&counter::add>(a, bad);
  const auto g = manta::remote<&counter::add>(a, 1);
  CHECK_THROWS_AS(f.get(), manta::task_error);
  CHECK(g.get() == 2);
}

TEST_CASE("a method that throws answers task_error and the actor lives on", "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<counter>(1);
  const std::string said =
      test::message_of<manta::task_error>([&] { manta::remote<&counter::fail>(a).get(); });
  CHECK(said.find("method failed") != std::string::npos);
  CHECK(said.find("fail") != std::string::npos);
  CHECK(manta::remote<&counter::add>(a, 1).get() == 2);
}

TEST_CASE("results of methods are copies, and futures of a chain of methods agree",
          "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<counter>();
  manta::future<int> f = manta::put(1);
  for (int i = 0; i < 20; ++i) f = manta::remote<&counter::add>(a, f);
  CHECK(f.get() == 1 << 19);
}

TEST_CASE("handles travel into tasks, other actors and containers", "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<counter>();
  CHECK(manta::remote<call_add>(a, 1).get() == 1);
  std::vector<manta::future<int>> many;
  for (int i = 0; i < 50; ++i) many.push_back(manta::remote<call_add>(a, 1));
  manta::get(many);
  CHECK(manta::remote<&counter::get>(a).get() == 51);
  constexpr auto all = [](const std::vector<manta::actor<counter>>& v,
                          std::map<std::string, manta::actor<counter>> m) {
    int sum = 0;
    for (const auto& h : v) sum += manta::remote<&counter::add>(h, 1).get();
    for (const auto& [name, h] : m) sum += manta::remote<&counter::get>(h).get();
    return sum;
  };
  const std::vector<manta::actor<counter>> v{a, manta::spawn<counter>(10)};
  const std::map<std::string, manta::actor<counter>> m{{"x", a}};
  CHECK(manta::remote<all>(v, m).get() == 52 + 11 + 52);
  // A handle is a result, and a future of a handle is an argument.
  constexpr auto make = [](int n) { return manta::spawn<counter>(n); };
  const manta::future<manta::actor<counter>> made = manta::remote<make>(7);
  CHECK(manta::remote<call_add>(made, 1).get() == 8);
  CHECK(manta::remote<&counter::get>(made.get()).get() == 8);
  CHECK(a == v[0]);
  CHECK_FALSE(a == v[1]);
}

namespace {

test::everywhere<test::common_gate> died;
test::everywhere<test::common_gate> go_on;
test::everywhere<std::atomic<std::thread::id>> died_on;

struct mortal {
  int calls = 0;
  mortal() = default;
  mortal(const mortal&) = delete;
  mortal& operator=(const mortal&) = delete;
  ~mortal() {
    *died_on = std::this_thread::get_id();
    died->open();
  }
  int call() { return ++calls; }
  int wait_for_gate() {
    go_on->wait();
    return ++calls;
  }
};

}  // namespace

TEST_CASE("with the last handle queued calls finish and the destructor runs on a worker",
          "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const test::opens_at_end leaves(*go_on);
  died->shut();
  go_on->shut();
  *died_on = std::this_thread::get_id();
  std::vector<manta::future<int>> calls;
  {
    auto a = manta::spawn<mortal>();
    calls.push_back(manta::remote<&mortal::wait_for_gate>(a));
    for (int i = 0; i < 100; ++i) calls.push_back(manta::remote<&mortal::call>(a));
    a = {};
  }
  CHECK_FALSE(died->wait(0ns));
  go_on->open();
  CHECK(calls.back().get(test::patience) == 101);
  CHECK(died->wait());
  // Of another process it would say nothing.
  if (!test::in_processes()) CHECK(died_on->load() != std::this_thread::get_id());
}

TEST_CASE("a handle inside another actor and in a pending task's argument keeps the actor",
          "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  died->shut();
  struct owner {
    manta::actor<mortal> held;
  };
  {
    test::scoped_gate go;
    auto a = manta::spawn<mortal>();
    const auto late = manta::async([&go] {
      go.wait();
      return 0;
    });
    constexpr auto use = [](manta::actor<mortal> h, int) {
      return manta::remote<&mortal::call>(h).get();
    };
    const auto f = manta::remote<use>(a, late);
    auto keeper = manta::spawn<owner>(owner{a});
    a = {};
    CHECK_FALSE(died->wait(0ns));
    go.open();
    CHECK(f.get(test::patience) == 1);
    CHECK_FALSE(died->wait(0ns));
    keeper = {};
  }
  CHECK(died->wait());
}

TEST_CASE("10,000 actors are made, called and ended", "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const int n = test::in_processes() ? 100 : test::is_sanitized ? 1000 : 10000;  // a process each
  std::vector<manta::future<int>> answers;
  for (int i = 0; i < n; ++i) {
    answers.push_back(manta::remote<&counter::add>(manta::spawn<counter>(i), 1));
  }
  int right = 0;
  for (int i = 0; i < n; ++i) right += answers[static_cast<std::size_t>(i)].get() == i + 1 ? 1 : 0;
  CHECK(right == n);
}

namespace {

struct selfish {
  manta::actor<selfish> me;
  int one() { return 1; }
  void know(manta::actor<selfish> self) { me = std::move(self); }
  int wait_for_self() { return manta::remote<&selfish::one>(me).get(); }
  int timed_wait_for_self() { return manta::remote<&selfish::one>(me).get(test::patience); }
  manta::future<int> delegate_to_self() { return manta::remote<&selfish::one>(me); }
  void forget() { me = {}; }
};

}  // namespace

TEST_CASE("an actor that waits for itself gets a typed error", "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<selfish>();
  manta::remote<&selfish::know>(a, a).get();
  CHECK_THROWS_AS(manta::remote<&selfish::wait_for_self>(a).get(test::patience), manta::self_wait);
  CHECK_THROWS_AS(manta::remote<&selfish::timed_wait_for_self>(a).get(test::patience),
                  manta::self_wait);
  // Delegation does not wait, so it is allowed.
  CHECK(manta::remote<&selfish::delegate_to_self>(a).get(test::patience) == 1);
  manta::remote<&selfish::forget>(a).get();
}

namespace {

struct picky {
  std::string what;
  explicit picky(int x) : what("value " + std::to_string(x)) {
    if (x < 0) throw std::domain_error("x is negative");
  }
  std::string say() { return what; }
};
struct move_only_maker {
  std::unique_ptr<int> p;
  explicit move_only_maker(std::unique_ptr<int> q) : p(std::move(q)) {}
  int value() { return *p; }
  std::unique_ptr<int> give() { return std::move(p); }
  void take(std::unique_ptr<int> q) { p = std::move(q); }
};
struct summing {
  int sum = 0;
  explicit summing(const std::vector<int>& v) {
    for (const int x : v) sum += x;
  }
  summing(int a, std::string b) : sum(a + static_cast<int>(b.size())) {}
  int get() { return sum; }
};
struct holder {
  manta::future<int> f;
  explicit holder(manta::future<int> g) : f(std::move(g)) {}
  int get() { return f.get(); }
};
struct aggregate {
  int a = 1;
  int b = 2;
  int sum() { return a + b; }
};
struct alignas(64) wide_actor {
  std::array<char, 64> bytes{};
  bool is_aligned() { return reinterpret_cast<std::uintptr_t>(this) % 64 == 0; }
};

}  // namespace

TEST_CASE("constructors take values, move-only values, text, futures and gathered futures",
          "[actor][anywhere][actors_home]") {
  const manta::runtime rt(test::two_workers());
  CHECK(manta::remote<&picky::say>(manta::spawn<picky>(3)).get() == "value 3");
  CHECK(manta::remote<&picky::say>(manta::spawn<picky>(manta::remote<identity>(4))).get() ==
        "value 4");
  const auto m = manta::spawn<move_only_maker>(std::make_unique<int>(5));
  CHECK(manta::remote<&move_only_maker::value>(m).get() == 5);
  CHECK(*manta::remote<&move_only_maker::give>(m).get() == 5);
  manta::remote<&move_only_maker::take>(m, std::make_unique<int>(6)).get();
  CHECK(manta::remote<&move_only_maker::value>(m).get() == 6);
  const auto v =
      manta::spawn<move_only_maker>(manta::async([] { return std::make_unique<int>(7); }));
  CHECK(manta::remote<&move_only_maker::value>(v).get() == 7);
  std::vector<manta::future<int>> parts{manta::put(1), manta::remote<identity>(2)};
  CHECK(manta::remote<&summing::get>(manta::spawn<summing>(parts)).get() == 3);
  CHECK(manta::remote<&summing::get>(manta::spawn<summing>(1, "four")).get() == 5);
  CHECK(manta::remote<&holder::get>(manta::spawn<holder>(manta::put(8))).get() == 8);
  CHECK(manta::remote<&wide_actor::is_aligned>(manta::spawn<wide_actor>()).get());
  CHECK(manta::remote<&aggregate::sum>(manta::spawn<aggregate>()).get() == 3);
}

TEST_CASE("a constructor that throws gives actor_lost with its cause at every call",
          "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<picky>(-1);
  for (int i = 0; i < 3; ++i) {
    const std::string said = test::message_of<manta::actor_lost>(
        [&] { static_cast<void>(manta::remote<&picky::say>(a).get(test::patience)); });
    CHECK(said.find("x is negative") != std::string::npos);
    CHECK(said.find("picky") != std::string::npos);
  }
  const auto failing = manta::async([]() -> int { throw std::runtime_error("no argument"); });
  const auto b = manta::spawn<picky>(failing);
  const std::string said = test::message_of<manta::actor_lost>(
      [&] { static_cast<void>(manta::remote<&picky::say>(b).get(test::patience)); });
  CHECK(said.find("no argument") != std::string::npos);
}

TEST_CASE("calls made before the actor exists wait and keep their order", "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  struct late_recorder : recorder {
    explicit late_recorder(int /*go*/) {}
  };
  test::scoped_gate go;
  const auto late = manta::async([&go] {
    go.wait();
    return 0;
  });
  const auto a = manta::spawn<late_recorder>(late);
  std::vector<manta::future<int>> calls;
  for (int i = 0; i < 500; ++i) calls.push_back(manta::remote<&recorder::record>(a, 0, i));
  const auto last = manta::remote<&recorder::all>(a);
  CHECK_FALSE(calls.front().is_ready());
  go.open();
  const auto seen = last.get(test::patience);
  CHECK(seen.size() == 500);
  CHECK(is_in_order(seen));
}

TEST_CASE("the handles of an actor whose constructor failed may all go", "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<std::string>> answers;
  for (int i = 0; i < 200; ++i) {
    answers.push_back(manta::remote<&picky::say>(manta::spawn<picky>(i % 2 == 0 ? -1 : 1)));
  }
  int lost = 0;
  for (const auto& f : answers) {
    const auto r = f.try_get();
    lost += !r && r.error().code() == manta::errc::actor_lost ? 1 : 0;
  }
  CHECK(lost == 100);
}

TEST_CASE("an empty handle is refused", "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const manta::actor<counter> none;
  CHECK_FALSE(none.valid());
  CHECK_THROWS_AS(manta::remote<&counter::get>(none), manta::invalid_argument);
  auto a = manta::spawn<counter>();
  const auto b = std::move(a);
  CHECK_THROWS_AS(manta::remote<&counter::get>(a), manta::invalid_argument);
  CHECK(manta::remote<&counter::get>(b).get() == 0);
}

TEST_CASE("two actors that call each other in turn do not deadlock", "[actor][anywhere]") {
  const manta::runtime rt(test::two_workers());
  constexpr auto chat = [](manta::actor<counter> a, manta::actor<counter> b, int n) {
    for (int i = 0; i < n; ++i) {
      manta::future<int> x = manta::remote<&counter::add>(a, 1);
      x = manta::remote<&counter::add>(b, x);
      static_cast<void>(manta::remote<&counter::add>(a, std::move(x)));
    }
    return manta::remote<&counter::get>(a).get() > 0;
  };
  const auto a = manta::spawn<counter>();
  const auto b = manta::spawn<counter>();
  std::vector<manta::future<bool>> many;
  for (int i = 0; i < 10; ++i) many.push_back(manta::remote<chat>(a, b, 2));
  for (const auto& f : many) CHECK(f.get(test::patience));
}

}  // namespace actor_test
