// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// Coroutines: tasks and methods that wait with co_await, without a thread and a stack.

namespace {

int square(int x) { return x * x; }

manta::coroutine<int> sum_of_squares(int n) {
  int sum = 0;
  for (int i = 1; i <= n; ++i) sum += co_await manta::remote<square>(i);
  co_return sum;
}
manta::coroutine<int> twice(int n) {
  const int once = co_await sum_of_squares(n);  // called directly: runs in this task
  co_return 2 * once;
}
manta::coroutine<std::size_t> gathered(std::vector<manta::future<int>> parts) {
  const std::vector<int> values = co_await std::move(parts);
  co_return values.size();
}
manta::coroutine<int> relay(manta::channel<int> from, manta::channel<int> to,
                            manta::semaphore gate) {
  const manta::permit mine = co_await gate.async_acquire();
  const int first = co_await from.async_receive();
  co_await to.async_send(10 * first);
  while (std::optional<int> each = co_await from.async_next()) co_await to.async_send(*each);
  co_return first;
}

struct cache {
  int hits = 0;
  manta::coroutine<int> lookup(int key) {
    ++hits;
    co_return co_await manta::remote<square>(key);
  }
};

}  // namespace

TEST_CASE("coroutines: a task that waits without a thread") {
  manta::runtime rt;
  manta::future<int> f = manta::remote<sum_of_squares>(4);  // future<int>, as for any function
  CHECK(f.get() == 30);
  CHECK(manta::remote<twice>(4).get() == 60);
}

TEST_CASE("coroutines: many futures awaited at once") {
  manta::runtime rt;
  std::vector<manta::future<int>> parts = {manta::remote<square>(1), manta::remote<square>(2)};
  CHECK(manta::remote<gathered>(parts).get() == 2);
}

TEST_CASE("coroutines: channels and semaphores are awaited, too") {
  manta::runtime rt;
  manta::channel<int> in(4);
  manta::channel<int> out(4);
  manta::future<int> f = manta::remote<relay>(in, out, manta::semaphore(1));
  in.send(1);
  in.send(2);
  in.close();
  CHECK(f.get() == 1);
  CHECK(out.receive() == 10);
  CHECK(out.receive() == 2);
}

TEST_CASE("coroutines: as methods of actors") {
  manta::runtime rt;
  manta::actor<cache> kept = manta::spawn<cache>();
  CHECK(manta::remote<&cache::lookup>(kept, 5).get() == 25);
}

TEST_CASE("coroutines: one that was called directly has not begun") {
  manta::coroutine<int> call = sum_of_squares(3);
  CHECK(call.valid());  // it runs when it is awaited; dropped, it never does
}
