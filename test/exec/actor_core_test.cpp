// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/actor_core.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace {

using manta::actor;
using manta::future;
using manta::exec::actor_core;
using manta_test::dice;
using manta_test::happens;
using manta_test::run_seed;
using manta_test::scaled;
using manta_test::with;
using namespace std::chrono_literals;

std::atomic<int> alive{0};

// Writes down every call: who called and which of his it was.
class recorder {
 public:
  recorder() { alive.fetch_add(1); }
  explicit recorder(bool fails) : recorder() {
    if (fails) throw std::runtime_error("not today");
  }
  recorder(const recorder&) = delete;
  ~recorder() { alive.fetch_sub(1); }

  int note(int caller, int number) {
    is_alone_ &= inside_.fetch_add(1) == 0;
    calls_.emplace_back(caller, number);
    inside_.fetch_sub(1);
    return number;
  }
  std::vector<std::pair<int, int>> calls() const { return calls_; }
  bool is_alone() const { return is_alone_; }

 private:
  std::vector<std::pair<int, int>> calls_;
  std::atomic<int> inside_{0};
  bool is_alone_ = true;
};

// A call whose answer nobody wants.
template <class Number>
void send(const actor<recorder>& to, int caller, const Number& number) {
  static_cast<void>(manta::remote<&recorder::note>(to, caller, number));
}

// Whether the calls of each caller have the numbers 0, 1, 2, ...
bool in_order(const std::vector<std::pair<int, int>>& calls) {
  std::map<int, int> next;
  for (const auto& [caller, number] : calls) {
    if (next[caller]++ != number) return false;
  }
  return true;
}

// Futures that are ready when their switch is set.
class switches {
 public:
  explicit switches(std::size_t n) : set_(n) {}
  /// A task that ends once switch i is set.
  future<int> make(std::size_t i, int value) {
    return manta::async([this, i, value] {
      while (!set_[i].load()) std::this_thread::yield();
      return value;
    });
  }
  void set(std::size_t i) { set_[i].store(true); }

 private:
  std::vector<std::atomic<bool>> set_;
};

}  // namespace

TEST_CASE("calls of one caller run in order, one at a time", "[actor_core]") {
  const manta::runtime rt(with(2));
  const auto a = manta::spawn<recorder>();
  const int count = scaled(100'000);
  for (int i = 0; i < count; ++i) send(a, 0, i);
  const auto calls = manta::remote<&recorder::calls>(a).get();
  CHECK(calls.size() == static_cast<std::size_t>(count));
  CHECK(in_order(calls));
  CHECK(manta::remote<&recorder::is_alone>(a).get());
}

TEST_CASE("calls of several threads interleave and keep each caller's order", "[actor_core]") {
  const manta::runtime rt(with(2));
  const auto a = manta::spawn<recorder>();
  const int count = scaled(30'000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < count; ++i) {
        auto f = manta::remote<&recorder::note>(a, t, i);
        if (i % 64 == 0) f.get();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  const auto calls = manta::remote<&recorder::calls>(a).get();
  CHECK(calls.size() == static_cast<std::size_t>(4 * count));
  CHECK(in_order(calls));
  CHECK(manta::remote<&recorder::is_alone>(a).get());
}

// What could break: a call without futures passes an earlier one of its caller that still waits for
// one, or a call that is held is never sent.
TEST_CASE("held calls keep their caller's order whatever becomes ready first", "[actor_core]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice random(seed);
  manta::config c = with(2);
  const manta::runtime rt(c);
  for (int round = 0; round < scaled(100); ++round) {
    constexpr int per_caller = 30;
    constexpr std::size_t switch_count = 6;
    switches wait_for(switch_count);
    std::vector<future<int>> keys;
    for (std::size_t i = 0; i < switch_count; ++i) keys.push_back(wait_for.make(i, 0));
    const auto a = manta::spawn<recorder>();
    const auto call_all = [&](int caller, std::uint64_t own_seed) {
      dice own(own_seed);
      for (int i = 0; i < per_caller; ++i) {
        if (own.one_in(3)) {
          // Its number is the number of the caller's call plus a key that is 0.
          const auto number = manta::async([key = keys[own.below(keys.size())], i] {
            return manta::async([key, i] { return key.get() + i; });
          });
          send(a, caller, number);
        } else {
          send(a, caller, i);
        }
      }
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      const std::uint64_t own_seed = random.next();
      threads.emplace_back([&call_all, t, own_seed] { call_all(t, own_seed); });
    }
    std::vector<std::size_t> order = {0, 1, 2, 3, 4, 5};
    for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
    for (const std::size_t i : order) {
      if (random.one_in(2)) std::this_thread::yield();
      wait_for.set(i);
    }
    for (std::thread& t : threads) t.join();
    // Calls of the three callers may still be held; this caller's question may pass them.
    const bool is_complete = happens([&] {
      return manta::remote<&recorder::calls>(a).get().size() == std::size_t{3 * per_caller};
    });
    REQUIRE(is_complete);
    REQUIRE(in_order(manta::remote<&recorder::calls>(a).get()));
  }
}

TEST_CASE("a held call of one caller lets other callers pass", "[actor_core]") {
  const manta::runtime rt(with(2));
  switches wait_for(1);
  const future<int> key = wait_for.make(0, 0);
  const auto a = manta::spawn<recorder>();
  const auto held = manta::remote<&recorder::note>(a, 0, key);
  const auto behind = manta::remote<&recorder::note>(a, 0, 1);
  std::thread other([&a] {
    const auto passes = manta::remote<&recorder::note>(a, 1, 0);
    passes.get();
  });
  other.join();
  CHECK_FALSE(held.is_ready());
  CHECK_FALSE(behind.is_ready());
  wait_for.set(0);
  CHECK(behind.get() == 1);
  CHECK(held.is_ready());
}

TEST_CASE("calls made before the constructor has run wait for it", "[actor_core]") {
  const manta::runtime rt(with(2));
  switches wait_for(1);
  const auto late = manta::async([key = wait_for.make(0, 0)] { return key.get() != 0; });
  const auto a = manta::spawn<recorder>(late);
  std::vector<future<int>> calls;
  for (int i = 0; i < 100; ++i) calls.push_back(manta::remote<&recorder::note>(a, 0, i));
  CHECK_FALSE(calls.front().is_ready());
  wait_for.set(0);
  for (int i = 0; i < 100; ++i) REQUIRE(calls[static_cast<std::size_t>(i)].get() == i);
}

TEST_CASE("every call of an actor whose constructor failed fails with the cause", "[actor_core]") {
  const manta::runtime rt(with(2));
  for (int i = 0; i < 50; ++i) {
    const auto a = manta::spawn<recorder>(true);
    const auto first = manta::remote<&recorder::note>(a, 0, 0);
    CHECK_THROWS_AS(first.get(), manta::actor_lost);
    CHECK_THROWS_WITH(manta::remote<&recorder::note>(a, 0, 1).get(),
                      Catch::Matchers::Contains("not today"));
  }
  CHECK(happens([] { return actor_core::alive() == 0; }));
  CHECK(alive.load() == 0);
}

TEST_CASE("an actor ends after its last handle, when its calls are done", "[actor_core]") {
  const manta::runtime rt(with(2));
  for (int i = 0; i < scaled(2000); ++i) {
    future<int> last;
    {
      const auto a = manta::spawn<recorder>();
      const auto copy = a;
      for (int k = 0; k < i % 5; ++k) last = manta::remote<&recorder::note>(copy, 0, k);
      if (i % 7 == 0 && last.valid()) last.get();
    }
    if (last.valid()) REQUIRE(last.get() == i % 5 - 1);
  }
  CHECK(happens([] { return actor_core::alive() == 0 && alive.load() == 0; }));
}

TEST_CASE("a held call keeps its actor alive", "[actor_core]") {
  const manta::runtime rt(with(2));
  switches wait_for(1);
  future<int> held;
  {
    const auto a = manta::spawn<recorder>();
    held = manta::remote<&recorder::note>(a, 0, wait_for.make(0, 7));
  }
  CHECK(actor_core::alive() == 1);
  wait_for.set(0);
  CHECK(held.get() == 7);
  CHECK(happens([] { return actor_core::alive() == 0 && alive.load() == 0; }));
}

TEST_CASE("handles copied and dropped by many threads end the actor once", "[actor_core]") {
  const manta::runtime rt(with(2));
  for (int round = 0; round < scaled(300); ++round) {
    std::vector<std::thread> threads;
    {
      const auto a = manta::spawn<recorder>();
      for (int t = 0; t < 3; ++t) {
        threads.emplace_back([mine = a, t]() mutable {
          for (int i = 0; i < 20; ++i) {
            const auto copy = mine;
            if (i % 5 == 0) send(copy, t, i);
          }
          mine = {};
        });
      }
    }
    for (std::thread& t : threads) t.join();
  }
  CHECK(happens([] { return actor_core::alive() == 0 && alive.load() == 0; }));
}

TEST_CASE("ten thousand actors are made, called once and ended", "[actor_core]") {
  const manta::runtime rt(with(2));
  std::vector<future<int>> answers;
  for (int i = 0; i < scaled(10'000); ++i) {
    answers.push_back(manta::remote<&recorder::note>(manta::spawn<recorder>(), 0, i));
  }
  int wrong = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    wrong += answers[i].get() == static_cast<int>(i) ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(happens([] { return actor_core::alive() == 0 && alive.load() == 0; }));
}

TEST_CASE("the end of the runtime ends every actor and every call", "[actor_core]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice random(seed);
  for (int round = 0; round < scaled(300); ++round) {
    std::vector<actor<recorder>> handles;
    std::vector<future<int>> answers;
    {
      const manta::runtime rt(with(1 + round % 3));
      const std::size_t actors = 1 + random.below(10);
      future<int> previous = manta::put(0);
      for (std::size_t i = 0; i < actors; ++i) {
        handles.push_back(random.one_in(5) ? manta::spawn<recorder>(random.one_in(2))
                                           : manta::spawn<recorder>());
      }
      for (int i = 0; i < 200; ++i) {
        const auto& to = handles[random.below(handles.size())];
        if (random.one_in(4)) {
          previous = manta::remote<&recorder::note>(to, 0, previous);
        } else {
          previous = manta::remote<&recorder::note>(to, 0, i);
        }
        answers.push_back(previous);
        if (random.one_in(30)) handles[random.below(handles.size())] = manta::spawn<recorder>();
      }
      if (random.one_in(2)) answers.back().try_get();
    }
    int pending = 0;
    for (const auto& f : answers) {
      pending += f.is_ready() ? 0 : 1;
      const auto got = f.try_get();
      if (got) continue;
      const bool is_expected = got.error().code() == manta::errc::cancelled ||
                               got.error().code() == manta::errc::actor_lost;
      REQUIRE(is_expected);
    }
    REQUIRE(pending == 0);
    REQUIRE(alive.load() == 0);
    handles.clear();
    REQUIRE(actor_core::alive() == 0);
  }
}

// What could break: the runtime's end and the end of the last handle both free the core.
TEST_CASE("a last handle may go on another thread while the runtime ends", "[actor_core]") {
  for (int round = 0; round < scaled(2000); ++round) {
    std::atomic<bool> is_ending{false};
    std::thread dropper;
    {
      const manta::runtime rt(with(1));
      std::vector<actor<recorder>> handles;
      for (int i = 0; i < 20; ++i) handles.push_back(manta::spawn<recorder>());
      dropper = std::thread([mine = std::move(handles), &is_ending]() mutable {
        while (!is_ending.load()) {
        }
        while (!mine.empty()) mine.pop_back();
      });
      is_ending.store(true);
    }
    dropper.join();
    REQUIRE(alive.load() == 0);
    REQUIRE(actor_core::alive() == 0);
  }
}

namespace {

struct selfish {
  actor<selfish> me;
  selfish() { alive.fetch_add(1); }
  selfish(const selfish&) = delete;
  ~selfish() { alive.fetch_sub(1); }
  void keep(actor<selfish> self) { me = std::move(self); }
};

}  // namespace

TEST_CASE("an actor that holds a handle to itself lives until the runtime ends", "[actor_core]") {
  {
    const manta::runtime rt(with(1));
    const auto a = manta::spawn<selfish>();
    manta::remote<&selfish::keep>(a, a).get();
    CHECK(actor_core::alive() == 1);
  }
  CHECK(alive.load() == 0);
  CHECK(actor_core::alive() == 0);
}

// What could break: a weak handle counts the one that other nodes are about to give back, takes
// another one for it, or stays refused when they have it again.
TEST_CASE("a weak handle heeds what other nodes have said of the actor", "[actor_core]") {
  const manta::runtime rt(with(1));
  auto a = manta::spawn<recorder>();
  const manta::weak_actor<recorder> weak = a;
  CHECK(weak.lock() == a);
  actor_core* const core = manta::detail::actor_access::core(a);  // `a` is the others' one
  core->others_go(true);
  CHECK_FALSE(weak.lock().valid());
  REQUIRE(core->try_add_handle());
  CHECK(weak.lock() == a);
  core->drop_handle();
  CHECK_FALSE(weak.lock().valid());
  core->others_go(false);
  CHECK(weak.lock() == a);
  core->note_unwanted(true);
  CHECK_FALSE(weak.lock().valid());
  CHECK(manta::remote<&recorder::note>(a, 0, 0).get() == 0);
  core->note_unwanted(false);
  CHECK(weak.lock() == a);
  core->others_go(true);
  core->add_handle();
  core->drop_others();  // and `a` is one of this node's
  CHECK(weak.lock() == a);
  a = {};
  CHECK(happens([] { return alive.load() == 0; }));
  CHECK_FALSE(weak.lock().valid());
}
