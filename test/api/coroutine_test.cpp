// SPDX-License-Identifier: Apache-2.0
// Tasks that wait with co_await: values, errors, nesting, identity, the end of the runtime.
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/coroutine_support.hpp"
#include "api/support.hpp"

namespace coroutine_test {

namespace {

using namespace std::chrono_literals;
using test::are_waiting;
using test::eventually;
using test::held_future;
using test::tracked;
using test::wait_for_held_gate;
using test::waits_here;

int twice(int x) { return 2 * x; }
int fail(int x) { throw std::runtime_error("bad " + std::to_string(x)); }
void nothing() {}
std::unique_ptr<int> boxed(int x) { return std::make_unique<int>(x); }
tracked make_tracked(int x) { return tracked(x); }

manta::coroutine<int> sum_of(int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += co_await manta::remote<twice>(i);
  co_return sum;
}
manta::coroutine<int> fib(int n) {
  if (n < 2) co_return n;
  const auto a = manta::remote<fib>(n - 1);
  const auto b = manta::remote<fib>(n - 2);
  const int x = co_await a;
  co_return x + co_await b;
}
manta::coroutine<bool> is_odd(int n);
manta::coroutine<bool> is_even(int n) {
  if (n == 0) co_return true;
  co_return co_await manta::remote<is_odd>(n - 1);
}
manta::coroutine<bool> is_odd(int n) {
  if (n == 0) co_return false;
  co_return co_await manta::remote<is_even>(n - 1);
}
manta::coroutine<int> depth(int n) {
  if (n == 0) co_return 0;
  co_return 1 + co_await depth(n - 1);
}
manta::coroutine<int> depth_then_wait(int n, manta::future<int> last) {
  if (n == 0) {
    const waits_here here;
    co_return co_await last;
  }
  co_return 1 + co_await depth_then_wait(n - 1, std::move(last));
}
manta::coroutine<int> wait_for(manta::future<int> f) {
  const waits_here here;
  co_return co_await f;
}
manta::coroutine<> no_value() { co_await manta::remote<nothing>(); }

}  // namespace

TEST_CASE("a coroutine task awaits in a loop", "[coroutine][anywhere]") {
  for (const int n : {1, 2, 4}) {
    const manta::runtime rt(test::workers(n));
    CHECK(manta::remote<sum_of>(0).get() == 0);
    CHECK(manta::remote<sum_of>(100).get() == 9900);
    manta::remote<no_value>().get();
  }
}

TEST_CASE("coroutines call themselves and each other", "[coroutine][anywhere]") {
  for (const int n : {1, 2, 4}) {
    const manta::runtime rt(test::workers(n));
    const bool is_short = test::is_sanitized || test::in_nodes();
    CHECK(manta::remote<fib>(is_short ? 12 : 18).get() == (is_short ? 144 : 2584));
    CHECK(manta::remote<is_even>(1000).get());
    CHECK(!manta::remote<is_odd>(1000).get());
  }
}

TEST_CASE("coroutines await one another 100,000 deep without stack", "[coroutine][anywhere]") {
  // Each frame resumed by another would need stack for all of them, here and when they are
  // destroyed.
  const manta::runtime rt(test::two_workers());
  CHECK(manta::remote<depth>(100000).get() == 100000);
  held_future last(5);
  const auto waiting = manta::remote<depth_then_wait>(100000, last.future);
  if (!test::in_nodes()) CHECK(are_waiting(1));  // here
  last.gate.open();
  CHECK(waiting.get() == 100005);
}

namespace {
manta::coroutine<bool> reads_in_place(manta::future<tracked> f) {
  const tracked& first = co_await f;
  const tracked& again = co_await f;
  co_return &first == &again&&& first == &f.get() && first.value == 7;
}
manta::coroutine<int> moves_out() {
  tracked got = co_await manta::remote<make_tracked>(8);
  co_return got.value;
}
manta::coroutine<std::unique_ptr<int>> move_only(int x) {
  std::unique_ptr<int> got = co_await manta::remote<boxed>(x);
  ++*got;
  co_return got;
}
manta::coroutine<bool> not_unique() {
  manta::future<std::unique_ptr<int>> f = manta::remote<boxed>(1);
  const manta::future<std::unique_ptr<int>> other = f;
  try {
    static_cast<void>(co_await std::move(f));
  } catch (const manta::not_unique&) {
    co_return true;
  }
  co_return false;
}
manta::coroutine<int> awaits_empty() { co_return co_await manta::future<int>(); }
}  // namespace

TEST_CASE("an lvalue is read in place, an rvalue is moved out", "[coroutine][anywhere]") {
  const manta::runtime rt(test::two_workers());
  tracked::reset();
  CHECK(manta::remote<reads_in_place>(manta::remote<make_tracked>(7)).get());
  CHECK(tracked::copies == 0);
  for (int i = 0; i < 100; ++i) CHECK(manta::remote<moves_out>().get() == 8);
  CHECK(tracked::copies == 0);
  CHECK(*manta::remote<move_only>(4).get() == 5);
  CHECK(manta::remote<not_unique>().get());
  CHECK(test::message_of<manta::invalid_argument>([] {
          manta::remote<awaits_empty>().get();
        }).find("empty future") != std::string::npos);
}

namespace {
manta::coroutine<int> awaits_failure(int x) { co_return co_await manta::remote<fail>(x); }
manta::coroutine<int> throws_late(int x) {
  co_await manta::remote<nothing>();
  throw std::out_of_range("late " + std::to_string(x));
}
manta::coroutine<std::string> catches() {
  std::string seen;
  try {
    static_cast<void>(co_await manta::remote<fail>(1));
  } catch (const manta::task_error& e) {
    seen += e.message();
  }
  try {
    static_cast<void>(co_await throws_late(2));
  } catch (const std::out_of_range& e) {
    seen += std::string(", ") + e.what();
  }
  co_return seen;
}
struct throws_when_moved {
  int moves = 0;
  throws_when_moved() = default;
  throws_when_moved(throws_when_moved&& other) : moves(other.moves + 1) {
    if (moves == 3) throw std::logic_error("third move");  // into the job, the parameter, the frame
  }
  template <class Archive>
  void serialize(Archive& ar) {
    ar(moves);
  }
};
manta::coroutine<> takes_it(throws_when_moved /*x*/) { co_return; }
struct throws_at_end {
  ~throws_at_end() noexcept(false) { throw std::runtime_error("at the end"); }
};
manta::coroutine<tracked> throws_after_return() {
  const throws_at_end last;
  co_return tracked(1);
}
}  // namespace

TEST_CASE("a coroutine's exceptions arrive as a plain task's do", "[coroutine][anywhere]") {
  const manta::runtime rt(test::two_workers());
  try {
    manta::remote<awaits_failure>(3).get();
    FAIL("no exception");
  } catch (const manta::task_error& e) {
    CHECK(e.message() == "bad 3");
    CHECK(e.function().find("fail") != std::string::npos);  // the first cause
  }
  try {
    manta::remote<throws_late>(4).get();
    FAIL("no exception");
  } catch (const manta::task_error& e) {
    CHECK(e.message() == "late 4");
    CHECK(e.function().find("throws_late") != std::string::npos);
    CHECK_THROWS_AS(std::rethrow_if_nested(e), std::out_of_range);
  }
  CHECK(manta::remote<catches>().get() == "bad 1, late 2");
  CHECK_THROWS_AS(manta::remote<wait_for>(manta::remote<fail>(1)).get(), manta::task_error);
  const auto chain = manta::remote<twice>(manta::remote<awaits_failure>(9));
  CHECK(test::message_of<manta::task_error>([&] { chain.get(); }).find("bad 9") !=
        std::string::npos);
}

TEST_CASE("what throws while a coroutine is made or left is a typed error",
          "[coroutine][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const int alive = tracked::alive;
  CHECK_THROWS_AS(manta::remote<throws_after_return>().get(), manta::task_error);
  CHECK(test::message_of<manta::task_error>([] {
          manta::remote<takes_it>(throws_when_moved()).get();
        }).find("third move") != std::string::npos);
  CHECK(tracked::alive == alive);
}

namespace {
// Children's parents and indices, as the engine names them.
struct child_names {
  std::vector<manta::base::id> parents;
  std::vector<std::uint32_t> indices;
};
void note(child_names& into, const manta::future<int>& child) {
  const manta::exec::job* const j = manta::detail::access::job(child);
  into.parents.push_back(j->parent);
  into.indices.push_back(j->index);
}
manta::coroutine<int> nested_call(child_names* into, int x) {
  const manta::future<int> child = manta::remote<twice>(x);
  note(*into, child);
  co_return co_await child;
}
// A child before, between and after suspensions, also from a coroutine called directly.
manta::coroutine<child_names> name_children(manta::future<int> late) {
  child_names names;
  for (int i = 0; i < 3; ++i) {
    const manta::future<int> child = manta::remote<twice>(i);
    note(names, child);
    co_await child;
  }
  {
    const waits_here here;
    co_await late;
  }
  co_await nested_call(&names, 1);
  co_await late;
  note(names, manta::remote<twice>(9));
  co_return names;
}
struct recorder {
  std::vector<int> seen;
  void push(int x) { seen.push_back(x); }
  std::vector<int> all() { return seen; }
};
manta::coroutine<> push_many(manta::actor<recorder> to, int n) {
  for (int i = 0; i < n; ++i) {
    manta::future<void> pushed = manta::remote<&recorder::push>(to, i);
    if (i % 3 == 0) co_await std::move(pushed);
  }
}
}  // namespace

TEST_CASE("a coroutine stays the same caller across suspensions", "[coroutine][anywhere]") {
  // A context that is lost at a suspension would number children from 0 again.
  const manta::runtime rt(test::two_workers());
  held_future late(1);
  const auto f = manta::remote<name_children>(late.future);
  if (!test::in_nodes()) CHECK(are_waiting(1));  // here
  late.gate.open();
  const child_names& names = f.get();
  const manta::exec::job* const j = manta::detail::access::job(f);
  const auto self = manta::base::derive(j->parent, j->index, j->ops->function_hash);
  REQUIRE(names.parents.size() == 5);
  for (std::uint32_t i = 0; i < 5; ++i) {
    CHECK(names.parents[i] == self);
    CHECK(names.indices[i] == i);
  }
}

TEST_CASE("a coroutine's calls of an actor keep their order", "[coroutine][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto to = manta::spawn<recorder>();
  const int n = test::is_sanitized ? 300 : 3000;
  manta::remote<push_many>(to, n).get();
  const std::vector<int> seen = manta::remote<&recorder::all>(to).get();
  REQUIRE(seen.size() == static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) REQUIRE(seen[static_cast<std::size_t>(i)] == i);
}

namespace {
manta::coroutine<int> gathers(int n) {
  std::vector<manta::future<int>> parts;
  for (int i = 0; i < n; ++i) parts.push_back(manta::remote<twice>(i));
  int sum = 0;
  for (const int x : co_await parts) sum += x;
  for (const int x : co_await std::move(parts)) sum += x;
  co_return sum;
}
manta::coroutine<std::string> gathers_failure(manta::future<int> never) {
  std::vector<manta::future<int>> parts;
  parts.push_back(manta::remote<twice>(1));
  parts.push_back(manta::remote<fail>(2));
  parts.push_back(never);
  try {
    co_await std::move(parts);
  } catch (const manta::task_error& e) {
    co_return e.message();
  }
  co_return "nothing thrown";
}
manta::coroutine<int> gathers_boxes() {
  std::vector<manta::future<std::unique_ptr<int>>> boxes;
  for (int i = 0; i < 10; ++i) boxes.push_back(manta::remote<boxed>(i));
  int sum = 0;
  for (const auto& box : co_await std::move(boxes)) sum += *box;
  std::vector<manta::future<void>> done;
  for (int i = 0; i < 10; ++i) done.push_back(manta::remote<nothing>());
  co_await std::move(done);
  co_await std::vector<manta::future<void>>();
  co_return sum;
}
}  // namespace

TEST_CASE("a vector of futures is awaited as a whole", "[coroutine][anywhere]") {
  const manta::runtime rt(test::two_workers());
  CHECK(manta::remote<gathers>(0).get() == 0);
  CHECK(manta::remote<gathers>(1000).get() == 2 * 999000);
  CHECK(manta::remote<gathers_boxes>().get() == 45);
  held_future never(1);
  CHECK(manta::remote<gathers_failure>(never.future).get() == "bad 2");
}

TEST_CASE("10,000 coroutines wait at once without threads", "[coroutine][anywhere]") {
  const manta::runtime rt(test::two_workers());
  constexpr std::size_t n = 10000;
  std::vector<manta::future<int>> waiting;
  held_future held(3);
  for (std::size_t i = 0; i < n; ++i) waiting.push_back(manta::remote<wait_for>(held.future));
  if (!test::in_nodes()) CHECK(are_waiting(n));  // here
  if (!test::in_processes()) CHECK(manta::exec::executor::global().threads() <= 4);
  held.gate.open();
  for (const auto& f : waiting) REQUIRE(f.get() == 3);
  waiting.clear();
  CHECK(are_waiting(0));
}

namespace {
enum mark : int {
  parameter = 1,
  inner_parameter,
  first_local,
  second_local,
  inner_local,
  dependent,
  unused
};
test::everywhere<test::journal> ends;
std::vector<int> take_ends() {
  const std::vector<int> all = ends->entries();
  ends->clear();
  return all;
}
// Writes its end down, once it was told to: not that of what only carried it where it is used.
struct noisy {
  int what = 0;
  bool is_told = false;
  noisy() = default;
  explicit noisy(mark m, bool told = false) : what(m), is_told(told) {}
  noisy(noisy&& other) noexcept : what(other.what), is_told(std::exchange(other.is_told, false)) {}
  ~noisy() {
    if (is_told) ends->add(what);
  }
  template <class Archive>
  void serialize(Archive& ar) {
    ar(what);
  }
};
manta::coroutine<int> inner(noisy given, manta::future<int> f) {
  given.is_told = true;
  const noisy local(inner_local, true);
  const waits_here here;
  co_return co_await f;
}
manta::coroutine<int> outer(noisy given, manta::future<int> f) {
  given.is_told = true;
  const noisy first(first_local, true);
  const noisy second(second_local, true);
  co_return co_await inner(noisy(inner_parameter), f);
}
void after(int /*x*/) { ends->add(dependent); }
const std::vector<int> expected_order = {inner_local, inner_parameter, second_local, first_local,
                                         parameter};
}  // namespace

TEST_CASE("locals and parameters are gone before the future is ready", "[coroutine][anywhere]") {
  const manta::runtime rt(test::two_workers());
  ends->clear();
  held_future held(1);
  const auto done = manta::remote<after>(manta::remote<outer>(noisy(parameter), held.future));
  if (!test::in_nodes()) CHECK(are_waiting(1));  // here
  held.gate.open();
  done.get();
  std::vector<int> marks = take_ends();
  REQUIRE(!marks.empty());
  CHECK(marks.back() == dependent);
  marks.pop_back();
  CHECK(marks == expected_order);
}

// Of one node: what is suspended would be so in the other one.
TEST_CASE("the end of the runtime destroys what is suspended, in order",
          "[coroutine][anywhere][one_node]") {
  ends->clear();
  *test::waiting = 0;
  manta::future<int> f;
  manta::future<int> deep;
  test::held_gate->shut();
  const test::opens_at_end leaves(*test::held_gate);
  std::thread late;
  {
    const manta::runtime rt(test::two_workers());
    const auto blocked = manta::remote<wait_for_held_gate>(1);
    f = manta::remote<outer>(noisy(parameter), blocked);
    deep = manta::remote<depth_then_wait>(100000, blocked);
    CHECK(are_waiting(2));
    // The end lets the blocked task finish, which does so only when the coroutines are gone.
    late = std::thread([] {
      static_cast<void>(are_waiting(0));
      test::held_gate->open();
    });
  }
  late.join();
  CHECK(manta::exec::suspended_coroutines() == 0);
  CHECK_THROWS_AS(f.get(), manta::cancelled);
  CHECK_THROWS_AS(deep.get(), manta::cancelled);
  CHECK(take_ends() == expected_order);
}

namespace {
manta::coroutine<int> waits_for_coroutine(manta::future<int> f) {
  const waits_here here;
  co_return co_await manta::remote<wait_for>(f);
}
int blocks_for(manta::future<int> f) { return f.get(); }
}  // namespace

// Of one node, as above.
TEST_CASE("the end wakes who waits for a suspended coroutine", "[coroutine][anywhere][one_node]") {
  // A worker blocked in get would never be joined, a thread of the program never come back.
  manta::future<int> f;
  test::held_gate->shut();
  const test::opens_at_end leaves(*test::held_gate);
  std::thread driver;
  std::atomic<bool> was_cancelled{false};
  *test::waiting = 0;
  {
    const manta::runtime rt(test::two_workers());
    const auto blocked = manta::remote<wait_for_held_gate>(1);
    const auto suspended = manta::remote<waits_for_coroutine>(blocked);
    f = manta::remote<blocks_for>(suspended);
    CHECK(are_waiting(2));
    driver = std::thread([&, suspended] {
      try {
        suspended.get();
      } catch (const manta::cancelled&) {
        was_cancelled = true;
      }
      test::held_gate->open();
    });
  }
  driver.join();
  CHECK(was_cancelled);
  CHECK_THROWS_AS(f.get(), manta::cancelled);
}

TEST_CASE("lambdas, options and futures as arguments work as for plain tasks",
          "[coroutine][anywhere]") {
  const manta::runtime rt(test::two_workers());
  constexpr auto lambda = [](int x, std::vector<int> more) -> manta::coroutine<int> {
    for (const int m : more) x += m;
    co_return x + co_await manta::remote<twice>(x);
  };
  std::vector<manta::future<int>> more;
  for (int i = 0; i < 4; ++i) more.push_back(manta::remote<twice>(i));
  CHECK(manta::remote<lambda>(manta::remote<twice>(1), more).get() == 42);
  CHECK(manta::remote<fib>.with({.cpus = 1})(10).get() == 55);
  CHECK(manta::remote<sum_of>.with({.name = "sum"})(10).get() == 90);
}

TEST_CASE("a coroutine that is made and never run is destroyed", "[coroutine][stays:local]") {
  ends->clear();
  {
    manta::coroutine<int> made = inner(noisy(unused, true), manta::future<int>());
    CHECK(made.valid());
    const manta::coroutine<int> moved = std::move(made);
    CHECK(!made.valid());
  }
  CHECK(take_ends() == std::vector<int>{unused});
}

TEST_CASE("many threads call coroutines at once", "[coroutine][anywhere]") {
  std::atomic<int> wrong{0};
  const manta::runtime rt(test::workers(3));
  std::vector<std::thread> drivers;
  for (int i = 0; i < 4; ++i) {
    drivers.emplace_back([&wrong] {
      for (int k = 0; k < test::trips(300); ++k) {
        if (manta::remote<sum_of>(20).get() != 380) ++wrong;
        if (manta::remote<gathers>(20).get() != 2 * 380) ++wrong;
      }
    });
  }
  for (std::thread& t : drivers) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("the captures of a coroutine lambda live until it has ended", "[coroutine][anywhere]") {
  const manta::runtime rt(test::two_workers());
  held_future later(5);
  const int tracked_before = tracked::alive;
  auto f = manta::async([gate = later.future, v = std::vector<int>(1000, 7),
                         t = tracked(1)]() -> manta::coroutine<int> {
    const int more = co_await gate;
    co_return v.at(999) + more + t.value;
  });
  auto moved = manta::async([p = std::make_unique<int>(3),
                             gate = later.future]() -> manta::coroutine<std::unique_ptr<int>> {
    co_await gate;
    co_return std::make_unique<int>(*p);
  });
  auto thrown =
      manta::async([text = std::string(100, 'x'), gate = later.future]() -> manta::coroutine<> {
        co_await gate;
        throw std::runtime_error(text);
      });
  REQUIRE(test::are_suspended(3));
  later.gate.open();
  CHECK(std::move(f).get() == 13);
  CHECK(*std::move(moved).get() == 3);
  CHECK(thrown.try_get().error().message().find(std::string(100, 'x')) != std::string::npos);
  CHECK(eventually([&] { return tracked::alive == tracked_before; }));
}

TEST_CASE("a suspended coroutine lambda that is cancelled or ended drops its captures",
          "[coroutine][stays:async]") {
  const int tracked_before = tracked::alive;
  std::atomic<int> seen{0};
  manta::future<int> ended;
  {
    const manta::runtime rt(test::two_workers());
    manta::channel<int> never(1);
    const auto wait_with = [&] {
      return manta::async([&seen, t = tracked(4), never]() mutable -> manta::coroutine<int> {
        struct at_end {
          std::atomic<int>& seen;
          const tracked& t;
          ~at_end() { seen += t.value; }
        } const last{seen, t};
        co_return co_await never.async_receive();
      });
    };
    auto cancelled = wait_with();
    ended = wait_with();
    REQUIRE(test::are_suspended(2));
    CHECK(tracked::alive == tracked_before + 2);
    CHECK(manta::cancel(cancelled));
    CHECK_THROWS_AS(cancelled.get(), manta::cancelled);
    CHECK(eventually([&] { return seen == 4; }));
  }
  CHECK(ended.try_get().error().code() == manta::errc::cancelled);
  CHECK(seen == 8);
  CHECK(tracked::alive == tracked_before);
}

TEST_CASE("on_ready's coroutine has its captures and its future until it has ended",
          "[coroutine][anywhere]") {
  const manta::runtime rt(test::two_workers());
  held_future later(5);
  auto first = manta::async([] { return std::vector<int>(1000, 2); });
  auto second =
      manta::on_ready(first,
                      [gate = later.future, v = std::vector<int>(1000, 7)](
                          const manta::future<std::vector<int>>& ended) -> manta::coroutine<int> {
                        const int more = co_await gate;
                        co_return ended.get().at(999) + v.at(999) + more;
                      });
  REQUIRE(test::are_suspended(1));
  first = {};
  later.gate.open();
  CHECK(second.get() == 14);
}

}  // namespace coroutine_test
