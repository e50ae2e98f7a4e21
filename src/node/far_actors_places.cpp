// SPDX-License-Identifier: Apache-2.0
// Where an actor is to live: far_actors.hpp.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>

#include "node/desk.hpp"
#include "node/far_actors.hpp"
#include "node/looking.hpp"
#include "node/placing.hpp"
#include "node/trade.hpp"
#include "sched/places.hpp"
#include "wire/views.hpp"

namespace manta::inline v0::node {

std::uint64_t far_actors::place(const actor_options* asked) {
  if (!is_open_.load()) return 0;
  const bool has_wish = asked != nullptr;
  const placement::rule by = has_wish ? asked->where.by : placement::rule::anywhere;
  const spec::demand what = has_wish ? spec::to_demand(*asked) : spec::demand{};
  const bool asks =
      by == placement::rule::labels || (!what.is_empty() && by != placement::rule::group);
  std::uint64_t to = 0;
  if (by == placement::rule::node) {
    to = named_node_that_gives(what, asked->where);
  } else if (by == placement::rule::anywhere && takes_all_) {
    to = open_peers(peers_).any(turn_++);
    if (why_never_there(to, what).has_value()) to = 0;
  } else if (by == placement::rule::group && trade::global().takes_offers()) {
    to = node_in_group(what, asked->where);
  } else if (asks && trade::global().takes_offers()) {
    to = node_that_gives(what, asked->where);
  } else if (by == placement::rule::spread) {
    to = least_full_node({});
  }
  const bool is_isolated = has_wish && asked->isolation.has_value()
                               ? *asked->isolation == isolation_mode::processes
                               : exec::sends_all();
  if (to != 0 && has_wish && has_too_many_groups(*asked)) {
    if (may_stay_at_home(what, asked->where, asks)) return 0;
    // One that lives is found with however many.
    if (!asked->get_if_exists) check_groups_elsewhere(*asked);
  }
  if (to == 0 || !is_isolated) return to;
  if (by == placement::rule::group) {
    raise(errc::unsupported,
          "where: asked for an actor in an isolated worker in a bundle that another node has; "
          "isolated workers have actors of their own node only; use isolation = threads for it");
  }
  if (by != placement::rule::node || asked->where.is_soft) return 0;
  raise(errc::unsupported,
        fmt::format("where: asked for an actor in an isolated worker of {}; isolated workers have "
                    "actors of their own node only; use isolation = threads for it",
                    *asked->where.node));
}

// Whether this node can have it now or later, wherever there is room at the moment.
bool far_actors::may_stay_at_home(const spec::demand& what, const placement& where, bool asks) {
  if (where.by == placement::rule::group) return false;
  if (where.by == placement::rule::node) return where.is_soft;
  if (!asks) return true;
  return desk::global().gives_here(what, where);
}

// What it can never give is said here, as this node's is: a construction there would end without
// its actor.
std::uint64_t far_actors::named_node_that_gives(const spec::demand& what, const placement& where) {
  const std::uint64_t to = node_named(open_peers(peers_), is_open_, where);
  if (to == 0) return 0;
  auto why = why_never_there(to, what);
  if (!why.has_value()) return to;
  if (!where.is_soft) raise(errc::infeasible, *std::move(why));
  return trade::global().takes_offers() ? node_that_gives(what, where) : 0;
}

std::optional<std::string> far_actors::why_never_there(std::uint64_t node,
                                                       const spec::demand& what) const {
  if (node == 0 || what.is_empty()) return std::nullopt;
  return desk::why_never_there(open_peers(peers_).introduction_of(node), what);
}

// One of them in a message is that of calls that name none.
bool far_actors::has_too_many_groups(const actor_options& asked) noexcept {
  return asked.groups.size() >= wire::limits::groups;
}

void far_actors::check_groups_elsewhere(const actor_options& asked) {
  if (!has_too_many_groups(asked)) return;
  raise(errc::unsupported,
        fmt::format("option groups: asked {} for an actor that is to live in another node or an "
                    "isolated worker, where it has {} at most; give it fewer, or have it in this "
                    "node with isolation = threads",
                    asked.groups.size(), wire::limits::groups - 1));
}

// Waits until the group has its place.
std::uint64_t far_actors::node_in_group(const spec::demand& what, const placement& where) const {
  std::optional<std::uint64_t> found;
  look_until({}, [&] {
    if (!is_open_.load()) exec::ended_error().raise();
    found = desk::global().node_in_group(what, where);
    return found.has_value();
  });
  return found.value_or(0);
}

// This one, when it has it now, unless they are to lie spread; else one that has it, by what is
// known here; else one that will. None: this one says why.
std::uint64_t far_actors::node_that_gives(const spec::demand& what, const placement& where) {
  trade::global().await_offers(what, where);
  const bool is_spread = where.by == placement::rule::spread;
  for (const sched::horizon when : {sched::horizon::now, sched::horizon::ever}) {
    const std::vector<std::uint64_t> all = desk::global().who_gives(what, where, when);
    if (all.empty()) continue;
    return !is_spread && all.front() == 0 ? 0 : least_full_node(all);
  }
  return 0;
}

// Of those; none: of all.
std::uint64_t far_actors::least_full_node(const std::vector<std::uint64_t>& among) {
  const auto is_meant = [&among](std::uint64_t node) {
    return among.empty() || std::ranges::find(among, node) != among.end();
  };
  std::vector<sched::place> places;
  std::vector<std::uint64_t> nodes;
  const std::vector<peers::member> others = open_peers(peers_).all();
  const std::size_t here = exec::actor_core::alive();  // and the cores of those elsewhere
  const std::lock_guard lock(mutex_);
  if (is_meant(0)) {
    const std::size_t own = here > notes_.size() ? here - notes_.size() : 0;
    places.push_back({.workers = workers_, .actors = static_cast<std::uint32_t>(own)});
    nodes.push_back(0);
  }
  for (const peers::member& one : others) {
    if (!one.takes_actors || !is_meant(one.epoch)) continue;
    const auto found = living_.find(one.epoch);
    places.push_back({.workers = one.workers,
                      .actors = found == living_.end() ? 0 : found->second,
                      .queued = one.load.queued});
    nodes.push_back(one.epoch);
  }
  if (!places.empty()) return nodes[sched::least_full(places)];
  return among.empty() ? 0 : among.front();  // it does not answer for now, and lives
}

}  // namespace manta::inline v0::node
