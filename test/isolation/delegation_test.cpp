// SPDX-License-Identifier: Apache-2.0
// Tasks in several processes whose results are each other's: each ends as following the arrows
// says, and those that go in a ring fail instead of waiting.
#include <csignal>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "exec/support.hpp"
#include "isolation/support.hpp"
#include "node/future_names.hpp"

namespace delegation_test {

namespace {

using manta::future;
using manta_test::dice;
using test::comes_true;
using test::isolated;
using test::mixed;
using test::shared;
using test::shared_numbers;

bool comes(std::size_t i) {
  return comes_true([i] { return shared(i) != 0; });
}

// Has futures where tasks find them that began before there were any.
struct keeper {
  std::vector<future<int>> futures;
  void keep(std::vector<future<int>> all) { futures = std::move(all); }
  std::vector<future<int>> all() const { return futures; }
  future<int> at(std::size_t i) const { return futures.at(i); }
};

future<int> found(const manta::actor<keeper>& in, std::size_t i) {
  return manta::remote<&keeper::all>(in).get().at(i);
}
bool is_filled() {
  return comes_true([] { return shared(0) != 0; });
}
future<int> found_after(const manta::actor<keeper>& in, std::size_t i, bool is_there) {
  if (!is_there) throw std::runtime_error("nobody filled the keeper");
  return found(in, i);
}

// The ways to delegate to what the keeper has at a place.
enum class way : int { itself, call, late_call, method, own_work, own_call, count };

future<int> goes_on(const manta::actor<keeper>& in, way how, std::size_t to) {
  if (how == way::late_call) {  // has no number yet when it is delegated to
    return manta::remote<found_after>(in, to, manta::remote<is_filled>());
  }
  if (!is_filled()) throw std::runtime_error("nobody filled the keeper");
  switch (how) {
    case way::call:
      return manta::remote<found>(in, to);
    case way::method:
      return manta::remote<&keeper::at>(in, to);
    case way::own_work:
      return manta::async([in, to] { return found(in, to); });
    case way::own_call:
      return manta::async([in, to] { return manta::remote<found>(in, to); });
    default:
      return found(in, to);
  }
}
future<int> ends(int value) {
  if (!is_filled()) throw std::runtime_error("nobody filled the keeper");
  return manta::put(value);
}

manta::isolation_mode any_mode(dice& random, bool is_mixed) {
  const bool in_threads = is_mixed && random.one_in(2);
  return in_threads ? manta::isolation_mode::threads : manta::isolation_mode::processes;
}

void random_arrows(dice& random, bool is_mixed) {
  shared(0) = 0;
  const std::size_t n = 1 + random.below(5);
  const auto in = manta::spawn<keeper>.with({.isolation = any_mode(random, is_mixed)})();
  std::vector<future<int>> all;
  std::vector<std::size_t> to(n);
  std::string shown;
  for (std::size_t i = 0; i < n; ++i) {
    to[i] = random.one_in(4) ? i + n : random.below(n);  // from n on: a value
    const auto how = static_cast<way>(random.below(static_cast<std::size_t>(way::count)));
    const manta::options at{.isolation = any_mode(random, is_mixed)};
    all.push_back(to[i] >= n ? manta::remote<ends>.with(at)(static_cast<int>(i))
                             : manta::remote<goes_on>.with(at)(in, how, to[i]));
    shown += std::to_string(to[i]) + " by " + std::to_string(static_cast<int>(how)) +
             (at.isolation == manta::isolation_mode::threads ? " (thread), " : ", ");
  }
  INFO(shown);
  manta::remote<&keeper::keep>(in, all).get(test::patience);
  shared(0) = 1;
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t end = i;
    for (std::size_t steps = 0; steps <= n && to[end] < n; ++steps) end = to[end];
    const bool is_value = to[end] >= n;
    CAPTURE(i, is_value);
    try {
      const int got = all[i].get(test::patience);
      REQUIRE(is_value);
      REQUIRE(got == static_cast<int>(end));
    } catch (const manta::invalid_argument& e) {
      REQUIRE_FALSE(is_value);
      REQUIRE(std::string(e.what()).find("cycle") != std::string::npos);
    }
  }
}

void many_random_arrows(const manta::config& with, bool is_mixed) {
  const shared_numbers numbers;
  {
    const manta::runtime rt(with);
    const std::uint64_t seed = manta_test::run_seed();
    CAPTURE(seed);
    dice random(seed);
    const int rounds = test::is_sanitized ? 15 : 60;
    for (int i = 0; i < rounds; ++i) random_arrows(random, is_mixed);
    CHECK(comes_true([] { return manta::node::future_names::global().size() == 0; }));
  }
}

int late(int value) {
  comes(1);
  return value;
}
struct delegator {
  future<int> call(int value) { return manta::remote<late>(value); }
  future<int> own_work(int value) {
    return manta::async([value] { return late(value); });
  }
  future<int> exits(int value) {
    const future<int> f = manta::remote<late>(value);
    manta::this_actor::exit();
    return f;
  }
  int noop() { return 1; }
};

future<int> returns(future<int> f) { return f; }
// Its first run stands for `f`, the next one has a value, later.
future<int> first_returns(future<int> f) {
  if (++shared(1) == 1) {
    shared(2) = getpid();
    return f;
  }
  comes(4);
  return manta::put(7);
}
future<int> returns_kept(const manta::actor<keeper>& in) {
  comes(3);
  return found(in, 0);
}

}  // namespace

TEST_CASE("delegations between workers end where the arrows lead", "[isolation][delegation]") {
  many_random_arrows(isolated(5), false);
}

TEST_CASE("delegations between workers and threads end where the arrows lead",
          "[isolation][delegation]") {
  many_random_arrows(mixed(5), true);
}

TEST_CASE("what a task had delegated to before its worker died is no part of a ring",
          "[isolation][delegation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated(3));
  const auto in = manta::spawn<keeper>();
  const future<int> later = manta::remote<returns_kept>(in);
  const future<int> runs_twice = manta::remote<first_returns>(std::vector{later}.front());
  manta::remote<&keeper::keep>(in, std::vector{runs_twice}).get();
  REQUIRE(comes(2));
  // What ran there after it has its answer behind what it said.
  REQUIRE(comes_true([&] { return manta::remote<test::pid>().get() == numbers[2]; }));
  kill(numbers[2], SIGKILL);
  REQUIRE(comes_true([&] { return numbers[1] == 2; }));
  numbers[3] = 1;
  const future<int> behind = manta::remote<returns>(std::vector{later}.front());
  CHECK_FALSE(behind.is_ready());
  numbers[4] = 1;
  CHECK(later.get(test::patience) == 7);
  CHECK(behind.get(test::patience) == 7);
  CHECK(runs_twice.get(test::patience) == 7);
}

TEST_CASE("what a method has delegated to outlives its actor", "[isolation][delegation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated(3));
  std::vector<future<int>> all;
  {
    const auto a = manta::spawn<delegator>();  // ends with its last handle
    all.push_back(manta::remote<&delegator::call>(a, 0));
    all.push_back(manta::remote<&delegator::own_work>(a, 1));
  }
  const auto retired = manta::spawn<delegator>();
  all.push_back(manta::remote<&delegator::call>(retired, 2));
  manta::remote<&delegator::noop>(retired).get();
  manta::retire(retired);
  all.push_back(manta::remote<&delegator::exits>(manta::spawn<delegator>(), 3));
  const auto killed = manta::spawn<delegator>();
  all.push_back(manta::remote<&delegator::call>(killed, 4));
  manta::remote<&delegator::noop>(killed).get();
  const auto told = manta::monitor(killed);
  manta::kill(killed);
  CHECK(told.get(test::patience).reason == manta::end_reason::killed);
  // One that is asked to stop does, though its actor is gone.
  const auto stopped = manta::spawn<delegator>();
  const auto stops = manta::remote<&delegator::call>(stopped, 5);
  manta::remote<&delegator::noop>(stopped).get();
  manta::kill(stopped);
  CHECK(manta::cancel(stops, {.force = true}));
  CHECK_THROWS_AS(stops.get(test::patience), manta::cancelled);
  for (const auto& one : all) CHECK_FALSE(one.is_ready());
  numbers[1] = 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].get(test::patience) == static_cast<int>(i));
  }
  CHECK(comes_true([] { return manta::node::future_names::global().size() == 0; }));
}

}  // namespace delegation_test
