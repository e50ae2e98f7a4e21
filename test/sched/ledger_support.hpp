// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/sched/ledger.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "exec/support.hpp"

// What the tests of the ledger take, and of whom.

namespace ledger_test {

using manta::bundle;
using manta::placement;
using manta::strategy;
using manta::sched::gpu_count;
using manta::sched::grant;
using manta::sched::group;
using manta::sched::horizon;
using manta::sched::ledger;
using manta::sched::need;
using manta::spec::demand;
using manta::spec::to_demand;
using manta_test::dice;
using manta_test::run_seed;
using manta_test::scaled;

inline demand of(const bundle& b) { return to_demand(b); }

// What somebody took, so that it can be given back.
struct taken {
  need asked;
  grant held;
};

inline bool take(ledger& from, const bundle& b, taken& into, const placement& where = {}) {
  into.asked = from.translate(of(b));
  into.held.gpus.reserve(gpu_count(into.asked.gpus));
  return from.take(into.asked, where, true, into.held);
}

inline placement in(const group& g, int index = -1) {
  placement out;
  out.by = placement::rule::group;
  out.group = g.id;
  out.bundle = index;
  return out;
}

// `nodes` nodes of 4 cpus, 2 gpus, 1000 bytes and 3 licences each.
inline ledger cluster(int nodes) {
  ledger made;
  for (int i = 0; i < nodes; ++i) {
    made.add_node("n" + std::to_string(i), {{"zone", i % 2 == 0 ? "a" : "b"}},
                  of({4, 2, 1000, {{"licence", 3}}}));
  }
  return made;
}

inline bool fits_at_once(ledger& l, const std::vector<bundle>& bundles, strategy how) {
  std::vector<demand> asked;
  for (const bundle& b : bundles) asked.push_back(of(b));
  return !l.infeasible(asked, how);
}

inline group& placed(ledger& l, const std::vector<bundle>& bundles, strategy how = strategy::pack) {
  std::vector<demand> asked;
  for (const bundle& b : bundles) asked.push_back(of(b));
  group& g = l.make_group(asked, how);
  l.place(g);
  return g;
}

// This process's node, and three others'.
inline ledger with_others() {
  ledger made = cluster(1);
  made.add_other("far", {{"kind", "big"}}, of({8, 4, 1000, {{"tape", 2}}}));
  made.add_other("wide", {{"kind", "big"}}, of({8, 0, 1000, {}}));
  made.add_other("small", {}, of({1, 0, 0, {}}));
  return made;
}

}  // namespace ledger_test
