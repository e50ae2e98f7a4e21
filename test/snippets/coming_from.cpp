// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// The code of src/docs/coming_from.md.

using namespace std::chrono_literals;

namespace {

int f(int x) {
  if (x < 0) throw std::range_error("below zero");
  return x + 1;
}
std::tuple<int, std::string> two() { return {1, "one"}; }
manta::stream<int> items() {
  co_yield 1;
  co_yield 2;
}
int sum(const std::vector<int>& parts) { return parts.at(0) + parts.at(1); }
struct A {
  explicit A(int start) : n(start) {}
  int m(int x) { return n += x; }
  manta::coroutine<int> waits(manta::future<int> other) { co_return n + co_await other; }
  int n;
};

}  // namespace

TEST_CASE("coming from Ray") {
  manta::runtime rt({.workers = 2});
  std::vector<manta::future<int>> futures = {manta::remote<f>(1),
                                             manta::remote<f>.with({.cpus = 2})(2), manta::put(4)};
  CHECK(manta::get(futures, 5s) == std::vector<int>{2, 3, 4});
  CHECK(manta::wait(futures, {.count = 3}).pending.empty());
  auto [number, word] = manta::split(manta::remote<two>());
  CHECK(word.get() == "one");
  for (manta::future<int>& each : manta::remote<items>()) CHECK(each.get() > 0);
  manta::actor<A> a = manta::spawn<A>.with({.name = "x"})(1);
  CHECK(manta::remote<&A::m>(a, 2).get() == 3);
  CHECK(manta::find_actor<A>("x") == a);
  CHECK(manta::remote<&A::waits>(a, manta::put(4)).get() == 7);  // async def
  manta::actor_pool<A> pool({a});
  CHECK(pool.submit<&A::m>(1).get() == 4);
  manta::kill(a);
  CHECK_FALSE(manta::cancel(futures[0]));
  auto again = manta::remote<f>.with({.retry_exceptions = manta::exceptions<std::range_error>()});
  CHECK_THROWS_AS(again(-1).get(), manta::task_error);
  CHECK(manta::make_placement_group({{.cpus = 1}}).wait(60s));
}

TEST_CASE("coming from std::async") {
  manta::runtime rt;
  manta::future<int> first = manta::remote<f>(1);
  CHECK(first.get() + first.get() == 4);
  CHECK(first.try_get(1s).has_value());
  CHECK(manta::remote<f>(first).get() == 3);  // instead of f(first.get())
  CHECK(manta::async([&] { return first.get(); }).get() == 2);
  try {
    manta::remote<f>(-1).get();
    FAIL("get must throw");
  } catch (const manta::task_error& e) {
    CHECK_THROWS_AS(std::rethrow_if_nested(e), std::range_error);
  }
  manta::channel<int> promise(1);
  promise.send(3);
  CHECK(promise.receive() == 3);
}

TEST_CASE("coming from MPI") {
  manta::runtime rt;
  std::vector<manta::actor<A>> ranks = {manta::spawn<A>(10), manta::spawn<A>(20)};
  manta::future<int> shared = manta::put(5);  // broadcast
  std::vector<manta::future<int>> parts;
  for (const manta::actor<A>& each : ranks) parts.push_back(manta::remote<&A::m>(each, shared));
  CHECK(manta::remote<sum>(parts).get() == 40);  // reduce
  CHECK(manta::barrier(1).arrive_and_wait().is_last);
}

TEST_CASE("coming from oneTBB") {
  manta::runtime rt(manta::config{.workers = 2});
  std::vector<int> out(1000);
  manta::parallel_for(0, 1000, [&](int i) { out[static_cast<std::size_t>(i)] = i; },
                      {.grain = 100});
  CHECK(manta::parallel_reduce(out, 0, std::plus<>{}) == 499500);
  std::vector<manta::future<void>> group;
  group.push_back(manta::async([] {}));
  manta::get(group);
  CHECK(manta::cancel(group) == 0);
  const manta::deadline_scope limit(60s);  // calls in this scope end by then
  CHECK(manta::remote<f>(1).get() == 2);
}
