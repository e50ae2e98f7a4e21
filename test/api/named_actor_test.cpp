// SPDX-License-Identifier: Apache-2.0
// Actors with names: unique in their namespace while they live, found by anybody, made once.
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/support.hpp"

namespace named_actor_test {

namespace {

using Catch::Matchers::Contains;
using namespace std::chrono_literals;

test::everywhere<std::atomic<int>> made;

struct room {
  int n = 0;
  room() { ++*made; }
  explicit room(int start) : n(start) { ++*made; }
  int add(int x) { return n += x; }
  [[noreturn]] int fail() { throw std::runtime_error("no"); }
};
struct other {
  int one() { return 1; }
};
struct broken {
  broken() { throw std::runtime_error("not today"); }
  int one() { return 1; }
};

bool is_free(const std::string& name, const std::string& space = {}) {
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (manta::find_actor<room>(name, space)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

TEST_CASE("a named actor is found by its name and namespace", "[actor][name][anywhere]") {
  const manta::runtime rt(test::two_workers());
  CHECK_FALSE(manta::find_actor<room>("a"));
  const auto a = manta::spawn<room>.with({.name = "a"})(1);
  const auto b = manta::spawn<room>.with({.name = "a", .name_space = "chat"})(2);
  CHECK_FALSE(a == b);
  REQUIRE(manta::find_actor<room>("a"));
  CHECK(*manta::find_actor<room>("a") == a);
  CHECK(*manta::find_actor<room>("a", "chat") == b);
  CHECK_FALSE(manta::find_actor<room>("a", "other"));
  CHECK_FALSE(manta::find_actor<room>("b"));
  CHECK(manta::remote<&room::add>(*manta::find_actor<room>("a", "chat"), 1).get() == 3);
  constexpr auto look = [] {
    return manta::remote<&room::add>(*manta::find_actor<room>("a"), 1).get();
  };
  CHECK(manta::remote<look>().get(test::patience) == 2);
}

TEST_CASE("a name is taken while its actor lives", "[actor][name][anywhere]") {
  const manta::runtime rt(test::two_workers());
  *made = 0;
  const auto a = manta::spawn<room>.with({.name = "x", .name_space = "s"})();
  CHECK_THROWS_AS((manta::spawn<room>.with({.name = "x", .name_space = "s"})()), manta::name_taken);
  CHECK_THROWS_WITH((manta::spawn<other>.with({.name = "x", .name_space = "s"})()),
                    Contains("\"x\"") && Contains("\"s\"") && Contains("room"));
  const auto b = manta::spawn<room>.with({.name = "x", .name_space = "t"})();
  CHECK(manta::remote<&room::add>(a, 1).get() == 1);
  CHECK(manta::remote<&room::add>(b, 1).get() == 1);
  CHECK(*made == 2);
  CHECK_THROWS_WITH(manta::remote<&room::fail>(a).get(), Contains("fail"));
}

TEST_CASE("a name is free when its actor ended, however it did", "[actor][name][anywhere]") {
  const manta::runtime rt(test::two_workers());
  auto a = manta::spawn<room>.with({.name = "x"})();
  a = {};
  // Nobody could reach it any more; its node hears of that a moment later.
  if (test::in_nodes()) {
    CHECK(is_free("x"));
  } else {
    CHECK_FALSE(manta::find_actor<room>("x"));
  }
  a = manta::spawn<room>.with({.name = "x"})(5);
  CHECK(manta::remote<&room::add>(*manta::find_actor<room>("x"), 1).get() == 6);
  manta::kill(a);
  CHECK(is_free("x"));
  a = manta::spawn<room>.with({.name = "x"})();
  manta::retire(a);
  CHECK(is_free("x"));
  const auto bad = manta::spawn<broken>.with({.name = "x", .get_if_exists = true})();
  CHECK_THROWS_WITH(manta::remote<&broken::one>(bad).get(),
                    Contains("constructor of x failed") && Contains("not today"));
  manta::monitor(bad).get(test::patience);
  a = manta::spawn<room>.with({.name = "x"})();
  CHECK(manta::remote<&room::add>(a, 1).get() == 1);
}

TEST_CASE("a name does not outlive the runtime", "[actor][name][anywhere]") {
  std::optional<manta::actor<room>> kept;
  {
    const manta::runtime rt(test::two_workers());
    kept = manta::spawn<room>.with({.name = "x"})();
  }
  const manta::runtime rt(test::two_workers());
  CHECK_FALSE(manta::find_actor<room>("x"));
  const auto a = manta::spawn<room>.with({.name = "x"})(3);
  CHECK(manta::remote<&room::add>(a, 1).get() == 4);
  kept.reset();
  CHECK(*manta::find_actor<room>("x") == a);
}

TEST_CASE("get_if_exists gives the living actor, and makes one when there is none",
          "[actor][name][anywhere]") {
  const manta::runtime rt(test::two_workers());
  *made = 0;
  const auto a = manta::spawn<room>.with({.name = "x", .get_if_exists = true})(1);
  const auto b = manta::spawn<room>.with({.name = "x", .get_if_exists = true})(100);
  CHECK(a == b);
  CHECK(manta::remote<&room::add>(b, 1).get() == 2);
  CHECK(*made == 1);
}

TEST_CASE("a name with another type says both types", "[actor][name][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<room>.with({.name = "x"})();
  CHECK_THROWS_AS(manta::find_actor<other>("x"), manta::invalid_argument);
  CHECK_THROWS_WITH(manta::find_actor<other>("x"), Contains("room") && Contains("other"));
  CHECK_THROWS_WITH((manta::spawn<other>.with({.name = "x", .get_if_exists = true})()),
                    Contains("room") && Contains("other"));
  CHECK(manta::remote<&room::add>(a, 1).get() == 1);
}

TEST_CASE("many threads that get or make one name get one actor", "[actor][name][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const int rounds = test::is_sanitized || test::in_nodes() ? 50 : 500;
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    *made = 0;
    test::gate start(4);
    std::vector<manta::actor<room>> got(4);
    std::atomic<int> refused{0};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        start.arrive();
        start.wait();
        got[t] = manta::spawn<room>.with({.name = "one", .get_if_exists = true})();
        try {
          static_cast<void>(manta::spawn<room>.with({.name = "one"})());
        } catch (const manta::name_taken&) {
          ++refused;
        }
      });
    }
    for (std::thread& t : threads) t.join();
    for (const auto& a : got) wrong += a == got[0] ? 0 : 1;
    wrong += manta::remote<&room::add>(got[0], 1).get() == 1 ? 0 : 1;
    wrong += refused == 4 ? 0 : 1;
    wrong += *made == 1 ? 0 : 1;
    // The node that it lived in hears of the last handle's end a moment later.
    got.clear();
    if (test::in_nodes()) wrong += is_free("one") ? 0 : 1;
  }
  CHECK(wrong == 0);
}

// What could break: the end of the last handle and somebody who finds the name meet; he gets an
// actor that is gone, or two living ones have the name.
TEST_CASE("finding races with the last handle and with kill", "[actor][name][anywhere]") {
  std::atomic<int> wrong{0};
  std::atomic<bool> done{false};
  const manta::runtime rt(test::two_workers());
  const int rounds = test::is_sanitized || test::in_nodes() ? 200 : 3000;
  std::vector<std::thread> finders;
  for (int t = 0; t < 2; ++t) {
    finders.emplace_back([&] {
      while (!done) {
        const auto found = manta::find_actor<room>("x");
        if (!found) continue;
        const auto r = manta::remote<&room::add>(*found, 1).try_get();
        if (!r && r.error().code() != manta::errc::actor_lost) ++wrong;
      }
    });
  }
  for (int i = 0; i < rounds; ++i) {
    const auto a = manta::spawn<room>.with({.name = "x", .get_if_exists = true})();
    if (i % 3 == 0) manta::kill(a);
  }
  done = true;
  for (std::thread& t : finders) t.join();
  CHECK(wrong == 0);
  CHECK(is_free("x"));
}

TEST_CASE("options of names are checked at the call", "[actor][name][stays:refused]") {
  const manta::runtime rt(test::two_workers());
  CHECK_THROWS_AS((manta::spawn<room>.with({.get_if_exists = true})()), manta::invalid_argument);
  CHECK_THROWS_AS((manta::spawn<room>.with({.name_space = "s"})()), manta::invalid_argument);
  CHECK_THROWS_AS((manta::spawn<room>.with({.detached = true})()), manta::invalid_argument);
  CHECK_THROWS_AS((manta::spawn<room>.with({.name = "x", .detached = true})()), manta::unsupported);
  CHECK_THROWS_WITH((manta::spawn<room>.with({.name = "x", .detached = true})()),
                    Contains("driver"));
}

}  // namespace named_actor_test
