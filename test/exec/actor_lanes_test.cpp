// SPDX-License-Identifier: Apache-2.0
// Calls that suspend themselves, which their actor waits for: whoever is first, the runner that
// comes back or the thread that completes the call, the actor goes on once.
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <manta/exec/actor_core.hpp>
#include <manta/manta.hpp>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace {

using manta::future;
using manta::exec::actor_core;
using manta::exec::job;
using manta::exec::job_bits;
using manta_test::happens;
using manta_test::scaled;
using manta_test::with;

std::atomic<job*> suspended{nullptr};
std::atomic<int> inside{0};
std::atomic<int> most_inside{0};

void enter() {
  const int now = ++inside;
  int seen = most_inside;
  while (now > seen && !most_inside.compare_exchange_weak(seen, now)) {
  }
}

struct counted {
  static inline std::atomic<int> alive{0};
  counted() { ++alive; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() { alive += inside == 0 ? -1 : 1000; }
  int next() {
    enter();
    const int n = ++calls;
    --inside;
    return n;
  }
  std::atomic<int> calls{0};
};

/// A call whose run hands it to whoever takes `suspended`.
struct suspending_call : manta::detail::cell<int> {
  actor_core* core;
  std::uint64_t caller = manta::exec::caller_serial();
  explicit suspending_call(actor_core* of) : cell<int>(&ops, 2), core(of) {}
  static const manta::exec::job_ops ops;
};

const manta::exec::job_ops suspending_call::ops = {
    .execute = &actor_core::execute_call,
    .run = [](job* j) noexcept -> std::uint64_t {
      enter();
      job* none = nullptr;
      while (!suspended.compare_exchange_weak(none, j)) {
        none = nullptr;
        std::this_thread::yield();
      }
      return 0;
    },
    .ready = nullptr,
    .cancel = &actor_core::cancel_call,
    .drop_arguments = [](job* /*self*/) noexcept {},
    .drop_value = nullptr,
    .alias = nullptr,
    .origin = [](job* j) noexcept -> manta::exec::call_origin {
      auto* const c = static_cast<suspending_call*>(j);
      return {c->core, c->caller};
    },
    .size = 8 + sizeof(suspending_call),
    .front = 8,
    .in_place = false,
    .function = "suspending call",
    .function_hash = 1,
};

future<int> suspend_in(const manta::actor<counted>& a) {
  actor_core* const core = manta::detail::actor_access::core(a);
  auto* const call = manta::detail::make_job<suspending_call, 8>(core);
  manta::exec::name_child(call);
  future<int> out = manta::detail::access::make<int>(call);
  core->send(call, call->caller);
  return out;
}

/// Completes `n` calls as they come.
std::thread completer(int n) {
  return std::thread([n] {
    for (int i = 0; i < n;) {
      job* const j = suspended.exchange(nullptr);
      if (j == nullptr) {
        std::this_thread::yield();
        continue;
      }
      new (&manta::detail::value_of<int>(j)) int(i++);
      --inside;
      actor_core::complete(j, job_bits::ready);
    }
  });
}

}  // namespace

TEST_CASE("an actor waits for its suspended call and then goes on", "[actor_lanes]") {
  const manta::runtime rt(with(2));
  auto a = manta::spawn<counted>();
  const auto slow = suspend_in(a);
  const auto behind = manta::remote<&counted::next>(a);
  REQUIRE(happens([] { return suspended.load() != nullptr; }));
  CHECK_THROWS_AS(behind.get(std::chrono::milliseconds(1)), manta::timed_out);
  CHECK_FALSE(slow.is_ready());
  completer(1).join();
  CHECK(slow.get() == 0);
  CHECK(behind.get() == 1);
  a = {};
  CHECK(happens([] { return actor_core::alive() == 0 && counted::alive == 0; }));
}

TEST_CASE("completions race with the runner that comes back", "[actor_lanes]") {
  for (const int limit : {1, 2, 5}) {
    const manta::runtime rt(with(2));
    most_inside = 0;
    const int n = scaled(2000);
    auto a = limit == 1 ? manta::spawn<counted>()
                        : manta::spawn<counted>.with({.max_concurrency = limit})();
    std::thread other = completer(n);
    std::vector<future<int>> answers;
    for (int i = 0; i < n; ++i) {
      answers.push_back(suspend_in(a));
      if (i % 3 == 0) answers.push_back(manta::remote<&counted::next>(a));
    }
    a = {};  // the end waits for them all
    other.join();
    int failed = 0;
    for (const auto& f : answers) failed += f.try_get() ? 0 : 1;
    CHECK(failed == 0);
    CHECK(most_inside <= limit);
    CHECK(happens([] { return actor_core::alive() == 0 && counted::alive == 0; }));
  }
}

TEST_CASE("a killed actor ends when its suspended call was completed", "[actor_lanes]") {
  const manta::runtime rt(with(2));
  for (const int limit : {1, 3}) {
    const auto a = limit == 1 ? manta::spawn<counted>()
                              : manta::spawn<counted>.with({.max_concurrency = limit})();
    const auto slow = suspend_in(a);
    REQUIRE(happens([] { return suspended.load() != nullptr; }));
    const auto end = manta::monitor(a);
    manta::kill(a);
    CHECK_FALSE(end.is_ready());
    CHECK(counted::alive == 1);
    completer(1).join();
    CHECK(slow.get() == 0);
    CHECK(end.get(std::chrono::seconds(60)).reason == manta::end_reason::killed);
    CHECK(happens([] { return actor_core::alive() == 0 && counted::alive == 0; }));
  }
}
