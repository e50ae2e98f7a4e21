// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp whose tasks and actors ask for what only some nodes have: rank-0 has
// 2 cpus, rank-1 2 gpus and 2 licences and is of the kind "gpu", rank-2 and rank-3 are of zone "b",
// and rank-3 has a gpu and the only tape.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/settling.hpp"

namespace settling {

namespace {

headcount with_gpu;

// Which node it was, how many gpus it got, and how many had one there at most at a time.
struct gpu_use {
  std::string node;
  std::size_t gpus = 0;
  int most = 0;
};
gpu_use uses_gpu(int ms) {
  const int most = with_gpu.most_while(ms);
  return {manta::this_task::node(), manta::this_task::gpus().size(), most};
}
std::string where_it_runs() { return manta::this_task::node(); }
std::string works_for(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));  // the task's work
  return manta::this_task::node();
}
std::string child_with_gpu() {
  return manta::remote<uses_gpu>.with({.gpus = 1})(1).get(long_enough).node;
}
double sum_of(const manta::array<double>& all) {
  double sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i) sum += all.data()[i];
  return sum;
}
homebody makes_homebody() { return {}; }
manta::stream<std::string> nodes_of(int n) {
  for (int i = 0; i < n; ++i) co_yield manta::this_task::node();
}

manta::options labelled(const std::string& key, const std::string& value, bool is_soft = false) {
  manta::options out;
  out.where = manta::with_labels({{key, value}}, is_soft);
  return out;
}
manta::options asks_for(const std::string& what, double amount) {
  manta::options out;
  out.resources = {{what, amount}};
  return out;
}

std::string refusal_of(const manta::options& with) {
  try {
    return thrown_by<manta::infeasible>(manta::remote<where_it_runs>.with(with)());
  } catch (const manta::infeasible& e) {
    return std::string("at the call: ") + e.what();
  }
}

// Why what can't leave and asks for one does not run.
std::string homebody_with_gpu() {
  try {
    return thrown_by<manta::infeasible>(manta::remote<makes_homebody>.with({.gpus = 1})());
  } catch (const manta::infeasible& e) {
    return e.what();
  }
}

// Of a generator that asks for the only tape.
std::string node_with_tape() {
  auto stream = manta::remote<nodes_of>.with(asks_for("tape", 1))(3);
  std::string out;
  for (auto& item : stream) out = item.get();
  return out;
}

void check_nodes(const manta::runtime& rt) {
  std::map<std::string, manta::node_info> all;
  for (const manta::node_info& one : rt.nodes()) all[one.name] = one;
  expect(all["rank-1"].has.gpus == 2 && all["rank-3"].has.gpus == 1, "what nodes say they have");
  expect(all["rank-1"].has.resources == manta::resource_list{{"license", 2.0}}, "licences");
  expect(all["rank-2"].labels == manta::label_list{{"zone", "b"}}, "labels");
  expect(all["rank-0"].has.cpus == 2 && all["rank-0"].has.gpus == 0, "this one");
}

void check_tasks() {
  std::vector<manta::future<gpu_use>> all;
  for (int i = 0; i < 24; ++i) all.push_back(manta::remote<uses_gpu>.with({.gpus = 1})(10));
  std::set<std::string> nodes;
  for (auto& one : all) {
    const gpu_use was = one.get(long_enough);
    nodes.insert(was.node);
    expect(was.gpus == 1, "it has one");
    expect(was.most <= (was.node == "rank-1" ? 2 : 1), was.node + ": more than it has");
  }
  expect(nodes == std::set<std::string>{"rank-1", "rank-3"}, "where gpus are");
  const auto both = manta::remote<uses_gpu>.with({.gpus = 2})(1).get(long_enough);
  expect(both.node == "rank-1" && both.gpus == 2, "two of one node");
  expect(manta::remote<where_it_runs>.with(asks_for("license", 2))().get(long_enough) == "rank-1",
         "its licences");
  expect(manta::remote<where_it_runs>.with(labelled("kind", "gpu"))().get(long_enough) == "rank-1",
         "its label");
  const auto zone = manta::remote<where_it_runs>.with(labelled("zone", "b"))().get(long_enough);
  expect(zone == "rank-2" || zone == "rank-3", "of that zone: " + zone);
  auto both_wishes = labelled("zone", "b");
  both_wishes.gpus = 1;
  expect(manta::remote<where_it_runs>.with(both_wishes)().get(long_enough) == "rank-3", "and both");
  expect(
      manta::remote<where_it_runs>.with(labelled("kind", "x", true))().get(long_enough) == "rank-0",
      "a wish that nobody fulfils");
  manta::options spread;
  spread.where = manta::spread();
  spread.gpus = 1;
  for (int i = 0; i < 6; ++i) {
    const auto was = manta::remote<where_it_runs>.with(spread)().get(long_enough);
    expect(was == "rank-1" || was == "rank-3", "spread among those that can: " + was);
  }
  // From a node that has none itself.
  const auto child = manta::remote<child_with_gpu>.with(at("rank-2"))().get(long_enough);
  expect(child == "rank-1" || child == "rank-3", "of a child: " + child);
  // Arrays go where they must.
  const std::vector<double> halves(200'000, 0.5);
  const auto numbers = manta::make_array(halves);
  expect(manta::remote<sum_of>.with({.gpus = 1})(numbers).get(long_enough) == 100'000, "an array");
}

// This node first, then who has room.
void check_overflow() {
  std::vector<manta::future<std::string>> all;
  for (int i = 0; i < 64; ++i) all.push_back(manta::remote<works_for>.with({.cpus = 1})(20));
  std::map<std::string, int> count;
  for (auto& one : all) ++count[one.get(long_enough)];
  expect(count.size() == 4, std::to_string(count.size()) + " nodes ran what waited");
  const auto one = manta::remote<works_for>.with({.cpus = 1})(1).get(long_enough);
  expect(one == "rank-0", "alone it is here: " + one);
}

void check_refusals(const manta::runtime& rt) {
  const std::string many = refusal_of({.gpus = 5});
  expect(has(many, "at the call") && has(many, "asked 5 gpus") && has(many, "rank-1"), many);
  const std::string nowhere = refusal_of(labelled("zone", "none"));
  expect(has(nowhere, "zone=none"), nowhere);
  expect(has(refusal_of(asks_for("licence", 1)), "1 licence"), "a key that nobody has");
  // What can't leave.
  std::string why = homebody_with_gpu();
  expect(has(why, "can't go to another node"), "one that returns a stop token: " + why);
  const homebody some;
  why = thrown_by<manta::unsupported>(manta::remote<takes_homebody>.with({.gpus = 1})(some));
  expect(has(why, "can't go there"), "a stop token: " + why);
  expect(manta::remote<takes_homebody>.with({.cpus = 1})(some).get(long_enough), "here it can be");
  // What waits is seen, ends at its time, and is withdrawn.
  std::vector<manta::future<std::string>> held;
  for (int i = 0; i < 3; ++i) {
    const std::string key = "held" + std::to_string(i);
    held.push_back(manta::remote<holds_until>.with({.gpus = 1})(key, std::string("free")));
    expect(comes(key), key);
  }
  auto waits = manta::remote<where_it_runs>.with({.gpus = 1})();
  expect(!ends_within(waits, 20ms), "all are held");
  const auto unmet = rt.unmet_demand();
  expect(unmet.size() == 1 && unmet[0].count == 1 && unmet[0].bundles[0].gpus == 1, "it is seen");
  manta::options soon;
  soon.gpus = 1;
  soon.timeout = 50ms;
  why = thrown_by<manta::timed_out>(manta::remote<where_it_runs>.with(soon)());
  expect(has(why, "resources"), "its time: " + why);
  expect(manta::cancel(waits) && has(thrown_by<manta::cancelled>(waits), "cancel"), "withdrawn");
  auto next = manta::remote<where_it_runs>.with({.gpus = 1})();
  expect(manta::cancel(held[0]) && ends_within(held[0], long_enough), "one is stopped");
  expect(!next.get(long_enough).empty(), "and the next one has it");
  manta::kv::put("free", 1).get();
  for (auto& one : held) expect(ends_within(one, long_enough), "the others");
}

void check_actors() {
  std::map<std::string, int> count;
  std::vector<manta::actor<counter>> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(manta::spawn<counter>.with({.gpus = 1})(0L));
    ++count[manta::remote<&counter::node>(all.back()).get(long_enough)];
  }
  expect(count["rank-1"] == 2 && count["rank-3"] == 1, "a gpu each");
  auto waits = manta::spawn<counter>.with({.gpus = 1})(0L);
  auto called = manta::remote<&counter::add>(waits, 1L);
  expect(!ends_within(called, 50ms), "the fourth one waits");
  all.clear();
  expect(called.get(long_enough) == 1, "until one ends");
  const auto kind =
      manta::spawn<counter>.with({.where = manta::with_labels({{"kind", "gpu"}})})(0L);
  expect(manta::remote<&counter::node>(kind).get(long_enough) == "rank-1", "by its label");
  const auto tape = manta::spawn<counter>.with({.resources = {{"tape", 1}}})(0L);
  expect(manta::remote<&counter::node>(tape).get(long_enough) == "rank-3", "the only tape");
  const auto refused = [](const manta::actor_options& with, const std::string& what) {
    try {
      static_cast<void>(manta::spawn<counter>.with(with)(0L));
      expect(false, what);
    } catch (const manta::infeasible& e) {
      expect(has(e.what(), what), e.what());
    }
  };
  refused({.gpus = 5}, "asked 5 gpus");
  refused({.gpus = 1, .where = manta::on_node("rank-2")}, "asked 1 gpus on node rank-2");
  refused({.cpus = 99, .where = manta::on_node("rank-1", true)}, "asked 99 cpus");
  const auto wish =
      manta::spawn<counter>.with({.gpus = 1, .where = manta::on_node("rank-2", true)})(0L);
  const auto lives = manta::remote<&counter::node>(wish).get(long_enough);
  expect(lives == "rank-1" || lives == "rank-3", "a wish that can't be: " + lives);
}

}  // namespace

int offers(const manta::runtime& rt) {
  check_nodes(rt);
  check_tasks();
  check_overflow();
  check_refusals(rt);
  expect(node_with_tape() == "rank-3", "a generator where its tape is");
  check_actors();
  check_tasks();  // all has come back
  return say("offers");
}

// rank-3 is lost, and with it the only tape and one of three gpus.
int bereft(const manta::runtime& rt) {
  const std::string end = "never";
  const auto tape = manta::remote<holds_until>.with(asks_for("tape", 1))(std::string("t"), end);
  expect(comes("t"), "one has the tape");
  const auto waits = manta::remote<where_it_runs>.with(asks_for("tape", 1))();
  std::vector<manta::future<std::string>> gpus;
  for (int i = 0; i < 3; ++i) {
    const std::string key = "g" + std::to_string(i);
    gpus.push_back(manta::remote<holds_until>.with({.gpus = 1})(key, std::string("free")));
    expect(comes(key), key);
  }
  say_pids(rt);
  expect(has(thrown_by<manta::node_lost>(tape), "is lost"), "what had the tape");
  expect(has(thrown_by<manta::infeasible>(waits), "1 tape"), "what waited for it");
  expect(has(refusal_of(asks_for("tape", 1)), "at the call"), "and who comes later");
  manta::kv::put("free", 1).get();
  for (auto& one : gpus) expect(one.get(long_enough) == "rank-1", "the gpu's task runs again");
  return say("bereft");
}

// Alone at first: what nobody has waits for who joins.
int latecomers(const manta::runtime& rt) {
  const std::string why = homebody_with_gpu();
  expect(has(why, "can't go to another node"), "what stays does not wait: " + why);
  auto waits = manta::remote<uses_gpu>.with({.gpus = 1})(1);
  expect(!ends_within(waits, 50ms), "nobody has a gpu");
  expect(rt.unmet_demand().size() == 1, "it is seen");
  manta::options soon = labelled("zone", "late");
  soon.timeout = 50ms;
  expect(has(thrown_by<manta::timed_out>(manta::remote<where_it_runs>.with(soon)()), "resources"),
         "not for ever");
  manta::bundle one;
  one.cpus = 1;
  const auto group = manta::make_placement_group({one, one}, manta::strategy::strict_spread);
  expect(!group.wait(20ms), "one node is not two");
  std::puts("asks for it");
  std::fflush(stdout);
  expect(waits.get(long_enough).node == "late", "it runs there");
  expect(manta::remote<where_it_runs>.with(labelled("zone", "late"))().get(long_enough) == "late",
         "by its label");
  expect(group.wait(long_enough), "a group, too");
  std::set<std::string> nodes;
  for (std::size_t i = 0; i < group.size(); ++i) {
    manta::options in;
    in.where = group.bundle(i);
    nodes.insert(manta::remote<where_it_runs>.with(in)().get(long_enough));
  }
  expect(nodes.size() == 2 && nodes.contains("late"), "has a bundle in each");
  return say("latecomers");
}

namespace {

struct cards_seen {
  std::vector<int> held;
  std::string shown;  // to libraries, in an isolated worker
};
std::vector<int> cards_held() { return manta::this_task::gpus(); }
std::string cards_shown() {
  const char* const all = std::getenv("CUDA_VISIBLE_DEVICES");
  return all == nullptr ? "none" : all;
}
cards_seen sees_cards() {
  const manta::options isolated{.gpus = 1, .isolation = manta::isolation_mode::processes};
  return {manta::this_task::gpus(), manta::remote<cards_shown>.with(isolated)().get(long_enough)};
}
manta::options cards_of(const std::string& node, double gpus) {
  manta::options out = at(node);
  out.gpus = gpus;
  return out;
}

}  // namespace

// Three nodes on one machine, which shows five gpus: a, b, c, d, e.
int cards(const manta::runtime& rt) {
  std::map<std::string, double> has_gpus;
  for (const manta::node_info& one : rt.nodes()) has_gpus[one.name] = one.has.gpus;
  expect(has_gpus == std::map<std::string, double>{{"rank-0", 2}, {"rank-1", 2}, {"rank-2", 1}},
         "each has its share");
  const std::map<std::string, std::vector<int>> own{
      {"rank-0", {0, 1}}, {"rank-1", {2, 3}}, {"rank-2", {4}}};
  for (const auto& [node, all] : own) {
    const auto with = cards_of(node, static_cast<double>(all.size()));
    expect(manta::remote<cards_held>.with(with)().get(long_enough) == all, node + "'s own");
  }
  const cards_seen there = manta::remote<sees_cards>.with(cards_of("rank-1", 1))().get(long_enough);
  expect(there.held == std::vector<int>{2}, "the first of its own");
  expect(there.shown == "d", "its worker is shown the other one: " + there.shown);
  return say("cards");
}

}  // namespace settling
