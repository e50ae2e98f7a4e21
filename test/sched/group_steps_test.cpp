// SPDX-License-Identifier: Apache-2.0
// The steps of groups whose bundles other nodes give, against nodes that keep simple accounts.
#include "sched/group_steps.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace group_steps_test {

namespace {

using manta::strategy;
using manta::sched::group;
using manta::sched::group_id;
using manta::sched::group_steps;
using manta::sched::ledger;
using manta::sched::line;
using manta::sched::request;
using manta::sched::request_list;
using manta_test::dice;
using manta_test::run_seed;
using manta_test::scaled;
using number = std::uint64_t;
using seat = group::seat;

manta::spec::demand cpus(double count) {
  return manta::spec::to_demand(manta::bundle{count, 0, 0, {}});
}

/// Another node: what it has free, and what it has set aside for which try.
struct far_node {
  std::int64_t free = 2000;
  std::map<number, std::int64_t> aside;
};

struct answer {
  number node;
  group_id group;
  number of;
  bool is_yes;
};

/// A node of 2 cpus with its groups; three others of 2 cpus, and what is on its way to and from
/// them, in its order.
class maker {
 public:
  maker() : steps(has, waits, others) {
    has.add_node("here", {}, cpus(2));
    for (number n = 11; n <= 13; ++n) join(n);
  }
  maker(const maker&) = delete;
  maker& operator=(const maker&) = delete;

  void join(number n) {
    const auto at = has.add_other("far" + std::to_string(n), {}, cpus(2));
    if (at == others.size()) others.push_back(0);
    others[at] = n;
    far[n] = {};
    has.judge(false);
    go_on(waits.look_again());
  }
  void lose(number n) {
    far.erase(n);
    std::erase_if(answers, [n](const auto& one) { return one.node == n; });
    const auto at = std::find(others.begin(), others.end(), n);
    has.set(static_cast<manta::sched::node_id>(at - others.begin()), ledger::standing::gone);
    steps.lose(n);
    *at = 0;
    has.judge(false);
    for (request* r = waits.refuse_infeasible().first; r != nullptr; r = r->next) ended.insert(r);
    follow(steps.give_up_hopeless());
    go_on(waits.look_again());
  }

  void make(std::vector<manta::spec::demand> bundles, strategy how) {
    if (has.infeasible(bundles, how)) return;
    group& g = has.make_group(std::move(bundles), how);
    steps.add(g.id);
    auto& by = groups[g.id] = std::make_unique<request>();
    by->forming = &g;
    if (waits.ask(*by) && !steps.asks(*by)) through(*by);
    post();
  }
  void remove(group_id id) {
    group& g = *has.find_group(id);
    steps.remove(g);
    request_list refused;
    go_on(waits.remove(g, refused));
    ended.erase(groups[id].get());
    groups.erase(id);
    post();
  }
  void go_on(const request_list& granted) { follow({steps.let_through(granted), {}}); }
  void follow(const group_steps::outcome& of) {
    for (request* r = of.through.first; r != nullptr;) {
      request* const following = r->next;
      through(*r);
      r = following;
    }
    for (const request* r = of.hopeless.first; r != nullptr; r = r->next) {
      REQUIRE(ended.insert(r).second);
      REQUIRE(r->forming->is_hopeless);
    }
    post();
  }
  // It has all of its places, and those elsewhere are set aside for it.
  void through(request& by) {
    if (by.forming == nullptr) return;
    REQUIRE(ended.insert(&by).second);
    ++opened;
    std::map<number, std::map<number, std::int64_t>> asked;
    for (std::size_t b = 0; b < by.forming->places.size(); ++b) {
      const group::place& p = by.forming->places[b];
      REQUIRE(p.at != seat::asked);
      if (p.at != seat::given || others[p.node] == 0) continue;  // its node was lost meanwhile
      asked[others[p.node]][p.booking] += by.forming->shown[b].cpus;
    }
    for (const auto& [node, tries] : asked) {
      ++elsewhere;
      for (const auto& [of, amount] : tries) REQUIRE(far.at(node).aside.at(of) == amount);
    }
  }
  void post() {
    for (auto& one : steps.letters()) letters.push_back(std::move(one));
    steps.said();
  }

  // What was said comes to its node.
  void deliver() {
    const group_steps::letter one = std::move(letters.front());
    letters.pop_front();
    const auto at = far.find(one.node);
    if (at == far.end()) return;
    far_node& to = at->second;
    if (one.bundles.empty()) {
      if (const auto aside = to.aside.extract(one.number)) to.free += aside.mapped();
      return;
    }
    std::int64_t amount = 0;
    const group* const g = has.find_group(one.group);
    for (const auto b : one.bundles) amount += g == nullptr ? 500 : g->shown[b].cpus;
    const bool is_yes = amount <= to.free;
    if (is_yes) to.free -= amount;
    if (is_yes) to.aside[one.number] = amount;
    answers.push_back({one.node, one.group, one.number, is_yes});
    refused += is_yes ? 0 : 1;
  }
  void hear() {
    const answer one = answers.front();
    answers.pop_front();
    follow(steps.answered(one.node, one.group, one.of, one.is_yes));
  }
  void wake_one(dice& random) {
    std::vector<group_id> resting;
    for (const auto& [id, f] : steps.all()) {
      if (f.rests) resting.push_back(id);
    }
    if (!resting.empty()) follow(steps.try_again(resting[random.below(resting.size())]));
  }

  ledger has;
  line waits{has};
  std::vector<number> others{0};
  group_steps steps;
  std::map<number, far_node> far;
  std::map<group_id, std::unique_ptr<request>> groups;
  std::set<const request*> ended;  // went on, or can never be
  std::deque<group_steps::letter> letters;
  std::deque<answer> answers;
  int opened = 0;
  int elsewhere = 0;
  int refused = 0;
};

void make_some(maker& m, dice& random) {
  std::vector<manta::spec::demand> bundles;
  for (std::size_t i = 1 + random.below(4); i > 0; --i) {
    bundles.push_back(cpus(0.5 * static_cast<double>(1 + random.below(3))));
  }
  m.make(std::move(bundles), static_cast<strategy>(random.below(4)));
}

// Others' own work comes and goes, which the maker does not know.
void shift_load(maker& m, dice& random) {
  far_node& of = std::next(m.far.begin(), static_cast<long>(random.below(m.far.size())))->second;
  const std::int64_t aside =
      std::accumulate(of.aside.begin(), of.aside.end(), std::int64_t{0},
                      [](std::int64_t sum, const auto& one) { return sum + one.second; });
  of.free = random.one_in(2) ? 2000 - aside : std::min<std::int64_t>(of.free, 500);
}

}  // namespace

TEST_CASE("random answers and losses: each group goes on once, with all of its places",
          "[groups]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice random(seed);
  maker m;
  number next = 14;
  for (int i = 0; i < scaled(20'000); ++i) {
    CAPTURE(i);
    const std::size_t step = random.below(20);
    if (step < 3 && m.groups.size() < 8) {
      make_some(m, random);
    } else if (step < 9 && !m.letters.empty()) {
      m.deliver();
    } else if (step < 14 && !m.answers.empty()) {
      m.hear();
    } else if (step == 14) {
      m.wake_one(random);
    } else if (step == 15) {
      shift_load(m, random);
    } else if (step < 18 && !m.groups.empty()) {
      const auto at = std::next(m.groups.begin(), static_cast<long>(random.below(m.groups.size())));
      m.remove(at->first);
    } else if (step == 18 && random.one_in(20)) {
      m.lose(m.far.begin()->first);
      m.join(next++);
    }
  }
  CHECK(m.opened > scaled(200));
  CHECK(m.elsewhere > scaled(50));
  CHECK(m.refused > scaled(50));
  while (!m.groups.empty()) m.remove(m.groups.begin()->first);
  while (!m.letters.empty()) m.deliver();
  for (const auto& [name, one] : m.far) CHECK(one.aside.empty());
  CHECK(m.steps.all().empty());
  CHECK(m.waits.waiting() == 0);
  CHECK(m.has.report().free == m.has.report().total);
}

TEST_CASE("one no drops the whole try, also where no answer has come", "[groups]") {
  maker m;
  m.make({cpus(2), cpus(2), cpus(2)}, strategy::strict_spread);
  REQUIRE(m.letters.size() == 2);
  const number first = m.letters[0].number;
  const number refuses = m.letters[0].node;
  const number silent = m.letters[1].node;
  m.letters.clear();
  m.follow(m.steps.answered(refuses, m.groups.begin()->first, first, false));
  std::set<number> dropped;
  std::set<number> asked;
  for (const auto& one : m.letters) {
    if (one.bundles.empty()) CHECK(one.number == first);
    if (!one.bundles.empty()) CHECK(one.number > first);
    (one.bundles.empty() ? dropped : asked).insert(one.node);
  }
  CHECK(dropped == std::set<number>{refuses, silent});
  // There is a third one.
  CHECK(asked.size() == 2);
  CHECK_FALSE(asked.contains(refuses));
  CHECK(m.ended.empty());
  // A late yes of the first try means nothing.
  m.follow(m.steps.answered(silent, m.groups.begin()->first, first, true));
  CHECK(m.ended.empty());
}

}  // namespace group_steps_test
