// SPDX-License-Identifier: Apache-2.0
// Gpus, memory and the user's own resources: never more than there is, and all comes back.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/support.hpp"

namespace resources_test {

namespace {

using namespace std::chrono_literals;

manta::config machine(int workers, int gpus, manta::resource_list own = {}) {
  manta::config c = test::workers(workers);
  c.gpus = gpus;
  c.memory_bytes = 1000;
  c.resources = std::move(own);
  c.labels = manta::label_list{{"zone", "a"}};
  return c;
}

int identity(int x) { return x; }

// What each gpu is used for at the moment, in hundredths; tasks enter and leave.
test::everywhere<std::array<std::atomic<int>, 8>> in_use;
test::everywhere<std::atomic<int>> beyond;

int use_gpus(int share) {
  const std::vector<int> mine = manta::this_task::gpus();
  for (const int g : mine) {
    if (((*in_use)[static_cast<std::size_t>(g)] += share) > 100) ++*beyond;
  }
  volatile int sink = 0;
  for (int i = 0; i < 500; ++i) sink = sink + i;
  for (const int g : mine) (*in_use)[static_cast<std::size_t>(g)] -= share;
  return static_cast<int>(mine.size());
}

bool all_comes_back(const manta::runtime& rt) {
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (std::chrono::steady_clock::now() < end) {
    const manta::resource_report now = rt.resources();
    if (now.free == now.total) return true;
    std::this_thread::yield();
  }
  return false;
}

}  // namespace

TEST_CASE("a gpu is never shared beyond one, whole ones not at all",
          "[resources][anywhere][amounts_home][stays:amounts]") {
  const manta::runtime rt(machine(4, 3));
  *beyond = 0;
  std::vector<manta::future<int>> whole;
  std::vector<manta::future<int>> pairs;
  std::vector<manta::future<int>> shares;
  for (int i = 0; i < 150; ++i) {
    whole.push_back(manta::remote<use_gpus>.with({.gpus = 1})(100));
    pairs.push_back(manta::remote<use_gpus>.with({.gpus = 2})(100));
    shares.push_back(manta::remote<use_gpus>.with({.gpus = 0.4})(40));
  }
  for (const auto& f : whole) REQUIRE(f.get(test::patience) == 1);
  for (const auto& f : pairs) REQUIRE(f.get(test::patience) == 2);
  for (const auto& f : shares) REQUIRE(f.get(test::patience) == 1);
  CHECK(*beyond == 0);
  CHECK(all_comes_back(rt));
}

TEST_CASE("a task without gpus and the driver are told of none", "[resources][anywhere]") {
  const manta::runtime rt(machine(2, 2));
  CHECK(manta::remote<use_gpus>(100).get() == 0);
  CHECK(manta::this_task::gpus().empty());
}

namespace {

test::everywhere<std::atomic<long>> held;
test::everywhere<std::atomic<long>> most_held;

int hold(long amount) {
  const long now = *held += amount;
  long seen = *most_held;
  while (now > seen && !most_held->compare_exchange_weak(seen, now)) {
  }
  volatile int sink = 0;
  for (int i = 0; i < 500; ++i) sink = sink + i;
  *held -= amount;
  return 0;
}

}  // namespace

TEST_CASE("memory and own resources are never given beyond their sum",
          "[resources][anywhere][amounts_home][stays:amounts]") {
  const manta::runtime rt(machine(4, 0, {{"licence", 2.5}}));
  *held = *most_held = 0;
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 200; ++i) {
    all.push_back(manta::remote<hold>.with({.memory_bytes = 400})(400));
  }
  for (const auto& f : all) static_cast<void>(f.get(test::patience));
  CHECK(*most_held <= 1000);
  CHECK(*most_held >= 400);
  all.clear();
  *held = *most_held = 0;
  for (int i = 0; i < 200; ++i) {
    all.push_back(manta::remote<hold>.with({.resources = {{"licence", 1.2}}})(1));
  }
  for (const auto& f : all) static_cast<void>(f.get(test::patience));
  CHECK(*most_held >= 1);
  CHECK(*most_held <= 2);
  CHECK(all_comes_back(rt));
}

TEST_CASE("what this runtime never has is infeasible at the call, and says what it has",
          "[resources][amounts_home][actors_home][stays:refused]") {
  const manta::runtime rt(machine(2, 1, {{"licence", 1}}));
  const auto refusal = [](const manta::options& o) {
    return test::message_of<manta::infeasible>(
        [&o] { static_cast<void>(manta::remote<identity>.with(o)(1)); });
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(refusal({.gpus = 2}), Contains("asked 2 gpus") && Contains("1 gpus"));
  CHECK_THAT(refusal({.memory_bytes = 1001}), Contains("asked 1001 memory_bytes"));
  CHECK_THAT(refusal({.resources = {{"licence", 1.001}}}), Contains("asked 1.001 licence"));
  CHECK_THAT(refusal({.resources = {{"tape", 1}}}), Contains("asked 1 tape"));
  CHECK_THAT(refusal({.where = manta::on_node("elsewhere")}),
             Contains("on node elsewhere") || Contains("the node \"elsewhere\""));
  CHECK_THAT(refusal({.where = manta::with_labels({{"zone", "b"}})}),
             Contains("zone=b") && Contains("zone=a"));
  struct plain {};
  CHECK_THROWS_AS(manta::spawn<plain>.with({.gpus = 2})(), manta::infeasible);
  CHECK(all_comes_back(rt));
}

TEST_CASE("wishes that this node fulfils change nothing", "[resources][anywhere][stays:amounts]") {
  const manta::runtime rt(machine(2, 1));
  CHECK(manta::remote<identity>.with({.where = manta::spread()})(1).get() == 1);
  CHECK(manta::remote<identity>.with({.where = manta::on_node("local")})(2).get() == 2);
  CHECK(manta::remote<identity>.with({.where = manta::on_node("elsewhere", true)})(3).get() == 3);
  CHECK(manta::remote<identity>.with({.where = manta::with_labels({{"zone", "a"}})})(4).get() == 4);
  const auto far = manta::with_labels({{"zone", "b"}}, true);
  CHECK(manta::remote<identity>.with({.cpus = 1, .where = far})(5).get() == 5);
}

TEST_CASE("options of resources that can't be are refused with field and value",
          "[resources][stays:refused]") {
  const manta::runtime rt(machine(2, 1, {{"licence", 1}}));
  const auto refusal = [](const manta::options& o) {
    return test::message_of<manta::invalid_argument>(
        [&o] { static_cast<void>(manta::remote<identity>.with(o)(1)); });
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(refusal({.gpus = 1.5}), Contains("gpus") && Contains("1.5"));
  CHECK_THAT(refusal({.memory_bytes = static_cast<std::size_t>(-1)}), Contains("memory_bytes"));
  CHECK_THAT(refusal({.resources = {{"licence", -1}}}), Contains("licence"));
  CHECK_THAT(refusal({.resources = {{"", 1}}}), Contains("resources"));
  CHECK_THAT(refusal({.where = manta::on_node("")}), Contains("on_node"));
  CHECK_THROWS_AS(manta::remote<identity>.with({.memory_bytes = 1, .enforce_memory = true})(1),
                  manta::unsupported);
}

namespace {

// Work that is over when the test says so.
test::everywhere<test::common_gate> gate;
int wait_for_gate(int x) { return gate->wait() ? x : -1; }

}  // namespace

TEST_CASE("unmet demand can be asked for, and ends",
          "[resources][anywhere][amounts_home][stays:amounts]") {
  const manta::runtime rt(machine(2, 1, {{"licence", 1}}));
  CHECK(rt.unmet_demand().empty());
  gate->shut();
  const test::opens_at_end opens(*gate);
  const auto holder =
      manta::remote<wait_for_gate>.with({.gpus = 1, .resources = {{"licence", 1}}})(0);
  std::vector<manta::future<int>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(manta::remote<identity>.with({.gpus = 0.5})(i));
  waiting.push_back(manta::remote<identity>.with({.resources = {{"licence", 1}}})(3));
  const auto unmet = rt.unmet_demand();
  REQUIRE(unmet.size() == 2);
  const std::size_t gpus = unmet[0].bundles.at(0).gpus == 0.5 ? 0 : 1;
  CHECK(unmet[gpus].count == 3);
  CHECK(unmet[1 - gpus].count == 1);
  CHECK(unmet[1 - gpus].bundles.at(0).resources == manta::resource_list{{"licence", 1}});
  CHECK(unmet[gpus].longest_wait >= 0ns);
  CHECK(rt.resources().free.gpus == 0);
  gate->open();
  for (int i = 0; i < 4; ++i) {
    CHECK(waiting[static_cast<std::size_t>(i)].get(test::patience) == i);
  }
  CHECK(holder.get(test::patience) == 0);
  CHECK(rt.unmet_demand().empty());
}

namespace {

test::everywhere<test::journal> order;
int note_order(int caller) {
  order->add(caller);
  return caller;
}

// A caller of its own that makes `n` calls which need the only licence.
std::vector<manta::future<int>> make_calls(int caller, int n) {
  std::vector<manta::future<int>> made;
  for (int i = 0; i < n; ++i) {
    made.push_back(manta::remote<note_order>.with({.resources = {{"licence", 1}}})(caller));
  }
  return made;
}

}  // namespace

// Behaviour 27: first come, first served would run all of the first caller's tasks first. Of one
// node: each has a licence of its own, for those who call there.
TEST_CASE("callers are served in turn when a resource is short",
          "[resources][anywhere][one_node]") {
  const manta::runtime rt(machine(2, 0, {{"licence", 1}}));
  gate->shut();
  const test::opens_at_end opens(*gate);
  order->clear();
  const auto holder = manta::remote<wait_for_gate>.with({.resources = {{"licence", 1}}})(0);
  // Each task is a caller; they call one after the other, a thousand times and twice.
  auto many = manta::remote<make_calls>(1, 1000).get(test::patience);
  auto few = manta::remote<make_calls>(2, 2).get(test::patience);
  gate->open();
  for (const auto& f : few) CHECK(f.get(test::patience) == 2);
  for (const auto& f : many) REQUIRE(f.get(test::patience) == 1);
  CHECK(holder.get(test::patience) == 0);
  std::vector<int> served = order->entries();
  REQUIRE(served.size() == 1002);
  served.resize(4);
  CHECK(served == std::vector<int>{1, 2, 1, 2});
}

namespace {

int inner_with_cpu(int x) { return x; }
int sleeps_with_gpu(int x) { return manta::remote<inner_with_cpu>.with({.cpus = 2})(x).get(); }

}  // namespace

// Behind a task that wants everything waits the one that a gpu's holder sleeps for.
TEST_CASE("a sleeping holder and a large request do not stop each other", "[resources][anywhere]") {
  const manta::runtime rt(machine(2, 1));
  for (int i = 0; i < 100; ++i) {
    const auto sleeper = manta::remote<sleeps_with_gpu>.with({.cpus = 1, .gpus = 1})(i);
    const auto large = manta::remote<identity>.with({.cpus = 2, .gpus = 1})(-i);
    REQUIRE(sleeper.get(test::patience) == i);
    REQUIRE(large.get(test::patience) == -i);
  }
  CHECK(all_comes_back(rt));
}

namespace {

struct keeper {
  keeper() = default;
  explicit keeper(int fail) {
    if (fail != 0) throw std::runtime_error("no device");
  }
  std::vector<int> gpus() { return manta::this_task::gpus(); }
  int outer(int x) { return manta::remote<inner_with_cpu>.with({.cpus = 2})(x).get(); }
};

}  // namespace

TEST_CASE("an actor holds what it asked for all its life, and its methods are told which",
          "[resources][anywhere][amounts_home][actors_home][stays:amounts]") {
  const manta::runtime rt(machine(2, 2, {{"licence", 1}}));
  auto one = manta::spawn<keeper>.with({.gpus = 1, .resources = {{"licence", 1}}})();
  auto two = manta::spawn<keeper>.with({.gpus = 1})();
  const auto of_one = manta::remote<&keeper::gpus>(one).get(test::patience);
  const auto of_two = manta::remote<&keeper::gpus>(two).get(test::patience);
  CHECK(of_one.size() == 1);
  CHECK(of_two.size() == 1);
  CHECK(of_one != of_two);
  CHECK(rt.resources().free.gpus == 0);
  CHECK(manta::remote<&keeper::gpus>(one).get(test::patience) == of_one);
  // The next one waits for the end of the first, with its calls.
  auto three = manta::spawn<keeper>.with({.gpus = 1, .memory_bytes = 1000})();
  const auto later = manta::remote<&keeper::gpus>(three);
  CHECK(rt.unmet_demand().size() == 1);
  CHECK_FALSE(later.is_ready());
  one = {};
  CHECK(later.get(test::patience) == of_one);
  two = {};
  three = {};
  CHECK(all_comes_back(rt));
}

TEST_CASE("an actor whose constructor fails, or that never begins, keeps nothing",
          "[resources][anywhere]") {
  manta::actor<keeper> good;
  manta::actor<keeper> waits;
  manta::future<std::vector<int>> never;
  {
    const manta::runtime rt(machine(2, 1));
    const auto bad = manta::spawn<keeper>.with({.gpus = 1})(1);
    CHECK_THROWS_AS(manta::remote<&keeper::gpus>(bad).get(), manta::actor_lost);
    CHECK(all_comes_back(rt));
    good = manta::spawn<keeper>.with({.gpus = 1})();
    CHECK(manta::remote<&keeper::gpus>(good).get(test::patience) == std::vector<int>{0});
    waits = manta::spawn<keeper>.with({.gpus = 1})();
    never = manta::remote<&keeper::gpus>(waits);
  }
  CHECK_THROWS_AS(never.get(test::patience), manta::cancelled);
  const manta::runtime next(machine(2, 1));
  CHECK(next.resources().free.gpus == 1);
}

TEST_CASE("an actor's cores are lent while its method waits",
          "[resources][anywhere][actors_home]") {
  const manta::runtime rt(machine(2, 0));
  const auto a = manta::spawn<keeper>.with({.cpus = 2})();
  for (int i = 0; i < 50; ++i) {
    REQUIRE(manta::remote<&keeper::outer>(a, i).get(test::patience) == i);
  }
  CHECK(rt.resources().free.cpus == 0);
}

TEST_CASE("tasks that fail, or whose arguments do, give everything back",
          "[resources][anywhere][stays:amounts]") {
  const manta::runtime rt(machine(2, 2, {{"licence", 1}}));
  constexpr auto fail = [](int x) -> int { throw x; };
  for (int i = 0; i < 100; ++i) {
    const manta::options all{
        .cpus = 2, .gpus = 2, .memory_bytes = 1000, .resources = {{"licence", 1}}};
    const auto bad = manta::remote<fail>.with(all)(i);
    const auto behind = manta::remote<identity>.with(all)(bad);
    CHECK_THROWS_AS(behind.get(test::patience), manta::task_error);
  }
  CHECK(all_comes_back(rt));
}

namespace {

manta::future<int> hands_on(int x) { return manta::remote<wait_for_gate>(x); }
manta::coroutine<int> awaits(int x) { co_return co_await manta::remote<wait_for_gate>(x); }
int throws_late(int x) { throw std::runtime_error("after " + std::to_string(wait_for_gate(x))); }

}  // namespace

TEST_CASE("tasks whose deadline passes while they run give everything back",
          "[resources][anywhere][stays:amounts]") {
  const manta::runtime rt(machine(3, 2, {{"own", 3}}));
  const manta::options all{
      .cpus = 0.5, .gpus = 1, .memory_bytes = 100, .resources = {{"own", 1}}, .timeout = 10ms};
  // The task goes on after its deadline, until the gate opens.
  const auto ends_late = [&](const auto& call) {
    gate->shut();
    const test::opens_at_end opens(*gate);
    CHECK_THROWS_AS(call(1).get(test::patience), manta::timed_out);
    gate->open();
    CHECK(all_comes_back(rt));
  };
  ends_late(manta::remote<wait_for_gate>.with(all));
  ends_late(manta::remote<throws_late>.with(all));
  ends_late(manta::remote<awaits>.with(all));
  ends_late(manta::remote<hands_on>.with(all));
}

namespace {

// Its room shows that somebody keeps it, in whatever form.
manta::array<int> an_array() { return manta::make_array(std::vector<int>(250'000, 1)); }

bool is_emptied(const manta::runtime& rt) {
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (rt.store().used_bytes != 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  return rt.store().used_bytes == 0;
}

}  // namespace

TEST_CASE("a task that is ended while it waits for resources keeps no arguments",
          "[resources][anywhere][amounts_home][stays:amounts]") {
  constexpr auto use = [](const manta::array<int>& a) { return a[0]; };
  const manta::runtime rt(machine(2, 1));
  gate->shut();
  const test::opens_at_end opens(*gate);
  const auto holder = manta::remote<wait_for_gate>.with({.gpus = 1})(1);
  const auto f = manta::remote<use>.with({.gpus = 1})(an_array());
  const auto g = manta::remote<use>.with({.gpus = 1, .timeout = 10ms})(an_array());
  CHECK(rt.store().used_bytes > 0);
  CHECK(manta::cancel(f));
  CHECK_THROWS_AS(f.get(), manta::cancelled);
  CHECK_THROWS_AS(g.get(test::patience), manta::timed_out);
  CHECK(is_emptied(rt));
  CHECK_FALSE(holder.is_ready());
  gate->open();
  CHECK(holder.get(test::patience) == 1);
  CHECK(manta::remote<identity>.with({.gpus = 1})(1).get() == 1);
  CHECK(all_comes_back(rt));
}

TEST_CASE("a task that delegates gives its resources back before it waits",
          "[resources][anywhere][stays:amounts]") {
  const manta::runtime rt(machine(2, 0));
  static constexpr auto inner = [] { return 5; };
  static constexpr auto outer = [] { return manta::remote<inner>.with({.cpus = 2})(); };
  CHECK(manta::remote<outer>.with({.cpus = 2})().get(test::patience) == 5);
}

TEST_CASE("what had not begun at its deadline says what it waited for",
          "[resources][anywhere][amounts_home][stays:amounts]") {
  const manta::runtime rt(machine(2, 0, {{"own", 1}}));
  const manta::options one{.resources = {{"own", 1}}};
  gate->shut();
  const test::opens_at_end opens(*gate);
  const auto holder = manta::remote<wait_for_gate>.with(one)(1);
  const manta::options hurried{.resources = {{"own", 1}}, .timeout = 10ms};
  const auto said = test::message_of<manta::timed_out>(
      [&] { static_cast<void>(manta::remote<identity>.with(hurried)(1).get()); });
  CHECK(said.find("had not begun") != std::string::npos);
  CHECK(said.find("the resources it asked for") != std::string::npos);
  gate->open();
  CHECK(holder.get(test::patience) == 1);
}

TEST_CASE("an actor that is killed while it waits for resources leaves the line",
          "[resources][anywhere][amounts_home][actors_home][stays:amounts]") {
  const manta::runtime rt(machine(2, 1));
  gate->shut();
  const test::opens_at_end opens(*gate);
  const auto holder = manta::remote<wait_for_gate>.with({.gpus = 1})(1);
  struct keeper {
    explicit keeper(manta::array<int> what) : mine(std::move(what)) {}
    manta::array<int> mine;
  };
  const auto waits = manta::spawn<keeper>.with({.gpus = 1})(an_array());
  CHECK(rt.store().used_bytes > 0);
  CHECK(rt.unmet_demand().size() == 1);
  manta::kill(waits);
  CHECK(rt.unmet_demand().empty());
  CHECK(is_emptied(rt));
  CHECK_FALSE(holder.is_ready());
  gate->open();
  CHECK(holder.get(test::patience) == 1);
}

// A worker gives back what it asked for, while its killer looks whether it still waits.
TEST_CASE("an actor that is killed as it begins keeps nothing", "[resources][anywhere]") {
  const manta::runtime rt(machine(2, 1));
  for (int i = 0; i < 300; ++i) {
    std::vector<manta::actor<keeper>> all;
    for (int k = 0; k < 4; ++k) all.push_back(manta::spawn<keeper>.with({.cpus = 1})());
    for (const auto& one : all) manta::kill(one);
  }
  CHECK(all_comes_back(rt));
}

namespace {

test::everywhere<test::common_gate> holds;
int hold_until_end(int x) {
  holds->open();
  return wait_for_gate(x);
}

}  // namespace

TEST_CASE("what waits for resources at the end of the runtime is cancelled",
          "[resources][anywhere][amounts_home][stays:amounts]") {
  std::vector<manta::future<int>> waiting;
  gate->shut();
  holds->shut();
  const test::opens_at_end at_end(*gate);
  manta::future<int> holder;
  std::thread opens;
  {
    const manta::runtime rt(machine(2, 1));
    holder = manta::remote<hold_until_end>.with({.gpus = 1})(0);
    REQUIRE(holds->wait());
    for (int i = 0; i < 100; ++i) waiting.push_back(manta::remote<identity>.with({.gpus = 1})(i));
    REQUIRE(rt.unmet_demand().size() == 1);
    opens = std::thread([] { gate->open(); });
  }
  opens.join();
  int ended = 0;
  for (const auto& f : waiting) {
    const auto outcome = f.try_get(0ns);
    if (outcome || outcome.error().code() == manta::errc::cancelled) ++ended;
  }
  CHECK(ended == 100);
}

}  // namespace resources_test
