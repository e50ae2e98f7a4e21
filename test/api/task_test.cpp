// SPDX-License-Identifier: Apache-2.0
// Retries, priorities, and what a task knows about itself.
#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "api/support.hpp"

namespace task_test {

namespace {

test::everywhere<std::atomic<int>> runs;
test::everywhere<test::common_gate> entered;
test::everywhere<test::common_gate> release_worker;

struct own_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

int fails_until(int attempt) {
  ++*runs;
  if (manta::this_task::attempt() < attempt) throw own_error("not yet");
  return manta::this_task::attempt();
}
int takes_away(std::vector<int> values) {
  ++*runs;
  const std::vector<int> mine = std::move(values);
  if (manta::this_task::attempt() < 2) throw own_error("again");
  return static_cast<int>(mine.size());
}
int takes_unique(std::unique_ptr<int> p) { return *p; }
int reads_tracked(const test::tracked& t) {
  if (manta::this_task::attempt() < 2) throw own_error("again");
  return t.value;
}
int hold_worker() {
  entered->open();
  release_worker->wait();
  return 0;
}

test::everywhere<test::journal> order;
int note(int x) {
  order->add(x);
  return x;
}

struct batch {
  int first = 0;
  std::vector<std::unique_ptr<int>> rows;
};
struct outer_batch {
  batch inner;
  std::array<int, 3> more{};
};
struct branch {
  std::string name;
  std::vector<branch> below;
};
std::size_t count_rows(batch b) { return b.rows.size(); }
std::size_t count_branches(branch b) { return b.below.size(); }

}  // namespace

TEST_CASE("a user's exception makes a task run again only when asked, max_retries times",
          "[retry][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto all = manta::any_exception();
  *runs = 0;
  CHECK_THROWS_AS(manta::remote<fails_until>(1).get(), manta::task_error);
  CHECK(*runs == 1);
  *runs = 0;
  CHECK_THROWS_AS(manta::remote<fails_until>.with({.max_retries = 5})(1).get(), manta::task_error);
  CHECK(*runs == 1);
  *runs = 0;
  CHECK(manta::remote<fails_until>.with({.max_retries = 5, .retry_exceptions = all})(5).get() == 5);
  CHECK(*runs == 6);
  *runs = 0;
  const auto spent =
      manta::remote<fails_until>.with({.max_retries = 5, .retry_exceptions = all})(6);
  const auto got = spent.try_get();
  REQUIRE_FALSE(got);
  CHECK(got.error().failure()->attempt == 5);
  CHECK(*runs == 6);
}

TEST_CASE("only the listed exceptions make a task run again", "[retry][anywhere][stays:asks]") {
  const manta::runtime rt(test::two_workers());
  const auto run_with = [](manta::exception_filter filter) {
    *runs = 0;
    const auto f =
        manta::remote<fails_until>.with({.max_retries = 2, .retry_exceptions = filter})(2);
    return f.try_get().has_value();
  };
  CHECK(run_with(manta::exceptions<own_error>()));
  CHECK(run_with(manta::exceptions<std::logic_error, std::runtime_error>()));
  CHECK(*runs == 3);
  CHECK_FALSE(run_with(manta::exceptions<std::logic_error>()));
  CHECK(*runs == 1);
}

TEST_CASE("arguments are there again for every run", "[retry][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const manta::options again{.max_retries = 2, .retry_exceptions = manta::any_exception()};
  CHECK(manta::remote<takes_away>.with(again)(std::vector<int>(7)).get() == 7);
  auto made = manta::async([] { return std::vector<int>(9); });
  CHECK(manta::remote<takes_away>.with(again)(made).get() == 9);
  CHECK(made.get().size() == 9);
  const auto kept = manta::put(test::tracked(4));
  test::tracked::reset();
  CHECK(manta::remote<reads_tracked>.with(again)(kept).get() == 4);
  CHECK(test::tracked::copies == 0);  // what is only read is not copied
  CHECK_THROWS_AS(manta::remote<takes_unique>.with(again)(std::make_unique<int>(1)),
                  manta::invalid_argument);
  CHECK(manta::remote<takes_unique>.with({.max_retries = 2})(std::make_unique<int>(1)).get() == 1);
}

TEST_CASE("what looks copyable and is not can be an argument of a call with options",
          "[retry][anywhere]") {
  STATIC_REQUIRE_FALSE(manta::is_repeatable<batch>::value);
  STATIC_REQUIRE_FALSE(manta::is_repeatable<outer_batch>::value);
  STATIC_REQUIRE_FALSE(manta::is_repeatable<std::vector<outer_batch>>::value);
  STATIC_REQUIRE_FALSE(manta::is_repeatable<std::tuple<int, std::optional<batch>>>::value);
  STATIC_REQUIRE(manta::is_repeatable<branch>::value);
  STATIC_REQUIRE(manta::is_repeatable<std::map<std::string, std::vector<branch>>>::value);
  const manta::runtime rt(test::two_workers());
  CHECK(manta::remote<count_rows>.with({.name = "fit"})(batch{}).get() == 0);
  CHECK_THROWS_AS(
      manta::remote<count_rows>.with({.retry_exceptions = manta::any_exception()})(batch{}),
      manta::invalid_argument);
  const manta::options again{.max_retries = 2, .retry_exceptions = manta::any_exception()};
  CHECK(manta::remote<count_branches>.with(again)(branch{"a", {branch{"b", {}}}}).get() == 1);
}

TEST_CASE("a task that is cancelled is not run again", "[retry][anywhere][stays:asks]") {
  const manta::runtime rt(test::two_workers());
  entered->shut();
  constexpr auto task = [] {
    entered->open();
    const auto end = std::chrono::steady_clock::now() + test::patience;
    while (!manta::this_task::is_cancelled() && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    ++*runs;
    throw own_error("stopped");
  };
  *runs = 0;
  const auto f = manta::remote<task>.with(
      {.max_retries = 1000000, .retry_exceptions = manta::any_exception()})();
  REQUIRE(entered->wait());
  CHECK(manta::cancel(f));
  CHECK_FALSE(f.try_get(test::patience));
  CHECK(*runs == 1);
}

// Of one node: about the queues of one worker; another node's have nothing before what comes.
TEST_CASE("high priority goes before what is queued, low behind it", "[priority][one_node]") {
  const manta::runtime rt(test::workers(1));
  const test::opens_at_end leaves(*release_worker);
  entered->shut();
  release_worker->shut();
  order->clear();
  const auto held = manta::remote<hold_worker>();
  REQUIRE(entered->wait());
  std::vector<manta::future<int>> futures;
  for (int i = 0; i < 3; ++i) {
    futures.push_back(manta::remote<note>.with({.priority = manta::priority::low})(30 + i));
  }
  for (int i = 0; i < 3; ++i) futures.push_back(manta::remote<note>(20 + i));
  for (int i = 0; i < 3; ++i) {
    futures.push_back(manta::remote<note>.with({.priority = manta::priority::high})(10 + i));
  }
  release_worker->open();
  // Waits without running anything in place.
  auto [ready, rest] = manta::wait(futures, {.count = futures.size()});
  CHECK(ready.size() == 9);
  CHECK(order->entries() == std::vector<int>{10, 11, 12, 20, 21, 22, 30, 31, 32});
  CHECK_THROWS_AS(manta::remote<note>.with({.priority = static_cast<manta::priority>(7)})(1),
                  manta::invalid_argument);
}

// Of one node: another one has a worker of its own for it, which is busy with nothing.
TEST_CASE("high priority goes before what a running task makes", "[priority][one_node]") {
  const manta::runtime rt(test::workers(1));
  static std::atomic<int> left;
  static std::atomic<int> left_then;
  static std::atomic<bool> is_asked;
  static void (*next)() = nullptr;
  left = 1000000;
  left_then = -1;
  is_asked = false;
  // Each step is the newest job of the only worker's own queue, where it goes next.
  next = [] {
    if (is_asked) --left;
    if (left > 0 && left_then < 0) static_cast<void>(manta::async(next));
  };
  constexpr auto urgent = [] { left_then = left.load(); };
  static_cast<void>(manta::async(next));
  const auto f = manta::remote<urgent>.with({.priority = manta::priority::high})();
  is_asked = true;
  f.get(test::patience);
  CHECK(left_then > 0);
}

// Of one node: the same.
TEST_CASE("work of low priority is not starved for ever", "[priority][one_node]") {
  const manta::runtime rt(test::workers(1));
  static std::atomic<bool> has_run;
  has_run = false;
  constexpr auto low = [] { has_run = true; };
  const auto f = manta::remote<low>.with({.priority = manta::priority::low})();
  // A chain that keeps the only worker busy until the low one has run.
  static void (*again)() = nullptr;
  static std::atomic<int> steps;
  steps = 0;
  again = [] {
    if (has_run || ++steps > 2000000) return;
    static_cast<void>(manta::async(again));
  };
  static_cast<void>(manta::async(again));
  f.get(test::patience);
  CHECK(has_run);
  CHECK(steps < 2000000);
}

TEST_CASE("a task knows its name, id, attempt, node and deadline", "[this_task][anywhere]") {
  const manta::runtime rt(test::two_workers());
  CHECK_FALSE(manta::this_task::is_inside());
  CHECK(manta::this_task::name() == "driver");
  CHECK(manta::this_task::attempt() == 0);
  constexpr auto tell = [] { return manta::this_task::name(); };
  CHECK(manta::remote<tell>.with({.name = "teller"})().get() == "teller");
  constexpr auto named = fails_until;
  CHECK(manta::remote<named>.with({.name = "n"})(0).get() == 0);
  constexpr auto ids = [] {
    return std::vector<std::string>{
        manta::to_string(manta::this_task::id()),
        manta::async([] { return manta::to_string(manta::this_task::id()); }).get(),
        manta::this_task::node()};
  };
  const auto seen = manta::remote<ids>().get();
  CHECK(seen[0].size() == 32);
  CHECK(seen[0] != seen[1]);
  CHECK(seen[0] != manta::to_string(manta::this_task::id()));
  // In nodes mostly the other one; one that has no connection yet gets nothing.
  CHECK((test::in_nodes() ? seen[2].starts_with("rank-") : seen[2] == "local"));
}

namespace {

std::string own_id() { return manta::to_string(manta::this_task::id()); }
std::string other_id(int /*any*/) { return own_id(); }
// Its own, its child's and its child's child's.
std::vector<std::string> line_of_ids() {
  return {own_id(), manta::remote<own_id>().get(), manta::remote<other_id>(1).get()};
}

std::vector<std::string> names_children() {
  std::vector<std::string> out{own_id(), manta::remote<own_id>().get()};
  out.push_back(manta::remote<own_id>().get());
  out.push_back(manta::remote<other_id>(manta::this_task::attempt()).get());
  for (std::string& one : manta::remote<line_of_ids>().get()) out.push_back(std::move(one));
  if (manta::this_task::attempt() > 0) return out;
  manta::kv::put("names before", out).get();
  throw own_error("again");
}

}  // namespace

TEST_CASE("a task that is run again names its children as before", "[this_task][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const manta::options again{.retry_exceptions = manta::exceptions<own_error>()};
  const auto after = manta::remote<names_children>.with(again)().get();
  const auto before = manta::kv::get<std::vector<std::string>>("names before").get();
  REQUIRE(before.has_value());
  CHECK(after == before->value);
  CHECK(std::set(after.begin(), after.end()).size() == 7);
  // The same calls of another parent.
  const auto others = manta::remote<names_children>.with(again)().get();
  for (const std::string& one : others) CHECK(std::ranges::count(after, one) == 0);
}

}  // namespace task_test
