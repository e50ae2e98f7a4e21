// SPDX-License-Identifier: Apache-2.0
// Placement groups: all bundles or none, and typed ends for those who name a group that is gone.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/support.hpp"

namespace placement_test {

namespace {

using namespace std::chrono_literals;
using manta::make_placement_group;
using manta::placement_group;
using manta::remove_placement_group;
using manta::strategy;

manta::config machine() {
  manta::config c = test::workers(2);
  c.gpus = 2;
  c.memory_bytes = 1000;
  c.resources = manta::resource_list{{"custom", 1}};
  return c;
}

int identity(int x) { return x; }
std::vector<int> my_gpus(int) { return manta::this_task::gpus(); }
test::everywhere<test::common_gate> gate;
int wait_for_gate(int x) { return gate->wait() ? x : -1; }

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

TEST_CASE("a group that fits has its place at once, and gives it back",
          "[placement][amounts_home][stays:amounts]") {
  const manta::runtime rt(machine());
  for (const strategy how : {strategy::pack, strategy::spread, strategy::strict_pack}) {
    const placement_group g =
        make_placement_group({{.cpus = 1, .gpus = 1}, {.cpus = 0.5, .memory_bytes = 600}}, how);
    CHECK(g.valid());
    CHECK(g.size() == 2);
    CHECK(g.ready().is_ready());
    CHECK(g.wait(0ns));
    CHECK(rt.resources().free.cpus == 0.5);
    CHECK(rt.resources().free.gpus == 1);
    CHECK(remove_placement_group(g));
    CHECK_FALSE(remove_placement_group(g));
    CHECK(rt.resources().free == rt.resources().total);
  }
  const placement_group one = make_placement_group({{.cpus = 1}}, strategy::strict_spread);
  CHECK(one.wait(0ns));
  const placement_group copy = one;
  CHECK(copy == one);
  CHECK_FALSE(placement_group() == one);
}

TEST_CASE("tasks run in the bundle that they name, with its gpu",
          "[placement][anywhere][amounts_home][stays:amounts]") {
  const manta::runtime rt(machine());
  const auto g = make_placement_group({{.cpus = 1, .gpus = 1}, {.cpus = 1, .gpus = 1}});
  std::vector<manta::future<std::vector<int>>> first;
  std::vector<manta::future<std::vector<int>>> second;
  for (int i = 0; i < 50; ++i) {
    first.push_back(manta::remote<my_gpus>.with({.cpus = 1, .gpus = 1, .where = g.bundle(0)})(i));
    second.push_back(manta::remote<my_gpus>.with({.gpus = 0.5, .where = manta::in_group(g, 1)})(i));
  }
  const std::vector<int> of_first = first[0].get(test::patience);
  const std::vector<int> of_second = second[0].get(test::patience);
  CHECK(of_first.size() == 1);
  CHECK(of_first != of_second);
  for (const auto& f : first) REQUIRE(f.get(test::patience) == of_first);
  for (const auto& f : second) REQUIRE(f.get(test::patience) == of_second);
  CHECK(manta::remote<identity>.with({.cpus = 1, .where = manta::in_group(g)})(3).get() == 3);
  CHECK(manta::remote<identity>.with({.where = g.any_bundle()})(4).get() == 4);
  // Nothing is left outside.
  const auto outside = manta::remote<identity>.with({.gpus = 1})(5);
  CHECK_THROWS_AS(outside.get(0ns), manta::timed_out);
  remove_placement_group(g);
  CHECK(outside.get(test::patience) == 5);
  CHECK(all_comes_back(rt));
}

TEST_CASE("a group waits until all of it fits, and those in it wait with it",
          "[placement][anywhere][amounts_home][stays:amounts]") {
  const manta::runtime rt(machine());
  gate->shut();
  const test::opens_at_end opens(*gate);
  const auto holder = manta::remote<wait_for_gate>.with({.gpus = 1})(7);
  const auto g = make_placement_group({{.gpus = 1}, {.gpus = 1}});
  const auto user = manta::remote<my_gpus>.with({.gpus = 1, .where = g.bundle(1)})(0);
  CHECK_FALSE(g.ready().is_ready());
  CHECK_FALSE(g.wait(1ms));
  CHECK(rt.resources().free.gpus == 1);  // none of it is taken before all is
  bool has_group = false;
  for (const auto& unmet : rt.unmet_demand()) {
    if (unmet.is_group) has_group = unmet.count == 1 && unmet.bundles.size() == 2;
  }
  CHECK(has_group);
  gate->open();
  CHECK(g.wait(test::patience));
  CHECK(user.get(test::patience).size() == 1);
  CHECK(holder.get(test::patience) == 7);
  remove_placement_group(g);
  CHECK(all_comes_back(rt));
}

TEST_CASE("removing a group ends those that wait for it and lets the running ones end",
          "[placement][anywhere]") {
  const manta::runtime rt(machine());
  gate->shut();
  const test::opens_at_end opens(*gate);
  const auto g = make_placement_group({{.cpus = 1}});
  const auto runs = manta::remote<wait_for_gate>.with({.cpus = 1, .where = g.bundle(0)})(1);
  std::vector<manta::future<int>> waiting;
  for (int i = 0; i < 20; ++i) {
    waiting.push_back(manta::remote<identity>.with({.cpus = 1, .where = g.bundle(0)})(i));
  }
  const auto argument = manta::remote<wait_for_gate>(2);  // its user asks after the removal
  const auto late = manta::remote<identity>.with({.cpus = 1, .where = g.bundle(0)})(argument);
  CHECK(remove_placement_group(g));
  for (const auto& f : waiting) CHECK_THROWS_AS(f.get(test::patience), manta::group_removed);
  CHECK_FALSE(runs.is_ready());
  CHECK(rt.resources().free.cpus == 1);
  const std::string said = test::message_of<manta::group_removed>(
      [&] { static_cast<void>(manta::remote<identity>.with({.where = g.bundle(0)})(1)); });
  CHECK_THAT(said, Catch::Matchers::Contains("was removed"));
  gate->open();
  CHECK(runs.get(test::patience) == 1);
  CHECK_THROWS_AS(late.get(test::patience), manta::group_removed);
  CHECK(all_comes_back(rt));
}

TEST_CASE("a group that is removed before it has its place fails whoever waits",
          "[placement][anywhere][amounts_home][stays:amounts]") {
  const manta::runtime rt(machine());
  const auto all = make_placement_group({{.gpus = 2}});
  const auto g = make_placement_group({{.gpus = 1}});
  const auto user = manta::remote<identity>.with({.gpus = 1, .where = g.bundle(0)})(1);
  const auto after = manta::remote<identity>.with({.gpus = 2})(2);
  CHECK(remove_placement_group(g));
  CHECK_THROWS_AS(g.ready().get(test::patience), manta::group_removed);
  CHECK_THROWS_AS(g.wait(test::patience), manta::group_removed);
  CHECK_THROWS_AS(user.get(test::patience), manta::group_removed);
  CHECK_FALSE(after.is_ready());
  remove_placement_group(all);
  CHECK(after.get(test::patience) == 2);
  CHECK(all_comes_back(rt));
}

namespace {

struct counter {
  int add(int x) { return sum += x; }
  int wait_for_gate(int x) { return placement_test::wait_for_gate(x); }
  int sum = 0;
};

}  // namespace

TEST_CASE("actors live in their bundle, and are killed with the group",
          "[placement][anywhere][actors_home][stays:amounts]") {
  const manta::runtime rt(machine());
  gate->shut();
  const test::opens_at_end opens(*gate);
  const auto g = make_placement_group({{.cpus = 1, .gpus = 1}, {.gpus = 1}});
  const auto inside = manta::spawn<counter>.with({.gpus = 1, .where = g.bundle(0)})();
  const auto idle = manta::spawn<counter>.with({.gpus = 1, .where = g.bundle(1)})();
  const auto never = manta::spawn<counter>.with({.gpus = 1, .where = g.bundle(1)})();
  const auto outside = manta::spawn<counter>.with({.cpus = 0.5})();
  CHECK(manta::remote<&counter::add>(inside, 2).get(test::patience) == 2);
  CHECK(manta::remote<&counter::add>(idle, 3).get(test::patience) == 3);
  const auto of_never = manta::remote<&counter::add>(never, 4);
  const auto runs = manta::remote<&counter::wait_for_gate>(inside, 5);
  const auto behind = manta::remote<&counter::add>(inside, 6);
  CHECK(remove_placement_group(g));
  CHECK_THROWS_AS(behind.get(test::patience), manta::actor_lost);
  CHECK_THROWS_AS(manta::remote<&counter::add>(idle, 1).get(test::patience), manta::actor_lost);
  const std::string said =
      test::message_of<manta::actor_lost>([&] { of_never.get(test::patience); });
  CHECK_THAT(said, Catch::Matchers::Contains("was removed"));
  CHECK(manta::remote<&counter::add>(outside, 7).get(test::patience) == 7);
  gate->open();
  static_cast<void>(runs.try_get(test::patience));
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (rt.resources().free.gpus != 2 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  CHECK(rt.resources().free.gpus == 2);
  CHECK(rt.resources().free.cpus == 1.5);
}

TEST_CASE("groups that can't be are refused at the call",
          "[placement][amounts_home][stays:refused]") {
  const manta::runtime rt(machine());
  using Catch::Matchers::Contains;
  const auto infeasible = [](std::vector<manta::bundle> bundles, strategy how) {
    return test::message_of<manta::infeasible>(
        [&] { static_cast<void>(make_placement_group(std::move(bundles), how)); });
  };
  CHECK_THAT(infeasible({{.gpus = 3}}, strategy::pack), Contains("3 gpus") && Contains("2 gpus"));
  CHECK_THAT(infeasible({{.cpus = 1.5}, {.cpus = 1}}, strategy::pack), Contains("bundle 1"));
  CHECK_THAT(infeasible({{.cpus = 1}, {.cpus = 1}}, strategy::strict_spread),
             Contains("strict_spread"));
  CHECK_THAT(infeasible({{.resources = {{"tape", 1}}}}, strategy::pack), Contains("tape"));
  const auto invalid = [](std::vector<manta::bundle> bundles) {
    return test::message_of<manta::invalid_argument>(
        [&] { static_cast<void>(make_placement_group(std::move(bundles))); });
  };
  CHECK_THAT(invalid({}), Contains("asked 0 bundles, allowed 1 to 1000"));
  CHECK_THAT(invalid(std::vector<manta::bundle>(1001, {.cpus = 0.001})), Contains("1001"));
  CHECK_THAT(invalid({{.cpus = 1}, {}}), Contains("bundle 1 asks for nothing"));
  CHECK_THAT(invalid({{.cpus = -1}}), Contains("bundle 0, cpus: asked -1"));
  CHECK_THROWS_AS(make_placement_group({{.cpus = 1}}, static_cast<strategy>(9)),
                  manta::invalid_argument);

  const auto g = make_placement_group({{.cpus = 1}});
  CHECK_THROWS_AS(g.bundle(1), manta::invalid_argument);
  CHECK_THROWS_AS(manta::in_group(g, -2), manta::invalid_argument);
  const auto too_large = test::message_of<manta::infeasible>([&] {
    static_cast<void>(manta::remote<identity>.with({.cpus = 1.5, .where = g.bundle(0)})(1));
  });
  CHECK_THAT(too_large, Contains("asked 1.5 cpus") && Contains("bundle 0 has 1 cpus"));
  const placement_group none;
  CHECK_THROWS_AS(none.ready(), manta::invalid_argument);
  CHECK_THROWS_AS(none.wait(1s), manta::invalid_argument);
  CHECK_THROWS_AS(none.bundle(0), manta::invalid_argument);
  CHECK_THROWS_AS(remove_placement_group(none), manta::invalid_argument);
  CHECK(rt.resources().free.cpus == 1);
}

TEST_CASE("a group ends with its runtime, and means nothing to the next one",
          "[placement][amounts_home][stays:amounts]") {
  placement_group before;
  placement_group waiting;
  CHECK_THROWS_AS(make_placement_group({{.cpus = 1}}), manta::no_runtime);
  {
    const manta::runtime rt(machine());
    before = make_placement_group({{.cpus = 2}});
    waiting = make_placement_group({{.cpus = 1}});
  }
  CHECK(before.ready().is_ready());
  CHECK_THROWS_AS(waiting.wait(test::patience), manta::cancelled);
  const manta::runtime rt(machine());
  CHECK(rt.resources().free == rt.resources().total);
  const auto other = make_placement_group({{.cpus = 1}});
  CHECK_FALSE(remove_placement_group(before));
  CHECK_THROWS_AS(manta::remote<identity>.with({.cpus = 1, .where = before.bundle(0)})(1),
                  manta::group_removed);
  CHECK(other.wait(0ns));
}

TEST_CASE("hundreds of groups are made, waited for and removed by several threads at once",
          "[placement][anywhere]") {
  std::atomic<int> placed{0};
  const manta::runtime rt(machine());
  std::vector<std::thread> threads;
  constexpr int rounds = test::is_sanitized ? 5 : 50;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&placed] {
      for (int round = 0; round < rounds; ++round) {
        std::vector<placement_group> groups;
        for (int i = 0; i < 30; ++i) {
          groups.push_back(make_placement_group({{.resources = {{"custom", 0.02}}}}));
        }
        // Of 90 at most 50 fit: the first ones of each thread do, once the others are removed.
        for (auto& g : groups) {
          const auto user = manta::remote<identity>.with(
              {.resources = {{"custom", 0.01}}, .where = g.bundle(0)})(round);
          if (g.wait(0ns) && user.get(test::patience) == round) ++placed;
          remove_placement_group(g);
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(placed > 0);
  CHECK(all_comes_back(rt));
  CHECK(rt.unmet_demand().empty());
}

TEST_CASE("cancelling a group's ready changes nothing", "[placement][cancel][stays:amounts]") {
  const manta::runtime rt(test::workers(1));
  const auto first = manta::make_placement_group({{.cpus = 1}});
  CHECK(first.wait(test::patience));
  const auto g = manta::make_placement_group({{.cpus = 1}});
  CHECK_FALSE(manta::cancel(g.ready()));
  CHECK(manta::remove_placement_group(first));
  CHECK(g.wait(test::patience));
  CHECK(manta::remove_placement_group(g));
}

TEST_CASE("a group of a runtime that has ended is not removed", "[placement][stays:amounts]") {
  manta::placement_group old;
  {
    const manta::runtime rt(test::workers(1));
    old = manta::make_placement_group({{.cpus = 1}});
    CHECK(old.wait(test::patience));
  }
  CHECK_FALSE(manta::remove_placement_group(old));
}

}  // namespace placement_test
