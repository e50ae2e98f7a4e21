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
//
// To pack is to try one node alone first, then those with room for the most bundles. Bundles that
// have a place keep it, and count where they are.

namespace manta::inline v0::sched {

namespace {

constexpr int most_steps = 20000;

}  // namespace

std::unique_ptr<group> ledger::make_record(std::vector<spec::demand> bundles, strategy how,
                                           bool stays) const {
  const std::size_t count = bundles.size();
  MANTA_CHECK_VALUE(count >= 1 && count <= most_bundles, count);
  auto made = std::make_unique<group>();
  made->how = how;
  made->bundles.reserve(count);
  made->places.resize(count);
  made->gpus.resize(count);
  made->order.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    need& n = made->bundles.emplace_back(translate(bundles[i]));
    n.stays = stays;
    made->gpus[i].reserve(gpu_count(n.gpus));
    own_gpus_.reserve(gpu_count(n.gpus));
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

group& ledger::make_group(std::vector<spec::demand> bundles, strategy how, bool stays) {
  std::unique_ptr<group> made = make_record(std::move(bundles), how, stays);
  made->id = ++groups_made_;
  return *groups_.emplace(made->id, std::move(made)).first->second;
}

group* ledger::find_group(group_id id) const noexcept {
  const auto at = groups_.find(id);
  return at == groups_.end() || at->second->now == group::state::removed ? nullptr
                                                                         : at->second.get();
}

/// One search.
struct ledger::trial {
  group& of;
  strategy how;
  horizon when;
  int steps = most_steps;

  bool is_sought(std::size_t bundle) const noexcept {
    return of.places[bundle].at == group::seat::nowhere;
  }
};

ledger::found ledger::search(group& g, horizon when) const noexcept {
  if (g.how != strategy::pack) return search_as(g.how, g, when);
  const found alone = search_as(strategy::strict_pack, g, when);
  return alone == found::yes ? alone : search_as(strategy::pack, g, when);
}

// What the group has already it has for ever.
void ledger::begin_trial(std::size_t node, group& g, horizon when) const noexcept {
  pool& trial = trial_[node];
  trial = nodes_[node].has;  // as many accounts as before: allocates nothing
  trial.look_ahead(when);
  if (when != horizon::ever) return;
  for (std::size_t b = 0; b < g.bundles.size(); ++b) {
    const bool is_there = g.places[b].at != group::seat::nowhere && g.places[b].node == node;
    if (!is_there || !trial.fits(g.bundles[b], horizon::now)) continue;
    trial.take(g.bundles[b], own_gpus_);
    own_gpus_.clear();
  }
}

ledger::found ledger::search_as(strategy how, group& g, horizon when) const noexcept {
  for (std::size_t i = 0; i < nodes_.size(); ++i) begin_trial(i, g, when);
  std::fill(on_node_.begin(), on_node_.end(), 0);
  for (const group::place& p : g.places) on_node_[p.node] += p.at == group::seat::nowhere ? 0 : 1;
  std::iota(in_turn_.begin(), in_turn_.end(), node_id{0});
  trial one{g, how, when};
  if (how == strategy::pack) sort_by_room(one);
  const found out = search_from(one, 0);
  if (out != found::yes) {
    for (std::size_t b = 0; b < g.bundles.size(); ++b) {
      if (one.is_sought(b)) g.gpus[b].clear();
    }
  }
  return out;
}

bool ledger::may_host(const trial& of, std::size_t node, std::size_t bundle) const noexcept {
  const auto& n = nodes_[node];
  const bool is_ever = of.when == horizon::ever;
  if (is_ever ? n.now == standing::gone : n.now != standing::gives) return false;
  if (n.is_other && of.of.bundles[bundle].stays) return false;
  const auto& shuns = of.of.shuns;
  if (!is_ever && std::find(shuns.begin(), shuns.end(), node) != shuns.end()) return false;
  return trial_[node].fits(of.of.bundles[bundle], horizon::now);
}

// Those first that have room for the most of what is sought.
void ledger::sort_by_room(const trial& of) const noexcept {
  group& g = of.of;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    room_[i] = 0;
    for (const std::size_t b : g.order) {
      if (!of.is_sought(b) || !may_host(of, i, b)) continue;
      trial_[i].take(g.bundles[b], g.gpus[b]);
      g.gpus[b].clear();
      ++room_[i];
    }
    begin_trial(i, g, of.when);
  }
  std::sort(in_turn_.begin(), in_turn_.end(), [this](node_id a, node_id b) {
    return room_[a] != room_[b] ? room_[a] > room_[b] : a < b;
  });
}

// Places what is sought from the one number `done` on; with `yes` that lies on the trial pools.
ledger::found ledger::search_from(trial& of, std::size_t done) const noexcept {
  while (done < of.of.order.size() && !of.is_sought(of.of.order[done])) ++done;
  if (done == of.of.order.size()) return found::yes;
  std::size_t most = 0;
  std::size_t all = 0;
  for (const std::size_t n : on_node_) {
    most = std::max(most, n);
    all += n;
  }
  const auto at = [&](std::size_t already) { return search_at(of, done, already); };
  found out = found::no;
  switch (of.how) {
    case strategy::strict_spread:
      return at(0);
    case strategy::strict_pack:
      return at(all);  // all that are placed lie on that node
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
ledger::found ledger::search_at(trial& of, std::size_t done, std::size_t already) const noexcept {
  group& g = of.of;
  const std::size_t b = g.order[done];
  for (const node_id i : in_turn_) {
    if (on_node_[i] != already || !may_host(of, i, b)) continue;
    if (--of.steps < 0) return found::unknown;
    trial_[i].take(g.bundles[b], g.gpus[b]);
    g.places[b].node = i;
    ++on_node_[i];
    const found out = search_from(of, done + 1);
    if (out != found::no) return out;
    --on_node_[i];
    trial_[i].give(g.bundles[b], g.gpus[b]);
    g.gpus[b].clear();
  }
  return found::no;
}

bool ledger::has_place(group& g, horizon when) const noexcept {
  const found out = search(g, when);
  for (std::size_t b = 0; b < g.bundles.size(); ++b) {
    if (g.places[b].at == group::seat::nowhere) g.gpus[b].clear();
  }
  return out != found::no;
}

bool ledger::place(group& g) noexcept {
  const bool is_sought = std::any_of(g.places.begin(), g.places.end(), [](const group::place& p) {
    return p.at == group::seat::nowhere;
  });
  if (g.now == group::state::removed || !is_sought || is_asking(g)) return false;
  if (search(g, horizon::now) != found::yes) return false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    // The trial's free amounts are the new ones; what is active does not change.
    if (on_node_[i] != 0) std::swap(nodes_[i].has, trial_[i]);
  }
  bool asks = false;
  for (std::size_t b = 0; b < g.bundles.size(); ++b) {
    group::place& p = g.places[b];
    if (p.at != group::seat::nowhere) continue;
    p.name_gpus(g.gpus[b]);
    p.at = group::seat::asked;
    p.booking = 0;
    if (!nodes_[p.node].is_other) continue;
    ++nodes_[p.node].grants;
    asks = true;
  }
  if (!asks) confirm(g);
  return true;
}

bool ledger::is_asking(const group& g) noexcept {
  return std::any_of(g.places.begin(), g.places.end(),
                     [](const group::place& p) { return p.at == group::seat::asked; });
}

void ledger::confirm(group& g) noexcept {
  for (group::place& p : g.places) {
    if (p.at == group::seat::asked) p.at = group::seat::given;
  }
  g.now = group::state::placed;
}

// Gives it back to its node; what is held in it is held of that from here on.
void ledger::dissolve(group::place& p) noexcept {
  if (p.at == group::seat::nowhere) return;
  p.note_lent(p.lent, 0);
  nodes_[p.node].has.absorb(p);
  if (nodes_[p.node].is_other) --nodes_[p.node].grants;
  p.at = group::seat::nowhere;
  p.booking = 0;
  ++p.turn;
}

void ledger::take_apart(group& g) noexcept {
  for (std::size_t b = 0; b < g.places.size(); ++b) {
    if (g.places[b].at != group::seat::asked) continue;
    dissolve(g.places[b]);
    g.places[b].reset();
    g.gpus[b].clear();
  }
}

bool ledger::lose(group& g, node_id with) noexcept {
  bool had = false;
  for (std::size_t b = 0; b < g.places.size(); ++b) {
    if (g.places[b].at == group::seat::nowhere || g.places[b].node != with) continue;
    had = true;
    dissolve(g.places[b]);
    g.places[b].reset();
    g.gpus[b].clear();
  }
  return had;
}

void ledger::note_lent(group& g, std::size_t bundle, std::int64_t cpus) noexcept {
  group::place& p = g.places[bundle];
  if (p.at == group::seat::given) p.note_lent(p.lent, cpus);
}

void ledger::judge(bool others_may_join) noexcept {
  for (const auto& [id, g] : groups_) judge(*g, others_may_join);
}

void ledger::judge(group& g, bool others_may_join) noexcept {
  g.is_hopeless = !others_may_join && g.now != group::state::removed && !is_asking(g) &&
                  !has_place(g, horizon::ever);
}

void ledger::remove(group& g) noexcept {
  for (group::place& p : g.places) dissolve(p);
  g.now = group::state::removed;
  if (g.users == 0) groups_.erase(g.id);
}

}  // namespace manta::inline v0::sched
