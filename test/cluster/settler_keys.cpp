// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp whose cluster has a head of its own.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "cluster/membership.hpp"
#include "cluster/settling.hpp"
#include "control/kept_claims.hpp"

namespace settling {

namespace {

int adds_to_kept() {
  const int next = manta::kv::get<int>("kept").get(long_enough)->value + 1;
  manta::kv::put("kept", next, {.durable = true}).get(long_enough);
  return next;
}
void tells(const std::string& key) { manta::kv::put(key, 7).get(long_enough); }

// A worker asks its node, and that one the head.
int watches(const std::string& key) {
  auto puts = manta::kv::watch<int>(key);
  manta::kv::put(key, 8).get(long_enough);
  return *puts.next().get(long_enough).value;
}

struct outage {
  bool was_seen = false;
  int put = 0;      // the last that was put, as far as is known
  int unknown = 0;  // what may have been put since
};

// Puts numbers until the head is back, and some more.
outage puts_through() {
  constexpr int more = 50;
  constexpr auto away = 250ms;  // the schedule has it away for longer
  outage out;
  auto last = std::chrono::steady_clock::now();
  const auto limit = last + long_enough;
  for (int i = 1, left = more; left > 0 && last < limit; ++i) {
    const bool is_back = is_told != 0;
    try {
      manta::kv::put("count", i, {.durable = true}).get(long_enough);
      out.put = i;
      out.unknown = 0;
    } catch (const manta::node_lost&) {
      out.unknown = i;
      out.was_seen = true;
    }
    const auto before = std::exchange(last, std::chrono::steady_clock::now());
    out.was_seen = out.was_seen || last - before > away;
    if (is_back) --left;
  }
  return out;
}

}  // namespace

// The head is killed when this says so, and started again.
int keeps_keys(const manta::runtime& rt) {
  listen_to_test();
  expect(has_joined(rt, "helper"), "the helper has joined");
  manta::kv::put("kept", 41, {.durable = true}).get(long_enough);
  expect(manta::remote<adds_to_kept>.with(at("helper"))().get(long_enough) == 42, "in a task");
  expect(manta::kv::get<int>("kept").get(long_enough)->value == 42, "and here");
  auto puts = manta::kv::watch<int>("told");
  manta::remote<tells>.with(at("helper"))(std::string("told")).get(long_enough);
  expect(puts.next().get(long_enough).value == 7, "a watch sees what another node puts");
  const auto in_worker =
      manta::remote<watches>.with({.isolation = manta::isolation_mode::processes});
  expect(in_worker(std::string("watched")).get(long_enough) == 8, "in an isolated worker");
  expect(!manta::history::jobs().get(long_enough).empty(), "a history of its own");
  std::printf("it may be killed\n");
  std::fflush(stdout);
  const outage was = puts_through();
  expect(is_told != 0 && was.was_seen, "the head was away");
  const int now = manta::kv::get<int>("count").get(long_enough)->value;
  expect(now == was.put || (was.unknown > 0 && now == was.unknown), "what was put last is there");
  expect(manta::kv::get<int>("kept").get(long_enough)->value == 42, "what was put before, too");
  expect(manta::remote<adds_to_kept>.with(at("helper"))().get(long_enough) == 43,
         "in a task again");
  // The one of before says that it is over, and takes nothing from the next.
  auto again = manta::kv::watch<int>("told");
  puts = manta::kv::watch<int>("else");
  manta::remote<tells>.with(at("helper"))(std::string("told")).get(long_enough);
  expect(again.next().get(long_enough).value == 7, "another watch");
  return say("keeps");
}

// Another driver, later.
int finds_keys(const manta::runtime& /*rt*/) {
  const auto found = manta::kv::get<int>("kept").get(long_enough);
  expect(found.has_value() && found->value == 43, "what another driver has put");
  return say("finds");
}

namespace {

manta::actor_options detached(const std::string& name) {
  return {.name = name, .where = manta::on_node("helper"), .detached = true};
}

long adds_by_name(const std::string& name, long what) {
  const auto found = manta::find_actor<counter>(name);
  return found ? manta::remote<&counter::add>(*found, what).get(long_enough) : -1;
}

// From a node that is no driver, in one that is.
std::string leaves_at(const std::string& node) {
  manta::actor_options there = detached("there");
  there.where = manta::on_node(node);
  try {
    static_cast<void>(manta::spawn<counter>.with(there)(1));
    return "it was made";
  } catch (const manta::unsupported& why) {
    return why.what();
  }
}

}  // namespace

// Leaves an actor behind, and one that ends with it.
int detaches(const manta::runtime& rt) {
  expect(has_joined(rt, "helper"), "the helper has joined");
  {
    const auto made = manta::spawn<counter>.with(detached("kept"))(5);
    expect(manta::remote<&counter::add>(made, 2).get(long_enough) == 7, "it is made");
  }
  expect(adds_by_name("kept", 3) == 10, "it lives without handles");
  expect(manta::remote<adds_by_name>.with(at("helper"))(std::string("kept"), 1L).get(long_enough) ==
             11,
         "and is found in its node");
  manta::actor_options here = detached("here");
  here.where = {};
  try {
    static_cast<void>(manta::spawn<counter>.with(here)(1));
    expect(false, "one that would end with its driver");
  } catch (const manta::unsupported& why) {
    expect(has(why.what(), "on_node"), why.what());
  }
  const std::string why =
      manta::remote<leaves_at>.with(at("helper"))(std::string("first")).get(long_enough);
  expect(has(why, "on_node"), why);
  static const auto* const mine = new auto(manta::spawn<counter>.with({.name = "mine"})(1));
  expect(manta::remote<&counter::add>(*mine, 1).get(long_enough) == 2, "one that lives here");
  static const auto* const other =
      new auto(manta::spawn<counter>.with({.name = "other", .where = manta::on_node("helper")})(1));
  expect(manta::remote<&counter::add>(*other, 1).get(long_enough) == 2, "one with a handle");
  return say("detaches");
}

// Has named actors when it ends, and leaves one behind.
int named(const manta::runtime& rt) {
  listen_to_test();
  expect(has_joined(rt, "helper"), "the helper has joined");
  static_cast<void>(manta::spawn<counter>.with(detached("kept"))(5));
  static auto* const mine = new std::vector<manta::actor<counter>>;
  for (const char* const name : {"one", "two", "three"}) {
    mine->push_back(manta::spawn<counter>.with({.name = name})(1));
  }
  std::printf("they are named\n");
  std::fflush(stdout);
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (is_told == 0 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);  // until it is told to end
  }
  return say("named");
}

// In the folder of a head that is away.
int haunts(const char* control) {
  const auto in = manta::control::open_rocks_store({.path = control});
  expect(in.has_value(), "the head's store");
  const auto is = manta::control::keep_claim(**in, {"", "ghost"}, {1'000'000, 1});
  expect(is.has_value() && is->node == 1'000'000, "the claim is kept");
  return say("haunts");
}

int haunted(const manta::runtime& rt) {
  expect(has_joined(rt, "helper"), "the helper has joined");
  expect(!manta::find_actor<counter>("ghost").has_value(), "nobody has that name");
  {
    const auto made = manta::spawn<counter>.with({.name = "ghost"})(1);
    expect(adds_by_name("ghost", 1) == 2, "it is taken");
  }
  return say("haunted");
}

// A later driver finds it, and ends it.
int meets(const manta::runtime& rt) {
  expect(has_joined(rt, "helper"), "the helper is there still");
  expect(adds_by_name("kept", 4) == 15, "it has outlived its driver");
  expect(adds_by_name("other", 1) == -1, "one with handles has not");
  expect(adds_by_name("mine", 1) == -1, "nor one that lived in that driver");
  try {
    static_cast<void>(manta::spawn<counter>.with(detached("kept"))(1));
    expect(false, "its name is taken");
  } catch (const manta::name_taken&) {
    expect(true, "");
  }
  const auto same = manta::spawn<counter>.with(
      {.name = "kept", .where = manta::on_node("helper"), .get_if_exists = true})(1);
  expect(manta::remote<&counter::add>(same, 1).get(long_enough) == 16, "get_if_exists");
  const auto end = manta::monitor(same);
  manta::kill(same);
  static_cast<void>(end.get(long_enough));
  expect(!manta::find_actor<counter>("kept").has_value(), "it is killed");
  const auto next = manta::spawn<counter>.with(detached("kept"))(1);
  expect(manta::remote<&counter::add>(next, 1).get(long_enough) == 2, "its name is free");
  return say("meets");
}

}  // namespace settling
