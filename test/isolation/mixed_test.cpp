// SPDX-License-Identifier: Apache-2.0
// Isolation of one call or one actor: both kinds in one runtime, and what goes between them.
#include <csignal>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "isolation/support.hpp"

namespace mixed_test {

namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::isolated;
using test::mixed;
using test::pid;
using test::shared;
using test::shared_numbers;
using test::square;

constexpr auto in_process = manta::isolation_mode::processes;
constexpr auto in_thread = manta::isolation_mode::threads;

const auto isolated_pid = manta::remote<pid>.with({.isolation = in_process});
const auto pid_here = manta::remote<pid>.with({.isolation = in_thread});

int add(int a, int b) { return a + b; }
int sum(const std::vector<int>& all) { return std::accumulate(all.begin(), all.end(), 0); }
int dies() {
  ++shared(0);
  raise(SIGKILL);
  return 0;
}
int throws(int x) { throw std::runtime_error("no " + std::to_string(x)); }
// Ends itself the first times.
int dies_at_first(int times) {
  if (++shared(0) <= times) raise(SIGKILL);
  return shared(0);
}

// Where its children run: as the runtime says, as asked, as asked.
std::vector<int> children() {
  auto plain = manta::remote<pid>();
  auto away = isolated_pid();
  auto here = pid_here();
  return {getpid(), plain.get(), away.get(), here.get()};
}

}  // namespace

TEST_CASE("a call that asks for it runs in an isolated worker, and no other", "[isolation]") {
  const manta::runtime rt(mixed());
  CHECK(manta::remote<pid>().get() == getpid());
  const int away = isolated_pid().get();
  CHECK(away != getpid());
  CHECK(manta::remote<pid>().get() == getpid());
  CHECK(pid_here().get() == getpid());
  const manta::runtime_stats did = rt.stats();
  CHECK(did.run_isolated == 1);
  CHECK(did.isolated_workers >= 1);
}

TEST_CASE("where all calls are isolated, one that asks for it is not", "[isolation]") {
  const manta::runtime rt(isolated());
  CHECK(manta::remote<pid>().get() != getpid());
  CHECK(pid_here().get() == getpid());
  const std::vector<int> pids = manta::remote<children>.with({.isolation = in_thread})().get();
  CHECK(pids[0] == getpid());
  CHECK(pids[1] != getpid());
  CHECK(pids[2] != getpid());
  CHECK(pids[3] == getpid());
}

TEST_CASE("what an isolated task calls runs where the runtime says", "[isolation]") {
  for (const bool is_mixed : {true, false}) {
    CAPTURE(is_mixed);
    const manta::runtime rt(is_mixed ? mixed() : isolated());
    const std::vector<int> pids = manta::remote<children>.with({.isolation = in_process})().get();
    CHECK(pids[0] != getpid());
    CHECK((pids[1] == getpid()) == is_mixed);
    CHECK(pids[2] != getpid());
    CHECK(pids[3] == getpid());
  }
}

TEST_CASE("futures go from threads to isolated tasks and back", "[isolation]") {
  const manta::runtime rt(mixed());
  const auto add_away = manta::remote<add>.with({.isolation = in_process});
  auto three = manta::remote<add>(1, 2);
  auto seven = add_away(three, 4);
  auto ten = manta::remote<add>(seven, three);
  CHECK(add_away(ten, seven).get() == 17);
  std::vector<manta::future<int>> parts;
  for (int i = 0; i < 50; ++i) {
    parts.push_back(i % 2 == 0 ? manta::remote<square>(i) : add_away(i, i));
  }
  int expected = 0;
  for (int i = 0; i < 50; ++i) expected += i % 2 == 0 ? i * i : 2 * i;
  CHECK(manta::remote<sum>.with({.isolation = in_process})(parts).get() == expected);
  auto lost = manta::remote<throws>(5);
  CHECK_THROWS_WITH(add_away(lost, 1).get(), Catch::Contains("no 5"));
  CHECK_THROWS_WITH(manta::remote<throws>.with({.isolation = in_process})(6).get(),
                    Catch::Contains("no 6"));
}

TEST_CASE("a crash costs the isolated call, and its runs", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(mixed());
  CHECK_THROWS_AS(manta::remote<dies>.with({.isolation = in_process, .max_retries = 1})().get(),
                  manta::worker_lost);
  CHECK(numbers[0] == 2);
  numbers[0] = 0;
  CHECK(manta::remote<dies_at_first>.with({.isolation = in_process})(2).get() == 3);
  CHECK(manta::remote<pid>().get() == getpid());
}

namespace {

int waits_for(int n) {
  ++shared(0);
  return comes_true([n] { return shared(1) >= n; }) ? 1 : 0;
}
int ignores() {
  ++shared(0);
  comes_true([] { return shared(1) != 0; });
  return 1;
}
int asks_until_stopped() {
  ++shared(0);
  comes_true([] { return manta::this_task::is_cancelled(); });
  if (manta::this_task::is_cancelled()) ++shared(2);
  manta::this_task::check();
  return 1;
}
int waits_for_child() { return manta::remote<asks_until_stopped>().get(); }

}  // namespace

TEST_CASE("an isolated call can be ended by force, and one in a thread is told how",
          "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(mixed());
  auto stuck = manta::remote<ignores>.with({.isolation = in_process})();
  REQUIRE(comes_true([&] { return numbers[0] == 1; }));
  manta::cancel(stuck, {.force = true});
  CHECK_THROWS_AS(stuck.get(), manta::cancelled);
  auto here = manta::remote<waits_for>(1);
  REQUIRE(comes_true([&] { return numbers[0] == 2; }));
  CHECK_THROWS_WITH(manta::cancel(here, {.force = true}),
                    Catch::Contains(".isolation = manta::isolation_mode::processes"));
  numbers[1] = 1;
  CHECK(here.get() == 1);
}

TEST_CASE("cancelling an isolated task reaches what it called in threads", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(mixed());
  auto parent = manta::remote<waits_for_child>.with({.isolation = in_process})();
  REQUIRE(comes_true([&] { return numbers[0] == 1; }));
  manta::cancel(parent);
  CHECK_THROWS_AS(parent.get(), manta::cancelled);
  CHECK(comes_true([&] { return numbers[2] == 1; }));
}

TEST_CASE("an isolated call has its deadline", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(mixed());
  auto late = manta::remote<ignores>.with({.isolation = in_process, .timeout = 20ms})();
  CHECK_THROWS_AS(late.get(), manta::timed_out);
}

namespace {

int odd_below(int n);
// Alternates between both kinds, and waits at each level.
int even_below(int n) {
  return n == 0 ? getpid() : manta::remote<odd_below>.with({.isolation = in_process})(n - 1).get();
}
int odd_below(int n) {
  return n == 0 ? getpid() : manta::remote<even_below>.with({.isolation = in_thread})(n - 1).get();
}
int fails_at_first(int times) {
  if (++shared(0) <= times) throw std::runtime_error("not yet");
  return getpid();
}
int retries_child(int times) {
  return manta::remote<fails_at_first>
      .with({.max_retries = 3, .retry_exceptions = manta::any_exception()})(times)
      .get();
}
int child_throws() {
  try {
    return manta::remote<throws>(8).get();
  } catch (const manta::task_error& e) {
    return std::string(e.what()).find("no 8") != std::string::npos ? 8 : -1;
  }
}
std::vector<int> many_children(int n) {
  std::vector<manta::future<int>> all;
  for (int i = 0; i < n; ++i) all.push_back(manta::remote<square>(i));
  std::vector<int> out;
  for (auto& f : all) out.push_back(f.get());
  return out;
}

}  // namespace

TEST_CASE("chains of calls alternate between threads and workers without end", "[isolation]") {
  const manta::runtime rt(mixed());
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 8; ++i) all.push_back(manta::remote<even_below>(20));
  for (auto& f : all) CHECK(f.get() == getpid());
  CHECK(manta::remote<even_below>(7).get() != getpid());
}

TEST_CASE("what an isolated task calls in threads has results, exceptions and runs",
          "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(mixed());
  CHECK(manta::remote<retries_child>.with({.isolation = in_process})(2).get() == getpid());
  CHECK(numbers[0] == 3);
  numbers[0] = 0;
  CHECK_THROWS_WITH(manta::remote<retries_child>.with({.isolation = in_process})(9).get(),
                    Catch::Contains("not yet"));
  CHECK(numbers[0] == 4);
  CHECK(manta::remote<child_throws>.with({.isolation = in_process})().get() == 8);
  const std::vector<int> squares =
      manta::remote<many_children>.with({.isolation = in_process})(300).get();
  for (int i = 0; i < 300; ++i) CHECK(squares[static_cast<std::size_t>(i)] == i * i);
}

namespace {

manta::array<double> iota_array(std::size_t n) {
  auto made = manta::make_array<double>({n});
  for (std::size_t i = 0; i < n; ++i) made.span()[i] = static_cast<double>(i);
  return std::move(made).seal();
}
double total(const manta::array<double>& of) {
  double out = 0;
  for (const double x : of.span()) out += x;
  return out;
}
double total_of_child(std::size_t n) {
  auto made = manta::remote<iota_array>(n).get();
  return total(made) + manta::remote<total>(made).get();
}

}  // namespace

TEST_CASE("arrays go between threads and isolated workers", "[isolation]") {
  const manta::runtime rt(mixed());
  constexpr std::size_t n = 100'000;
  const double expected = static_cast<double>(n) * (n - 1) / 2;
  auto made = manta::remote<iota_array>.with({.isolation = in_process})(n);
  CHECK(manta::remote<total>(made).get() == expected);
  auto here = manta::remote<iota_array>(n);
  CHECK(manta::remote<total>.with({.isolation = in_process})(here).get() == expected);
  CHECK(manta::remote<total_of_child>.with({.isolation = in_process})(n).get() == 2 * expected);
}

TEST_CASE("a runtime that ends takes isolated tasks and what they wait for along", "[isolation]") {
  const shared_numbers numbers;
  manta::future<int> last;
  {
    const manta::runtime rt(mixed());
    auto parent = manta::remote<many_children>.with({.isolation = in_process})(50);
    last = manta::remote<waits_for>.with({.isolation = in_process})(1);
    REQUIRE(comes_true([&] { return numbers[0] == 1; }));
    numbers[1] = 1;
  }
  CHECK((last.is_ready() && last.get() == 1));
}

TEST_CASE("what threads can't do is refused with the option that helps", "[isolation]") {
  const manta::runtime rt(mixed());
  const auto text_of = [](auto&& call) {
    try {
      call();
    } catch (const manta::unsupported& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const std::string of_task = text_of([] {
    static_cast<void>(
        manta::remote<square>.with({.memory_bytes = 1 << 20, .enforce_memory = true})(1));
  });
  CHECK(of_task.find(".isolation = manta::isolation_mode::processes") != std::string::npos);
  CHECK_THROWS_AS(manta::remote<square>.with({.isolation = in_process, .enforce_memory = true})(1),
                  manta::invalid_argument);
  CHECK_THROWS_AS(
      manta::remote<square>.with({.isolation = static_cast<manta::isolation_mode>(7)})(1),
      manta::invalid_argument);
}

}  // namespace mixed_test
