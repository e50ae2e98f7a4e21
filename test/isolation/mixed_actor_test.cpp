// SPDX-License-Identifier: Apache-2.0
// Actors with an isolation of their own: in threads and in workers of one runtime, called by both.
#include <csignal>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "isolation/support.hpp"

namespace mixed_actor_test {

namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::isolated;
using test::mixed;
using test::pid;
using test::shared;
using test::shared_numbers;
using test::square;

constexpr auto in_process = manta::isolation_mode::processes;
constexpr auto in_thread = manta::isolation_mode::threads;

struct log {
  log() = default;
  explicit log(int first) : all{first} {
    if (first < 0) throw std::runtime_error("less than 0");
  }
  int pid() const { return getpid(); }
  int add(int x) {
    all.push_back(x);
    return static_cast<int>(all.size());
  }
  std::vector<int> list() const { return all; }
  int fail(int x) { throw std::runtime_error("no " + std::to_string(x)); }
  int die() {
    raise(SIGKILL);
    return 0;
  }
  int wait() {
    ++shared(0);
    comes_true([] { return shared(1) != 0; });
    return getpid();
  }
  std::vector<int> all;
};

std::vector<int> adds(manta::actor<log> to, int n) {
  std::vector<manta::future<int>> all;
  for (int i = 0; i < n; ++i) all.push_back(manta::remote<&log::add>(to, i));
  std::vector<int> out;
  for (auto& f : all) out.push_back(f.get());
  return out;
}
// What the last of several calls says.
int last_of(manta::actor<log> to, int n) {
  manta::future<int> last;
  for (int i = 0; i < n; ++i) last = manta::remote<&log::add>(to, i);
  return last.get();
}
std::string error_of(manta::actor<log> from) {
  try {
    manta::remote<&log::fail>(from, 4).get();
  } catch (const manta::task_error& e) {
    return e.what();
  }
  return {};
}

std::vector<int> up_to(int n) {
  std::vector<int> out;
  for (int i = 0; i < n; ++i) out.push_back(i);
  return out;
}

// In a worker: the actor of that name, asked for with more groups than a message has.
std::string asks_with_many_groups(const std::string& name) {
  manta::actor_options with{.name = name, .get_if_exists = true};
  for (int i = 0; i < 300; ++i) with.groups.push_back({std::to_string(i), 1});
  try {
    return std::to_string(manta::remote<&log::add>(manta::spawn<log>.with(with)(), 1).get());
  } catch (const manta::unsupported& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("one that lives is found with however many groups it is asked for", "[isolation]") {
  const manta::runtime rt(mixed());
  const manta::options in_worker{.isolation = in_process};
  const auto asks = [&](const std::string& name) {
    return manta::remote<asks_with_many_groups>.with(in_worker)(name).get();
  };
  CHECK_THAT(asks("one"), Catch::Matchers::Contains("option groups: asked 300"));
  CHECK_FALSE(manta::find_actor<log>("one"));  // the name stays free
  const auto away = manta::spawn<log>.with({.isolation = in_process, .name = "one"})();
  CHECK(manta::remote<&log::add>(away, 1).get() == 1);
  CHECK(asks("one") == "2");
  const auto here = manta::spawn<log>.with({.isolation = in_thread, .name = "here"})();
  CHECK(asks("here") == "1");
  // Asked for by the driver, for a worker.
  manta::actor_options with{.isolation = in_process, .name = "one", .get_if_exists = true};
  for (int i = 0; i < 300; ++i) with.groups.push_back({std::to_string(i), 1});
  CHECK(manta::remote<&log::add>(manta::spawn<log>.with(with)(), 1).get() == 3);
  with.name = "two";
  CHECK_THROWS_AS(manta::spawn<log>.with(with)(), manta::unsupported);
  CHECK_FALSE(manta::find_actor<log>("two"));
}

TEST_CASE("an actor in a worker has as many groups as a message about it", "[isolation]") {
  const manta::runtime rt(mixed());
  std::vector<manta::concurrency_group> groups;
  for (int i = 0; i < 255; ++i) groups.push_back({std::to_string(i), 1});
  const auto a = manta::spawn<log>.with({.isolation = in_process, .groups = groups})();
  CHECK(manta::remote<&log::pid>.with({.group = "254"})(a).get() != getpid());
  groups.push_back({"one more", 1});
  CHECK_THROWS_AS((manta::spawn<log>.with({.isolation = in_process, .groups = groups})()),
                  manta::unsupported);
  const auto here = manta::spawn<log>.with({.isolation = in_thread, .groups = groups})();
  CHECK(manta::remote<&log::pid>.with({.group = "one more"})(here).get() == getpid());
  CHECK(manta::remote<&log::pid>(a).get() != getpid());
}

TEST_CASE("an actor lives where its options say", "[isolation]") {
  {
    const manta::runtime rt(mixed());
    const auto here = manta::spawn<log>();
    const auto away = manta::spawn<log>.with({.isolation = in_process})();
    CHECK(manta::remote<&log::pid>(here).get() == getpid());
    CHECK(manta::remote<&log::pid>(away).get() != getpid());
    CHECK(adds(away, 100).back() == 100);
    CHECK(manta::remote<&log::list>(away).get() == up_to(100));
    CHECK(manta::remote<&log::add>.with({.name = "once"})(away, 7).get() == 101);
    CHECK_THROWS_AS(manta::remote<&log::die>(away).get(), manta::actor_lost);
    CHECK(manta::remote<&log::pid>(here).get() == getpid());
  }
  const manta::runtime rt(isolated());
  const auto here = manta::spawn<log>.with({.isolation = in_thread})(1);
  const auto away = manta::spawn<log>();
  CHECK(manta::remote<&log::pid>(here).get() == getpid());
  CHECK(manta::remote<&log::pid>(away).get() != getpid());
  CHECK(manta::remote<&log::add>(here, manta::remote<square>(3)).get() == 2);
}

TEST_CASE("an isolated task calls an actor of the driver's threads", "[isolation]") {
  for (const bool is_mixed : {true, false}) {
    CAPTURE(is_mixed);
    const manta::runtime rt(is_mixed ? mixed() : isolated());
    const auto a = manta::spawn<log>.with({.isolation = in_thread})();
    const std::vector<int> counts =
        manta::remote<adds>.with({.isolation = in_process})(a, 200).get();
    CHECK(counts.back() == 200);
    CHECK(manta::remote<&log::list>(a).get() == up_to(200));
    const std::string text = manta::remote<error_of>.with({.isolation = in_process})(a).get();
    CHECK(text.find("no 4") != std::string::npos);
  }
}

TEST_CASE("tasks of both kinds call an isolated actor", "[isolation]") {
  const manta::runtime rt(mixed());
  const auto a = manta::spawn<log>.with({.isolation = in_process})();
  CHECK(manta::remote<adds>(a, 50).get().back() == 50);
  CHECK(manta::remote<adds>.with({.isolation = in_process})(a, 50).get().back() == 100);
  const auto argument = manta::remote<square>(3);
  CHECK(manta::remote<&log::add>(a, argument).get() == 101);
  CHECK(manta::remote<&log::list>(a).get().back() == 9);
}

TEST_CASE("the mailbox of an actor in threads is capped for isolated callers, too", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(mixed());
  const auto a =
      manta::spawn<log>.with({.mailbox_cap = 1, .on_full = manta::full_policy::refuse})();
  auto first = manta::remote<&log::wait>(a);
  REQUIRE(comes_true([&] { return numbers[0] == 1; }));
  CHECK_THROWS_AS(manta::remote<last_of>.with({.isolation = in_process})(a, 5).get(),
                  manta::mailbox_full);
  numbers[1] = 1;
  CHECK(first.get() == getpid());
  CHECK(comes_true([&] {
    try {
      manta::remote<adds>.with({.isolation = in_process})(a, 1).get();
      return true;
    } catch (const manta::mailbox_full&) {
      return false;
    }
  }));
}

namespace {

manta::actor<log> makes(int first) { return manta::spawn<log>(first); }
manta::actor<log> makes_away(int first) {
  return manta::spawn<log>.with({.isolation = in_process})(first);
}
manta::actor<log> makes_named(const std::string& name, std::optional<manta::isolation_mode> how) {
  return manta::spawn<log>.with({.isolation = how, .name = name, .get_if_exists = true})(1);
}
int pid_of_made() {
  const auto made = manta::spawn<log>(3);
  adds(made, 20);
  return manta::remote<&log::pid>(made).get();
}
std::string fails_to_make() {
  try {
    const auto made = manta::spawn<log>(-1);
    manta::remote<&log::pid>(made).get();
  } catch (const manta::actor_lost& e) {
    return e.what();
  }
  return {};
}
int pid_of_named(const std::string& name) {
  const auto found = manta::find_actor<log>(name);
  return found ? manta::remote<&log::pid>(*found).get() : 0;
}

}  // namespace

TEST_CASE("an actor that an isolated task makes lives where the runtime says", "[isolation]") {
  const manta::runtime rt(mixed());
  const auto here = manta::remote<makes>.with({.isolation = in_process})(5).get();
  CHECK(manta::remote<&log::pid>(here).get() == getpid());
  CHECK(manta::remote<&log::add>(here, 6).get() == 2);
  const auto away = manta::remote<makes_away>.with({.isolation = in_process})(5).get();
  CHECK(manta::remote<&log::pid>(away).get() != getpid());
  CHECK(manta::remote<pid_of_made>.with({.isolation = in_process})().get() == getpid());
  const std::string text = manta::remote<fails_to_make>.with({.isolation = in_process})().get();
  CHECK(text.find("less than 0") != std::string::npos);
}

TEST_CASE("names of actors are those of all kinds", "[isolation]") {
  const manta::runtime rt(mixed());
  const auto name = manta::remote<makes_named>.with({.isolation = in_process});
  for (const auto how : {std::optional<manta::isolation_mode>(), std::optional(in_thread),
                         std::optional(in_process)}) {
    const auto made = name("shard", how).get();
    const int lives_in = manta::remote<&log::pid>(made).get();
    CHECK((lives_in == getpid()) == (how != in_process));
    const auto again = name("shard", how).get();
    CHECK(again == made);
    REQUIRE(manta::find_actor<log>("shard").has_value());
    CHECK(manta::find_actor<log>("shard") == made);
    manta::kill(made);
    REQUIRE(comes_true([] { return !manta::find_actor<log>("shard"); }));
  }
  const auto own = manta::spawn<log>.with({.name = "own"})();
  CHECK(manta::remote<pid_of_named>.with({.isolation = in_process})("own").get() == getpid());
  CHECK(manta::remote<pid_of_named>.with({.isolation = in_process})("none").get() == 0);
}

TEST_CASE("an actor in threads ends when no worker has a handle any more", "[isolation]") {
  const manta::runtime rt(mixed());
  manta::future<manta::actor_end> end;
  {
    const auto made = manta::remote<makes>.with({.isolation = in_process})(5).get();
    end = manta::monitor(made);
    CHECK(manta::remote<adds>.with({.isolation = in_process})(made, 3).get().back() == 4);
  }
  CHECK(end.get(test::patience).reason == manta::end_reason::ended);
}

}  // namespace mixed_actor_test
