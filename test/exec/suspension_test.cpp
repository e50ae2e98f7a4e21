// SPDX-License-Identifier: Apache-2.0
// The engine under coroutines: interruptions and their races, waiting for oneself, sources, memory.
#include <mutex>
#include <string>
#include <utility>

#include <manta/exec/block_pool.hpp>
#include <manta/exec/suspension.hpp>

#include "api/coroutine_support.hpp"
#include "api/support.hpp"

namespace {

using test::are_suspended;
using test::eventually;
using test::held_future;

int doubled(int x) { return 2 * x; }

}  // namespace

namespace {
manta::coroutine<int> interruptible(manta::future<int> never, manta::future<int> later) {
  int caught = 0;
  for (int i = 0; i < 2; ++i) {
    try {
      co_await never;
    } catch (const manta::cancelled&) {
      ++caught;
    }
  }
  co_return 10 * caught + co_await later;
}
bool interrupt(const manta::future<int>& f) {
  return manta::exec::interrupt_coroutine(manta::detail::access::job(f),
                                          manta::exec::interruption::stop);
}
}  // namespace

TEST_CASE("an interrupted coroutine goes on with cancelled, once for each time", "[coroutine]") {
  const manta::runtime rt(test::two_workers());
  held_future never(1);
  const auto later = manta::remote<doubled>(2);
  const auto f = manta::remote<interruptible>(never.future, later);
  CHECK(are_suspended(1));
  CHECK(interrupt(f));
  // Interrupted before or after its second wait began: it ends that in either case.
  CHECK(interrupt(f));
  while (!f.is_ready()) interrupt(f);
  const int got = f.get();
  CHECK(got == 24);
  CHECK(!interrupt(f));
}

namespace {
manta::coroutine<int> counts_interruptions(int n) {
  int caught = 0;
  for (int i = 0; i < n; ++i) {
    try {
      co_await manta::remote<doubled>(i);
    } catch (const manta::cancelled&) {
      ++caught;
    }
  }
  co_return caught;
}
}  // namespace

TEST_CASE("interruptions race with what is awaited", "[coroutine]") {
  // The node of a future may be fired, removed and destroyed by three threads at the same moment.
  const manta::runtime rt(test::two_workers());
  const int n = test::is_sanitized ? 2000 : 50000;
  const auto f = manta::remote<counts_interruptions>(n);
  int made = 0;
  while (!f.is_ready()) made += interrupt(f) ? 1 : 0;
  CHECK(f.get() <= made);
  CHECK(are_suspended(0));
}

namespace {
std::mutex own_mutex;
manta::future<int> own_future;
manta::coroutine<int> awaits_own(manta::future<int> start) {
  co_await start;
  manta::future<int> self;
  {
    const std::lock_guard lock(own_mutex);
    self = own_future;
  }
  co_return co_await self;
}
manta::future<int> delegates(manta::future<int> f) { return f; }
}  // namespace

TEST_CASE("a coroutine that awaits itself is told", "[coroutine]") {
  const manta::runtime rt(test::two_workers());
  held_future start(1);
  {
    const std::lock_guard lock(own_mutex);
    own_future = manta::remote<awaits_own>(start.future);
  }
  start.gate.open();
  CHECK_THROWS_AS(own_future.get(), manta::self_wait);
  held_future again(1);
  const auto direct = manta::remote<awaits_own>(again.future);
  {
    const std::lock_guard lock(own_mutex);
    own_future = manta::remote<delegates>(direct);
    const manta::exec::job* const alias = manta::detail::access::job(own_future);
    CHECK(eventually([&] { return (alias->word() & manta::exec::job_bits::aliased) != 0; }));
  }
  again.gate.open();
  CHECK_THROWS_AS(direct.get(), manta::self_wait);
  const std::lock_guard lock(own_mutex);
  own_future = {};
}

namespace {
// Anything that can tell a waiter can be awaited: here, a switch.
class light_switch {
 public:
  void turn_on() {
    manta::exec::waiter* told = nullptr;
    {
      const std::lock_guard lock(mutex_);
      is_on_ = true;
      told = std::exchange(waiter_, nullptr);
    }
    if (told != nullptr) told->fire(told);
  }
  friend auto manta_await(light_switch& s) { return manta::detail::awaiter<source>(s); }

 private:
  struct source {
    light_switch& of;
    explicit source(light_switch& s) : of(s) {}
    bool is_ready() {
      const std::lock_guard lock(of.mutex_);
      return of.is_on_;
    }
    bool add_waiter(manta::exec::waiter* w) {
      const std::lock_guard lock(of.mutex_);
      if (of.is_on_) return false;
      of.waiter_ = w;
      return true;
    }
    bool remove_waiter(manta::exec::waiter* w) {
      const std::lock_guard lock(of.mutex_);
      if (of.waiter_ != w) return false;
      of.waiter_ = nullptr;
      return true;
    }
    int take() { return 11; }
  };
  std::mutex mutex_;
  bool is_on_ = false;
  manta::exec::waiter* waiter_ = nullptr;
};
light_switch the_light;
manta::coroutine<int> waits_for_light() {
  const int first = co_await the_light;
  co_return first + co_await the_light;
}
}  // namespace

TEST_CASE("a type of one's own is awaited through its source", "[coroutine]") {
  const manta::runtime rt(test::two_workers());
  const auto f = manta::remote<waits_for_light>();
  CHECK(are_suspended(1));
  the_light.turn_on();
  CHECK(f.get() == 22);
}

namespace {
manta::coroutine<int> short_of_memory(manta::future<int> late) {
  const manta::future<int> child = manta::remote<doubled>(1);
  static_cast<void>(child);
  manta::exec::testing::fail_allocation(1);
  co_return co_await late;  // its suspension needs a block
}
}  // namespace

TEST_CASE("a coroutine that can't be suspended for lack of memory fails with that", "[coroutine]") {
  const manta::runtime rt(test::two_workers());
  held_future late(1);
  const auto f = manta::remote<short_of_memory>(late.future);
  CHECK(test::message_of<manta::task_error>([&] { f.get(); }).find("std::bad_alloc") !=
        std::string::npos);
  CHECK(manta::exec::suspended_coroutines() == 0);
}
