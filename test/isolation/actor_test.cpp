// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <csignal>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <catch2/catch.hpp>

#include <manta/manta.hpp>

#include "isolation/support.hpp"

// Actors whose object lives in an isolated worker: their order, their ends, and what is left when
// their process dies.

namespace actor_test {

namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::isolated;
using test::shared;
using test::shared_numbers;
using test::square;

struct log_keeper {
  std::vector<int> seen;
  explicit log_keeper(int first) {
    if (first < 0) throw std::invalid_argument("a negative beginning");
    seen.push_back(first);
  }
  ~log_keeper() {
    if (test::shared_numbers::current != nullptr) ++shared(4000);
  }
  log_keeper(const log_keeper&) = delete;
  log_keeper& operator=(const log_keeper&) = delete;

  int add(int n) {
    seen.push_back(n);
    return static_cast<int>(seen.size());
  }
  std::vector<int> all() const { return seen; }
  int pid() const { return getpid(); }
  std::string join(const std::string& a, std::vector<std::string> b) const {
    return std::accumulate(b.begin(), b.end(), a);
  }
  void fails(const std::string& what) { throw std::out_of_range(what); }
  int dies(int signal) {
    ++shared(1);
    kill(getpid(), signal);
    return 0;
  }
  int leaves() {
    manta::this_actor::exit();
    return 7;
  }
  // Says that it runs, and goes on until it is asked to stop or let go.
  int waits() {
    ++shared(0);
    comes_true([] { return shared(2) != 0 || manta::this_task::is_cancelled(); });
    return manta::this_task::is_cancelled() ? -1 : 1;
  }
  int never_ends() {
    ++shared(0);
    for (;;) pause();
  }
  manta::coroutine<int> suspends(manta::future<int> until) {
    const int n = co_await std::move(until);
    seen.push_back(n);
    co_return n;
  }
  int calls_tasks(int n);
};

int log_keeper::calls_tasks(int n) {
  std::vector<manta::future<int>> all;
  for (int i = 0; i < n; ++i) all.push_back(manta::remote<square>(i));
  int sum = 0;
  for (const auto& f : manta::get(all)) sum += f;
  return sum;
}

struct napper {
  int nap() {
    std::this_thread::sleep_for(2ms);  // work of a known length: what the test is about
    return 0;
  }
};
int slowly(int n) {
  comes_true([] { return shared(3) != 0; });
  return n;
}

}  // namespace

TEST_CASE("an actor lives in a process of its own, and its calls keep their order", "[isolation]") {
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<log_keeper>(0);
  const auto b = manta::spawn<log_keeper>(100);
  const int pid = manta::remote<&log_keeper::pid>(a).get();
  CHECK(pid != getpid());
  CHECK(pid != manta::remote<&log_keeper::pid>(b).get());
  CHECK(pid == manta::remote<&log_keeper::pid>(a).get());
  const int count = test::is_sanitized ? 2000 : 20000;
  std::vector<manta::future<int>> sizes;
  std::vector<int> expected{0};
  for (int i = 1; i <= count; ++i) {
    sizes.push_back(manta::remote<&log_keeper::add>(a, i));
    expected.push_back(i);
  }
  for (int i = 0; i < count; ++i) REQUIRE(sizes[static_cast<std::size_t>(i)].get() == i + 2);
  CHECK(manta::remote<&log_keeper::all>(a).get() == expected);
  CHECK(manta::remote<&log_keeper::all>(b).get() == std::vector{100});
  CHECK(manta::remote<&log_keeper::join>(a, "x", std::vector<std::string>{"y", "z"}).get() ==
        "xyz");
}

TEST_CASE("calls that wait for arguments do not pass earlier ones of their caller", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<log_keeper>(0);
  const auto late = manta::remote<slowly>(1);
  const auto first = manta::remote<&log_keeper::add>(a, late);
  const auto second = manta::remote<&log_keeper::add>(a, 2);
  CHECK_THROWS_AS(second.get(50ms), manta::timed_out);
  numbers[3] = 1;
  CHECK(second.get() == 3);
  CHECK(manta::remote<&log_keeper::all>(a).get() == std::vector{0, 1, 2});
}

TEST_CASE("an actor's methods call tasks, and wait for them", "[isolation]") {
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<log_keeper>(0);
  CHECK(manta::remote<&log_keeper::calls_tasks>(a, 50).get() == 40425);
  CHECK(manta::remote<&log_keeper::calls_tasks>(a, 3).get() == 5);
}

TEST_CASE("what a method or a constructor throws arrives", "[isolation]") {
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<log_keeper>(0);
  try {
    manta::remote<&log_keeper::fails>(a, "no such row").get();
    FAIL("it answered");
  } catch (const manta::task_error& e) {
    CHECK(e.type_name() == "std::out_of_range");
    CHECK(std::string(e.what()).find("no such row") != std::string::npos);
  }
  CHECK(manta::remote<&log_keeper::add>(a, 1).get() == 2);
  const auto none = manta::spawn<log_keeper>(-1);
  const auto end = manta::monitor(none);
  CHECK_THROWS_AS(manta::remote<&log_keeper::pid>(none).get(), manta::actor_lost);
  CHECK(end.get().reason == manta::end_reason::constructor_failed);
  CHECK(end.get().message.find("a negative beginning") != std::string::npos);
}

TEST_CASE("the last handle ends the object after the calls made before", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  manta::future<manta::actor_end> end;
  manta::future<int> last;
  {
    const auto a = manta::spawn<log_keeper>(0);
    end = manta::monitor(a);
    for (int i = 0; i < 100; ++i) last = manta::remote<&log_keeper::add>(a, i);
  }
  CHECK(last.get() == 101);
  CHECK(end.get().reason == manta::end_reason::ended);
  CHECK(numbers[4000] == 1);
}

TEST_CASE("a retired actor, and one that leaves, take no more calls", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<log_keeper>(0);
  const auto before = manta::remote<&log_keeper::add>(a, 1);
  manta::retire(a);
  CHECK(before.get() == 2);
  CHECK_THROWS_AS(manta::remote<&log_keeper::add>(a, 2).get(), manta::actor_lost);
  CHECK(manta::monitor(a).get().reason == manta::end_reason::ended);
  const auto b = manta::spawn<log_keeper>(0);
  CHECK(manta::remote<&log_keeper::leaves>(b).get() == 7);
  CHECK(manta::monitor(b).get().reason == manta::end_reason::exited);
  CHECK_THROWS_AS(manta::remote<&log_keeper::add>(b, 2).get(), manta::actor_lost);
  CHECK(numbers[4000] == 2);
}

TEST_CASE("a killed actor stops what runs and fails what waits", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<log_keeper>(0);
  const auto runs = manta::remote<&log_keeper::waits>(a);
  const auto waits = manta::remote<&log_keeper::add>(a, 1);
  REQUIRE(comes_true([&] { return numbers[0] == 1; }));
  manta::kill(a);
  manta::kill(a);
  CHECK_THROWS_AS(waits.get(), manta::actor_lost);
  CHECK(runs.get() == -1);
  CHECK(manta::monitor(a).get().reason == manta::end_reason::killed);
  CHECK(numbers[4000] == 1);
}

TEST_CASE("a killed actor that goes on loses its process within a second", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<log_keeper>(0);
  const auto end = manta::monitor(a);
  const auto runs = manta::remote<&log_keeper::never_ends>(a);
  REQUIRE(comes_true([&] { return numbers[0] == 1; }));
  const auto began = std::chrono::steady_clock::now();
  manta::kill(a);
  CHECK_THROWS_AS(runs.get(), manta::actor_lost);
  CHECK(end.get().reason == manta::end_reason::killed);
  const auto took = std::chrono::steady_clock::now() - began;
  CHECK(took < (test::is_sanitized ? 10s : 2s));
}

TEST_CASE("the death of an actor's process is told with its cause", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<log_keeper>(0);
  const auto other = manta::spawn<log_keeper>(1);
  const auto end = manta::monitor(a);
  const auto dies = manta::remote<&log_keeper::dies>(a, SIGKILL);
  const auto behind = manta::remote<&log_keeper::add>(a, 1);
  try {
    dies.get();
    FAIL("it answered");
  } catch (const manta::actor_lost& e) {
    CHECK(std::string(e.what()).find("signal 9") != std::string::npos);
    CHECK(std::string(e.what()).find("max_restarts") != std::string::npos);
  }
  CHECK_THROWS_AS(behind.get(), manta::actor_lost);
  CHECK(end.get().reason == manta::end_reason::process_lost);
  CHECK_THROWS_AS(manta::remote<&log_keeper::add>(a, 1).get(), manta::actor_lost);
  CHECK(manta::remote<&log_keeper::add>(other, 2).get() == 2);
}

TEST_CASE("an idle actor's death is told, too", "[isolation]") {
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<log_keeper>(0);
  const int pid = manta::remote<&log_keeper::pid>(a).get();
  kill(pid, SIGKILL);
  CHECK(manta::monitor(a).get(test::patience).reason == manta::end_reason::process_lost);
}

TEST_CASE("calls of an actor can be cancelled before they begin and while they run",
          "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<log_keeper>(0);
  const auto runs = manta::remote<&log_keeper::waits>(a);
  std::vector<manta::future<int>> waiting;
  for (int i = 0; i < 10; ++i) waiting.push_back(manta::remote<&log_keeper::add>(a, i));
  REQUIRE(comes_true([&] { return numbers[0] == 1; }));
  for (int i = 0; i < 10; i += 2) manta::cancel(waiting[static_cast<std::size_t>(i)]);
  manta::cancel(runs);
  CHECK(runs.get() == -1);
  int done = 0;
  for (int i = 0; i < 10; ++i) {
    const auto got = waiting[static_cast<std::size_t>(i)].try_get();
    if (i % 2 == 0) {
      CHECK(got.error().code() == manta::errc::cancelled);
    } else {
      CHECK(got.has_value());
      ++done;
    }
  }
  CHECK(done == 5);
  CHECK(manta::remote<&log_keeper::all>(a).get() == std::vector{0, 1, 3, 5, 7, 9});
}

TEST_CASE("a call's deadline ends it, and the actor goes on", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<log_keeper>(0);
  const auto late = manta::remote<&log_keeper::waits>.with({.timeout = 100ms})(a);
  CHECK_THROWS_AS(late.get(), manta::timed_out);
  CHECK(manta::remote<&log_keeper::add>(a, 1).get() == 2);
}

TEST_CASE("several calls of an actor at a time, and groups of them", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<log_keeper>.with({.max_concurrency = 2, .groups = {{"slow", 1}}})(0);
  const auto one = manta::remote<&log_keeper::waits>(a);
  const auto two = manta::remote<&log_keeper::waits>(a);
  const auto grouped = manta::remote<&log_keeper::pid>.with({.group = "slow"})(a);
  CHECK(grouped.get() != getpid());
  numbers[2] = 1;
  CHECK(one.get() + two.get() == 2);
  CHECK_THROWS_AS(manta::remote<&log_keeper::pid>.with({.group = "other"})(a),
                  manta::invalid_argument);
}

TEST_CASE("a full mailbox refuses, or lets its callers wait", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto a =
      manta::spawn<log_keeper>.with({.mailbox_cap = 2, .on_full = manta::full_policy::refuse})(0);
  const auto runs = manta::remote<&log_keeper::waits>(a);
  REQUIRE(comes_true([&] { return numbers[0] == 1; }));
  const auto first = manta::remote<&log_keeper::add>(a, 1);
  const auto second = manta::remote<&log_keeper::add>(a, 2);
  CHECK_THROWS_AS(manta::remote<&log_keeper::add>(a, 3), manta::mailbox_full);
  numbers[2] = 1;
  CHECK(runs.get() == 1);
  CHECK(first.get() == 2);
  CHECK(second.get() == 3);
  CHECK(manta::remote<&log_keeper::add>(a, 4).get() == 4);
}

TEST_CASE("names find actors of other processes", "[isolation]") {
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<log_keeper>.with({.name = "keeper"})(0);
  const auto found = manta::find_actor<log_keeper>("keeper");
  REQUIRE(found.has_value());
  CHECK(*found == a);
  CHECK_THROWS_AS(manta::spawn<log_keeper>.with({.name = "keeper"})(0), manta::name_taken);
  CHECK(manta::remote<&log_keeper::add>(*found, 1).get() == 2);
}

namespace {

int adds(manta::actor<log_keeper> to, int n) {
  int last = 0;
  for (int i = 0; i < n; ++i) last = manta::remote<&log_keeper::add>(to, i).get();
  return last;
}
int adds_many(manta::actor<log_keeper> to, int n) {
  std::vector<manta::future<int>> all;
  for (int i = 0; i < n; ++i) all.push_back(manta::remote<&log_keeper::add>(to, i));
  return static_cast<int>(manta::get(all).size());
}
struct team {
  std::vector<manta::actor<log_keeper>> members;
  std::string name;
};
int adds_to_all(const team& t) {
  for (const auto& one : t.members) manta::remote<&log_keeper::add>(one, 1).get();
  return static_cast<int>(t.members.size());
}
manta::actor<log_keeper> same(manta::actor<log_keeper> a) { return a; }
bool are_same(manta::actor<log_keeper> a, team t) { return t.members.at(0) == a; }
void kills(manta::actor<log_keeper> a) { manta::kill(a); }

// Calls another actor, and gives away what it has.
struct chief {
  manta::actor<log_keeper> first;
  explicit chief(manta::actor<log_keeper> a) : first(std::move(a)) {}
  int asks(int n) { return manta::remote<&log_keeper::add>(first, n).get(); }
  manta::actor<log_keeper> member() const { return first; }
  manta::actor<chief> self() { return manta::this_actor::handle<chief>(); }
  void lets_go() { first = {}; }
  bool is_me(manta::actor<chief> other) { return other == manta::this_actor::handle<chief>(); }
  int pid() const { return getpid(); }
};

}  // namespace

namespace {

int makes_one(int n) {
  const auto mine = manta::spawn<log_keeper>(n);
  if (manta::remote<&log_keeper::pid>(mine).get() == getpid()) return -1;
  return manta::remote<&log_keeper::add>(mine, 1).get() +
         manta::remote<&log_keeper::all>(mine).get().at(0);
}
manta::actor<log_keeper> gives_one(int n) {
  const auto made = manta::spawn<log_keeper>.with({.cpus = 1, .max_concurrency = 2})(n);
  manta::remote<&log_keeper::add>(made, n + 1).get();
  return made;
}
std::string makes_bad_one() {
  try {
    manta::remote<&log_keeper::pid>(manta::spawn<log_keeper>(-5)).get();
  } catch (const manta::actor_lost& e) {
    return e.what();
  }
  return {};
}
// Actors that make actors, each of the next generation.
struct ancestor {
  int depth;
  std::vector<manta::actor<ancestor>> children;
  explicit ancestor(int d) : depth(d) {
    for (int i = 0; i < 2 && d > 0; ++i) children.push_back(manta::spawn<ancestor>(d - 1));
  }
  int count() {
    std::vector<manta::future<int>> all;
    for (const auto& one : children) all.push_back(manta::remote<&ancestor::count>(one));
    int sum = 1;
    for (const auto& f : all) sum += f.get();
    return sum;
  }
};

}  // namespace

TEST_CASE("what runs in workers makes actors", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  CHECK(manta::remote<makes_one>(40).get() == 42);
  std::vector<manta::future<int>> several;
  for (int i = 0; i < 10; ++i) several.push_back(manta::remote<makes_one>(i));
  for (int i = 0; i < 10; ++i) CHECK(several[static_cast<std::size_t>(i)].get() == i + 2);
  auto given = manta::remote<gives_one>(7).get();
  CHECK(manta::remote<&log_keeper::all>(given).get() == std::vector{7, 8});
  const auto end = manta::monitor(given);
  given = {};
  CHECK(end.get(test::patience).reason == manta::end_reason::ended);
  CHECK(comes_true([&] { return numbers[4000] == 12; }));
  CHECK(manta::remote<makes_bad_one>().get().find("a negative beginning") != std::string::npos);
  const auto eldest = manta::spawn<ancestor>(2);
  CHECK(manta::remote<&ancestor::count>(eldest).get() == 7);
}

TEST_CASE("tasks in workers call actors by handles that they were given", "[isolation]") {
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<log_keeper>(0);
  const auto b = manta::spawn<log_keeper>(0);
  CHECK(manta::remote<adds>(a, 10).get() == 11);
  CHECK(manta::remote<adds_many>(a, 500).get() == 500);
  CHECK(manta::remote<adds_to_all>(team{{a, b, a}, "three"}).get() == 3);
  CHECK(manta::remote<&log_keeper::all>(a).get().size() == 1 + 10 + 500 + 2);
  CHECK(manta::remote<&log_keeper::all>(b).get() == std::vector{0, 1});
  CHECK(manta::remote<same>(a).get() == a);
  CHECK(manta::remote<are_same>(a, team{{a}, ""}).get());
  CHECK_FALSE(manta::remote<are_same>(a, team{{b}, ""}).get());
  CHECK(manta::remote<same>(manta::actor<log_keeper>()).get().valid() == false);
  std::vector<manta::future<int>> several;
  for (int i = 0; i < 20; ++i) several.push_back(manta::remote<adds>(b, 5));
  for (const auto& f : several) CHECK(f.get() > 5);
  CHECK(manta::remote<&log_keeper::all>(b).get().size() == 102);
}

namespace {

int adds_in_order(manta::actor<log_keeper> to, int first, int n) {
  std::vector<manta::future<int>> all;
  for (int i = 0; i < n; ++i) all.push_back(manta::remote<&log_keeper::add>(to, first + i));
  for (const auto& f : all) f.get();
  return n;
}

}  // namespace

TEST_CASE("calls from workers keep each caller's order, whoever looks at the rings",
          "[isolation]") {
  constexpr int callers = 4;
  constexpr int range = 100000;
  const int calls = test::is_sanitized ? 200 : 2000;
  std::atomic<int> sum{0};
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<log_keeper>(0);
  std::vector<std::thread> waiting;
  for (int i = 0; i < callers; ++i) {
    waiting.emplace_back([&, i] {
      const auto f = manta::remote<adds_in_order>(a, (i + 1) * range, calls);
      sum += f.get();
    });
  }
  for (std::thread& one : waiting) one.join();
  CHECK(sum == callers * calls);
  std::vector<int> last(callers + 1, -1);
  bool is_in_order = true;
  for (const int n : manta::remote<&log_keeper::all>(a).get()) {
    const auto of = static_cast<std::size_t>(n / range);
    is_in_order = is_in_order && n % range == last[of] + 1;
    last[of] = n % range;
  }
  CHECK(is_in_order);
  CHECK(last == std::vector<int>{0, calls - 1, calls - 1, calls - 1, calls - 1});
}

TEST_CASE("actors in workers call actors, and give handles away", "[isolation]") {
  const manta::runtime rt(isolated());
  auto a = manta::spawn<log_keeper>(0);
  const auto end = manta::monitor(a);
  auto c = manta::spawn<chief>(a);
  CHECK(manta::remote<&chief::asks>(c, 5).get() == 2);
  CHECK(manta::remote<&chief::member>(c).get() == a);
  a = {};
  CHECK(manta::remote<&chief::asks>(c, 6).get() == 3);
  a = manta::remote<&chief::member>(c).get();
  manta::remote<&chief::lets_go>(c).get();
  CHECK(manta::remote<&log_keeper::add>(a, 7).get() == 4);
  CHECK_FALSE(end.is_ready());
  a = {};
  CHECK(end.get(test::patience).reason == manta::end_reason::ended);
}

TEST_CASE("an actor's handle to itself keeps it, and is the same everywhere", "[isolation]") {
  const manta::runtime rt(isolated());
  auto c = manta::spawn<chief>(manta::spawn<log_keeper>(0));
  const auto end = manta::monitor(c);
  const int pid = manta::remote<&chief::pid>(c).get();
  CHECK(manta::remote<&chief::self>(c).get() == c);
  CHECK(manta::remote<&chief::is_me>(c, c).get());
  // The only handle is under way while the last one here goes.
  for (int i = 0; i < 50; ++i) {
    const auto next = manta::remote<&chief::self>(c);
    c = {};
    c = next.get();
  }
  CHECK(manta::remote<&chief::pid>(c).get() == pid);
  CHECK_FALSE(end.is_ready());
  c = {};
  CHECK(end.get(test::patience).reason == manta::end_reason::ended);
}

TEST_CASE("what a worker had of actors' handles goes with its process", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  auto a = manta::spawn<log_keeper>(0);
  const auto end = manta::monitor(a);
  auto c = manta::spawn<chief>(a);
  const int pid = manta::remote<&chief::pid>(c).get();
  a = {};
  CHECK_THROWS_AS(end.get(50ms), manta::timed_out);
  kill(pid, SIGKILL);
  CHECK(end.get(test::patience).reason == manta::end_reason::ended);
  const auto victim = manta::spawn<log_keeper>(0);
  manta::remote<kills>(victim).get();
  CHECK(manta::monitor(victim).get(test::patience).reason == manta::end_reason::killed);
}

TEST_CASE("actors come and go, and nothing of them is left", "[isolation]") {
  const manta::runtime rt(isolated());
  for (int round = 0; round < 30; ++round) {
    std::vector<manta::actor<log_keeper>> some;
    for (int i = 0; i < 3; ++i) some.push_back(manta::spawn<log_keeper>(i));
    for (const auto& a : some) CHECK(manta::remote<&log_keeper::add>(a, 1).get() == 2);
    std::vector<manta::future<manta::actor_end>> ends;
    for (const auto& a : some) ends.push_back(manta::monitor(a));
    some.clear();
    for (const auto& e : ends) CHECK(e.get().reason == manta::end_reason::ended);
  }
  const auto zygotes = test::children_of(getpid());
  REQUIRE(zygotes.size() == 1);
  // Two for tasks, and two that wait for the next actor.
  CHECK(comes_true([&] { return test::children_of(zygotes.front()).size() <= 4; }));
}

TEST_CASE("the time that a call waits for its turn is not counted as run", "[isolation]") {
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<napper>();
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 50; ++i) all.push_back(manta::remote<&napper::nap>(a));
  manta::get(all);
  const manta::runtime_stats s = rt.stats();
  double busy = 0;
  for (const manta::worker_stats& w : s.workers) busy += w.busy_seconds;
  CHECK(busy >= 0.1);
  CHECK(busy <= s.uptime_seconds);
}

TEST_CASE("the runtime ends while actors run and calls wait", "[isolation]") {
  const shared_numbers numbers;
  manta::future<int> runs;
  std::vector<manta::future<int>> waiting;
  manta::actor<log_keeper> a;
  {
    const manta::runtime rt(isolated());
    a = manta::spawn<log_keeper>(0);
    runs = manta::remote<&log_keeper::waits>(a);
    for (int i = 0; i < 10; ++i) waiting.push_back(manta::remote<&log_keeper::add>(a, i));
    REQUIRE(comes_true([&] { return numbers[0] == 1; }));
  }
  CHECK(runs.get() == -1);
  for (const auto& f : waiting) CHECK(f.try_get().error().code() == manta::errc::cancelled);
}

TEST_CASE("the runtime ends while workers for actors are being made", "[isolation]") {
  for (int i = 0; i < 20; ++i) {
    std::vector<manta::future<int>> calls;
    {
      const manta::runtime rt(isolated());
      for (int k = 0; k < 16; ++k) {
        calls.push_back(manta::remote<&log_keeper::add>(manta::spawn<log_keeper>(0), k));
      }
      std::this_thread::sleep_for(i * 1ms);
    }
    for (const auto& f : calls) {
      const auto r = f.try_get();
      CHECK((r || r.error().code() == manta::errc::cancelled));
    }
  }
}

}  // namespace actor_test
