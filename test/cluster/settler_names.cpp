// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp in which actors of any node have names that any node finds.
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "cluster/settling.hpp"

namespace settling {

namespace {

using handle = manta::actor<counter>;

struct other_type {
  int one() { return 1; }
};

manta::actor_options titled(const std::string& name, const std::string& where, bool may_exist) {
  manta::actor_options out;
  out.name = name;
  out.get_if_exists = may_exist;
  out.where = manta::on_node(where);
  return out;
}

bool comes_free(const std::string& name) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (manta::find_actor<counter>(name)) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// One in each node, to ask from there; the first is the driver's.
std::vector<handle> askers(const manta::runtime& rt) {
  std::vector<handle> out{manta::spawn<counter>(0L)};
  for (const manta::node_info& one : others(rt)) out.push_back(one_at(one.name));
  return out;
}

handle found_from(const handle& by, const std::string& name) {
  return manta::remote<&counter::finds>(by, name).get(long_enough);
}

std::string refused(const handle& by, const std::string& name, const std::string& where) {
  return thrown_by<manta::name_taken>(manta::remote<&counter::takes>(by, name, where, false));
}

// Each node's name is found from each, and nobody else can take it.
void check_each(const manta::runtime& rt, const std::vector<handle>& all) {
  const auto nodes = rt.nodes();
  for (const manta::node_info& one : nodes) {
    const std::string name = "of " + one.name;
    const auto mine = manta::spawn<counter>.with(titled(name, one.name, false))(5L);
    expect(manta::remote<&counter::process>(mine).get(long_enough) == one.pid, name + ": there");
    for (const handle& by : all) {
      const handle found = found_from(by, name);
      expect(found == mine, name + ": found");
      expect(manta::remote<&counter::asks>(by, found).get(long_enough) > 5, name + ": called");
      const std::string why = refused(by, name, nodes.front().name);
      expect(has(why, "\"" + name + "\"") && has(why, "counter"), why);
      expect(manta::remote<&counter::takes>(by, name, one.name, true).get(long_enough) == mine,
             name + ": it does");
    }
    expect(has(thrown_by<manta::invalid_argument>(
                   manta::async([&] { return manta::find_actor<other_type>(name) ? 1 : 0; })),
               "other_type"),
           name + ": another type");
  }
}

// Names of actors that can't be made yet, or never are.
void check_late(const std::vector<handle>& all, const std::string& where) {
  const auto value = manta::remote<value_of>(std::string("now"));
  const auto late = manta::spawn<counter>.with(titled("late", where, false))(value);
  const auto called = manta::remote<&counter::add>(late, 1L);
  for (const handle& by : all) expect(found_from(by, "late") == late, "found before it is made");
  expect(!refused(all[1], "late", where).empty(), "taken before it is made");
  manta::kv::put("now", 40).get();
  expect(called.get(long_enough) == 41, "made late");
  const auto never = manta::remote<value_of>(std::string("never"));
  const auto killed = manta::spawn<counter>.with(titled("killed", where, false))(never);
  expect(found_from(all[2], "killed") == killed, "found, and never made");
  manta::kill(killed);
  expect(comes_free("killed"), "free when it is killed early");
  manta::kv::put("never", 1).get();
  expect(has(thrown_by<manta::actor_lost>(manta::remote<&counter::add>(killed, 1L)), "killed"),
         "it was killed");
}

}  // namespace

int titles(const manta::runtime& rt, int rounds) {
  const auto nodes = rt.nodes();
  const auto all = askers(rt);
  check_each(rt, all);
  for (const manta::node_info& one : nodes) {
    expect(comes_free("of " + one.name), one.name + ": free when nobody has it");
  }
  check_late(all, nodes[1].name);
  // All want one name at once, for actors in different nodes.
  for (int i = 0; i < rounds; ++i) {
    std::vector<manta::future<handle>> got;
    for (std::size_t k = 0; k < all.size(); ++k) {
      const std::string& where = nodes[(k + static_cast<std::size_t>(i)) % nodes.size()].name;
      got.push_back(manta::remote<&counter::takes>(all[k], std::string("one"), where, true));
    }
    {
      const handle first = got[0].get(long_enough);
      for (auto& each : got) expect(each.get(long_enough) == first, "one for all");
      expect(manta::remote<&counter::add>(first, 1L).get(long_enough) == 1, "a new one");
      if (i % 2 == 0) manta::kill(first);
    }
    got.clear();
    expect(comes_free("one"), "free when it was killed, or nobody has it");
  }
  return say("titles");
}

namespace {

// In an isolated worker: what a name ends with.
std::string found_by_worker(const std::string& name) {
  try {
    const auto found = manta::find_actor<counter>(name);
    return found ? std::to_string(manta::remote<&counter::add>(*found, 1L).get()) : "nobody";
  } catch (const manta::unsupported& e) {
    return e.what();
  }
}
std::string taken_by_worker(const std::string& name) {
  try {
    const auto mine = manta::spawn<counter>.with({.name = name})(20L);
    return std::to_string(manta::remote<&counter::add>(mine, 1L).get());
  } catch (const manta::name_taken& e) {
    return e.what();
  }
}
constexpr manta::options isolated{.isolation = manta::isolation_mode::processes};

}  // namespace

// Isolated workers of the driver's node, and actors in those.
int workers(const manta::runtime& rt) {
  const auto all = askers(rt);
  const std::string there = others(rt).front().name;
  const auto far = manta::spawn<counter>.with(titled("far", there, false))(0L);
  const auto near = manta::spawn<counter>.with({.name = "near"})(10L);
  const auto finds = [](const std::string& name) {
    return manta::remote<found_by_worker>.with(isolated)(name).get(long_enough);
  };
  expect(finds("near") == "11", "its node's");
  expect(finds("none") == "nobody", "nobody's");
  expect(has(finds("far"), "lives in another node"), finds("far"));
  const auto takes = [](const std::string& name) {
    return manta::remote<taken_by_worker>.with(isolated)(name).get(long_enough);
  };
  expect(has(takes("far"), "\"far\""), takes("far"));
  expect(takes("mine") == "21", "a new one");
  expect(comes_free("mine"), "free when nobody has it");
  manta::actor_options asked;
  asked.name = "isolated";
  asked.isolation = manta::isolation_mode::processes;
  const auto own = manta::spawn<counter>.with(asked)(30L);
  expect(found_from(all[0], "isolated") == own, "of a worker, at home");
  expect(!refused(all[1], "isolated", there).empty(), "taken for all");
  expect(has(thrown_by<manta::unsupported>(
                 manta::remote<&counter::finds>(all[1], std::string("isolated"))),
             "isolated worker"),
         "not to be had elsewhere");
  return say("workers");
}

// A node is lost, with what it has made and what lives there.
int widows(const manta::runtime& rt) {
  const auto nodes = others(rt);
  const std::string& lost = nodes[0].name;
  const std::string& stays = nodes[1].name;
  const auto maker = one_at(lost);
  const auto there = manta::spawn<counter>.with(titled("there", lost, false))(0L);
  auto kept = manta::remote<&counter::takes>(maker, std::string("kept"), stays, false);
  const handle still = kept.get(long_enough);
  manta::remote<&counter::takes_alone>(maker, std::string("away"), stays).get(long_enough);
  manta::remote<&counter::takes_early>(maker, std::string("early"), stays).get(long_enough);
  for (const char* const name : {"there", "kept", "away", "early"}) {
    expect(manta::find_actor<counter>(name).has_value(), name);
  }
  say_pids(rt);
  const auto told = manta::monitor(there);
  expect(told.get(long_enough).reason == manta::end_reason::process_lost, "its node is lost");
  for (const char* const name : {"there", "away", "early"}) {
    expect(comes_free(name), std::string(name) + " is free");
    const auto next = manta::spawn<counter>.with(titled(name, stays, false))(3L);
    expect(manta::remote<&counter::add>(next, 1L).get(long_enough) == 4, "another one");
  }
  const auto found = manta::find_actor<counter>("kept");
  expect(found && *found == still, "what others have keeps its name");
  expect(manta::remote<&counter::add>(still, 1L).get(long_enough) == 1, "and lives");
  return say("widows");
}

}  // namespace settling
