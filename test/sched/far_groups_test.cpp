// SPDX-License-Identifier: Apache-2.0
// Placement groups whose bundles other nodes give.
#include <manta/sched/ledger.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sched/ledger_support.hpp"

namespace ledger_test {

namespace {

using standing = ledger::standing;

std::vector<manta::sched::node_id> nodes_of(const group& g) {
  std::vector<manta::sched::node_id> out;
  for (const auto& p : g.places) out.push_back(p.node);
  return out;
}

bool has_all(ledger& l) {
  const bool is_free =
      l.fits(l.translate(of({8, 4, 1000, {{"tape", 2}}})), manta::on_node("far"), horizon::now) &&
      l.fits(l.translate(of({8, 0, 1000, {}})), manta::on_node("wide"), horizon::now) &&
      l.fits(l.translate(of({1, 0, 0, {}})), manta::on_node("small"), horizon::now);
  return is_free && l.report().free == l.report().total;
}

bundle one_cpu() { return {1, 0, 0, {}}; }

}  // namespace

TEST_CASE("groups lie on other nodes as their strategy says", "[ledger]") {
  using ids = std::vector<manta::sched::node_id>;
  ledger l = with_others();
  const std::vector<bundle> four(4, one_cpu());
  for (const strategy how : {strategy::spread, strategy::strict_spread}) {
    group& g = placed(l, four, how);
    CHECK(ledger::is_asking(g));
    CHECK(nodes_of(g) == ids{0, 1, 2, 3});
    l.remove(g);
  }
  CHECK_FALSE(fits_at_once(l, std::vector<bundle>(5, one_cpu()), strategy::strict_spread));
  for (const strategy how : {strategy::pack, strategy::strict_pack}) {
    group& here = placed(l, four, how);
    CHECK(here.now == group::state::placed);
    CHECK(nodes_of(here) == ids{0, 0, 0, 0});
    group& there = placed(l, four, how);
    CHECK(nodes_of(there) == ids{1, 1, 1, 1});
    l.remove(here);
    l.remove(there);
  }
  // Two nodes are enough, though this one has room for some of them.
  taken some;
  REQUIRE(take(l, {2, 0, 0, {}}, some));
  group& wide = placed(l, std::vector<bundle>(16, one_cpu()), strategy::pack);
  std::set<manta::sched::node_id> used;
  for (const auto& p : wide.places) used.insert(p.node);
  CHECK(used == std::set<manta::sched::node_id>{1, 2});
  l.remove(wide);
  l.give(some.asked, some.held);
  CHECK(has_all(l));
}

TEST_CASE("what other nodes are asked for is given to nobody, and comes back", "[ledger]") {
  ledger l = with_others();
  group& g = placed(l, {{4, 0, 0, {}}, {8, 0, 0, {}}}, strategy::spread);
  REQUIRE(ledger::is_asking(g));
  taken inside;
  CHECK_FALSE(take(l, one_cpu(), inside, in(g, 0)));
  CHECK_FALSE(take(l, one_cpu(), inside, in(g, 1)));
  taken outside;
  CHECK_FALSE(take(l, {4, 0, 0, {}}, outside, manta::on_node("n0")));
  l.take_apart(g);
  CHECK(has_all(l));
  CHECK(l.has_place(g, horizon::now));
  REQUIRE(l.place(g));
  CHECK_FALSE(l.place(g));
  l.confirm(g);
  CHECK(g.now == group::state::placed);
  REQUIRE(take(l, {8, 0, 0, {}}, inside, in(g)));
  CHECK(inside.held.bundle == 1);
  CHECK(inside.held.node == 1);
  l.remove(g);
  CHECK_FALSE(has_all(l));
  l.give(inside.asked, inside.held);
  CHECK(has_all(l));
}

TEST_CASE("who has refused is left alone while it is shunned", "[ledger]") {
  ledger l = with_others();
  group& g = l.make_group({of({8, 0, 0, {}})}, strategy::pack);
  g.shuns = {1};
  REQUIRE(l.place(g));
  CHECK(g.places[0].node == 2);
  l.take_apart(g);
  g.shuns = {1, 2};
  CHECK_FALSE(l.place(g));
  CHECK(l.has_place(g, horizon::ever));
}

TEST_CASE("only bundles of a node that is lost move", "[ledger]") {
  using ids = std::vector<manta::sched::node_id>;
  ledger l = with_others();
  group& g = placed(l, std::vector<bundle>(3, one_cpu()), strategy::strict_spread);
  l.confirm(g);
  REQUIRE(nodes_of(g) == ids{0, 1, 2});
  taken lost;
  taken kept;
  REQUIRE(take(l, one_cpu(), lost, in(g, 1)));
  REQUIRE(take(l, one_cpu(), kept, in(g, 2)));
  l.set(1, standing::gone);
  CHECK(l.lose(g, 1));
  CHECK_FALSE(l.lose(g, 1));
  taken again;
  CHECK_FALSE(take(l, one_cpu(), again, in(g, 1)));
  CHECK(l.fits(again.asked, in(g, 1), horizon::ever));
  l.set(3, standing::gone);
  l.judge(true);
  CHECK(l.fits(again.asked, in(g, 1), horizon::ever));
  l.judge(false);
  CHECK_FALSE(l.fits(again.asked, in(g, 1), horizon::ever));  // nobody is left that has none of it
  l.set(3, standing::gives);
  l.judge(false);
  REQUIRE(l.place(g));
  CHECK(nodes_of(g) == ids{0, 3, 2});
  CHECK_FALSE(take(l, one_cpu(), again, in(g, 1)));
  l.confirm(g);
  REQUIRE(take(l, one_cpu(), again, in(g, 1)));
  CHECK(again.held.node == 3);
  // The gone node's place is taken when that has come back, and what was held there is not the
  // new place's.
  CHECK(l.add_other("fifth", {}, of(one_cpu())) == 4);
  l.give(lost.asked, lost.held);
  CHECK(l.add_other("sixth", {}, of(one_cpu())) == 1);
  CHECK_FALSE(take(l, one_cpu(), lost, in(g, 1)));
  l.remove(g);
  l.give(kept.asked, kept.held);
  l.give(again.asked, again.held);
  CHECK(l.report().free == l.report().total);
}

TEST_CASE("what a group has itself is no place for what it has lost", "[ledger]") {
  for (const strategy how : {strategy::spread, strategy::pack}) {
    ledger l = with_others();
    group& g = placed(l, std::vector<bundle>(2, {8, 0, 0, {}}), how);
    l.confirm(g);
    const manta::sched::node_id other = g.places[1].node;
    l.set(other, standing::gone);
    REQUIRE(l.lose(g, other));
    const need asked = l.translate(of(one_cpu()));
    l.judge(true);
    CHECK(l.fits(asked, in(g, 1), horizon::ever));
    l.judge(g, false);
    CHECK(g.is_hopeless);
    CHECK_FALSE(l.fits(asked, in(g, 1), horizon::ever));
    CHECK(l.fits(asked, in(g, 0), horizon::ever));
    l.add_other("new", {}, of({8, 0, 0, {}}));
    l.judge(false);
    CHECK_FALSE(g.is_hopeless);
    l.remove(g);
  }
}

TEST_CASE("cpus that sleepers in another node's bundle lend are free in it", "[ledger]") {
  ledger l = with_others();
  group& g = placed(l, {{8, 0, 0, {}}}, strategy::pack);
  l.confirm(g);
  taken sleeper;
  taken other;
  REQUIRE(take(l, {8, 0, 0, {}}, sleeper, in(g)));
  CHECK_FALSE(take(l, {4, 0, 0, {}}, other, in(g)));
  ledger::note_lent(g, 0, 1'000'000'000);  // no more than is held
  CHECK_FALSE(take(l, {9, 0, 0, {}}, other, in(g)));
  REQUIRE(take(l, {4, 0, 0, {}}, other, in(g)));
  ledger::note_lent(g, 0, -5);
  l.give(other.asked, other.held);
  ledger::note_lent(g, 0, 8000);
  l.give(sleeper.asked, sleeper.held);  // before its node says that it is awake
  REQUIRE(take(l, {8, 0, 0, {}}, sleeper, in(g)));
  l.give(sleeper.asked, sleeper.held);
  l.remove(g);
  CHECK(has_all(l));
}

TEST_CASE("random groups over nodes that come and go give all back", "[ledger]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice random(seed);
  ledger l = with_others();
  std::vector<std::unique_ptr<taken>> all;
  std::vector<group*> groups;
  const auto any = [&]() -> group* {
    return groups.empty() ? nullptr : groups[random.below(groups.size())];
  };
  for (int i = 0; i < scaled(20'000); ++i) {
    CAPTURE(i);
    const std::size_t step = random.below(12);
    if (step < 3) {
      auto t = std::make_unique<taken>();
      group* const g = any();
      const bundle b{
          static_cast<double>(1 + random.below(1500)) / 1000.0, random.one_in(3) ? 0.5 : 0, 0, {}};
      if (take(l, b, *t, g == nullptr ? placement{} : in(*g))) all.push_back(std::move(t));
    } else if (step < 5 && !all.empty()) {
      std::swap(all[random.below(all.size())], all.back());
      if (random.one_in(2)) l.lend(all.back()->asked, all.back()->held);
      l.give(all.back()->asked, all.back()->held);
      all.pop_back();
    } else if (step == 5 && groups.size() < 4) {
      std::vector<demand> asked;
      for (std::size_t b = 0; b < 1 + random.below(4); ++b) {
        asked.push_back(
            of({static_cast<double>(1 + random.below(3)), random.one_in(3) ? 1.0 : 0.0, 0, {}}));
      }
      groups.push_back(&l.make_group(asked, static_cast<strategy>(random.below(4))));
    } else if (group* const g = any()) {
      if (step < 8) {
        l.place(*g);
      } else if (step == 8) {
        random.one_in(3) ? l.take_apart(*g) : l.confirm(*g);
      } else if (step == 9) {
        ledger::note_lent(*g, random.below(g->places.size()),
                          static_cast<std::int64_t>(random.below(4000)));
      } else if (step == 10) {
        const auto node = static_cast<manta::sched::node_id>(1 + random.below(3));
        l.set(node, random.one_in(3) ? standing::gone : standing::gives);
        if (l.of(node) == standing::gone) {
          for (group* const each : groups) l.lose(*each, node);
        }
      } else if (random.one_in(3)) {
        groups.erase(std::find(groups.begin(), groups.end(), g));
        l.remove(*g);
      }
    }
    for (const group* const g : groups) {
      std::map<manta::sched::node_id, int> count;
      for (const auto& p : g->places) {
        if (p.at != group::seat::nowhere) ++count[p.node];
      }
      if (g->how == strategy::strict_spread) {
        for (const auto& [node, n] : count) REQUIRE(n <= 1);
      }
    }
  }
  for (auto& t : all) l.give(t->asked, t->held);
  for (group* g : groups) l.remove(*g);
  for (manta::sched::node_id n = 1; n < 4; ++n) l.set(n, standing::gives);
  CHECK(has_all(l));
}

}  // namespace ledger_test
