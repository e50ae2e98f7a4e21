// SPDX-License-Identifier: Apache-2.0
#include "sched/roster.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace {

using namespace std::chrono_literals;
using manta::sched::roster;
using manta_test::dice;
using manta_test::run_seed;
using manta_test::scaled;

std::size_t add(roster& to) {
  const std::size_t number = to.start();
  to.joined(number);
  return number;
}
void learn(roster& about, std::chrono::nanoseconds time) {
  for (int i = 0; i < 200; ++i) about.ran(time);
}

}  // namespace

TEST_CASE("who waits for each task has them all run by one worker", "[sched]") {
  roster r({.target = 3});
  for (int i = 0; i < 3; ++i) add(r);
  for (int i = 0; i < 10; ++i) {
    CHECK(r.place() == 0);
    r.sent(0);
    r.taken_back(0);
  }
}

TEST_CASE("tasks go to who has the fewest, as far as the windows go", "[sched]") {
  roster r({.target = 2, .most = 8});
  CHECK(r.place() == roster::nobody);
  const std::size_t a = r.start();
  CHECK(r.place() == roster::nobody);  // it has not joined
  r.joined(a);
  const std::size_t b = add(r);
  learn(r, 100ns);
  CHECK(r.window() == 8);
  std::vector<std::size_t> given;
  while (r.place() != roster::nobody) {
    given.push_back(r.place());
    r.sent(given.back());
  }
  CHECK(std::ranges::count(given, a) == 8);
  CHECK(std::ranges::count(given, b) == 8);
  r.taken_back(b);
  CHECK(r.place() == b);
}

TEST_CASE("the window follows the time that tasks take", "[sched]") {
  roster r({.target = 1, .most = 64, .ahead = 100us});
  learn(r, 10us);
  CHECK(r.window() >= 10);
  CHECK(r.window() <= 12);
  learn(r, 1s);
  CHECK(r.window() == 2);  // one that runs, one that is there when it ends
  learn(r, 0ns);
  CHECK(r.window() == 64);
}

TEST_CASE("a worker that waits gets nothing, and another one is wanted in its place", "[sched]") {
  roster r({.target = 1, .limit = 2});
  CHECK(r.wants_worker());
  const std::size_t a = add(r);
  CHECK_FALSE(r.wants_worker());
  r.sent(a);
  r.blocked(a, true);
  CHECK(r.is_blocked(a));
  CHECK(r.place() == roster::nobody);
  CHECK(r.wants_worker());
  const std::size_t b = add(r);
  CHECK_FALSE(r.wants_worker());  // the limit
  CHECK(r.place() == b);
  r.blocked(a, false);
  // Two run now where one should: the second gets nothing more, and goes when it has nothing to do.
  CHECK(r.place() == a);
  CHECK(r.surplus() == b);
  r.left(b);
  CHECK(r.surplus() == roster::nobody);
  CHECK(r.size() == 1);
}

TEST_CASE("tasks that wait below another one on a stack take no place", "[sched]") {
  roster r({.target = 1, .most = 8});
  const std::size_t a = add(r);
  learn(r, 1s);
  for (std::size_t i = 0; i < 8; ++i) {
    REQUIRE(r.place() == a);
    r.sent(a);
    r.stacked(a, i);
  }
  CHECK(r.under_way(a) == 8);
  CHECK(r.idle() == roster::nobody);
  // There are places for so many in all, whatever it says of them.
  CHECK(r.place() == roster::nobody);
  r.stacked(a, 100);
  CHECK(r.place() == roster::nobody);
  r.taken_back(a);
  CHECK(r.place() == a);
}

TEST_CASE("what was sent ahead is to be had from who has most", "[sched]") {
  roster r({.target = 3, .most = 8});
  for (int i = 0; i < 3; ++i) add(r);
  CHECK(r.most_loaded() == roster::nobody);
  r.sent(1);
  CHECK(r.most_loaded() == roster::nobody);  // it runs
  r.sent(1);
  r.sent(2);
  r.sent(2);
  r.sent(2);
  CHECK(r.most_loaded() == 2);
  CHECK(r.idle() == 0);
}

namespace {

// What must hold, by a model that knows nothing but sets.
class machine {
 public:
  explicit machine(std::uint64_t seed)
      : roll_(seed), with_{.target = 1 + roll_.below(4), .limit = 12, .most = 16}, r_(with_) {}

  void step() {
    switch (roll_.below(8)) {
      case 0:
        start();
        break;
      case 1:
        join();
        break;
      case 2:
        if (roll_.one_in(10)) leave();
        break;
      case 3:
        block();
        break;
      case 4:
        end_task();
        break;
      default:
        place();
    }
    check();
  }
  std::size_t placed() const { return placed_; }

 private:
  struct member {
    bool is_there = false, has_joined = false, is_blocked = false;
    std::size_t tasks = 0;
  };

  template <class Fits>
  std::size_t pick(Fits&& fits) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].is_there && fits(all_[i])) found.push_back(i);
    }
    return found.empty() ? roster::nobody : found[roll_.below(found.size())];
  }
  void start() {
    if (!r_.wants_worker()) return;
    const std::size_t n = r_.start();
    if (all_.size() <= n) all_.resize(n + 1);
    REQUIRE_FALSE(all_[n].is_there);
    all_[n] = {.is_there = true};
  }
  void join() {
    const std::size_t n = pick([](const member& m) { return !m.has_joined; });
    if (n == roster::nobody) return;
    r_.joined(n);
    all_[n].has_joined = true;
  }
  void leave() {
    const std::size_t n = pick([](const member&) { return true; });
    if (n == roster::nobody) return;
    r_.left(n);
    all_[n] = {};
  }
  void block() {
    const std::size_t n = pick([](const member&) { return true; });
    if (n == roster::nobody) return;
    all_[n].is_blocked = !all_[n].is_blocked;
    r_.blocked(n, all_[n].is_blocked);
  }
  void end_task() {
    const std::size_t n = pick([](const member& m) { return m.tasks > 0; });
    if (n == roster::nobody) return;
    r_.taken_back(n);
    r_.ran(std::chrono::nanoseconds(roll_.below(200'000)));
    --all_[n].tasks;
  }
  void place() {
    const std::size_t n = r_.place();
    if (n == roster::nobody) return;
    REQUIRE(all_[n].has_joined);
    REQUIRE_FALSE(all_[n].is_blocked);
    REQUIRE(all_[n].tasks < r_.window());
    std::size_t before = 0;
    for (std::size_t i = 0; i < n; ++i) before += all_[i].has_joined && !all_[i].is_blocked;
    REQUIRE(before < with_.target);
    r_.sent(n);
    ++all_[n].tasks;
    ++placed_;
  }
  void check() {
    std::size_t there = 0;
    std::size_t blocked = 0;
    for (const member& m : all_) {
      there += m.is_there;
      blocked += m.is_blocked;
    }
    REQUIRE(r_.size() == there);
    REQUIRE(r_.wants_worker() == (there - blocked < with_.target && there < with_.limit));
    REQUIRE(r_.window() >= 2);
    REQUIRE(r_.window() <= with_.most);
  }

  dice roll_;
  const roster::settings with_;
  roster r_;
  std::vector<member> all_;
  std::size_t placed_ = 0;
};

}  // namespace

TEST_CASE("no worker gets more than its window, whatever happens", "[sched]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  std::size_t placed = 0;
  for (std::uint64_t i = 0; i < 10; ++i) {
    machine m(seed + i);
    for (int step = 0; step < scaled(5000); ++step) m.step();
    placed += m.placed();
  }
  CHECK(placed > static_cast<std::size_t>(scaled(1000)));
}
