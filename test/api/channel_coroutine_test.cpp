// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/coroutine_support.hpp"
#include "api/support.hpp"

// Channels and semaphores in coroutines.

namespace channel_coroutine_test {

using namespace std::chrono_literals;

namespace {

manta::coroutine<long> sum_of(manta::channel<int> from) {
  long sum = 0;
  for (;;) {
    const std::optional<int> item = co_await from.async_next();
    if (!item) break;
    sum += *item;
  }
  co_return sum;
}

manta::coroutine<void> relay(manta::channel<int> from, manta::channel<int> to) {
  for (;;) {
    const std::optional<int> item = co_await from.async_next();
    if (!item) break;
    co_await to.async_send(*item);
  }
  to.close();
}

manta::coroutine<void> produce(manta::channel<int> to, int n) {
  for (int i = 0; i < n; ++i) co_await to.async_send(i);
  to.close();
}

manta::coroutine<int> receive_one(manta::channel<int> from) {
  const int item = co_await from.async_receive();
  co_return item;
}

manta::coroutine<void> send_one(manta::channel<int> to, int value) {
  co_await to.async_send(value);
}

test::everywhere<std::atomic<int>> held;
test::everywhere<std::atomic<int>> most;

manta::coroutine<void> hold(manta::semaphore s, std::size_t count) {
  for (int i = 0; i < 50; ++i) {
    const manta::permit p = co_await s.async_acquire(count);
    const int now = *held += static_cast<int>(count);
    int old = *most;
    while (old < now && !most->compare_exchange_weak(old, now)) {
    }
    *held -= static_cast<int>(count);
  }
}

manta::coroutine<std::size_t> permits_of(manta::semaphore s) {
  const manta::permit p = co_await s.async_acquire(1);
  co_return p.count();
}

}  // namespace

TEST_CASE("coroutines send and receive through channels", "[channel][coroutine][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const manta::channel<int> a(3);
  const manta::channel<int> b(1);
  const auto sum = manta::remote<sum_of>(b);
  const auto between = manta::remote<relay>(a, b);
  const int items =
      test::trips(5000);  // each is a message there and back, where they are two nodes
  const auto source = manta::remote<produce>(a, items);
  CHECK(sum.get(test::patience) == (items - 1L) * items / 2);
  between.get(test::patience);
  source.get(test::patience);
}

TEST_CASE("a thousand coroutines wait for one channel without a thread each",
          "[channel][coroutine][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const manta::channel<int> c(1);
  std::vector<manta::future<int>> waiting;
  for (int i = 0; i < 1000; ++i) waiting.push_back(manta::remote<receive_one>(c));
  for (int i = 0; i < 1000; ++i) c.send(i);
  long sum = 0;
  for (auto& w : waiting) sum += w.get(test::patience);
  CHECK(sum == 999L * 500);
}

TEST_CASE("a coroutine that waits for a channel is told when it closes",
          "[channel][coroutine][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const manta::channel<int> empty(1);
  const manta::channel<int> full(1);
  full.send(0);
  const auto receiving = manta::remote<receive_one>(empty);
  const auto sending = manta::remote<send_one>(full, 1);
  CHECK_FALSE(manta::wait_any(1ms, receiving, sending));
  empty.close();
  full.close();
  CHECK_THROWS_AS(receiving.get(test::patience), manta::channel_closed);
  CHECK_THROWS_AS(sending.get(test::patience), manta::channel_closed);
  CHECK_THROWS_AS(manta::remote<receive_one>(manta::channel<int>()).get(), manta::invalid_argument);
}

TEST_CASE("a cancelled coroutine takes no item and no permit with it",
          "[channel][coroutine][anywhere]") {
  // Items and cancels race: an item that was handed to a coroutine which never goes on has to come
  // back, or the sums differ.
  const manta::runtime rt(test::workers(3));
  const manta::channel<int> c(4);
  const manta::semaphore s(2);
  long received = 0;
  long sent = 0;
  for (int round = 0; round < 300; ++round) {
    manta::permit one = s.acquire(2);
    std::vector<manta::future<int>> receiving;
    std::vector<manta::future<std::size_t>> acquiring;
    for (int i = 0; i < 4; ++i) receiving.push_back(manta::remote<receive_one>(c));
    for (int i = 0; i < 4; ++i) acquiring.push_back(manta::remote<permits_of>(s));
    one.release();
    for (int i = 1; i <= 3; ++i) {
      c.send(i);
      sent += i;
      manta::cancel(receiving[static_cast<std::size_t>(i)]);
      manta::cancel(acquiring[static_cast<std::size_t>(i)]);
    }
    manta::cancel(receiving[0]);
    for (const auto& f : acquiring) static_cast<void>(f.try_get(test::patience));
    for (const auto& f : receiving) {
      if (const auto item = f.try_get(test::patience)) received += *item;
    }
    while (const auto item = c.try_receive()) received += *item;
  }
  // What was taken for one in another node that was cancelled is put back by a message of its own.
  CHECK(test::eventually([&] {
    while (const auto item = c.try_receive()) received += *item;
    return received == sent;
  }));
  CHECK(s.available() == 2);
}

TEST_CASE("coroutines share a semaphore's permits with tasks", "[semaphore][coroutine][anywhere]") {
  *held = *most = 0;
  const manta::runtime rt(test::workers(3));
  const manta::semaphore s(3);
  std::vector<manta::future<void>> all;
  for (std::size_t i = 0; i < 30; ++i) all.push_back(manta::remote<hold>(s, 1 + i % 3));
  for (int i = 0; i < 100; ++i) {
    const manta::permit p = s.acquire(2);
    const int now = *held += 2;
    if (now > 3) *most = now;
    *held -= 2;
  }
  for (const auto& f : all) f.get(test::patience);
  CHECK(*most <= 3);
  CHECK(*most > 0);
  CHECK(s.available() == 3);
}

TEST_CASE("what was granted to a coroutine that never goes on is given back",
          "[channel][coroutine][stays:local]") {
  // The race of the test above, step by step: granted, then destroyed without having been taken.
  struct listener : manta::exec::waiter {
    int told = 0;
    listener() {
      fire = [](manta::exec::waiter* w) noexcept { ++static_cast<listener*>(w)->told; };
    }
  };
  listener ear;
  const manta::channel<int> c(1);
  {
    manta::detail::receive_source<int, true> source{manta::channel<int>(c)};
    CHECK_FALSE(source.is_ready());
    CHECK(source.add_waiter(&ear));
    c.send(1);
    CHECK(ear.told == 1);
    CHECK_FALSE(source.remove_waiter(&ear));
    CHECK(c.size() == 0);
    c.send(2);
  }
  CHECK(c.size() == 2);  // one more than its capacity, for a while
  CHECK_FALSE(c.try_send(3));
  CHECK(c.receive() == 1);
  CHECK(c.receive() == 2);

  const manta::semaphore s(1);
  std::optional<manta::permit> taken = s.acquire();
  {
    manta::detail::permit_source source(s.async_acquire(1));
    CHECK_FALSE(source.is_ready());
    CHECK(source.add_waiter(&ear));
    taken.reset();
    CHECK(ear.told == 2);
    CHECK(s.available() == 0);
  }
  CHECK(s.available() == 1);
  {
    manta::detail::permit_source source(s.async_acquire(1));
    CHECK(source.is_ready());
    CHECK(source.take().count() == 1);
  }
  CHECK(s.available() == 1);
}

namespace {

test::everywhere<std::atomic<int>> entered;

manta::coroutine<int> holds_permit(manta::semaphore s, manta::channel<int> never) {
  ++*entered;
  const auto permit = co_await s.async_acquire();
  co_return co_await never.async_receive();
}
manta::coroutine<int> receives(manta::channel<int> c) {
  int sum = 0;
  while (auto x = co_await c.async_next()) sum += *x;
  co_return sum;
}

}  // namespace

// Ending one coroutine gives its permit, or its item, to the next, under the lock of both.
TEST_CASE("the runtime ends coroutines that wait for what others hold",
          "[semaphore][coroutine][anywhere]") {
  for (int round = 0; round < 20; ++round) {
    *entered = 0;
    const manta::semaphore s(1);
    const manta::channel<int> never(1);
    std::vector<manta::future<int>> all;
    {
      const manta::runtime rt(test::two_workers());
      for (int i = 0; i < 32; ++i) all.push_back(manta::remote<holds_permit>(s, never));
      CHECK(test::comes_true([] { return *entered == 32; }));
    }
    int ended = 0;
    for (const auto& f : all) ended += f.is_ready() && !f.try_get() ? 1 : 0;
    CHECK(ended == 32);
    CHECK(s.available() == 1);
  }
}

TEST_CASE("a thread sends while the runtime ends those who receive",
          "[channel][coroutine][anywhere]") {
  const int rounds = test::trips(60);
  for (int round = 0; round < rounds; ++round) {
    const manta::channel<int> c(1);
    std::atomic<bool> stop{false};
    std::atomic<int> sent{0};
    std::thread sender;
    std::vector<manta::future<int>> all;
    {
      const manta::runtime rt(test::two_workers());
      for (int i = 0; i < 8; ++i) all.push_back(manta::remote<receives>(c));
      sender = std::thread([&] {
        while (!stop) sent += c.try_send(1) ? 1 : 0;
      });
      // Others are still about to receive when the first have.
      CHECK(test::eventually([&sent] { return sent > 2; }));
    }
    stop = true;
    sender.join();
    int ended = 0;
    for (const auto& f : all) ended += f.is_ready() ? 1 : 0;
    CHECK(ended == 8);
  }
}

}  // namespace channel_coroutine_test
