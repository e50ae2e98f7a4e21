// SPDX-License-Identifier: Apache-2.0
// Several nodes in one line: their turns, against a model that is as short as the rule.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <manta/sched/line.hpp>

#include "exec/support.hpp"

namespace line_nodes_test {
namespace {

using manta::sched::ledger;
using manta::sched::line;
using manta::sched::request;
using manta::sched::request_list;
using manta_test::dice;
using manta_test::run_seed;
using manta_test::scaled;

using names = std::vector<std::size_t>;

// A node of 4 cpus, its line, and the requests made, which ask for one each unless they say so.
struct queue_of_nodes {
  ledger has;
  line waits{has};
  std::vector<std::unique_ptr<request>> made;

  queue_of_nodes() { has.add_node("here", {}, cpus(4)); }
  queue_of_nodes(const queue_of_nodes&) = delete;
  queue_of_nodes& operator=(const queue_of_nodes&) = delete;

  static manta::spec::demand cpus(double count) {
    return manta::spec::to_demand(manta::bundle{count, 0, 0, {}});
  }
  std::size_t ask(std::uint64_t from, std::uint64_t caller, double count = 1) {
    request& one = *made.emplace_back(std::make_unique<request>());
    one.what = has.translate(cpus(count));
    one.from = from;
    one.caller = caller;
    waits.ask(one);
    return made.size() - 1;
  }
  bool is_held(std::size_t i) const { return made[i]->now == request::state::held; }
  names named(const request_list& list) const {
    names out;
    for (const request* r = list.first; r != nullptr; r = r->next) {
      const auto is = [r](const auto& m) { return m.get() == r; };
      out.push_back(
          static_cast<std::size_t>(std::find_if(made.begin(), made.end(), is) - made.begin()));
    }
    return out;
  }
  names give(std::size_t i) { return named(waits.give(*made[i])); }
  names withdraw(std::size_t i) { return named(waits.withdraw(*made[i])); }
};

// Who waits, as the rule says: nodes in a row, in each its callers, in each its requests.
class model {
  template <class Row>
  static auto find(Row& in, std::uint64_t name) {
    return std::find_if(in.begin(), in.end(), [name](const auto& e) { return e.first == name; });
  }

 public:
  void add(std::uint64_t from, std::uint64_t caller, std::size_t name) {
    auto node = find(row_, from);
    if (node == row_.end()) node = row_.insert(row_.end(), {from, {}});
    auto who = find(node->second, caller);
    if (who == node->second.end()) {
      who = node->second.insert(node->second.end(), {caller, {}});
    }
    who->second.push_back(name);
  }
  void remove(std::uint64_t from, std::uint64_t caller, std::size_t name) {
    const auto node = find(row_, from);
    const auto who = find(node->second, caller);
    std::erase(who->second, name);
    if (who->second.empty()) node->second.erase(who);
    if (node->second.empty()) row_.erase(node);
  }
  std::optional<std::size_t> next() {
    if (row_.empty()) return std::nullopt;
    auto node = std::move(row_.front());
    row_.pop_front();
    auto who = std::move(node.second.front());
    node.second.pop_front();
    const std::size_t out = who.second.front();
    who.second.pop_front();
    if (!who.second.empty()) node.second.push_back(std::move(who));
    if (!node.second.empty()) row_.push_back(std::move(node));
    return out;
  }

 private:
  using requests = std::deque<std::size_t>;
  using callers = std::deque<std::pair<std::uint64_t, requests>>;
  std::deque<std::pair<std::uint64_t, callers>> row_;
};

}  // namespace

TEST_CASE("nodes take turns, however many callers one has and however much it asks for", "[line]") {
  queue_of_nodes d;
  const std::size_t all = d.ask(0, 1, 4);
  names flood;
  for (std::uint64_t i = 0; i < 1000; ++i) flood.push_back(d.ask(7, i % 2 == 0 ? 7 : i, 4));
  const names own{d.ask(0, 1, 4), d.ask(0, 2, 4), d.ask(0, 1, 4)};
  const names third{d.ask(9, 9, 4)};
  names got;
  for (std::size_t holder = all; got.size() < 7;) {
    const names next = d.give(holder);
    REQUIRE(next.size() == 1);
    got.push_back(holder = next[0]);
  }
  CHECK(got == names{flood[0], own[0], third[0], flood[1], own[1], flood[3], own[2]});
}

TEST_CASE("many callers here do not hold up another node's one", "[line]") {
  queue_of_nodes d;
  const std::size_t all = d.ask(0, 1, 4);
  for (std::uint64_t i = 0; i < 1000; ++i) d.ask(0, i, 4);
  const names guest{d.ask(5, 5, 4), d.ask(5, 5, 4)};
  names got;
  for (std::size_t holder = all; got.size() < 4;) {
    const names next = d.give(holder);
    REQUIRE(next.size() == 1);
    got.push_back(holder = next[0]);
  }
  CHECK(got[1] == guest[0]);
  CHECK(got[3] == guest[1]);
}

// A large request of one node holds back what comes behind it, whoever asks; then turns go on.
TEST_CASE("a large request of another node is not passed by small ones of this", "[line]") {
  queue_of_nodes d;
  const std::size_t running = d.ask(0, 1);
  const std::size_t large = d.ask(5, 5, 4);
  const std::size_t small = d.ask(0, 1);
  CHECK_FALSE(d.is_held(small));
  CHECK(d.give(running) == names{large});
  CHECK(d.give(large) == names{small});
}

TEST_CASE("random events: who is served is who the model says", "[line]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice random(seed);
  queue_of_nodes d;
  model expected;
  names held;
  names waiting;
  const auto let_through = [&](const names& got) {
    for (const std::size_t one : got) {
      const std::optional<std::size_t> next = expected.next();
      REQUIRE(next.has_value());
      REQUIRE(one == *next);
      std::erase(waiting, one);
      held.push_back(one);
    }
  };
  for (int i = 0; i < scaled(20'000); ++i) {
    CAPTURE(i);
    const std::size_t step = random.below(9);
    if (step < 4 && waiting.size() < 60) {
      const std::uint64_t from = random.below(4) * random.below(2);
      const std::uint64_t caller = from * 10 + random.below(5);
      const std::size_t made = d.ask(from, caller);
      if (d.is_held(made)) {
        held.push_back(made);
        REQUIRE(held.size() <= 4);
        REQUIRE(waiting.empty());
      } else {
        waiting.push_back(made);
        expected.add(from, caller, made);
      }
    } else if (step < 8 && !held.empty()) {
      std::swap(held[random.below(held.size())], held.back());
      const std::size_t gone = held.back();
      held.pop_back();
      let_through(d.give(gone));
    } else if (!waiting.empty()) {
      const std::size_t gone = waiting[random.below(waiting.size())];
      std::erase(waiting, gone);
      expected.remove(d.made[gone]->from, d.made[gone]->caller, gone);
      REQUIRE(d.withdraw(gone).empty());
    }
    REQUIRE(d.waits.waiting() == waiting.size());
  }
  while (!held.empty()) {
    const std::size_t gone = held.back();
    held.pop_back();
    let_through(d.give(gone));
  }
  CHECK(waiting.empty());
  CHECK(d.waits.waiting() == 0);
}

// Amounts of all sizes, so that some don't fit: who waits with less than what another node has just
// got has been looked at before.
TEST_CASE("no node gets room twice while another one waits for no more", "[line]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice random(seed);
  queue_of_nodes d;
  names held{d.ask(1, 1, 4)};
  std::map<std::size_t, std::map<std::uint64_t, int>> passed;  // of who waits, by node
  const auto amount = [&](std::size_t i) { return d.made[i]->what.parts[0].amount; };
  int turns = 0;
  for (int i = 0; i < scaled(3000); ++i) {
    const std::uint64_t from = random.below(4);
    const std::size_t made = d.ask(from, random.below(3), static_cast<double>(1 + random.below(4)));
    d.is_held(made) ? held.push_back(made) : void(passed[made]);
    if (held.empty() || random.one_in(4)) continue;
    std::swap(held[random.below(held.size())], held.back());
    const std::size_t gone = held.back();
    held.pop_back();
    for (const std::size_t got : d.give(gone)) {
      held.push_back(got);
      passed.erase(got);
      const std::uint64_t by = d.made[got]->from;
      for (auto& [waits, of] : passed) {
        if (d.made[waits]->from == by) of.clear();
        if (d.made[waits]->from == by || amount(waits) > amount(got)) continue;
        REQUIRE(++of[by] < 2);
        ++turns;
      }
    }
  }
  CHECK(turns > 0);
  while (!held.empty()) {
    const std::size_t gone = held.back();
    held.pop_back();
    for (const std::size_t got : d.give(gone)) held.push_back(got);
  }
  CHECK(d.waits.waiting() == 0);
}

}  // namespace line_nodes_test
