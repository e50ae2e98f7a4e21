// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// Streams: generators whose items arrive as futures, one by one.

using namespace std::chrono_literals;

namespace {

int square(int x) { return x * x; }

manta::stream<int> squares(int n) {
  for (int i = 0; i < n; ++i) co_yield i* i;
}
manta::stream<int> squares_elsewhere(int n) {
  for (int i = 0; i < n; ++i) co_yield co_await manta::remote<square>(i);  // it may wait, too
}
manta::stream<int> breaks_off() {
  co_yield 1;
  throw std::runtime_error("no more");
}
manta::coroutine<int> sum(manta::stream<int> items) {
  int total = 0;
  while (std::optional<manta::future<int>> f = co_await items.async_next()) total += f->get();
  co_return total;
}
struct feed {
  manta::stream<int> from(int first) {
    for (int i = 0; i < 3; ++i) co_yield first + i;
  }
};

}  // namespace

TEST_CASE("streams: a task that yields") {
  manta::runtime rt;
  int total = 0;
  for (manta::future<int>& f : manta::remote<squares>(5)) total += f.get();
  CHECK(total == 30);
}

TEST_CASE("streams: item by item, with a limit for how far it runs ahead") {
  manta::runtime rt;
  manta::stream<int> items = manta::remote<squares_elsewhere>(3);
  items.credits(8);  // 64 unless told
  CHECK(items.next()->get() == 0);
  CHECK(items.next(60s)->get() == 1);
  manta::stream<int>::iterator at = items.begin();  // what a range-for does
  CHECK(((*at).get() == 4 && items.valid()));
  ++at;
  CHECK(at == items.end());
}

TEST_CASE("streams: the limit from the start, by an option of the call") {
  manta::runtime rt;
  CHECK(manta::default_stream_credits == 64);
  manta::options few;
  few.stream_credits = 2;
  CHECK(manta::remote<squares>.with(few)(5).next()->get() == 0);
  const manta::actor<feed> source = manta::spawn<feed>();
  manta::call_options one;
  one.stream_credits = 1;
  CHECK(manta::remote<&feed::from>.with(one)(source, 10).next()->get() == 10);
}

TEST_CASE("streams: an exception is in the future of the item it kept from being made") {
  manta::runtime rt;
  manta::stream<int> items = manta::remote<breaks_off>();
  CHECK(items.next()->get() == 1);
  CHECK_THROWS_AS(items.next()->get(), manta::task_error);
  CHECK_FALSE(items.next().has_value());  // and that was the end
}

TEST_CASE("streams: consumed by a coroutine") {
  manta::runtime rt;
  CHECK(manta::remote<sum>(manta::remote<squares>(4)).get() == 14);
}

TEST_CASE("streams: from an actor's method") {
  manta::runtime rt;
  manta::actor<feed> source = manta::spawn<feed>();
  int total = 0;
  for (manta::future<int>& f : manta::remote<&feed::from>(source, 10)) total += f.get();
  CHECK(total == 33);
}

TEST_CASE("streams: one that nobody needs any more") {
  manta::runtime rt;
  manta::stream<int> endless = manta::remote<squares>(1000000);
  CHECK(endless.next()->get() == 0);
  CHECK(manta::cancel(endless));  // dropping it does the same
}
