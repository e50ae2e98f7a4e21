// SPDX-License-Identifier: Apache-2.0
// A program whose actors live in all nodes of its cluster, for the tests of this folder. What it
// does is its first argument; each prints one line that begins with it, and "right" when all
// came out as it has to.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include <unistd.h>

#include "cluster/settling.hpp"

namespace {

using namespace settling;  // NOLINT: its words
using namespace std::chrono_literals;

struct never {
  never() { throw std::runtime_error("not today"); }
  int f() { return 0; }
};

int spread(int count, int calls) {
  std::vector<manta::actor<counter>> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(manta::spawn<counter>.with({.where = manta::spread()})(i));
  }
  std::vector<std::vector<manta::future<bool>>> in_order(all.size());
  std::vector<manta::future<long>> sums;
  for (int n = 1; n <= calls; ++n) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      in_order[i].push_back(manta::remote<&counter::next>(all[i], 0, n));
      sums.push_back(manta::remote<&counter::add>(all[i], 1L));
    }
  }
  std::set<int> processes;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const auto& one : in_order[i]) expect(one.get(), "a call out of its order");
    processes.insert(manta::remote<&counter::process>(all[i]).get());
    const long end = manta::remote<&counter::add>(all[i], 0L).get();
    expect(end == static_cast<long>(i) + calls, "a sum of " + std::to_string(end));
  }
  long last = 0;
  for (auto& one : sums) last = std::max(last, one.get());
  expect(last == count - 1 + calls, "the largest sum");
  return say("spread", processes.size());
}

int places(const manta::runtime& rt) {
  std::set<int> processes;
  for (const manta::node_info& one : rt.nodes()) {
    const auto there = one_at(one.name);
    expect(manta::remote<&counter::process>(there).get() == one.pid, "the process of " + one.name);
    expect(manta::remote<&counter::node>(there).get() == one.name, "the name of " + one.name);
    processes.insert(one.pid);
  }
  try {
    static_cast<void>(one_at("nowhere"));
    expect(false, "a node that does not exist");
  } catch (const manta::infeasible& e) {
    expect(has(e.what(), "nowhere") && has(e.what(), "rank-1"), e.what());
  }
  const auto here = manta::spawn<counter>.with({.where = manta::on_node("nowhere", true)})();
  expect(manta::remote<&counter::process>(here).get() == getpid(), "a soft wish");
  const auto own = one_at(manta::this_task::node());
  expect(manta::remote<&counter::process>(own).get() == getpid(), "this node");
  return say("places", processes.size());
}

int failures(const manta::runtime& rt) {
  const std::string node = others(rt).front().name;
  const auto bad = manta::spawn<never>.with({.where = manta::on_node(node)})();
  const auto end = manta::monitor(bad);
  const std::string why = thrown_by<manta::actor_lost>(manta::remote<&never::f>(bad));
  expect(has(why, "not today"), why);
  expect(end.get(long_enough).reason == manta::end_reason::constructor_failed, "its end");
  const auto good = one_at(node, 5);
  const std::string odd = thrown_by<manta::task_error>(manta::remote<&counter::fails>(good, 7L));
  expect(has(odd, "odd: 7") && has(odd, "[node " + node + ", attempt 0]"), odd);
  expect(manta::remote<&counter::add>(good, 1L).get() == 6, "it goes on");
  // What it was to be made with has failed.
  const auto failed = manta::remote<&counter::fails>(good, 1L);
  const auto unmade = manta::spawn<counter>.with({.where = manta::on_node(node)})(failed);
  const std::string none = thrown_by<manta::actor_lost>(manta::remote<&counter::process>(unmade));
  expect(has(none, "odd: 1"), none);
  const std::string passed =
      thrown_by<manta::task_error>(manta::remote<&counter::add>(good, failed));
  expect(has(passed, "odd: 1"), passed);
  return say("failures");
}

int ends(const manta::runtime& rt) {
  const manta::node_info node = others(rt).front();
  auto dropped = one_at(node.name, 0, "dropped");
  const auto its_end = manta::monitor(dropped);
  auto last = manta::remote<&counter::slowly>(dropped, 20);
  dropped = {};
  expect(last.get(long_enough) == 0, "the last call");
  expect(its_end.get(long_enough).reason == manta::end_reason::ended, "ended with its handle");
  expect(comes("dropped"), "its destructor");
  expect(manta::kv::get<int>("dropped").get()->value == node.pid, "where it was destroyed");

  const auto retired = one_at(node.name, 0, "retired");
  auto before = manta::remote<&counter::slowly>(retired, 20);
  manta::retire(retired);
  expect(before.get(long_enough) == 0, "a call before it was retired");
  const std::string after = thrown_by<manta::actor_lost>(manta::remote<&counter::add>(retired, 1L));
  expect(has(after, "retired"), after);
  expect(comes("retired"), "the destructor of the retired one");

  const auto killed = one_at(node.name, 0, "killed");
  const auto told = manta::monitor(killed);
  auto runs = manta::remote<&counter::waits>(killed, std::string("began"));
  auto behind = manta::remote<&counter::add>(killed, 1L);
  expect(comes("began"), "it began");
  manta::kill(killed);
  expect(told.get(long_enough).reason == manta::end_reason::killed, "that it was killed");
  expect(ends_within(runs, long_enough), "what ran");
  const std::string refused = thrown_by<manta::actor_lost>(behind);
  expect(has(refused, "killed"), refused);
  expect(comes("killed"), "the destructor of the killed one");

  const auto left = one_at(node.name, 0, "left");
  const auto gone = manta::monitor(left);
  manta::remote<&counter::leaves>(left).get();
  expect(gone.get(long_enough).reason == manta::end_reason::exited, "that it has left");
  const std::string late = thrown_by<manta::actor_lost>(manta::remote<&counter::add>(left, 1L));
  expect(has(late, "has left"), late);
  return say("ends");
}

int values(const manta::runtime& rt) {
  const std::string node = others(rt).front().name;
  const auto seven = manta::remote<squared>(7L);
  const auto made = manta::spawn<counter>.with({.where = manta::on_node(node)})(seven);
  expect(manta::remote<&counter::add>(made, seven).get() == 98, "futures for their values");
  expect(manta::remote<&counter::delegates>(made, 9L).get() == 81, "a call that delegates");
  std::vector<double> all(std::size_t{1} << 17U, 0.5);
  const auto scaled = manta::remote<&counter::scaled>(made, all, 4.0).get();
  expect(scaled.size() == all.size() && scaled.back() == 2.0, "a large value there and back");
  const auto kept = manta::put(all);
  const auto again = manta::remote<&counter::scaled>(made, kept, 2.0).get();
  expect(again.size() == all.size() && again.front() == 1.0, "an object");
  return say("values");
}

int refusals(const manta::runtime& rt) {
  const std::string node = others(rt).front().name;
  const auto one = one_at(node);
  const std::string there =
      thrown_by<manta::unsupported>(manta::remote<&counter::listens>(one, homebody()));
  expect(has(there, "a stop token inside of a value"), there);
  const std::string back =
      thrown_by<manta::unsupported>(manta::remote<&counter::gives_homebody>(one));
  expect(has(back, "can't come from another node"), back);
  expect(manta::remote<&counter::add>(one, 1L).get() == 1, "it goes on");
  return say("refusals");
}

int limits(const manta::runtime& rt) {
  const std::string node = others(rt).front().name;
  const auto capped = manta::spawn<counter>.with(
      {.where = manta::on_node(node), .mailbox_cap = 2, .on_full = manta::full_policy::refuse})();
  std::vector<manta::future<long>> taken;
  int refused = 0;
  for (int i = 0; i < 10; ++i) {
    try {
      // Long beside the time in which all ten are sent.
      taken.push_back(manta::remote<&counter::slowly>(capped, 300));
    } catch (const manta::mailbox_full&) {
      ++refused;
    }
  }
  expect(refused >= 6 && refused <= 8, std::to_string(refused) + " refused");
  for (auto& one : taken) expect(one.get(long_enough) == 0, "what was taken");
  try {
    std::vector<manta::concurrency_group> many;
    for (int i = 0; i < 256; ++i) many.push_back({std::to_string(i), 1});
    static_cast<void>(
        manta::spawn<counter>.with({.where = manta::on_node(node), .groups = many})());
    expect(false, "as many groups as no message has");
  } catch (const manta::unsupported& e) {
    expect(has(e.what(), "option groups: asked 256"), e.what());
  }
  // Here it has room when another one has ended, whoever has some now.
  std::vector<manta::concurrency_group> many;
  for (int i = 0; i < 256; ++i) many.push_back({std::to_string(i), 1});
  const int all = rt.workers();
  auto full = manta::spawn<counter>.with({.cpus = all, .where = manta::on_node("local")})();
  const auto later = manta::spawn<counter>.with({.cpus = all, .groups = many})();
  manta::kill(full);
  expect(manta::remote<&counter::add>(later, 1L).get(long_enough) == 1, "it stays here");
  manta::kill(later);

  const auto grouped = manta::spawn<counter>.with(
      {.where = manta::on_node(node), .max_concurrency = 2, .groups = {{"io", 2}}})();
  std::vector<manta::future<long>> at_once;
  for (int i = 0; i < 2; ++i) at_once.push_back(manta::remote<&counter::slowly>(grouped, 300));
  for (int i = 0; i < 2; ++i) {
    at_once.push_back(manta::remote<&counter::slowly>.with({.group = "io"})(grouped, 300));
  }
  for (auto& one : at_once) expect(one.get(long_enough) == 0, "a call of a group");

  // Whose resources they are: those of the node where they live.
  auto first = manta::spawn<counter>.with({.cpus = 1, .where = manta::on_node(node)})();
  expect(manta::remote<&counter::add>(first, 1L).get() == 1, "the first one");
  const auto second = manta::spawn<counter>.with({.cpus = 1, .where = manta::on_node(node)})();
  const auto waits = manta::remote<&counter::add>(second, 1L);
  expect(!ends_within(waits, 200ms), "the second one had no room");
  first = {};
  expect(waits.get(long_enough) == 1, "the second one has");
  try {
    static_cast<void>(manta::spawn<counter>.with({.cpus = 99, .where = manta::on_node(node)})());
    expect(false, "99 cpus of a node");
  } catch (const manta::infeasible& e) {
    expect(has(e.what(), "asked 99 cpus on node " + node + "; node " + node + " has"), e.what());
  }
  try {
    static_cast<void>(
        manta::spawn<counter>.with({.cpus = 99, .where = manta::on_node(node, true)})());
    expect(false, "99 cpus of any node");
  } catch (const manta::infeasible& e) {
    expect(has(e.what(), "asked 99 cpus"), e.what());
  }
  return say("limits");
}

int stops(const manta::runtime& rt) {
  const std::string node = others(rt).front().name;
  const auto one = one_at(node);
  auto runs = manta::remote<&counter::waits>(one, std::string("runs"));
  expect(comes("runs"), "it runs");
  auto behind = manta::remote<&counter::add>(one, 1L);
  manta::cancel(behind);
  const std::string unbegun = thrown_by<manta::cancelled>(behind);
  expect(has(unbegun, "cancel"), "what has not begun: " + unbegun);
  manta::cancel(runs);
  expect(ends_within(runs, long_enough), "what ran");
  expect(manta::remote<&counter::add>(one, 1L).get(long_enough) == 1, "it goes on");
  auto late = manta::remote<&counter::waits>.with({.timeout = 50ms})(one, std::string("late"));
  expect(thrown_by<manta::timed_out>(late) != "nothing", "a deadline");
  expect(manta::remote<&counter::add>(one, 1L).get(long_enough) == 2, "it goes on once more");
  return say("stops");
}

int names(const manta::runtime& rt) {
  const std::string node = others(rt).front().name;
  auto one = manta::spawn<counter>.with({.name = "here", .where = manta::on_node(node)})(3L);
  const auto found = manta::find_actor<counter>("here");
  expect(found.has_value() && manta::remote<&counter::add>(*found, 1L).get() == 4, "its name");
  try {
    static_cast<void>(manta::spawn<counter>.with({.name = "here"})());
    expect(false, "a name twice");
  } catch (const manta::name_taken&) {
  }
  const auto end = manta::monitor(one);
  manta::kill(one);
  static_cast<void>(end.get(long_enough));
  expect(!manta::find_actor<counter>("here").has_value(), "a name after its actor");
  return say("names");
}

// By a task in whichever node, which is its maker then.
int by_a_task(int x) {
  const auto made = manta::spawn<counter>.with({.where = manta::spread()})(x);
  std::this_thread::sleep_for(2ms);  // the task's work: others have their share
  return static_cast<int>(manta::remote<&counter::add>(made, 1L).get());
}

int makers(int count) {
  std::vector<manta::future<int>> all;
  for (int i = 0; i < count; ++i) all.push_back(manta::remote<by_a_task>(i));
  for (int i = 0; i < count; ++i) {
    expect(all[static_cast<std::size_t>(i)].get(long_enough) == i + 1, "by a task");
  }
  return say("makers");
}

// Each thread makes, calls, and ends its own in some order; every call ends.
void storm(int thread, int rounds, std::atomic<long>& values, std::atomic<long>& lost) {
  std::minstd_rand random(static_cast<unsigned>(thread) + 1);
  std::vector<manta::actor<counter>> all;
  std::vector<manta::future<long>> out;
  for (int i = 0; i < rounds; ++i) {
    const auto what = random() % 16;
    if (all.size() < 4 || what == 0) {
      all.push_back(manta::spawn<counter>.with({.where = manta::spread()})());
    }
    const std::size_t at = random() % all.size();
    if (what == 1) manta::kill(all[at]);
    if (what == 2) manta::retire(all[at]);
    if (what <= 3) all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
    if (what > 3) out.push_back(manta::remote<&counter::add>(all[at], 1L));
    if (what == 5) manta::cancel(out[random() % out.size()]);
  }
  for (const auto& one : out) {
    try {
      static_cast<void>(one.get(60s));
      ++values;
    } catch (const manta::actor_lost&) {
      ++lost;
    } catch (const manta::cancelled&) {
      ++lost;
    }
  }
}

int storms(int rounds) {
  std::atomic<long> values{0};
  std::atomic<long> lost{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] { storm(i, rounds, values, lost); });
  }
  for (std::thread& one : threads) one.join();
  expect(values > 3 * rounds / 4 && lost > 0,
         std::to_string(values) + " values, " + std::to_string(lost) + " lost");
  return say("storms");
}

// Others' actors go on while one node is lost.
int outlives(const manta::runtime& rt) {
  std::vector<manta::actor<counter>> all;
  std::map<std::string, manta::future<manta::actor_end>> told;
  for (const manta::node_info& one : others(rt)) {
    all.push_back(one_at(one.name));
    told[one.name] = manta::monitor(all.back());
    expect(manta::remote<&counter::process>(all.back()).get() == one.pid, one.name);
  }
  say_pids(rt);
  std::size_t lost = 0;
  std::string why;
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (lost == 0 && std::chrono::steady_clock::now() < limit) {
    std::vector<manta::future<long>> calls;
    for (auto& one : all) calls.push_back(manta::remote<&counter::slowly>(one, 1));
    for (auto& one : calls) {
      try {
        static_cast<void>(one.get(long_enough));
      } catch (const manta::actor_lost& e) {
        ++lost;
        why = e.what();
      }
    }
  }
  expect(lost == 1, std::to_string(lost) + " lost");
  expect(has(why, "rank-2"), "which node, and why: " + why);
  const manta::actor_end end = told.at("rank-2").get(long_enough);
  expect(end.reason == manta::end_reason::process_lost, end.message);
  expect(has(end.message, "rank-2"), "its end: " + end.message);
  std::size_t living = 0;
  for (auto& one : all) {
    try {
      living += manta::remote<&counter::add>(one, 1L).get(long_enough) > 0 ? 1 : 0;
    } catch (const manta::actor_lost& e) {
      expect(has(e.what(), "rank-2"), std::string("and later: ") + e.what());
    }
  }
  expect(living == all.size() - 1, std::to_string(living) + " live");
  return say("outlives");
}

// Keeps an actor in the node that is asked for, as long as its process lives. Its own node's name.
std::string keeps(const std::vector<std::string>& nodes) {
  static manta::actor<counter> kept;
  static std::atomic<bool> is_made{false};
  const std::string own = manta::this_task::node();
  std::this_thread::sleep_for(2ms);  // the task's work: others have their share
  if (is_made.exchange(true)) return own;
  const auto at = std::find(nodes.begin(), nodes.end(), own) - nodes.begin() + 1;
  kept = one_at(nodes[static_cast<std::size_t>(at) % nodes.size()], 0, "orphan/" + own);
  return manta::remote<&counter::add>(kept, 1L).get() == 1 ? own : "";
}

// The actors of a node that is lost end, wherever they are.
int orphans(const manta::runtime& rt) {
  std::vector<std::string> nodes;
  for (const manta::node_info& one : rt.nodes()) nodes.push_back(one.name);
  std::set<std::string> makers;
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (makers.size() < nodes.size() && std::chrono::steady_clock::now() < limit) {
    std::vector<manta::future<std::string>> all;
    for (int i = 0; i < 40; ++i) all.push_back(manta::remote<keeps>(nodes));
    for (auto& one : all) makers.insert(one.get(long_enough));
  }
  expect(makers == std::set(nodes.begin(), nodes.end()), "each node has made one");
  say_pids(rt);
  expect(comes("orphan/rank-2"), "the end of the lost node's actor");
  expect(!manta::kv::get<int>("orphan/rank-1").get().has_value(), "another one's lives");
  return say("orphans");
}

// Their calls are under way as main ends.
int unended(const manta::runtime& rt) {
  static std::vector<manta::actor<counter>> all;
  static std::vector<manta::future<long>> calls;
  for (const manta::node_info& one : others(rt)) {
    all.push_back(one_at(one.name));
    for (int i = 0; i < 50; ++i) calls.push_back(manta::remote<&counter::slowly>(all.back(), 20));
  }
  // One of each has run, and the others are under way.
  for (std::size_t i = 0; i < calls.size(); i += 50) expect(calls[i].get(long_enough) == 0, "one");
  return say("unended");
}

// Those that need to know of nothing but the runtime.
const program_list programs{
    {"places", places},
    {"failures", failures},
    {"ends", ends},
    {"values", values},
    {"refusals", refusals},
    {"limits", limits},
    {"stops", stops},
    {"names", names},
    {"handles", handles},
    {"holders", holders},
    {"arrays", arrays},
    {"rested", rested_arrays},
    {"keeps", keeps_keys},
    {"finds", finds_keys},
    {"detaches", detaches},
    {"named", named},
    {"haunted", haunted},
    {"meets", meets},
    {"broadcast", broadcast},
    {"given", given},
    {"stays", stays},
    {"follows", follows},
    {"stayed-timed", stayed_timed},
    {"left-by-rank", left_by_rank},
    {"left-over", left_over},
    {"unheard", unheard},
    {"postings", postings},
    {"offers", offers},
    {"latecomers", latecomers},
    {"cards", cards},
    {"groups", groups},
    {"partings", partings},
    {"channels", channels},
    {"bulky-things", bulky_things},
    {"selects", selects},
    {"relayed-things", relayed_things},
    {"semaphores", semaphores},
    {"passed-things", passed_things},
    {"workers", workers},
    {"unended", unended},
    {"weak-handles", weak_handles},
};

// The same of those to which the test does something.
const program_list harmed_programs{
    {"outlives", outlives},
    {"heirs", heirs},
    {"legacies", legacies},
    {"broadcast-torn", broadcast_torn},
    {"broadcast-orphaned", broadcast_orphaned},
    {"inherited", inherited},
    {"inherited-twice", inherited_twice},
    {"given-lost", given_lost},
    {"stayed-lost", stayed_lost},
    {"stayed-torn", stayed_torn},
    {"left-behind", left_behind},
    {"left-by-two", left_by_two},
    {"left-reading", left_reading},
    {"left-in-vain", left_in_vain},
    {"ghosts", ghosts},
    {"wrecks", wrecks},
    {"desertions", desertions},
    {"bereft", bereft},
    {"evicted", evicted},
    {"estates", estates},
    {"lost-homes", lost_homes},
    {"lost-users", lost_users},
    {"lost-select-homes", lost_select_homes},
    {"lost-selectors", lost_selectors},
    {"lost-relayed", lost_relayed},
    {"dry-wells", dry_wells},
    {"unread", unread},
    {"widows", widows},
    {"orphans", orphans},
    {"cut-calls", cut_calls},
    {"cut-pulls", cut_pulls},
    {"lends", lends},
    {"borrows", borrows},
    {"weak-lost", weak_lost},
};

// Those that are told more.
const program_list told_programs{
    {"spread", [](const manta::runtime&, const asked& of) { return spread(of.count, 200); }},
    {"makers", [](const manta::runtime&, const asked& of) { return makers(of.count); }},
    {"million", [](const manta::runtime& rt, const asked& of) { return million(rt, of.count); }},
    {"storms", [](const manta::runtime&, const asked& of) { return storms(of.count); }},
    {"ring", [](const manta::runtime& rt, const asked& of) { return ring(rt, of.count); }},
    {"futures", [](const manta::runtime& rt, const asked& of) { return futures(rt, of.count); }},
    {"neighbours",
     [](const manta::runtime& rt, const asked& of) { return neighbours(rt, of.how.empty()); }},
    {"cancels-calls", [](const manta::runtime& rt,
                         const asked& of) { return cancels_calls(rt, of.how == "messages"); }},
    {"freight", [](const manta::runtime& rt, const asked& of) { return freight(rt, of.how); }},
    {"heralds", [](const manta::runtime&) { return heralds(); }},
    {"rivals", [](const manta::runtime& rt, const asked& of) { return rivals(rt, of.count); }},
    {"unplaced", [](const manta::runtime&) { return unplaced(); }},
    {"nomads", [](const manta::runtime& rt, const asked& of) { return nomads(rt, of.count); }},
    {"streams", [](const manta::runtime& rt, const asked& of) { return streams(rt, of.count); }},
    {"titles", [](const manta::runtime& rt, const asked& of) { return titles(rt, of.count); }},
};

program program_of(const std::string& name) {
  program_list all;
  for (program_list some :
       {programs, harmed_programs, told_programs, crash_programs(), cycle_programs(),
        free_programs(), phase_programs(), record_programs(), room_programs()}) {
    all.merge(some);
  }
  const auto found = all.find(name);
  return found == all.end() ? all.at("spread") : found->second;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "spread";
  asked of;
  if (argc > 2) of = {argv[2], std::atoi(argv[2])};
  // Those that begin a runtime themselves, or none.
  if (what == "heirlooms") return heirlooms(argc, argv);
  if (what == "haunts") return haunts(argv[2]);
  if (what == "lasts") return lasts(argc, argv);
  if (what == "cycles") return cycles(argc, argv, of.count);
  manta::runtime rt(argc, argv);
  const program is = program_of(what);
  if (const auto* const plain = std::get_if<0>(&is)) return (*plain)(rt);
  return std::get<1>(is)(rt, of);
}
