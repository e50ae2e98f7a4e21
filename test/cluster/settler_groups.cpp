// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp whose placement groups have bundles in several nodes.
#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/settling.hpp"

namespace settling {

namespace {

headcount in_bundle;

// Where it was brought to, its end waits for an answer of another node.
class last_words {
 public:
  last_words() = default;
  explicit last_words(std::string key) : key_(std::move(key)) {}
  last_words(last_words&& from) noexcept { *this = std::move(from); }
  last_words& operator=(last_words&& from) noexcept {
    key_ = std::exchange(from.key_, {});
    came_ = from.came_;
    return *this;
  }
  last_words(const last_words&) = default;
  last_words& operator=(const last_words&) = default;
  ~last_words() {
    if (!came_ || key_.empty()) return;
    try {
      static_cast<void>(manta::kv::put(key_, 1).get(long_enough));
    } catch (const manta::exception&) {
      return;  // it is not seen
    }
  }
  template <class Archive>
  void save(Archive& to) const {
    to(key_);
  }
  template <class Archive>
  void load(Archive& from) {
    from(key_);
    came_ = true;
    static_cast<void>(manta::kv::put(key_ + " came", 1));
  }

 private:
  std::string key_;
  bool came_ = false;
};
struct heir {
  explicit heir(last_words /*of*/) {}
};

std::string runs_in() { return manta::this_task::node(); }
int busy_in_bundle(int ms) { return in_bundle.most_while(ms); }
// As holds_until, and keeps its cpus, since it looks and does not wait.
std::string works_until(const std::string& began, const std::string& end) {
  static_cast<void>(manta::kv::put(began, 1));
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (std::chrono::steady_clock::now() < limit) {
    auto seen = manta::kv::get<int>(end);
    while (!seen.is_ready()) std::this_thread::sleep_for(1ms);  // the task's work
    if (seen.get().has_value()) break;
  }
  return manta::this_task::node();
}
// Sleeps in a wait, so that its cpus are others'.
long sleeps_on(const std::string& began, const std::string& key) {
  manta::kv::put(began, 1).get();
  return manta::remote<value_of>(key).get(long_enough);
}
int puts_key(const std::string& key) {
  manta::kv::put(key, 7).get();
  return 7;
}

manta::options within(const manta::placement& where, double cpus = 1) {
  manta::options out;
  out.cpus = cpus;
  out.where = where;
  return out;
}
std::vector<manta::bundle> cpus_of(std::size_t count, double each) {
  manta::bundle one;
  one.cpus = each;
  return std::vector<manta::bundle>(count, one);
}

std::vector<std::string> nodes_of_bundles(const manta::placement_group& g) {
  std::vector<manta::future<std::string>> all;
  for (std::size_t i = 0; i < g.size(); ++i) {
    all.push_back(manta::remote<runs_in>.with(within(g.bundle(i)))());
  }
  std::vector<std::string> out;
  for (auto& one : all) out.push_back(one.get(long_enough));
  return out;
}
std::size_t count_nodes(const manta::placement_group& g) {
  const auto all = nodes_of_bundles(g);
  return std::set<std::string>(all.begin(), all.end()).size();
}

void check_strategies() {
  struct expected {
    manta::strategy how;
    std::size_t bundles;
    std::size_t nodes;
  };
  for (const expected& one : {expected{manta::strategy::spread, 4, 4},
                              {manta::strategy::strict_spread, 4, 4},
                              {manta::strategy::strict_pack, 2, 1},
                              {manta::strategy::pack, 2, 1},
                              {manta::strategy::pack, 4, 2},
                              {manta::strategy::spread, 8, 4}}) {
    const auto g = manta::make_placement_group(cpus_of(one.bundles, 1), one.how);
    expect(g.wait(long_enough), "it has its place");
    const std::size_t nodes = count_nodes(g);
    expect(nodes == one.nodes, std::to_string(one.bundles) + " bundles of strategy " +
                                   std::to_string(static_cast<int>(one.how)) + " in " +
                                   std::to_string(nodes) + " nodes");
    expect(manta::remove_placement_group(g), "it was there");
  }
}

// Within the bundle's amounts, and any bundle.
void check_amounts() {
  const auto g = manta::make_placement_group(cpus_of(4, 1), manta::strategy::strict_spread);
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 12; ++i) {
    all.push_back(manta::remote<busy_in_bundle>.with(within(g.bundle(3)))(5));
  }
  for (auto& one : all) expect(one.get(long_enough) == 1, "one at a time in a bundle of one cpu");
  std::vector<manta::future<std::string>> held;
  for (int i = 0; i < 4; ++i) {
    const std::string key = "held" + std::to_string(i);
    held.push_back(
        manta::remote<works_until>.with(within(g.any_bundle()))(key, std::string("held enough")));
    expect(comes(key), key);
  }
  auto waits = manta::remote<runs_in>.with(within(g.any_bundle()))();
  expect(!ends_within(waits, 20ms), "all bundles are in use");
  manta::kv::put("held enough", 1).get();
  std::set<std::string> nodes;
  for (auto& one : held) nodes.insert(one.get(long_enough));
  expect(nodes.size() == 4, "each bundle had one");
  expect(!waits.get(long_enough).empty(), "and then the next");
  // Who sleeps in a bundle elsewhere lends its cpus to others there.
  auto sleeper =
      manta::remote<sleeps_on>.with(within(g.bundle(3)))(std::string("asleep"), std::string("k"));
  expect(comes("asleep"), "it sleeps");
  auto waker = manta::remote<puts_key>.with(within(g.bundle(3)))(std::string("k"));
  expect(waker.get(long_enough) == 7 && sleeper.get(long_enough) == 7, "the other one runs");
  try {
    static_cast<void>(manta::remote<runs_in>.with(within(g.bundle(1), 2))());
    expect(false, "more than the bundle has");
  } catch (const manta::infeasible& e) {
    expect(has(e.what(), "bundle 1 has"), e.what());
  }
  // Nothing but a place.
  expect(manta::remote<runs_in>.with(within(g.bundle(2), 0))().get(long_enough) ==
             nodes_of_bundles(g)[2],
         "one that asks for nothing");
  manta::remove_placement_group(g);
}

// Those in bundles elsewhere end with the group, and what waits for one does.
void check_ends() {
  const auto g = manta::make_placement_group(cpus_of(4, 1), manta::strategy::strict_spread);
  std::vector<manta::actor<counter>> actors;
  const auto nodes = nodes_of_bundles(g);
  for (std::size_t i = 0; i < 4; ++i) {
    manta::actor_options with;
    with.cpus = 1;
    with.where = g.bundle(i);
    if (i % 2 == 1) with.name = "in bundle " + std::to_string(i);
    actors.push_back(manta::spawn<counter>.with(with)(static_cast<long>(i)));
    expect(manta::remote<&counter::node>(actors.back()).get(long_enough) == nodes[i],
           "an actor in its bundle");
    expect(manta::remote<&counter::add>(actors.back(), 1L).get(long_enough) ==
               static_cast<long>(i) + 1,
           "it answers");
  }
  auto waits = manta::remote<runs_in>.with(within(g.bundle(2)))();
  expect(!ends_within(waits, 20ms), "the actor has it");
  // One of the other nodes, where it waits for the other actor's cpu.
  manta::actor_options there;
  there.cpus = 1;
  there.where = g.bundle(nodes[3] == manta::this_task::node() ? 2 : 3);
  const auto heirs = manta::spawn<heir>.with(there)(last_words("last words"));
  expect(comes("last words came"), "it is there");
  expect(manta::remove_placement_group(g), "it was there");
  expect(comes("last words"), "what waits in another node ends, and may wait for others then");
  expect(!manta::remove_placement_group(g), "and is no more");
  expect(has(thrown_by<manta::group_removed>(waits), "removed"), "what waits in it ends");
  for (const auto& one : actors) {
    const auto end = manta::monitor(one).get(long_enough);
    expect(end.reason == manta::end_reason::killed, "killed: " + end.message);
  }
  // All of it is there again.
  const auto all = manta::make_placement_group(cpus_of(4, 2), manta::strategy::strict_spread);
  expect(all.wait(long_enough), "all has come back");
  const auto later = manta::make_placement_group(cpus_of(2, 1), manta::strategy::strict_pack);
  expect(!later.wait(20ms), "there is no more");
  manta::remove_placement_group(all);
  expect(later.wait(long_enough), "until it has come back");
  manta::remove_placement_group(later);
}

}  // namespace

int groups(const manta::runtime& /*rt*/) {
  check_strategies();
  check_amounts();
  return say("groups");
}

namespace {

// Makes groups that need all of each node, and gives them back.
int makes_groups(int rounds) {
  int made = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto g = manta::make_placement_group(cpus_of(4, 2), manta::strategy::strict_spread);
    if (!g.wait(long_enough)) return made;
    if (manta::remove_placement_group(g)) ++made;
  }
  return made;
}

}  // namespace

// Three nodes want the same, which only one can have at a time.
int rivals(const manta::runtime& /*rt*/, int rounds) {
  std::vector<manta::future<int>> all;
  for (const char* const node : {"rank-1", "rank-2", "rank-3"}) {
    all.push_back(manta::remote<makes_groups>.with(at(node))(rounds));
  }
  for (auto& one : all) {
    const int made = one.get(60s);
    expect(made == rounds, std::to_string(made) + " groups");
  }
  // Removed before they have a place, while nodes are asked.
  for (int i = 0; i < 200; ++i) {
    const auto g = manta::make_placement_group(cpus_of(4, 2), manta::strategy::strict_spread);
    if (i % 3 == 0) std::this_thread::yield();
    expect(manta::remove_placement_group(g), "it was there");
  }
  const auto all_again = manta::make_placement_group(cpus_of(4, 2), manta::strategy::strict_spread);
  expect(all_again.wait(long_enough), "all has come back");
  expect(count_nodes(all_again) == 4, "in all nodes");
  manta::remove_placement_group(all_again);
  check_ends();
  return say("rivals");
}

int unplaced() {
  const auto refusal = [](std::size_t count, double each, manta::strategy how) {
    try {
      static_cast<void>(manta::make_placement_group(cpus_of(count, each), how));
      return std::string("nothing");
    } catch (const manta::infeasible& e) {
      return std::string(e.what());
    }
  };
  for (const std::string& why :
       {refusal(5, 1, manta::strategy::strict_spread), refusal(3, 1, manta::strategy::strict_pack),
        refusal(1, 3, manta::strategy::pack), refusal(9, 1, manta::strategy::spread)}) {
    expect(has(why, "can never fit") && has(why, "rank-3 has 2 cpus"), why);
  }
  const auto g = manta::make_placement_group(cpus_of(8, 1), manta::strategy::pack);
  expect(g.wait(long_enough), "all that there is");
  // What can't leave has no place in another node's bundle.
  const homebody some;
  bool was_refused = false;
  for (std::size_t i = 0; i < g.size(); ++i) {
    auto one = manta::remote<takes_homebody>.with(within(g.bundle(i)))(some);
    const std::string why = thrown_by<manta::exception>(one);
    was_refused = was_refused || has(why, "can't go");
    expect(why == "nothing" || has(why, "can't go"), why);
  }
  expect(was_refused, "a stop token");
  return say("unplaced");
}

namespace {

std::vector<manta::bundle> memory_of(std::size_t count, std::size_t each) {
  manta::bundle one;
  one.memory_bytes = each;
  return std::vector<manta::bundle>(count, one);
}
// It lives until its node ends.
bool makes_and_leaves(std::size_t bytes) {
  const auto g = manta::make_placement_group(memory_of(4, bytes), manta::strategy::strict_spread);
  return g.wait(long_enough);
}

}  // namespace

// rank-3 is lost. The others have 2 cpus each.
int evicted(const manta::runtime& rt) {
  // One of the lost node's own, which has more than half of each node.
  const std::size_t most = rt.resources().total.memory_bytes / 5 * 3;
  expect(manta::remote<makes_and_leaves>.with(at("rank-3"))(most).get(long_enough), "its own");
  const auto g = manta::make_placement_group(cpus_of(4, 1), manta::strategy::spread);
  expect(g.wait(long_enough), "it has its place");
  const auto before = nodes_of_bundles(g);
  std::size_t lost = 0;
  while (lost < 3 && before[lost] != "rank-3") ++lost;
  expect(before[lost] == "rank-3", "one of it");
  auto runs = manta::remote<works_until>.with(within(g.bundle(lost)))(std::string("in it"),
                                                                      std::string("out of it"));
  expect(comes("in it"), "one runs in it");
  auto waits = manta::remote<runs_in>.with(within(g.bundle(lost)))();
  const auto strict = manta::make_placement_group(cpus_of(4, 1), manta::strategy::strict_spread);
  expect(strict.wait(long_enough), "one in each");
  const auto was = nodes_of_bundles(strict);
  auto waits_for_ever = manta::remote<holds_until>.with(within(
      strict.bundle(static_cast<std::size_t>(std::ranges::find(was, "rank-3") - was.begin()))))(
      std::string("there"), std::string("never"));
  expect(comes("there"), "another one");
  const auto left = manta::make_placement_group(memory_of(3, most), manta::strategy::strict_spread);
  expect(!left.wait(50ms), "it has too much of each");
  const auto all = manta::make_placement_group(memory_of(4, most), manta::strategy::strict_spread);
  expect(!all.wait(50ms), "the same");
  say_pids(rt);
  expect(has(thrown_by<manta::node_lost>(waits_for_ever), "is lost"), "no fourth node");
  manta::remove_placement_group(strict);
  auto ready = all.ready();
  expect(has(thrown_by<manta::infeasible>(ready), "can never fit"),
         "no fourth node for that either");
  manta::kv::put("out of it", 1).get();
  const std::string then = runs.get(long_enough);
  expect(then != "rank-3", "it runs again elsewhere: " + then);
  expect(waits.get(long_enough) == then, "and what waited, in the same bundle");
  const auto after = nodes_of_bundles(g);
  for (std::size_t i = 0; i < after.size(); ++i) {
    expect(i == lost ? after[i] == then : after[i] == before[i], "only that one has moved");
  }
  expect(left.wait(long_enough), "what the lost node's group had is free");
  return say("evicted");
}

}  // namespace settling
