// SPDX-License-Identifier: Apache-2.0
#include <manta/sched/ledger.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <manta/base/check.hpp>

namespace manta::inline v0::sched {

namespace {

constexpr std::size_t most_shown = 8;  // nodes or bundles of one text

// `bundle`: -1 for all of them.
std::string describe_bundles(const group& of, int bundle) {
  std::string text;
  for (std::size_t i = 0; i < of.shown.size(); ++i) {
    if (bundle >= 0 && static_cast<std::size_t>(bundle) != i) continue;
    if (bundle < 0 && i == most_shown) {
      return text + fmt::format("; and {} more bundles", of.shown.size() - i);
    }
    text += fmt::format("{}bundle {} has {}", text.empty() ? "" : "; ", i,
                        spec::to_string(of.shown[i]));
  }
  return text;
}

const char* remedy_for(const placement& where) {
  if (where.by == placement::rule::labels) {
    return "ask for labels that one has (MANTA_LABELS), or for less";
  }
  if (where.by == placement::rule::node) return "name a node that has it, or ask for less";
  return "ask for less, or start the runtime with more";
}

std::string describe(const placement& where) {
  std::string text;
  switch (where.by) {
    case placement::rule::node:
      text = fmt::format(" on node {}", where.node.value_or(""));
      break;
    case placement::rule::labels:
      for (const auto& [key, value] : where.labels) {
        text += fmt::format("{}{}={}", text.empty() ? " where " : ", ", key, value);
      }
      break;
    case placement::rule::anywhere:
    case placement::rule::spread:
    case placement::rule::group:
      break;
  }
  return text;
}

}  // namespace

node_id ledger::add_node(std::string name, label_list labels, const spec::demand& capacity,
                         int first_gpu) {
  for (const auto& [key, amount] : capacity.custom) {
    if (!kind_of(key)) keys_.push_back(key);
  }
  node made{std::move(name), std::move(labels), {}};
  made.has.add(cpu_kind, capacity.cpus);
  made.has.add(memory_kind, capacity.memory_bytes);
  for (const auto& [key, amount] : capacity.custom) made.has.add(*kind_of(key), amount);
  const int gpus = static_cast<int>(capacity.gpus / 1000);
  for (int i = 0; i < gpus; ++i) made.has.add_gpu(first_gpu + i, 1000);
  // All three, or none.
  nodes_.reserve(nodes_.size() + 1);
  on_node_.reserve(nodes_.size() + 1);
  room_.reserve(nodes_.size() + 1);
  in_turn_.reserve(nodes_.size() + 1);
  trial_.push_back(made.has);
  on_node_.push_back(0);
  room_.push_back(0);
  in_turn_.push_back(0);
  nodes_.push_back(std::move(made));
  return static_cast<node_id>(nodes_.size() - 1);
}

node_id ledger::add_other(std::string name, label_list labels, const spec::demand& capacity) {
  const node_id last = add_node(std::move(name), std::move(labels), capacity);
  nodes_[last].is_other = true;
  for (node_id i = 0; i < last; ++i) {
    if (nodes_[i].now != standing::gone || nodes_[i].grants != 0) continue;
    nodes_[i] = std::move(nodes_[last]);
    trial_[i] = std::move(trial_[last]);
    nodes_.pop_back();
    trial_.pop_back();
    on_node_.pop_back();
    room_.pop_back();
    in_turn_.pop_back();
    return i;
  }
  return last;
}

void ledger::learn(const spec::demand& asked) {
  for (const auto& [key, amount] : asked.custom) {
    if (!kind_of(key)) keys_.push_back(key);
  }
}

std::optional<kind> ledger::kind_of(const std::string& key) const noexcept {
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (keys_[i] == key) return static_cast<kind>(first_custom_kind + i);
  }
  return std::nullopt;
}

bool ledger::knows(const spec::demand& asked) const noexcept {
  return std::all_of(asked.custom.begin(), asked.custom.end(),
                     [this](const auto& c) { return kind_of(c.first).has_value(); });
}

need ledger::translate(const spec::demand& asked) const {
  need out;
  out.gpus = asked.gpus;
  out.parts.reserve(2 + asked.custom.size());
  if (asked.cpus != 0) out.parts.push_back({cpu_kind, asked.cpus});
  if (asked.memory_bytes != 0) out.parts.push_back({memory_kind, asked.memory_bytes});
  for (const auto& [key, amount] : asked.custom) {
    if (const auto k = kind_of(key)) out.parts.push_back({*k, amount});
  }
  std::sort(out.parts.begin(), out.parts.end(),
            [](const part& a, const part& b) { return a.of < b.of; });
  return out;
}

// Whether the wish, taken as a condition, holds for the node.
bool ledger::matches(const node& n, const placement& where) const noexcept {
  switch (where.by) {
    case placement::rule::node:
      return n.name == where.node;
    case placement::rule::labels:
      return std::all_of(where.labels.begin(), where.labels.end(), [&n](const auto& wanted) {
        return std::find(n.labels.begin(), n.labels.end(), wanted) != n.labels.end();
      });
    case placement::rule::anywhere:
    case placement::rule::spread:
    case placement::rule::group:
      return true;
  }
  return true;
}

bool ledger::gives(const node& n, const need& asked, horizon when) noexcept {
  if (n.is_other && asked.stays) return false;
  const bool is_there = when == horizon::ever ? n.now != standing::gone : n.now == standing::gives;
  return is_there && n.has.fits(asked, when);
}

// A soft wish binds while some node can ever fulfil it.
bool ledger::is_bound(const need& asked, const placement& where) const noexcept {
  if (!where.is_soft) return true;
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const node& n) {
    return matches(n, where) && gives(n, asked, horizon::ever);
  });
}

// The node that gives `asked` by the amounts of `when`, or null: the first of this process, else of
// all others the one with the most left; of equals the near one, else the one with fewest grants.
pool* ledger::choose(const need& asked, const placement& where, horizon when, node_id& chosen,
                     node_id near) noexcept {
  const bool bound = is_bound(asked, where);
  const bool is_spread = where.by == placement::rule::spread;
  node* best = nullptr;
  const auto is_no_better = [&](const node& n, std::size_t i) {
    const std::int64_t load = n.has.load();
    const std::int64_t least = best->has.load();
    if (load != least) return load > least;
    if (!is_spread && near != 0 && (i == near || chosen == near)) return i != near;
    return n.grants >= best->grants;
  };
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    node& n = nodes_[i];
    if ((bound && !matches(n, where)) || !gives(n, asked, when)) continue;
    if (best != nullptr && is_no_better(n, i)) continue;
    best = &n;
    chosen = static_cast<node_id>(i);
    if (!is_spread && !n.is_other) break;
  }
  return best == nullptr ? nullptr : &best->has;
}

bool ledger::fits(const need& asked, const placement& where, horizon when) const noexcept {
  if (where.by == placement::rule::group) {
    const group* const g = find_group(where.group);
    if (g == nullptr) return false;
    const auto is_good = [&](const group::place& p) {
      if (when == horizon::ever) return fits_ever(*g, p, asked);
      return is_usable(p, asked) && p.fits(asked, when);
    };
    if (where.bundle >= 0) return is_good(g->places[static_cast<std::size_t>(where.bundle)]);
    return std::any_of(g->places.begin(), g->places.end(), is_good);
  }
  node_id ignored = 0;
  return const_cast<ledger*>(this)->choose(asked, where, when, ignored) != nullptr;
}

bool ledger::gives_here(const need& asked, const placement& where, horizon when) const noexcept {
  MANTA_CHECK(where.by != placement::rule::group);
  const node& own = nodes_.front();
  return (where.is_soft || matches(own, where)) && gives(own, asked, when);
}

// Whether something may be given in it now, as far as that is not a matter of amounts.
bool ledger::is_usable(const group::place& p, const need& asked) const noexcept {
  const node& in = nodes_[p.node];
  return p.at == group::seat::given && in.now == standing::gives && !(in.is_other && asked.stays);
}

bool ledger::fits_ever(const group& g, const group::place& p, const need& asked) const noexcept {
  if (p.at == group::seat::nowhere && g.is_hopeless) return false;
  const bool is_there = p.at == group::seat::given;
  return !(is_there && asked.stays && nodes_[p.node].is_other) && p.fits(asked, horizon::ever);
}

bool ledger::take_in_group(const need& asked, const placement& where, grant& into) noexcept {
  group* const g = find_group(where.group);
  if (g == nullptr) return false;
  const auto gives_it = [&](std::size_t i) {
    return is_usable(g->places[i], asked) && g->places[i].fits(asked, horizon::now);
  };
  std::size_t at = 0;
  if (where.bundle >= 0) {
    at = static_cast<std::size_t>(where.bundle);
    if (!gives_it(at)) return false;
  } else {
    while (at < g->places.size() && !gives_it(at)) ++at;
    if (at == g->places.size()) return false;
  }
  g->places[at].take(asked, into.gpus);
  ++g->users;
  into.in = g;
  into.bundle = at;
  into.turn = g->places[at].turn;
  into.node = g->places[at].node;
  if (nodes_[into.node].is_other) ++nodes_[into.node].grants;
  return true;
}

bool ledger::take(const need& asked, const placement& where, bool is_active, grant& into,
                  node_id near) noexcept {
  MANTA_CHECK(!into.is_held);
  into.gpus.clear();
  if (where.by == placement::rule::group) {
    if (!take_in_group(asked, where, into)) return false;
  } else {
    pool* const from = choose(asked, where, horizon::now, into.node, near);
    if (from == nullptr) return false;
    from->take(asked, into.gpus);
    ++nodes_[into.node].grants;
  }
  into.is_held = true;
  into.is_active = is_active && !nodes_[into.node].is_other;
  into.is_lent = false;
  if (into.is_active) home(into).count_active(asked, into.gpus, 1);
  return true;
}

bool ledger::take_of(node_id node, const need& asked, grant& into) noexcept {
  MANTA_CHECK(!into.is_held);
  if (!gives(nodes_[node], asked, horizon::now)) return false;
  into.gpus.clear();
  nodes_[node].has.take(asked, into.gpus);
  ++nodes_[node].grants;
  into.node = node;
  into.is_held = true;
  into.is_active = false;
  into.is_lent = false;
  return true;
}

// Where a grant's amounts are counted now: its bundle while that is there, else the node.
pool& ledger::home(const grant& held) noexcept {
  if (held.in != nullptr && held.in->now == group::state::placed) {
    group::place& in = held.in->places[held.bundle];
    if (in.turn == held.turn) return in;
  }
  return nodes_[held.node].has;
}

void ledger::give(const need& asked, grant& held) noexcept {
  if (!held.is_held) return;
  if (held.is_lent) take_back(asked, held);
  pool& from = home(held);
  if (held.is_active) from.count_active(asked, held.gpus, -1);
  // What its node has said of lent cpus may be older than this.
  group::place* const in = held.in != nullptr ? &held.in->places[held.bundle] : nullptr;
  const bool is_there = in != nullptr && &from == in && in->lent != 0;
  const std::int64_t lent = is_there ? in->lent : 0;
  if (is_there) in->note_lent(in->lent, 0);
  from.give(asked, held.gpus);
  if (is_there) in->note_lent(in->lent, lent);
  held.is_held = false;
  if (group* const g = std::exchange(held.in, nullptr)) {
    if (nodes_[held.node].is_other) --nodes_[held.node].grants;
    if (--g->users == 0 && g->now == group::state::removed) groups_.erase(g->id);
  } else {
    --nodes_[held.node].grants;
  }
}

void ledger::lend(const need& asked, grant& held) noexcept {
  if (!held.is_held || held.is_lent) return;
  held.is_lent = true;
  pool& from = home(held);
  if (held.is_active) from.count_active(asked, held.gpus, -1);
  from.lend_cpus(asked, 1);
}

void ledger::take_back(const need& asked, grant& held) noexcept {
  if (!held.is_held || !held.is_lent) return;
  held.is_lent = false;
  pool& from = home(held);
  if (held.is_active) from.count_active(asked, held.gpus, 1);
  from.lend_cpus(asked, -1);
}

std::string ledger::describe_nodes() const {
  std::string text;
  std::size_t shown = 0;
  for (const node& n : nodes_) {
    if (n.now == standing::gone || ++shown > most_shown) continue;
    if (!text.empty()) text += "; ";
    text += fmt::format("node {} has {}", n.name, spec::to_string(to_spec(n.has, false)));
    for (const auto& [key, value] : n.labels) text += fmt::format(", {}={}", key, value);
  }
  if (shown > most_shown) text += fmt::format("; and {} more nodes", shown - most_shown);
  return text;
}

std::vector<node_id> ledger::who_gives(const spec::demand& asked, const placement& where,
                                       horizon when) const {
  std::vector<node_id> out;
  if (!knows(asked)) return out;
  const need what = translate(asked);
  const bool bound = is_bound(what, where);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const bool is_meant = !bound || matches(nodes_[i], where);
    if (is_meant && gives(nodes_[i], what, when)) out.push_back(static_cast<node_id>(i));
  }
  return out;
}

std::optional<std::string> ledger::infeasible(const spec::demand& asked, const placement& where,
                                              bool stays) const {
  const bool is_known = knows(asked);
  if (where.by == placement::rule::group) {
    const group* const g = find_group(where.group);
    if (g == nullptr) return std::nullopt;
    if (where.bundle >= static_cast<int>(g->bundles.size())) {
      return fmt::format("asked bundle {} of a placement group of {}; indices start at 0",
                         where.bundle, g->bundles.size());
    }
    need what = translate(asked);
    what.stays = stays;
    if (is_known && fits(what, where, horizon::ever)) return std::nullopt;
    return fmt::format("asked {} in a placement group; {}; ask for less or make larger bundles",
                       spec::to_string(asked), describe_bundles(*g, where.bundle));
  }
  if (is_known) {
    need what = translate(asked);
    what.stays = stays;
    if (fits(what, where, horizon::ever)) return std::nullopt;
  }
  return fmt::format("asked {}{}; {}; {}", asked.is_empty() ? "a place" : spec::to_string(asked),
                     describe(where), describe_nodes(), remedy_for(where));
}

std::optional<std::string> ledger::infeasible(const std::vector<spec::demand>& bundles,
                                              strategy how, bool stays) const {
  std::string asked;
  if (std::all_of(bundles.begin(), bundles.end(),
                  [this](const spec::demand& b) { return knows(b); })) {
    const std::unique_ptr<group> trial = make_record(bundles, how, stays);
    if (search(*trial, horizon::ever) != found::no) return std::nullopt;
  }
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    if (i == most_shown) {
      asked += fmt::format("; and {} more", bundles.size() - i);
      break;
    }
    asked += fmt::format("{}bundle {} of {}", i == 0 ? "" : "; ", i, spec::to_string(bundles[i]));
  }
  return fmt::format(
      "asked a {} placement group ({}), which can never fit at once; {}; ask for "
      "less, or start the runtime with more",
      manta::to_string(how), asked, describe_nodes());
}

spec::demand ledger::to_spec(const pool& of, bool free) const {
  spec::demand out;
  for (const pool::account& a : of.accounts()) {
    const std::int64_t amount = free ? a.free : a.total;
    if (a.of == cpu_kind) {
      out.cpus = amount;
    } else if (a.of == memory_kind) {
      out.memory_bytes = amount;
    } else {
      out.custom.emplace_back(keys_[a.of - first_custom_kind], amount);
    }
  }
  for (const pool::gpu& g : of.gpus()) out.gpus += free ? g.free : g.total;
  return out;
}

resource_report ledger::report() const {
  resource_report out;
  const auto sum = [this](bool free) {
    spec::demand all;
    for (const node& n : nodes_) {
      if (n.is_other) continue;
      const spec::demand one = to_spec(n.has, free);
      all.cpus += one.cpus;
      all.gpus += one.gpus;
      all.memory_bytes += one.memory_bytes;
      for (const auto& [key, amount] : one.custom) {
        const auto at = std::find_if(all.custom.begin(), all.custom.end(),
                                     [&k = key](const auto& c) { return c.first == k; });
        if (at == all.custom.end()) {
          all.custom.emplace_back(key, amount);
        } else {
          at->second += amount;
        }
      }
    }
    return spec::to_bundle(all);
  };
  out.total = sum(false);
  out.free = sum(true);
  if (!nodes_.empty()) {
    for (const pool::gpu& g : nodes_[0].has.gpus()) {
      out.gpu_free.push_back(static_cast<double>(g.free) / 1000.0);
    }
  }
  return out;
}

}  // namespace manta::inline v0::sched
