// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include <manta/sched/ledger.hpp>
#include <manta/sched/line.hpp>

#include "sim/work.hpp"

namespace sim::work {

namespace sched = manta::sched;

/// Thousandths of a core that a node has; it says so when it joins.
inline std::int64_t cpus_of(node_number node) {
  return 1000 * static_cast<std::int64_t>(1 + node % 3);
}
inline manta::spec::demand demand_of(std::int64_t cpus) {
  manta::spec::demand out;
  out.cpus = cpus;
  return out;
}

/// A node's sched::ledger and sched::line, as desk::books has them.
struct books {
  explicit books(node_number self) : has(self << 32U), waits(has) {
    has.add_node(host_of(self), {}, demand_of(cpus_of(self)));
  }

  sched::ledger has;
  sched::line waits;
  std::vector<node_number> others{0};  // by index in the ledger; 0: this one, or gone
  std::map<node_number, sched::node_id> index;
  std::size_t most_others = 0;
  /// What was granted, or can never be given.
  std::function<void(sched::request&)> on_task, on_group, on_refused_task;
  /// All that one event lets through, in its order, before any of it goes on.
  std::function<void(const sched::request&)> on_let_through;

  void joined(node_number who) {
    const sched::node_id at = has.add_other(host_of(who), {}, demand_of(cpus_of(who)));
    index[who] = at;
    if (at == others.size()) others.push_back(0);
    others[at] = who;
    most_others = std::max(most_others, index.size());
    has.judge(false);
    go_on(waits.look_again());
  }
  void go_on(const sched::request_list& granted) const {
    const std::vector<sched::request*> all = all_of(granted);
    for (const sched::request* const one : all) {
      on_let_through(*one);
    }
    for (sched::request* const one : all) {
      one->forming != nullptr ? on_group(*one) : on_task(*one);
    }
  }
  /// Groups that can never be are ended by who looks for them.
  void refuse_infeasible() {
    for (sched::request* const one : all_of(waits.refuse_infeasible())) {
      if (one->forming == nullptr) on_refused_task(*one);
    }
  }

 private:
  // Handling one may take others off the line.
  static std::vector<sched::request*> all_of(const sched::request_list& list) {
    std::vector<sched::request*> out;
    for (sched::request* r = list.first; r != nullptr; r = r->next) out.push_back(r);
    return out;
  }
};

}  // namespace sim::work
