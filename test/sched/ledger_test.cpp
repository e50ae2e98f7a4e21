// SPDX-License-Identifier: Apache-2.0
#include <manta/sched/ledger.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sched/ledger_support.hpp"

namespace ledger_test {

TEST_CASE("each kind is counted on its own and comes back", "[ledger]") {
  ledger l = cluster(1);
  taken a;
  taken b;
  REQUIRE(take(l, {3.5, 0, 600, {{"licence", 2.5}}}, a));
  CHECK_FALSE(take(l, {0.6, 0, 0, {}}, b));
  CHECK_FALSE(take(l, {0, 0, 401, {}}, b));
  CHECK_FALSE(take(l, {0, 0, 0, {{"licence", 0.501}}}, b));
  REQUIRE(take(l, {0.5, 0, 400, {{"licence", 0.5}}}, b));
  l.give(a.asked, a.held);
  l.give(b.asked, b.held);
  CHECK(l.report().free == l.report().total);
}

TEST_CASE("whole gpus get whole indices, fractions share one", "[ledger]") {
  ledger l = cluster(1);
  taken half;
  taken third;
  taken whole;
  taken other;
  REQUIRE(take(l, {0, 0.5, 0, {}}, half));
  REQUIRE(take(l, {0, 0.3, 0, {}}, third));
  CHECK(half.held.gpus == std::vector<int>{0});
  CHECK(third.held.gpus == std::vector<int>{0});
  REQUIRE(take(l, {0, 1, 0, {}}, whole));
  CHECK(whole.held.gpus == std::vector<int>{1});
  CHECK_FALSE(take(l, {0, 0.3, 0, {}}, other));
  CHECK_FALSE(take(l, {0, 2, 0, {}}, other));
  l.give(half.asked, half.held);
  l.give(third.asked, third.held);
  l.give(whole.asked, whole.held);
  REQUIRE(take(l, {0, 2, 0, {}}, other));
  CHECK(other.held.gpus == std::vector<int>{0, 1});
}

TEST_CASE("a node that has a part of a machine's gpus knows them by that machine's numbers",
          "[ledger]") {
  ledger l;
  l.add_node("n0", {}, of({1, 2, 0, {}}), 3);
  taken half;
  taken whole;
  taken both;
  REQUIRE(take(l, {0, 0.5, 0, {}}, half));
  REQUIRE(take(l, {0, 1, 0, {}}, whole));
  CHECK(half.held.gpus == std::vector<int>{3});
  CHECK(whole.held.gpus == std::vector<int>{4});
  CHECK(l.report().gpu_free == std::vector<double>{0.5, 0});
  l.give(half.asked, half.held);
  l.give(whole.asked, whole.held);
  REQUIRE(take(l, {0, 2, 0, {}}, both));
  CHECK(both.held.gpus == std::vector<int>{3, 4});
}

TEST_CASE("a lent grant frees cpus and nothing else", "[ledger]") {
  ledger l = cluster(1);
  taken sleeper;
  taken other;
  REQUIRE(take(l, {4, 1, 1000, {{"licence", 3}}}, sleeper));
  l.lend(sleeper.asked, sleeper.held);
  CHECK_FALSE(take(l, {0, 2, 0, {}}, other));
  CHECK_FALSE(take(l, {0, 0, 1, {}}, other));
  CHECK_FALSE(take(l, {0, 0, 0, {{"licence", 0.001}}}, other));
  REQUIRE(take(l, {4, 0, 0, {}}, other));
  l.take_back(sleeper.asked, sleeper.held);
  CHECK(l.report().free.cpus == -4);
  l.give(other.asked, other.held);
  l.lend(sleeper.asked, sleeper.held);
  l.give(sleeper.asked, sleeper.held);  // ends while it is lent
  CHECK(l.report().free == l.report().total);
}

TEST_CASE("the horizon tells who is expected to end", "[ledger]") {
  ledger l = cluster(1);
  taken runs;
  taken lives;
  REQUIRE(take(l, {0, 1, 0, {}}, runs));
  lives.asked = l.translate(of({0, 1, 0, {}}));
  lives.held.gpus.reserve(1);
  REQUIRE(l.take(lives.asked, {}, false, lives.held));
  const need one = l.translate(of({0, 1, 0, {}}));
  const need two = l.translate(of({0, 2, 0, {}}));
  CHECK_FALSE(l.fits(one, {}, horizon::now));
  CHECK(l.fits(one, {}, horizon::soon));
  CHECK_FALSE(l.fits(two, {}, horizon::soon));
  CHECK(l.fits(two, {}, horizon::ever));
  l.lend(runs.asked, runs.held);
  CHECK_FALSE(l.fits(one, {}, horizon::soon));
}

TEST_CASE("what no node can ever give is infeasible, and says what there is", "[ledger]") {
  const ledger l = cluster(2);
  CHECK_FALSE(l.infeasible(of({4, 2, 1000, {{"licence", 3}}}), {}));
  CHECK(l.infeasible(of({4.001, 0, 0, {}}), {}));
  CHECK(l.infeasible(of({0, 3, 0, {}}), {}));
  CHECK(l.infeasible(of({0, 0, 1001, {}}), {}));
  CHECK(l.infeasible(of({0, 0, 0, {{"tape", 1}}}), {}));
  const auto said = l.infeasible(of({5, 0, 0, {}}), {});
  REQUIRE(said);
  CHECK_THAT(*said, Catch::Matchers::Contains("asked 5 cpus"));
  CHECK_THAT(*said, Catch::Matchers::Contains("node n0 has 4 cpus, 2 gpus"));
  CHECK(l.infeasible(of({1, 0, 0, {}}), manta::on_node("n7")));
  CHECK_FALSE(l.infeasible(of({1, 0, 0, {}}), manta::on_node("n7", true)));
  CHECK(l.infeasible(of({1, 0, 0, {}}), manta::with_labels({{"zone", "c"}})));
  CHECK_FALSE(l.infeasible(of({1, 0, 0, {}}), manta::with_labels({{"zone", "c"}}, true)));
  // More of anything would not help.
  const auto unlabelled = l.infeasible(of({}), manta::with_labels({{"zone", "c"}}));
  REQUIRE(unlabelled);
  CHECK_THAT(*unlabelled, Catch::Matchers::StartsWith("asked a place where zone=c; node n0"));
  CHECK_THAT(*unlabelled, Catch::Matchers::Contains("; ask for labels that one has"));
}

TEST_CASE("of a group with many bundles some are named when none is large enough", "[ledger]") {
  ledger l = cluster(3);
  group& g = placed(l, std::vector<bundle>(12, bundle{1, 0, 0, {}}));
  const auto of_any = l.infeasible(of({2, 0, 0, {}}), in(g));
  REQUIRE(of_any);
  CHECK_THAT(*of_any, Catch::Matchers::Contains("bundle 7 has 1 cpus; and 4 more bundles; ask"));
  const auto of_one = l.infeasible(of({2, 0, 0, {}}), in(g, 11));
  REQUIRE(of_one);
  CHECK_THAT(*of_one, Catch::Matchers::Contains("group; bundle 11 has 1 cpus; ask"));
}

TEST_CASE("wishes choose the node", "[ledger]") {
  ledger l = cluster(3);
  taken a;
  taken b;
  taken c;
  taken d;
  REQUIRE(take(l, {1, 0, 0, {}}, a));
  CHECK(a.held.node == 0);
  REQUIRE(take(l, {4, 0, 0, {}}, b, manta::on_node("n2")));
  CHECK(b.held.node == 2);
  CHECK_FALSE(take(l, {1, 0, 0, {}}, c, manta::on_node("n2", true)));  // busy is waited for
  REQUIRE(take(l, {1, 0, 0, {}}, c, manta::with_labels({{"zone", "b"}})));
  CHECK(c.held.node == 1);
  l.give(b.asked, b.held);
  REQUIRE(take(l, {1, 0, 0, {}}, d, manta::spread()));
  CHECK(d.held.node == 2);
}

TEST_CASE("a group takes all its bundles or none", "[ledger]") {
  ledger l = cluster(1);
  taken most;
  REQUIRE(take(l, {3, 0, 0, {}}, most));
  group& g = placed(l, {{1, 0, 0, {}}, {1, 0, 0, {}}});
  CHECK(g.now == group::state::waiting);
  CHECK(l.report().free.cpus == 1);
  CHECK(l.has_place(g, horizon::soon));
  l.give(most.asked, most.held);
  REQUIRE(l.place(g));
  CHECK(l.report().free.cpus == 2);
  l.remove(g);
  CHECK(l.report().free == l.report().total);
}

TEST_CASE("strategies lay bundles on nodes", "[ledger]") {
  ledger l = cluster(3);
  const std::vector<bundle> three = {{1, 0, 0, {}}, {1, 0, 0, {}}, {1, 0, 0, {}}};
  const auto nodes_of = [](const group& g) {
    std::set<manta::sched::node_id> nodes;
    for (const auto& p : g.places) nodes.insert(p.node);
    return nodes.size();
  };
  for (const auto& [how, nodes] :
       {std::pair(strategy::pack, std::size_t{1}), std::pair(strategy::spread, std::size_t{3}),
        std::pair(strategy::strict_pack, std::size_t{1}),
        std::pair(strategy::strict_spread, std::size_t{3})}) {
    group& g = placed(l, three, how);
    CHECK(g.now == group::state::placed);
    CHECK(nodes_of(g) == nodes);
    l.remove(g);
  }
  CHECK(fits_at_once(l, {{3, 0, 0, {}}, {3, 0, 0, {}}}, strategy::pack));
  CHECK_FALSE(fits_at_once(l, {{3, 0, 0, {}}, {3, 0, 0, {}}}, strategy::strict_pack));
  const bundle small{0.5, 0, 0, {}};
  CHECK(fits_at_once(l, {small, small, small, small}, strategy::spread));
  CHECK_FALSE(fits_at_once(l, {small, small, small, small}, strategy::strict_spread));
}

// The greedy order fails here: the first bundle's first choice leaves none for the second.
TEST_CASE("a search for places goes back when the first choice was wrong", "[ledger]") {
  ledger l;
  l.add_node("both", {}, of({1, 0, 0, {{"x", 1}, {"y", 1}}}));
  l.add_node("only x", {}, of({1, 0, 0, {{"x", 1}}}));
  const group& g =
      placed(l, {{0, 0, 0, {{"x", 1}}}, {0, 0, 0, {{"y", 1}}}}, strategy::strict_spread);
  CHECK(g.now == group::state::placed);
  CHECK(g.places[0].node == 1);
  CHECK(g.places[1].node == 0);
}

TEST_CASE("tasks of a group draw on its bundles, gpus of one bundle share its gpu", "[ledger]") {
  ledger l = cluster(1);
  group& g = placed(l, {{1, 0.5, 0, {}}, {2, 1, 0, {}}});
  REQUIRE(g.now == group::state::placed);
  taken a;
  taken b;
  taken c;
  REQUIRE(take(l, {1, 0.25, 0, {}}, a, in(g, 0)));
  REQUIRE(take(l, {0, 0.25, 0, {}}, b, in(g, 0)));
  CHECK_FALSE(take(l, {0, 0.25, 0, {}}, c, in(g, 0)));
  CHECK(a.held.gpus == b.held.gpus);
  REQUIRE(take(l, {0, 0.25, 0, {}}, c, in(g)));
  CHECK(c.held.bundle == 1);
  CHECK(c.held.gpus != a.held.gpus);
  CHECK(l.infeasible(of({0, 1, 0, {}}), in(g, 0)));
  CHECK_FALSE(l.infeasible(of({0, 1, 0, {}}), in(g, 1)));
  CHECK(l.infeasible(of({1, 0, 0, {}}), in(g, 2)));
}

TEST_CASE("what is held in a removed group comes back when it ends", "[ledger]") {
  ledger l = cluster(1);
  group& g = placed(l, {{2, 1, 100, {{"licence", 1}}}});
  const auto id = g.id;
  taken inside;
  taken outside;
  REQUIRE(take(l, {1.5, 1, 0, {}}, inside, in(g, 0)));
  l.remove(g);
  CHECK(l.find_group(id) == nullptr);
  CHECK(l.report().free.cpus == 2.5);
  CHECK(l.report().free.gpus == 1);
  CHECK_FALSE(take(l, {0, 2, 0, {}}, outside));
  l.lend(inside.asked, inside.held);
  CHECK(l.report().free.cpus == 4);
  l.take_back(inside.asked, inside.held);
  l.give(inside.asked, inside.held);
  CHECK(l.report().free == l.report().total);
}

namespace {

// The model: amounts in maps, gpus as shares; no pools, no bundles of pools.
struct model {
  std::int64_t cpus = 4000, memory = 1000, licences = 3000;
  std::map<int, std::int64_t> gpus = {{0, 1000}, {1, 1000}};

  void add(const need& n, const std::vector<int>& indices, int sign) {
    for (const auto& p : n.parts) {
      (p.of == manta::sched::cpu_kind      ? cpus
       : p.of == manta::sched::memory_kind ? memory
                                           : licences) += sign * p.amount;
    }
    for (const int i : indices) gpus[i] += sign * std::min<std::int64_t>(n.gpus, 1000);
  }
  bool is_sound() const {
    bool good = cpus >= 0 && memory >= 0 && licences >= 0;
    for (const auto& [i, free] : gpus) good = good && free >= 0 && free <= 1000;
    return good;
  }
};

bundle random_bundle(dice& random) {
  bundle b;
  if (random.one_in(2)) b.cpus = static_cast<double>(1 + random.below(2000)) / 1000.0;
  if (random.one_in(3)) b.gpus = random.one_in(2) ? 1 + static_cast<double>(random.below(2)) : 0.4;
  if (random.one_in(3)) b.memory_bytes = 1 + random.below(500);
  if (random.one_in(3)) b.resources = {{"licence", 0.001 + static_cast<double>(random.below(2))}};
  return b;
}

}  // namespace

TEST_CASE("random takes, groups and returns agree with plain sums", "[ledger]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice random(seed);
  ledger l = cluster(1);
  model m;
  std::vector<std::unique_ptr<taken>> all;
  std::vector<group*> groups;
  std::map<taken*, bool> inside;  // held of a bundle of a group that is still there
  for (int i = 0; i < scaled(40'000); ++i) {
    CAPTURE(i);
    const std::size_t step = random.below(10);
    if (step < 5) {
      auto t = std::make_unique<taken>();
      group* const g =
          !groups.empty() && random.one_in(2) ? groups[random.below(groups.size())] : nullptr;
      if (!take(l, random_bundle(random), *t, g == nullptr ? placement{} : in(*g))) continue;
      if (g == nullptr) m.add(t->asked, t->held.gpus, -1);
      inside[t.get()] = g != nullptr;
      all.push_back(std::move(t));
    } else if (step < 8 && !all.empty()) {
      std::swap(all[random.below(all.size())], all.back());
      taken& t = *all.back();
      if (!inside[&t]) m.add(t.asked, t.held.gpus, 1);
      l.give(t.asked, t.held);
      inside.erase(&t);
      all.pop_back();
    } else if (step == 8 && groups.size() < 3) {
      group& g = placed(l, {random_bundle(random), random_bundle(random)});
      if (g.now != group::state::placed) {
        l.remove(g);
        continue;
      }
      for (std::size_t b = 0; b < 2; ++b) m.add(g.bundles[b], g.gpus[b], -1);
      groups.push_back(&g);
    } else if (!groups.empty()) {
      group* const g = groups.back();
      groups.pop_back();
      for (std::size_t b = 0; b < 2; ++b) m.add(g->bundles[b], g->gpus[b], 1);
      for (auto& t : all) {
        if (t->held.in != g) continue;
        inside[t.get()] = false;
        m.add(t->asked, t->held.gpus, -1);
      }
      l.remove(*g);
    }
    REQUIRE(m.is_sound());
    const auto report = l.report();
    REQUIRE(std::llround(report.free.cpus * 1000) == m.cpus);
    REQUIRE(static_cast<std::int64_t>(report.free.memory_bytes) == m.memory);
    REQUIRE(std::llround(report.gpu_free[0] * 1000) == m.gpus[0]);
    REQUIRE(std::llround(report.gpu_free[1] * 1000) == m.gpus[1]);
  }
  for (auto& t : all) l.give(t->asked, t->held);
  for (group* g : groups) l.remove(*g);
  CHECK(l.report().free == l.report().total);
}

TEST_CASE("what this node has is given first, and then of others who has the most left",
          "[ledger]") {
  ledger l = with_others();
  taken all[6];
  REQUIRE(take(l, {4, 0, 0, {}}, all[0]));
  CHECK(all[0].held.node == 0);
  REQUIRE(take(l, {2, 0, 0, {}}, all[1]));
  REQUIRE(take(l, {2, 0, 0, {}}, all[2]));
  CHECK(all[1].held.node + all[2].held.node == 3);  // one each
  REQUIRE(take(l, {1, 0, 0, {}}, all[3]));
  CHECK(all[3].held.node == 3);
  REQUIRE(take(l, {7, 0, 0, {}}, all[4]) == false);
  REQUIRE(take(l, {6, 0, 0, {}}, all[4]));
  l.give(all[0].asked, all[0].held);
  REQUIRE(take(l, {1, 0, 0, {}}, all[5]));
  CHECK(all[5].held.node == 0);
}

TEST_CASE("what stays is this node's to give", "[ledger]") {
  ledger l = with_others();
  taken one;
  one.asked = l.translate(of({0, 4, 0, {}}));
  one.held.gpus.reserve(4);
  CHECK(l.fits(one.asked, {}, manta::sched::horizon::ever));
  one.asked.stays = true;
  CHECK_FALSE(l.fits(one.asked, {}, manta::sched::horizon::ever));
  CHECK_FALSE(l.take(one.asked, {}, true, one.held));
  CHECK_FALSE(l.infeasible(of({0, 4, 0, {}}), {}));
  const auto why = l.infeasible(of({0, 4, 0, {}}), {}, true);
  REQUIRE(why.has_value());
  CHECK_THAT(*why, Catch::Matchers::Contains("asked 4 gpus") && Catch::Matchers::Contains("far"));
}

TEST_CASE("what this node gives it gives whatever others have", "[ledger]") {
  ledger l = with_others();
  const need three = l.translate(of({3, 0, 0, {}}));
  CHECK(l.gives_here(three, {}, horizon::now));
  CHECK_FALSE(l.gives_here(l.translate(of({5, 0, 0, {}})), {}, horizon::ever));
  CHECK_FALSE(l.gives_here(l.translate(of({0, 0, 0, {{"tape", 1}}})), {}, horizon::ever));
  // Where it is, as a condition and as a wish.
  CHECK(l.gives_here(three, manta::on_node("n0"), horizon::now));
  CHECK_FALSE(l.gives_here(three, manta::on_node("far"), horizon::ever));
  CHECK(l.gives_here(three, manta::on_node("far", true), horizon::now));
  CHECK(l.gives_here(three, manta::with_labels({{"zone", "a"}}), horizon::now));
  CHECK_FALSE(l.gives_here(three, manta::with_labels({{"kind", "big"}}), horizon::ever));
  CHECK(l.gives_here(three, manta::with_labels({{"kind", "big"}}, true), horizon::now));
  CHECK(l.gives_here(three, manta::spread(), horizon::now));
  // What is given is not there now, whatever others have free.
  taken two;
  REQUIRE(take(l, {2, 0, 0, {}}, two));
  CHECK_FALSE(l.gives_here(three, {}, horizon::now));
  CHECK(l.gives_here(three, {}, horizon::ever));
  // As what stays is given, for any amounts.
  for (double cpus = 0.5; cpus < 9; cpus += 0.5) {
    need some = l.translate(of({cpus, 0, 0, {}}));
    const bool is = l.gives_here(some, {}, horizon::now);
    some.stays = true;
    CHECK(is == l.fits(some, {}, horizon::now));
  }
}

TEST_CASE("of other nodes with as much left the near one comes first", "[ledger]") {
  ledger l = with_others();
  manta::sched::need what = l.translate(of({1, 0, 0, {}}));
  const auto given = [&](manta::sched::node_id near, const manta::placement& where = {}) {
    manta::sched::grant held;
    REQUIRE(l.take(what, where, true, held, near));
    const manta::sched::node_id out = held.node;
    l.give(what, held);
    return out;
  };
  const manta::placement big = manta::with_labels({{"kind", "big"}});
  CHECK(given(2) == 0);  // this node has it
  CHECK(given(0, big) == 1);
  CHECK(given(2, big) == 2);
  CHECK(given(3, big) == 1);  // that one is not big
  const manta::placement apart = manta::spread();
  CHECK(given(2, apart) == 0);
  taken one;
  REQUIRE(take(l, {1, 0, 0, {}}, one, manta::on_node(l.node_name(2))));
  CHECK(given(2, big) == 1);  // there is more left
  l.give(one.asked, one.held);
  CHECK(given(2, big) == 2);
  l.set(2, ledger::standing::rests);
  CHECK(given(2, big) == 1);
}

TEST_CASE("a node that rests gives nothing for now, and one that is gone never", "[ledger]") {
  using standing = ledger::standing;
  using manta::sched::horizon;
  ledger l = with_others();
  const auto needs = l.translate(of({0, 0, 0, {{"tape", 1}}}));
  taken held;
  REQUIRE(take(l, {0, 0, 0, {{"tape", 1}}}, held));
  l.set(1, standing::rests);
  CHECK_FALSE(l.fits(needs, {}, horizon::now));
  CHECK_FALSE(l.fits(needs, {}, horizon::soon));
  CHECK(l.fits(needs, {}, horizon::ever));
  l.set(1, standing::gives);
  CHECK(l.fits(needs, {}, horizon::now));
  l.set(1, standing::gone);
  CHECK_FALSE(l.fits(needs, {}, horizon::ever));
  CHECK(l.infeasible(of({0, 0, 0, {{"tape", 1}}}), {}));
  // Its place is taken when all has come back.
  CHECK(l.add_other("next", {}, of({1, 0, 0, {}})) == 4);
  l.give(held.asked, held.held);
  CHECK(l.add_other("third", {}, of({0, 0, 0, {{"tape", 1}}})) == 1);
  CHECK(l.node_count() == 5);
  CHECK(l.node_name(1) == "third");
  CHECK(l.fits(needs, {}, horizon::now));
}

TEST_CASE("labels, wishes and groups find other nodes, reports do not", "[ledger]") {
  using manta::sched::horizon;
  ledger l = with_others();
  const manta::placement big = manta::with_labels({{"kind", "big"}});
  CHECK(l.who_gives(of({2, 0, 0, {}}), big, horizon::now) ==
        std::vector<manta::sched::node_id>{1, 2});
  taken one;
  REQUIRE(take(l, {1, 0, 0, {}}, one, big));
  CHECK(one.held.node == 1);
  taken two;
  REQUIRE(take(l, {0, 0, 0, {}}, two, manta::with_labels({{"kind", "none"}}, true)));
  CHECK(two.held.node == 0);
  CHECK(fits_at_once(l, {{8, 0, 0, {}}}, strategy::pack));
  CHECK(l.infeasible({of({8, 0, 0, {}})}, strategy::pack, true).has_value());
  CHECK_FALSE(fits_at_once(l, {{9, 0, 0, {}}}, strategy::pack));
  CHECK(fits_at_once(l, {{4, 0, 0, {}}, {4, 0, 0, {}}}, strategy::strict_spread));
  CHECK(l.report().total.cpus == 4);
  // A key that nobody has yet.
  const auto asked = of({0, 0, 0, {{"disk", 1}}});
  CHECK_FALSE(l.knows(asked));
  l.learn(asked);
  CHECK(l.knows(asked));
  CHECK(l.infeasible(asked, {}));
  l.add_other("late", {}, of({0, 0, 0, {{"disk", 1}}}));
  CHECK_FALSE(l.infeasible(asked, {}));
}

TEST_CASE("a gone node's place is taken when the least of it has come back", "[ledger]") {
  ledger l = cluster(1);
  l.add_other("far", {}, of({0, 0, std::size_t{1} << 40U, {}}));
  taken one;
  REQUIRE(take(l, {0, 0, std::size_t{1} << 20U, {}}, one));
  CHECK(one.held.node == 1);
  l.set(1, ledger::standing::gone);
  CHECK(l.add_other("next", {}, of({1, 0, 0, {{"x", 1}}})) == 2);
  l.give(one.asked, one.held);
  CHECK(l.add_other("third", {}, of({1, 0, 0, {}})) == 1);
}

TEST_CASE("what asks for nothing but labels lies on all that have them", "[ledger]") {
  ledger l = with_others();
  taken all[8];
  std::map<manta::sched::node_id, int> count;
  for (taken& one : all) {
    REQUIRE(take(l, {}, one, manta::with_labels({{"kind", "big"}})));
    ++count[one.held.node];
  }
  CHECK(count == std::map<manta::sched::node_id, int>{{1, 4}, {2, 4}});
}

}  // namespace ledger_test
