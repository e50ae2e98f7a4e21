// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp in which handles of actors go from node to node.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "cluster/settling.hpp"

namespace settling {

namespace {

long asked_by_a_task(const manta::actor<counter>& of, long x) {
  std::this_thread::sleep_for(1ms);  // the task's work: others have their share
  return manta::remote<&counter::add>(of, x).get();
}

}  // namespace

// Handles go from any node to any, and back.
int handles(const manta::runtime& rt) {
  const auto all = others(rt);
  const auto one = one_at(all[0].name);
  const auto two = one_at(all[1].name, 10);
  const auto near = one_at(all[0].name, 20);
  const auto home = manta::spawn<counter>(30L);
  expect(manta::remote<&counter::asks>(one, two).get(long_enough) == 11, "of another node");
  expect(manta::remote<&counter::asks>(one, near).get(long_enough) == 21, "of the same node");
  expect(manta::remote<&counter::asks>(one, home).get(long_enough) == 31, "of the driver");
  expect(manta::remote<&counter::asks>(home, one).get(long_enough) == 1, "at home");
  expect(manta::remote<&counter::self>(one).get(long_enough) == one, "the same actor, back");
  manta::remote<&counter::keep>(one, home).get(long_enough);
  expect(manta::remote<&counter::held>(one).get(long_enough) == home, "an own one, back");
  std::vector<manta::future<long>> tasks;
  for (int i = 0; i < 100; ++i) tasks.push_back(manta::remote<asked_by_a_task>(two, 1L));
  long most = 0;
  for (auto& each : tasks) most = std::max(most, each.get(long_enough));
  expect(most == 111, "tasks with handles: " + std::to_string(most));
  // Made by an actor in one node, in a second, for a third.
  const auto made =
      manta::remote<&counter::makes>(one, all[1].name, std::string("made")).get(long_enough);
  expect(manta::remote<&counter::process>(made).get(long_enough) == all[1].pid, "where it lives");
  expect(manta::remote<&counter::add>(made, 1L).get(long_enough) == 8, "made elsewhere");
  return say("handles");
}

// An actor lives as long as anybody has a handle.
int holders(const manta::runtime& rt) {
  const auto all = others(rt);
  const auto holder = one_at(all[0].name);
  for (const std::string& where : {all[0].name, all[1].name, manta::this_task::node()}) {
    const std::string note = "held at " + where;
    auto one = one_at(where, 0, note);
    manta::remote<&counter::keep>(holder, one).get(long_enough);
    one = {};
    expect(manta::remote<&counter::ask_kept>(holder, 5L).get(long_enough) == 5, note);
    expect(!manta::kv::get<int>(note).get().has_value(), note + ": it lives");
    {
      const auto again = manta::remote<&counter::held>(holder).get(long_enough);
      expect(manta::remote<&counter::add>(again, 1L).get(long_enough) == 6, note + ", again");
    }
    expect(manta::remote<&counter::ask_kept>(holder, 1L).get(long_enough) == 7, note + ", still");
    manta::remote<&counter::let_go>(holder).get(long_enough);
    expect(comes(note), note + ": it ends");
  }
  // Its last calls come before its end, also those that wait to be read.
  for (int round = 0; round < 10; ++round) {
    auto one = one_at(all[1].name);
    std::vector<manta::future<std::vector<double>>> calls;
    calls.reserve(200);
    const std::vector<double> some(1000, 0.5);
    for (int i = 0; i < 200; ++i) {
      calls.push_back(manta::remote<&counter::scaled>(one, some, 2.0));
    }
    one = {};
    std::size_t values = 0;
    for (const auto& call : calls) values += call.try_get(long_enough).has_value() ? 1U : 0U;
    expect(values == calls.size(), std::to_string(values) + " of the last calls ran");
  }
  // Others end it, and hear of its end.
  for (const std::string& where : {all[1].name, manta::this_task::node()}) {
    const auto one = one_at(where);
    manta::remote<&counter::keep>(holder, one).get(long_enough);
    const auto told = manta::monitor(one);
    const auto far = manta::remote<&counter::end_of_kept>(holder);
    const auto other = one_at(all[2].name);
    manta::remote<&counter::keep>(other, one).get(long_enough);
    manta::remote<&counter::kill_kept>(other).get(long_enough);
    expect(told.get(long_enough).reason == manta::end_reason::killed, "killed by another");
    expect(far.get(long_enough) == static_cast<int>(manta::end_reason::killed), "told elsewhere");
    const auto late = manta::remote<&counter::ask_kept>(holder, 1L);
    expect(thrown_by<manta::actor_lost>(late).find("actor") != std::string::npos, "it is lost");
  }
  return say("holders");
}

int ring(const manta::runtime& rt, int rounds) {
  std::vector<manta::actor<counter>> all;
  for (const manta::node_info& one : rt.nodes()) {
    all.push_back(
        manta::spawn<counter>.with({.where = manta::on_node(one.name), .max_concurrency = 64})(0L));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    manta::remote<&counter::keep>(all[i], all[(i + 1) % all.size()]).get(long_enough);
  }
  for (int i = 0; i < rounds; ++i) {
    expect(manta::remote<&counter::pass_on>(all[0], 12).get(long_enough) == 12, "round a ring");
  }
  for (auto& one : all) manta::remote<&counter::let_go>(one).get(long_enough);
  return say("ring");
}

// One node is lost: what it has made lives as long as others have it, and what it alone had ends.
int heirs(const manta::runtime& rt) {
  const auto all = others(rt);
  const auto lost = one_at(all[0].name);
  auto made =
      manta::remote<&counter::makes>(lost, all[1].name, std::string("made")).get(long_enough);
  auto held = one_at(all[1].name, 0, "held");
  auto near = manta::spawn<counter>(0L, std::string("near"));
  manta::remote<&counter::keep>(lost, held).get(long_enough);
  const auto second = manta::remote<&counter::makes>(lost, all[0].name, std::string("second"));
  manta::remote<&counter::keep>(second.get(long_enough), near).get(long_enough);
  held = {};
  near = {};
  expect(manta::remote<&counter::add>(made, 1L).get(long_enough) == 8, "it was made");
  say_pids(rt);
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  for (bool is_there = true; is_there && std::chrono::steady_clock::now() < limit;) {
    const auto call = manta::remote<&counter::slowly>(lost, 1);
    is_there = call.try_get(long_enough).has_value();
  }
  expect(comes("held"), "what the lost node alone had");
  expect(comes("near"), "what it alone had of this node");
  expect(manta::remote<&counter::add>(made, 1L).get(long_enough) == 9, "what it has made lives");
  expect(!manta::kv::get<int>("made").get().has_value(), "and is not destroyed");
  made = {};
  expect(comes("made"), "until nobody has it");
  return say("heirs");
}

}  // namespace settling
