// SPDX-License-Identifier: Apache-2.0
#include "sched/group_steps.hpp"

#include <algorithm>
#include <new>

namespace manta::inline v0::sched {

namespace {

void append_all(request_list& to, const request_list& from) noexcept {
  for (request* r = from.first; r != nullptr;) {
    request* const following = r->next;
    to.append(*r);
    r = following;
  }
}

}  // namespace

void group_steps::outcome::add(outcome more) noexcept {
  append_all(through, more.through);
  append_all(hopeless, more.hopeless);
}

node_id group_steps::index_of(std::uint64_t node) const noexcept {
  const auto at = std::find(others_.begin(), others_.end(), node);
  return at == others_.end() ? 0 : static_cast<node_id>(at - others_.begin());
}

request* group_steps::remove(const group& g) noexcept {
  for (const group::place& p : g.places) {
    const bool is_there = p.at != group::seat::nowhere && p.booking != 0;
    if (is_there && others_[p.node] != 0) say_drop(others_[p.node], p.booking);
  }
  has_news_ = true;
  const auto at = formings_.find(g.id);
  if (at == formings_.end()) return nullptr;
  request* const by = at->second.by;
  formings_.erase(at);
  return by;
}

bool group_steps::asks(request& granted) noexcept {
  return granted.forming != nullptr && ask_nodes(*granted.forming, &granted);
}

request_list group_steps::let_through(const request_list& granted) noexcept {
  request_list out;
  for (request* r = granted.first; r != nullptr;) {
    request* const following = r->next;
    if (!asks(*r)) out.append(*r);
    r = following;
  }
  return out;
}

// Of a group that has found places. False: they are all this node's, and it has them.
bool group_steps::ask_nodes(group& g, request* by) noexcept {
  if (!ledger::is_asking(g)) return false;
  forming& f = formings_.find(g.id)->second;
  f.by = by;
  f.rests = false;
  f.is_said = false;
  f.number = ++last_booking_;
  f.asked.clear();
  has_news_ = true;
  try {
    for (group::place& p : g.places) {
      const std::uint64_t node = others_[p.node];
      if (p.at != group::seat::asked || node == 0) continue;
      p.booking = f.number;
      f.asked.emplace(node, false);
    }
  } catch (const std::bad_alloc&) {
    has_.take_apart(g);
    rest(f);
  }
  return true;
}

void group_steps::rest(forming& f) noexcept {
  f.number = 0;
  f.asked.clear();
  f.rests = true;
  f.until.reset();
  has_news_ = true;
}

// Without memory it is not said: what is set aside there stays so until this node ends.
void group_steps::say_drop(std::uint64_t node, std::uint64_t number) noexcept {
  try {
    const std::pair<std::uint64_t, std::uint64_t> one(node, number);
    if (std::find(drops_.begin(), drops_.end(), one) == drops_.end()) drops_.push_back(one);
  } catch (const std::bad_alloc&) {
    return;
  }
}

void group_steps::drop(const forming& f) noexcept {
  for (const auto& [asked, is] : f.asked) say_drop(asked, f.number);
}

// All its places are given: it, and what waited in it, go on.
group_steps::outcome group_steps::opened(group& g, forming& f) noexcept {
  outcome out;
  has_.confirm(g);
  g.shuns.clear();
  f.number = 0;
  f.asked.clear();
  f.rests = false;
  f.pause.reset();
  // Meanwhile others may have been lost.
  const auto is_lost = [](const auto& p) { return p.at == group::seat::nowhere; };
  if (std::any_of(g.places.begin(), g.places.end(), is_lost)) rest(f);
  if (request* const by = std::exchange(f.by, nullptr)) out.through.append(*by);
  append_all(out.through, let_through(waits_.look_again()));
  // What can't leave this node has no place in bundles of others.
  append_all(out.hopeless, waits_.refuse_infeasible(g.id));
  give_up_if_hopeless(g, f, out);
  return out;
}

// What can never have a place waits no longer: it, while it is in no line, and what waits in it.
void group_steps::give_up_if_hopeless(group& g, forming& f, outcome& out) noexcept {
  has_.judge(g, may_grow_);
  if (g.is_hopeless) give_up(g, f, out);
}

void group_steps::give_up(group& g, forming& f, outcome& out) noexcept {
  f.rests = false;
  if (request* const by = std::exchange(f.by, nullptr)) out.hopeless.append(*by);
  append_all(out.hopeless, waits_.refuse_infeasible(g.id));
}

group_steps::outcome group_steps::give_up_hopeless() noexcept {
  outcome out;
  for (auto& [id, f] : formings_) {
    group* const g = has_.find_group(id);
    if (g != nullptr && g->is_hopeless) give_up(*g, f, out);
  }
  return out;
}

group_steps::outcome group_steps::answered(std::uint64_t node, group_id id, std::uint64_t number,
                                           bool is_yes) noexcept {
  group* const g = has_.find_group(id);
  const auto at = formings_.find(id);
  if (g == nullptr || at == formings_.end()) return {};
  forming& f = at->second;
  const auto asked = f.asked.find(node);
  // Of an older try, or nobody's.
  if (f.number == 0 || f.number != number || asked == f.asked.end()) return {};
  if (!is_yes) return refused_by(*g, f, index_of(node));
  asked->second = true;
  const auto has_said_yes = [](const auto& one) { return one.second; };
  const bool is_all = std::all_of(f.asked.begin(), f.asked.end(), has_said_yes);
  return is_all ? opened(*g, f) : outcome{};
}

group_steps::outcome group_steps::refused_by(group& g, forming& f, node_id node) noexcept {
  outcome out;
  drop(f);
  has_news_ = true;
  has_.take_apart(g);
  try {
    g.shuns.push_back(node);
  } catch (const std::bad_alloc&) {
    g.shuns.clear();
  }
  if (!g.shuns.empty() && has_.place(g)) {
    if (!ask_nodes(g, f.by)) return opened(g, f);
    out.through = let_through(waits_.look_again());  // what it had asked for and needs no more
    return out;
  }
  rest(f);
  out.through = let_through(waits_.look_again());
  give_up_if_hopeless(g, f, out);
  return out;
}

group_steps::outcome group_steps::stop_asking(std::uint64_t node) noexcept {
  outcome out;
  for (auto& [id, f] : formings_) {
    group* const g = has_.find_group(id);
    const bool is_asked = g != nullptr && f.number != 0 && f.asked.contains(node);
    if (is_asked) out.add(refused_by(*g, f, index_of(node)));
  }
  return out;
}

void group_steps::lose(std::uint64_t node) noexcept {
  const node_id at = index_of(node);
  for (auto& [id, f] : formings_) {
    group* const g = has_.find_group(id);
    if (g == nullptr) continue;
    const bool was_asked = f.number != 0 && f.asked.contains(node);
    if (was_asked) {
      drop(f);
      has_.take_apart(*g);
    }
    const bool had = has_.lose(*g, at);
    // Its other tries go on: what is lost here looks for its place after them.
    if (!was_asked && (!had || f.number != 0)) continue;
    f.pause.reset();
    rest(f);
  }
}

group_steps::outcome group_steps::try_again(group_id id) {
  outcome out;
  group* const g = has_.find_group(id);
  const auto at = formings_.find(id);
  if (g == nullptr || at == formings_.end() || !at->second.rests) return out;
  forming& f = at->second;
  g->shuns.clear();
  f.rests = false;
  if (request* const by = f.by) {
    // In line with all others: it may have to wait for its turn.
    f.by = nullptr;
    by->now = request::state::idle;
    try {
      if (!waits_.ask(*by)) return out;
    } catch (...) {
      f.by = by;
      f.rests = true;
      throw;
    }
    f.by = by;
    return ask_nodes(*g, by) ? out : opened(*g, f);
  }
  if (has_.place(*g)) return ask_nodes(*g, nullptr) ? out : opened(*g, f);
  rest(f);
  return out;
}

std::vector<group_steps::letter> group_steps::letters() const {
  std::vector<letter> out;
  for (const auto& [node, number] : drops_) out.push_back({.node = node, .number = number});
  for (const auto& [id, f] : formings_) {
    const group* const g = has_.find_group(id);
    if (g == nullptr || f.number == 0 || f.is_said) continue;
    for (const auto& [node, is] : f.asked) {
      letter one{.node = node, .group = id, .number = f.number};
      for (std::size_t b = 0; b < g->places.size(); ++b) {
        const group::place& p = g->places[b];
        if (p.booking != f.number || others_[p.node] != node) continue;
        one.bundles.push_back(static_cast<std::uint32_t>(b));
      }
      out.push_back(std::move(one));
    }
  }
  return out;
}

void group_steps::said() noexcept {
  drops_.clear();
  for (auto& [id, f] : formings_) f.is_said = f.is_said || f.number != 0;
}

request* group_steps::take_first() noexcept {
  for (auto& [id, f] : formings_) {
    if (f.by != nullptr) return std::exchange(f.by, nullptr);
  }
  return nullptr;
}

}  // namespace manta::inline v0::sched
