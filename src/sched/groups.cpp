// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <utility>

#include <manta/base/check.hpp>
#include <manta/sched/ledger.hpp>

// The ledger's placement groups: a place for all bundles at once.
//
// A search that goes back, on copies of the nodes' pools: the bundles are tried hardest first, each
// on the nodes in the order that the strategy prefers. Whether bundles fit is bin packing, so the
// search counts its steps; when it gives up, the group waits for a better moment (and is not called
// infeasible). With one node there is nothing to go back for.

namespace manta::inline v0::sched {

namespace {

constexpr int most_steps = 20000;

}  // namespace

std::unique_ptr<group> ledger::make_record(std::vector<spec::demand> bundles, strategy how) const {
  const std::size_t count = bundles.size();
  MANTA_CHECK_VALUE(count >= 1 && count <= most_bundles, count);
  auto made = std::make_unique<group>();
  made->how = how;
  made->bundles.reserve(count);
  made->places.resize(count);
  made->gpus.resize(count);
  made->order.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const need& n = made->bundles.emplace_back(translate(bundles[i]));
    made->gpus[i].reserve(gpu_count(n.gpus));
    for (const part& p : n.parts) made->places[i].add(p.of, p.amount);
    for (std::size_t k = 0; k < gpu_count(n.gpus); ++k) {
      made->places[i].add_gpu(-1, std::min<std::int64_t>(n.gpus, 1000));
    }
  }
  std::iota(made->order.begin(), made->order.end(), std::size_t{0});
  std::stable_sort(made->order.begin(), made->order.end(), [&made](std::size_t a, std::size_t b) {
    const need& x = made->bundles[a];
    const need& y = made->bundles[b];
    if (x.gpus != y.gpus) return x.gpus > y.gpus;
    const auto first = [](const need& n) { return n.parts.empty() ? 0 : n.parts[0].amount; };
    return first(x) > first(y);
  });
  made->shown = std::move(bundles);
  return made;
}

group& ledger::make_group(std::vector<spec::demand> bundles, strategy how) {
  std::unique_ptr<group> made = make_record(std::move(bundles), how);
  made->id = ++groups_made_;
  return *groups_.emplace(made->id, std::move(made)).first->second;
}

group* ledger::find_group(group_id id) const noexcept {
  const auto at = groups_.find(id);
  return at == groups_.end() || at->second->now == group::state::removed ? nullptr
                                                                         : at->second.get();
}

ledger::found ledger::search(group& g, horizon when) const noexcept {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].is_other) continue;
    trial_[i] = nodes_[i].has;  // as many accounts as before: allocates nothing
    trial_[i].look_ahead(when);
  }
  std::fill(on_node_.begin(), on_node_.end(), 0);
  int steps = most_steps;
  const found out = search_from(g, 0, steps);
  if (out != found::yes) {
    for (auto& list : g.gpus) list.clear();
  }
  return out;
}

// Places the bundles from the one number `done` on; with `yes` they lie on the trial pools.
ledger::found ledger::search_from(group& g, std::size_t done, int& steps) const noexcept {
  if (done == g.bundles.size()) return found::yes;
  std::size_t most = 0;
  for (const std::size_t n : on_node_) most = std::max(most, n);
  const auto at = [&](std::size_t already) { return search_at(g, done, already, steps); };
  found out = found::no;
  switch (g.how) {
    case strategy::strict_spread:
      return at(0);
    case strategy::strict_pack:
      return at(done);  // all that are placed lie on that node
    case strategy::spread:
      for (std::size_t n = 0; n <= most && out == found::no; ++n) out = at(n);
      return out;
    case strategy::pack:
      for (std::size_t n = most + 1; n-- > 0 && out == found::no;) out = at(n);
      return out;
  }
  return out;
}

// Tries the next bundle on each node that has `already` bundles of the group.
ledger::found ledger::search_at(group& g, std::size_t done, std::size_t already,
                                int& steps) const noexcept {
  const std::size_t b = g.order[done];
  for (std::size_t i = 0; i < trial_.size(); ++i) {
    if (nodes_[i].is_other || on_node_[i] != already) continue;
    if (!trial_[i].fits(g.bundles[b], horizon::now)) continue;
    if (--steps < 0) return found::unknown;
    trial_[i].take(g.bundles[b], g.gpus[b]);
    g.places[b].node = static_cast<node_id>(i);
    ++on_node_[i];
    const found out = search_from(g, done + 1, steps);
    if (out != found::no) return out;
    --on_node_[i];
    trial_[i].give(g.bundles[b], g.gpus[b]);
    g.gpus[b].clear();
  }
  return found::no;
}

bool ledger::has_place(group& g, horizon when) const noexcept {
  const found out = search(g, when);
  for (auto& list : g.gpus) list.clear();
  return out != found::no;
}

bool ledger::place(group& g) noexcept {
  if (g.now != group::state::waiting || search(g, horizon::now) != found::yes) return false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    // The trial's free amounts are the new ones; what is active does not change.
    if (on_node_[i] != 0) std::swap(nodes_[i].has, trial_[i]);
  }
  for (std::size_t b = 0; b < g.bundles.size(); ++b) g.places[b].name_gpus(g.gpus[b]);
  g.now = group::state::placed;
  return true;
}

void ledger::remove(group& g) noexcept {
  if (g.now == group::state::placed) {
    for (const group::place& p : g.places) nodes_[p.node].has.absorb(p);
  }
  g.now = group::state::removed;
  if (g.users == 0) groups_.erase(g.id);
}

}  // namespace manta::inline v0::sched
