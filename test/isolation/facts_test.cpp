// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <csignal>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <catch2/catch.hpp>

#include <manta/manta.hpp>

#include "isolation/support.hpp"
#include "node/kv_watches.hpp"
#include "node/worker_facts.hpp"
#include "node/worker_questions.hpp"

// What isolated workers ask their node, and what becomes of it when they die, ask too much, or
// nonsense. What they ask when all is well: test/api/inside_test.cpp.

namespace facts_test {

namespace {

using Catch::Matchers::Contains;
using test::comes_true;
using test::isolated;
using test::shared;
using test::shared_numbers;
namespace kv = manta::kv;

struct tally {
  int sum;
  explicit tally(int first) : sum(first) {}
  int add(int n) { return sum += n; }
};

int when_let() {
  comes_true([] { return shared(1) != 0; });
  return 1;
}
// Has taken a name for an actor that can't be made yet.
int dies_with_a_name() {
  const auto mine = manta::spawn<tally>.with({.name = "early"})(manta::remote<when_let>());
  ++shared(0);
  comes_true([] { return shared(2) != 0; });
  ::kill(getpid(), SIGKILL);
  return 0;
}
int begins_anew(int n) {
  const auto mine = manta::spawn<tally>.with({.name = "early"})(n);
  return manta::remote<&tally::add>(mine, 1).get();
}

int dies_with_a_watch() {
  auto w = kv::watch<int>("w/");
  auto next = w.next();
  static_cast<void>(kv::put("told", 1).get());
  ++shared(0);
  comes_true([] { return shared(1) != 0; });
  ::kill(getpid(), SIGKILL);
  return 0;
}

// One watch more than there may be; then as many again, since the first have ended.
int watches_too_many() {
  int refused = 0;
  for (int round = 0; round < 2; ++round) {
    std::vector<kv::watcher<int>> all;
    for (std::size_t i = 0; i < manta::node::worker_facts::most_watches; ++i) {
      all.push_back(kv::watch<int>("w"));
    }
    try {
      all.push_back(kv::watch<int>("w"));
    } catch (const manta::store_full&) {
      ++refused;
    }
  }
  return refused;
}

// How many of its questions were refused; the last one while the others wait.
int asks_too_much() {
  const std::string much(std::size_t{1} << 20U, 'm');
  std::vector<manta::future<kv::revision>> all;
  for (int i = 0; i < 70; ++i) all.push_back(kv::put("k" + std::to_string(i), much));
  const auto last = all.back().try_get();
  if (last || last.error().code() != manta::errc::store_full) return -1;
  ++shared(0);
  int refused = 0;
  for (auto& one : all) refused += one.try_get() ? 0 : 1;
  return kv::put("after", 1).get() > 0 ? refused : -2;
}

// A key's question with another value in it.
int asks_nonsense() {
  auto* const node = manta::node::worker_questions::here();
  if (node == nullptr) return -1;
  return static_cast<int>(
      node->ask_now<std::uint64_t>(manta::wire::question::kv_read, std::vector<double>{1, 2}));
}
int asks_for_no_key() {
  auto* const node = manta::node::worker_questions::here();
  if (node == nullptr) return -1;
  return static_cast<int>(
      node->ask_now<std::uint64_t>(manta::wire::question::kv_read, std::string(5000, 'k')));
}

// Which one is last is known only if they are asked in their order.
int puts_in_order(int n) {
  std::vector<manta::future<kv::revision>> all;
  for (int i = 1; i <= n; ++i) {
    all.push_back(kv::put("o", i));
    if (all.size() < 500) continue;
    manta::get(std::move(all));
    all.clear();
  }
  manta::get(std::move(all));
  return kv::get<int>("o").get()->value;
}
int puts_many(int n) {
  for (int i = 0; i < n; ++i) static_cast<void>(kv::put("n", i));
  return static_cast<int>(kv::put("n", n).get());
}

}  // namespace

TEST_CASE("a name that a worker took is free when it dies before the actor is made",
          "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto dies = manta::remote<dies_with_a_name>.with({.max_retries = 0})();
  REQUIRE(comes_true([&] { return numbers[0] == 1; }));
  auto found = manta::find_actor<tally>("early");
  REQUIRE(found);
  const auto call = manta::remote<&tally::add>(*found, 1);
  const auto end = manta::monitor(*found);
  numbers[2] = 1;
  CHECK_THROWS_AS(dies.get(), manta::worker_lost);
  CHECK_THROWS_WITH(call.get(test::patience), Contains("early") && Contains("before it was made"));
  CHECK(end.get(test::patience).reason == manta::end_reason::constructor_failed);
  CHECK_FALSE(manta::find_actor<tally>("early"));
  numbers[1] = 1;
  CHECK(manta::remote<begins_anew>(4).get() == 5);
}

TEST_CASE("a worker that dies leaves no watch, and the next one watches anew", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  for (int i = 0; i < 5; ++i) {
    numbers[0] = 0;
    numbers[1] = 0;
    const auto dies = manta::remote<dies_with_a_watch>.with({.max_retries = 0})();
    REQUIRE(comes_true([&] { return numbers[0] == 1; }));
    kv::put("w/x", i).get();
    CHECK(manta::node::kv_watches::global().count() > 0);
    numbers[1] = 1;
    CHECK_THROWS_AS(dies.get(), manta::worker_lost);
    kv::put("w/x", i).get();  // which would have told it
    CHECK(comes_true([] { return manta::node::kv_watches::global().count() == 0; }));
  }
  CHECK(manta::remote<puts_many>(100).get() > 0);
}

// Threads of the driver that wait take the worker's messages, each from the same ring.
TEST_CASE("what one task asks is asked in its order, whoever takes its questions", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated(1));
  const int n = test::is_sanitized ? 200 : 2000;
  for (int round = 0; round < 10; ++round) {
    const auto last = manta::remote<puts_in_order>(n);
    std::vector<std::thread> waiting;
    std::atomic<int> right{0};
    for (int i = 0; i < 4; ++i) {
      waiting.emplace_back([&] { right += last.get(test::patience) == n ? 1 : 0; });
    }
    for (std::thread& one : waiting) one.join();
    CHECK(right == 4);
  }
}

TEST_CASE("a worker has so many watches, and is told when it wants more", "[isolation]") {
  const manta::runtime rt(isolated());
  CHECK(manta::remote<watches_too_many>().get() == 2);
}

TEST_CASE("a worker that asks more than is answered at a time is told so", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  std::promise<void> go_on;
  manta::node::facts_line::global().add(
      [held = go_on.get_future().share()] { held.wait_for(test::patience); });
  const auto asks = manta::remote<asks_too_much>();
  const bool was_refused = comes_true([&] { return numbers[0] == 1; });
  go_on.set_value();
  REQUIRE(was_refused);
  const int refused = asks.get();
  CHECK(refused >= 6);
  CHECK(refused < 12);
  CHECK(kv::list<std::string>("k", {}, 1).get().size() == 1);
}

TEST_CASE("a worker that asks nonsense is ended", "[isolation]") {
  const manta::runtime rt(isolated());
  CHECK_THROWS_AS(manta::remote<asks_nonsense>.with({.max_retries = 0})().get(),
                  manta::worker_lost);
  CHECK_THROWS_AS(manta::remote<asks_for_no_key>.with({.max_retries = 0})().get(),
                  manta::worker_lost);
  CHECK(manta::remote<puts_many>(1).get() > 0);
}

TEST_CASE("questions under way at the runtime's end end with it", "[isolation]") {
  for (int i = 0; i < 3; ++i) {
    const manta::runtime rt(isolated());
    for (int n = 0; n < 4; ++n) static_cast<void>(manta::remote<puts_many>(200));
  }
  const manta::runtime rt(isolated());
  CHECK(manta::remote<puts_many>(10).get() > 0);
}

}  // namespace facts_test
