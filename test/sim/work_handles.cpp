// SPDX-License-Identifier: Apache-2.0
#include "sim/work_handles.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>

#include <fmt/format.h>

#include "node/far_ids.hpp"

namespace sim::work {

using manta::own::saying;
using manta::spec::reference;
using told = entry::what;

namespace {

node_number owner_of(const id& thing) { return thing.high & ~(std::uint64_t{1} << 62U); }
// As the log has it.
std::uint64_t name_of(const id& thing) { return owner_of(thing) << 32U | thing.low; }

}  // namespace

id handles::make() {
  const id out = manta::node::far_array_id(of_.self, of_.next_request(topic::task).low);
  ++all_[out].kept;
  of_.note({.is = told::made, .thing = name_of(out)});
  return out;
}

std::size_t handles::held() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(all_, [](const auto& one) { return one.second.kept > 0; }));
}

id handles::any() const {
  std::size_t at = of_.random().below(held());
  for (const auto& [thing, has] : all_) {
    if (has.kept > 0 && at-- == 0) return thing;
  }
  return {};
}

void handles::pin(const id& thing) {
  ++all_[thing].pinned;
  of_.note({.is = told::copied, .thing = name_of(thing)});
}

void handles::drop(const id& thing) { drop_one(thing, &holders::kept); }
void handles::unpin(const id& thing) { drop_one(thing, &holders::pinned); }

void handles::drop_one(const id& thing, std::uint32_t holders::*of) {
  --(all_.at(thing).*of);
  of_.note({.is = told::dropped, .thing = name_of(thing)});
  let_go(thing);
}

void handles::drop_all() {
  const auto all = all_;
  for (const auto& [thing, has] : all) {
    for (std::uint32_t i = 0; i < has.kept; ++i) drop(thing);
  }
}

void handles::let_go(const id& thing) {
  const auto found = all_.find(thing);
  if (found == all_.end()) return;
  if (of_.in.is(plant::unread_not_held)) found->second.unread = 0;
  if (!found->second.is_none()) return;
  if (owner_of(thing) == of_.self) return free_if_unneeded(thing);
  all_.erase(found);
  refs_.drop(thing);
  say();
}

void handles::free_if_unneeded(const id& thing) {
  const auto found = all_.find(thing);
  if (found == all_.end() || !found->second.is_none()) return;
  if (refs_.is_lent(thing)) return;
  all_.erase(found);
  of_.note({.is = told::freed, .thing = name_of(thing)});
}

// ---- messages with handles

std::vector<reference> handles::written(const std::vector<id>& things) {
  std::vector<reference> out;
  for (const id& one : things) {
    out.push_back({.what = one,
                   .owner = {owner_of(one), 0},
                   .type = 5,
                   .kind = manta::spec::reference_kind::array});
  }
  return out;
}

void handles::send(node_number to, id request, std::span<const reference> all) {
  if (!all.empty()) {
    request.high |= manta::node::peers::with_handles;
    for (const reference& one : all) {
      refs_.lend(one.what, one.owner.high, to);
      of_.note({.is = told::lent, .other = to, .thing = name_of(one.what), .number = request.low});
    }
    say();
  }
  of_.mail.send(to, request, of_.writer);
}

handles::arrivals handles::came(node_number from, const id& request,
                                std::span<const reference> all) {
  arrivals out;
  for (const reference& one : all) {
    const node_number owner = one.owner.high;
    of_.note({.is = told::got, .other = from, .thing = name_of(one.what), .number = request.low});
    const bool counts = owner == of_.self || refs_.came(one.what, owner, from);
    if (counts) ++all_[one.what].unread;
    out.push_back({one.what, counts});
  }
  return out;
}

void handles::read(const arrivals& all, bool keeps) {
  for (const arrival& one : all) {
    holders& has = all_[one.thing];
    if (keeps) ++has.kept;
    const bool is_forgotten = !keeps && of_.in.is(plant::unread_forgotten);
    if (one.is_counted && has.unread > 0 && !is_forgotten) --has.unread;
    if (!keeps) of_.note({.is = told::dropped, .thing = name_of(one.thing)});
    let_go(one.thing);
  }
}

// ---- what is said of them

void handles::hear(node_number from, const manta::wire::ask_view& said) {
  for (const note& one : manta::codec::decode<std::vector<note>>(said.with)) {
    const bool is_early = one.what == saying::asks && of_.mail.has(one.peer);
    if (is_early && of_.in.is(plant::settles_early)) {
      tell(from, {{saying::settled, {}, one.peer, 0}});
    } else {
      refs_.hear(from, one);
    }
  }
  say();
}

void handles::gone(node_number who) {
  if (!of_.in.is(plant::dead_counts_kept)) refs_.gone(who);
  say();
}

// False: it is not said now.
bool handles::change(node_number to, note& one) {
  const auto is = [this](plant broken) { return of_.in.is(broken); };
  if (one.what == saying::lent && is(plant::loans_not_told)) return false;
  if (one.what == saying::lent && is(plant::loans_told_late)) {
    of_.later(std::chrono::milliseconds(30), [this, to, one] { tell(to, {one}); });
    return false;
  }
  if (one.what == saying::holds && is(plant::holds_without_count)) one.count = 0;
  if (one.what == saying::released && one.count > 1 && is(plant::releases_too_few)) one.count = 1;
  return true;
}

void handles::say() {
  manta::own::references::work todo = refs_.take();
  std::map<node_number, std::vector<note>> by_node;
  for (auto& [to, one] : todo.notes) {
    if (change(to, one)) by_node[to].push_back(one);
  }
  for (const auto& [to, notes] : by_node) tell(to, notes);
  for (const id& one : todo.freed) free_if_unneeded(one);
}

void handles::tell(node_number to, const std::vector<note>& notes) {
  const id request = of_.next_request(topic::references);
  of_.out.clear();
  const manta::wire::ask_view said{manta::wire::question::references,
                                   manta::codec::encode(of_.out, notes)};
  if (writer_.write({request, of_.self, 0}, said)) of_.mail.send(to, request, writer_);
}

std::string handles::left() const {
  if (all_.empty() && refs_.lent() == 0 && refs_.borrowed() == 0 && !refs_.is_in_doubt()) return {};
  return fmt::format("{} handles; {} lent, {} borrowed{}", all_.size(), refs_.lent(),
                     refs_.borrowed(), refs_.is_in_doubt() ? ", in doubt" : "");
}

}  // namespace sim::work
