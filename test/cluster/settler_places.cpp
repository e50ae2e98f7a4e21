// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp whose tasks say where they run.
#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/settling.hpp"

namespace settling {

namespace {

headcount at_once;

std::string node_of(const std::string& /*who*/) { return manta::this_task::node(); }
// How many of these there have been at a time in this process.
int meets(int ms) { return at_once.most_while(ms); }
std::string node_of_child() {
  manta::options here;
  here.where = manta::on_node("local");
  const auto child = manta::remote<node_of>.with(here)(std::string("child"));
  return child.get() + "/" + manta::this_task::node();
}
long fails_there(long x) { throw std::out_of_range("odd: " + std::to_string(x)); }
manta::future<long> delegates_there(long x) { return manta::remote<squared>(x); }
manta::coroutine<long> waits_there(std::string key) { co_return co_await value_of(key); }
std::size_t length_of(const std::string& text) { return text.size(); }
bool waits_to_be_stopped(const std::string& began) {
  manta::kv::put(began, 1).get();
  while (!manta::this_task::is_cancelled()) std::this_thread::sleep_for(1ms);
  return true;
}
// Lends nobody its cores meanwhile.
void works_until_stopped(const std::string& began) {
  const auto told = manta::kv::put(began, 1);
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (!manta::this_task::is_cancelled() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
}
std::string stays_there(const std::string& began, const std::string& end) {
  manta::kv::put(began, 1).get();
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (!manta::kv::get<int>(end).get().has_value() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  return manta::this_task::node();
}

// Runs twice, and names its child as before while the first one runs.
bool has_child_twice(const std::string& node, const std::string& key) {
  const auto child = manta::remote<stays_there>.with(at(node))(key + ".began", key + ".end");
  if (!manta::kv::get<int>(key + ".again").get().has_value()) {
    static_cast<void>(comes(key + ".began"));
    manta::kv::put(key + ".again", 1).get();
    throw std::runtime_error("once more");
  }
  manta::kv::put(key + ".end", 1).get();
  return child.get(long_enough) == node;
}

std::string refused(const manta::options& with) {
  try {
    static_cast<void>(manta::remote<node_of>.with(with)(std::string()));
    return "nothing";
  } catch (const manta::exception& e) {
    return e.what();
  }
}

void check_kinds(const std::string& node) {
  expect(manta::remote<node_of>.with(at(node))(std::string("one")).get(long_enough) == node, node);
  expect(manta::remote<node_of_child>.with(at(node))().get(long_enough) == node + "/" + node,
         "its child, too");
  expect(manta::remote<delegates_there>.with(at(node))(5L).get(long_enough) == 25, "delegates");
  const auto late = manta::remote<waits_there>.with(at(node))(node + ".key");
  const auto behind = manta::remote<squared>.with(at(node))(late);
  manta::kv::put(node + ".key", 3).get();
  expect(late.get(long_enough) == 3 && behind.get(long_enough) == 9, "suspends");
  const auto failed = manta::remote<fails_there>.with(at(node))(3L);
  expect(has(thrown_by<manta::task_error>(failed), "odd: 3"), "fails");
  expect(thrown_by<manta::task_error>(manta::remote<squared>.with(at(node))(failed)) ==
             thrown_by<manta::task_error>(failed),
         "with its argument's error");
  manta::options again;
  again.retry_exceptions = manta::any_exception();
  const auto twice = manta::remote<has_child_twice>.with(again)(node, node + ".twice");
  expect(twice.get(long_enough), "a child of one that runs again");
  const std::string text(std::size_t{33} << 20U, 'x');
  expect(manta::remote<length_of>.with(at(node))(text).get(long_enough) == text.size(),
         "a long text");
  auto stopped = manta::remote<waits_to_be_stopped>.with(at(node))(node + ".began");
  expect(comes(node + ".began") && manta::cancel(stopped), "it can be asked to stop");
  static_cast<void>(ends_within(stopped, long_enough));
}

// What they ask for is that node's, which has 2 cores.
void check_needs(const std::string& node) {
  manta::options one = at(node);
  one.cpus = 2;
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 6; ++i) all.push_back(manta::remote<meets>.with(one)(5));
  for (auto& each : all) expect(each.get(long_enough) == 1, "one at a time");
  one.cpus = 99;
  const std::string why = thrown_by<manta::infeasible>(manta::remote<meets>.with(one)(1));
  expect(has(why, "99"), why);
  one.where.is_soft = true;
  expect(has(thrown_by<manta::infeasible>(manta::remote<meets>.with(one)(1)), "99"), "nor here");
  // Those that wait are withdrawn like any.
  one = at(node);
  one.cpus = 2;
  auto first = manta::remote<works_until_stopped>.with(one)(node + ".works");
  expect(comes(node + ".works"), "it has them");
  auto waits = manta::remote<meets>.with(one)(1);
  expect(!ends_within(waits, 50ms) && manta::cancel(waits), "the next one waits");
  expect(has(thrown_by<manta::cancelled>(waits), "cancel"), "and is withdrawn");
  expect(manta::cancel(first) && ends_within(first, long_enough), "the first one");
}

void check_refusals(const std::string& node) {
  const std::string unknown = refused(at("rank-77"));
  expect(has(unknown, "asked for the node \"rank-77\"") && has(unknown, node), unknown);
  expect(refused(at("rank-77", true)) == "nothing", "a wish");
  manta::options with = at(node);
  with.isolation = manta::isolation_mode::processes;
  expect(has(refused(with), "not built yet"), refused(with));
  with.where.is_soft = true;
  expect(refused(with) == "nothing", "isolated, and a wish");
  // What can't leave.
  const homebody some;
  const std::string why =
      thrown_by<manta::unsupported>(manta::remote<takes_homebody>.with(at(node))(some));
  expect(has(why, "takes_homebody") && has(why, "can't go there"), why);
  expect(manta::remote<takes_homebody>.with(at(node, true))(some).get(long_enough), "here, then");
}

}  // namespace

// Tasks run where they say.
int postings(const manta::runtime& rt) {
  for (const manta::node_info& one : rt.nodes()) check_kinds(one.name);
  for (const manta::node_info& one : others(rt)) check_needs(one.name);
  check_refusals(others(rt).front().name);
  // Each node has as many, since each has as many workers.
  std::map<std::string, int> count;
  std::vector<manta::future<std::string>> all;
  manta::options spread;
  spread.where = manta::spread();
  for (int i = 0; i < 80; ++i) {
    all.push_back(manta::remote<node_of>.with(spread)(std::string("spread")));
  }
  for (auto& one : all) ++count[one.get(long_enough)];
  expect(count.size() == rt.nodes().size(), std::to_string(count.size()) + " nodes");
  for (const auto& [node, n] : count) {
    expect(n * static_cast<int>(count.size()) == 80, node + " has " + std::to_string(n));
  }
  return say("postings");
}

// Where they were to run is lost meanwhile.
int desertions(const manta::runtime& rt) {
  const std::string lost = others(rt)[1].name;
  const std::string end = "never";
  const auto bound = manta::remote<stays_there>.with(at(lost))(std::string("b1"), end);
  expect(comes("b1"), "one runs there");
  const auto wished = manta::remote<stays_there>.with(at(lost, true))(std::string("b2"), end);
  manta::options once = at(lost, true);
  once.max_retries = 0;
  const auto may_not = manta::remote<stays_there>.with(once)(std::string("b3"), end);
  say_pids(rt);
  expect(has(thrown_by<manta::node_lost>(bound), "stays_there"), "bound to it");
  expect(has(thrown_by<manta::node_lost>(may_not), "is lost"), "not more than once");
  manta::kv::put(end, 1).get();
  const std::string where = wished.get(long_enough);
  expect(!where.empty() && where != lost, "elsewhere: " + where);
  expect(has(refused(at(lost)), "asked for the node"), "it is known no more");
  expect(refused(at(lost, true)) == "nothing", "a wish");
  return say("desertions");
}

// A node whose name is known before it has joined.
int heralds() {
  std::puts("asks for it");
  std::fflush(stdout);
  int failures = 0;
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (std::chrono::steady_clock::now() < limit) {
    try {
      const auto there = manta::remote<node_of>.with(at("late one"))(std::string("herald"));
      expect(there.get(long_enough) == "late one", "it runs there");
      break;
    } catch (const manta::infeasible&) {
      ++failures;  // each after 2 s
    }
  }
  expect(failures <= long_enough / 2s, std::to_string(failures) + " times it was not waited for");
  return say("heralds");
}

}  // namespace settling
