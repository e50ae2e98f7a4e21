// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// Resources: what tasks and actors ask for beside a thread, and where they want to be.

using namespace std::chrono_literals;

namespace {

manta::config two_gpus() {
  manta::config c;
  c.workers = 2;
  c.gpus = 2;
  c.memory_bytes = std::int64_t{8} << 30;
  c.resources = manta::resource_list{{"license", 1}};
  c.labels = manta::label_list{{"zone", "a"}};
  return c;
}
std::vector<int> which_gpus() { return manta::this_task::gpus(); }
struct model {
  std::vector<int> gpus() { return manta::this_task::gpus(); }
};

}  // namespace

TEST_CASE("resources: a task runs when what it asks for is free") {
  manta::runtime rt(two_gpus());
  auto trained = manta::remote<which_gpus>.with({.cpus = 0.5,
                                                 .gpus = 1,
                                                 .memory_bytes = std::size_t{1} << 30,
                                                 .resources = {{"license", 1}}})();
  CHECK(trained.get().size() == 1);  // the index of the GPU that it was given
  CHECK_THROWS_AS(manta::remote<which_gpus>.with({.gpus = 3})(), manta::infeasible);
  // Accounted, not enforced: threads of one process can't be limited one by one.
  CHECK_THROWS_AS(manta::remote<which_gpus>.with({.memory_bytes = 1024, .enforce_memory = true})(),
                  manta::unsupported);
  // An isolated worker can: past that it is ended, with worker_lost.
  auto limited = manta::remote<which_gpus>.with({.memory_bytes = std::size_t{256} << 20,
                                                 .isolation = manta::isolation_mode::processes,
                                                 .enforce_memory = true});
  CHECK(limited().get().empty());
}

TEST_CASE("resources: an actor holds them all its life") {
  manta::runtime rt(two_gpus());
  const manta::actor_options with = {.cpus = 1,
                                     .gpus = 1,
                                     .memory_bytes = 1024,
                                     .enforce_memory = false,
                                     .resources = {{"license", 0.5}},
                                     .where = manta::with_labels({{"zone", "a"}})};
  manta::actor<model> held = manta::spawn<model>.with(with)();
  CHECK(manta::remote<&model::gpus>(held).get().size() == 1);
  const manta::resource_report has = rt.resources();
  CHECK(has.total.gpus == 2);
  CHECK(has.free.gpus == 1);
  CHECK(has.gpu_free.size() == 2);
}

TEST_CASE("resources: wishes where to run") {
  manta::runtime rt(two_gpus());
  using rule = manta::placement::rule;
  const manta::placement anywhere;
  const manta::placement apart = manta::spread();
  const manta::placement there = manta::on_node(manta::this_task::node());
  const manta::placement rather = manta::with_labels({{"kind", "big"}}, true);  // or else anywhere
  CHECK((anywhere.by == rule::anywhere && apart.by == rule::spread));
  CHECK((there.by == rule::node && there.node == "local"));
  CHECK((rather.by == rule::labels && rather.is_soft && rather.labels.size() == 1));
  for (const manta::placement& where : {anywhere, apart, there, rather}) {
    CHECK(manta::remote<which_gpus>.with({.where = where})().get().empty());
  }
}

TEST_CASE("placement groups: resources set aside for several at once") {
  manta::runtime rt(two_gpus());
  const manta::bundle one = {.cpus = 0.5, .gpus = 1, .memory_bytes = 1024, .resources = {}};
  manta::placement_group g = manta::make_placement_group({one, one}, manta::strategy::pack);
  CHECK(g.wait(60s));
  auto first = manta::remote<which_gpus>.with({.gpus = 1, .where = g.bundle(0)})();
  auto any = manta::remote<which_gpus>.with({.gpus = 1, .where = manta::in_group(g)})();
  CHECK((first.get().size() == 1 && any.get().size() == 1));
  CHECK(manta::remove_placement_group(g));
  CHECK_THROWS_AS(manta::remote<which_gpus>.with({.where = g.bundle(0)})(), manta::group_removed);
}

TEST_CASE("placement groups: handles, and how bundles lie on the nodes") {
  manta::runtime rt(two_gpus());
  manta::placement_group g =
      manta::make_placement_group({{.gpus = 1}}, manta::strategy::strict_pack);
  g.ready().get();
  CHECK((g.valid() && g.size() == 1));
  const manta::placement where = g.any_bundle();
  CHECK((where.by == manta::placement::rule::group && where.group != 0 && where.bundle == -1));
  using manta::strategy;
  CHECK(std::string(manta::to_string(strategy::strict_spread)) == "strict_spread");
  for (const strategy how : {strategy::pack, strategy::spread}) {
    CHECK(manta::remove_placement_group(manta::make_placement_group({{.cpus = 0.5}}, how)));
  }
}

TEST_CASE("resources: what waits, and for what") {
  manta::runtime rt(two_gpus());
  manta::placement_group all = manta::make_placement_group({{.gpus = 2}});
  all.ready().get();
  manta::future<std::vector<int>> waits = manta::remote<which_gpus>.with({.gpus = 2})();
  for (const manta::demand_report& each : rt.unmet_demand()) {
    CHECK((each.count == 1 && each.bundles.at(0).gpus == 2 && !each.is_group));
    CHECK((each.where == manta::placement{} && each.longest_wait >= 0s));
    CHECK(each.how == manta::strategy::pack);  // of a group
  }
  CHECK(manta::remove_placement_group(all));
  CHECK(waits.get().size() == 2);
}
