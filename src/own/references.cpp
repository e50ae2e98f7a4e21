// SPDX-License-Identifier: Apache-2.0
#include "own/references.hpp"

#include <algorithm>

namespace manta::inline v0::own {

void references::say(node_number to, const reference_note& what) {
  work_.notes.emplace_back(to, what);
}

// Of those that died before this one joined nothing was said.
bool references::is_dead(node_number who) const {
  return dead_.contains(who) || (who < self_ && !living_.contains(who));
}

references::work references::take() {
  work_.freed.assign(freed_.begin(), freed_.end());
  freed_.clear();
  return std::exchange(work_, {});
}

std::vector<references::lending> references::lendings_of(const base::id& thing) const {
  std::vector<lending> out;
  const auto found = mine_.find(thing);
  if (found == mine_.end()) return out;
  out.reserve(found->second.size());
  for (const loan& one : found->second) out.push_back({one.borrower, one.lender});
  return out;
}

// ---- handles here

void references::say_lent(const base::id& thing, node_number owner, node_number to,
                          std::int64_t count) {
  if (owner == self_) {
    if (!is_dead(to)) add(thing, to, self_, count);
  } else if (to != owner) {  // its own is no loan
    say(owner, {saying::lent, thing, to, count});
  }
}

void references::lend(const base::id& thing, node_number owner, node_number to) {
  say_lent(thing, owner, to, 1);
}

void references::take_back(const base::id& thing, node_number owner, node_number to) {
  say_lent(thing, owner, to, -1);
}

bool references::came(const base::id& thing, node_number owner, node_number from) {
  if (owner == self_) return true;
  if (is_dead(owner)) return false;
  borrowed_thing& known = others_[thing];
  known.owner = owner;
  ++known.came[from];
  return true;
}

void references::drop(const base::id& thing) {
  const auto found = others_.find(thing);
  if (found == others_.end()) return;
  for (const auto& [lender, count] : found->second.came) {
    say(found->second.owner, {saying::released, thing, lender, count});
  }
  others_.erase(found);
}

// ---- what is lent

void references::add(const base::id& thing, node_number borrower, node_number lender,
                     std::int64_t count) {
  loans& all = mine_[thing];
  if (!freed_.empty()) freed_.erase(thing);
  const auto found = std::ranges::find_if(
      all, [&](const loan& one) { return one.borrower == borrower && one.lender == lender; });
  if (found == all.end()) {
    all.push_back({borrower, lender, count, false});
    return;
  }
  found->count += count;
  if (found->count != 0) return;
  all.erase(found);
  free_if_unneeded(thing);
}

void references::free_if_unneeded(const base::id& thing) {
  const auto found = mine_.find(thing);
  if (found == mine_.end() || !found->second.empty() || doubts_.contains(thing)) return;
  mine_.erase(found);
  freed_.insert(thing);
}

void references::hear(node_number from, const reference_note& said) {
  if (is_dead(from)) return;
  switch (said.what) {
    case saying::lent:
    case saying::released: {
      // Of what is not lent nobody can say anything that is true.
      if (!mine_.contains(said.thing)) return;
      const bool is_lent = said.what == saying::lent;
      if (!is_lent) return add(said.thing, from, said.peer, -said.count);
      if (!is_dead(said.peer)) return add(said.thing, said.peer, from, said.count);
      // It may have come there, and been sent on, before that died.
      const bool is_settled = !unasked_.contains(said.peer) && !asking_.contains(said.peer);
      if (!is_settled) doubt(said.thing);
      return;
    }
    case saying::asks:
      if (is_dead(said.peer)) return answer(from, said.peer);
      asked_[said.peer].insert(from);
      return;
    case saying::holds:
      if (!mine_.contains(said.thing)) return;
      return replace(said.thing, {from, said.peer, said.count, true});
    case saying::settled: {
      const auto found = asking_.find(said.peer);
      if (found == asking_.end() || found->second.erase(from) == 0) return;
      return finish_asking();
    }
  }
}

void references::replace(const base::id& thing, const loan& by) {
  loans& all = mine_[thing];
  std::erase_if(
      all, [&](const loan& one) { return one.borrower == by.borrower && one.lender == by.lender; });
  if (by.count != 0) all.push_back(by);
}

// ---- the others

void references::joined(node_number who) {
  if (who != self_ && !dead_.contains(who)) living_.insert(who);
}

void references::gone(node_number who) {
  if (who == self_ || !dead_.insert(who).second) return;
  living_.erase(who);
  unasked_.insert(who);
  for (auto at = others_.begin(); at != others_.end();) {
    if (at->second.owner == who) {
      work_.lost.push_back(at->first);
      at = others_.erase(at);
    } else {
      ++at;
    }
  }
  for (auto& [dead, owners] : asked_) owners.erase(who);
  if (const auto waits = asked_.extract(who)) {
    for (const node_number owner : waits.mapped()) answer(owner, who);
  }
  for (auto& [dead, who_waits] : asking_) who_waits.erase(who);
  if (forget_loans(who) || !doubts_.empty()) ask_of_the_dead();
  finish_asking();
}

// Whether anything it has lent is left, which may never have come to who should have it.
bool references::forget_loans(node_number of) {
  bool has_lent = false;
  for (auto& [thing, all] : mine_) {
    const auto had = std::erase_if(all, [&](const loan& one) { return one.borrower == of; });
    if (had != 0) doubts_.insert(thing);
    has_lent =
        has_lent || std::ranges::any_of(all, [&](const loan& one) { return one.lender == of; });
  }
  return has_lent;
}

void references::doubt(const base::id& thing) {
  doubts_.insert(thing);
  ask_of_the_dead();
  finish_asking();
}

void references::ask_of_the_dead() {
  for (const node_number dead : unasked_) {
    asking_[dead] = living_;
    for (const node_number one : living_) say(one, {saying::asks, {}, dead, 0});
  }
  unasked_.clear();
}

// What is here from `dead`, which can be no more from now on.
void references::answer(node_number owner, node_number dead) {
  for (const auto& [thing, known] : others_) {
    if (known.owner != owner) continue;
    const auto from = known.came.find(dead);
    if (from != known.came.end()) say(owner, {saying::holds, thing, dead, from->second});
  }
  say(owner, {saying::settled, {}, dead, 0});
}

void references::finish_asking() {
  for (auto at = asking_.begin(); at != asking_.end();) {
    const auto next = std::next(at);
    if (at->second.empty()) end_asking(at->first);
    at = next;
  }
  if (!asking_.empty()) return;
  const auto doubted = std::exchange(doubts_, {});
  for (const base::id& thing : doubted) free_if_unneeded(thing);
}

// Who lives has said what it has; of the rest nobody has anything.
void references::end_asking(node_number dead) {
  asking_.erase(dead);
  std::vector<base::id> emptied;
  for (auto& [thing, all] : mine_) {
    std::erase_if(all, [&](const loan& one) { return one.lender == dead && !one.is_said; });
    if (all.empty()) emptied.push_back(thing);
  }
  for (const base::id& thing : emptied) free_if_unneeded(thing);
}

}  // namespace manta::inline v0::own
