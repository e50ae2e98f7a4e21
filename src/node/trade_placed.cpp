// SPDX-License-Identifier: Apache-2.0
// Tasks that say in which node they run: trade.hpp.
#include <new>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/node/carrier.hpp>

#include "node/desk.hpp"
#include "node/errand.hpp"
#include "node/link_times.hpp"
#include "node/note_run.hpp"
#include "node/passed_job.hpp"
#include "node/placing.hpp"
#include "node/surplus_data.hpp"
#include "node/trade.hpp"
#include "spec/made_error.hpp"
#include "wire/error_record.hpp"

namespace manta::inline v0::node {

namespace {

bool is_placed(const exec::job& j) noexcept {
  const exec::call_extra* const with = j.extra();
  return with != nullptr && with->claim != nullptr && with->claim->elsewhere.node != 0;
}

error stays_error(const exec::job& j) noexcept {
  return spec::made_error(errc::unsupported, [&] {
    return fmt::format(
        "{}: asked to run in another node, and it or its values can't go there: "
        "streams, permits, stop tokens and tasks of isolated workers stay in their node; "
        "leave its place out, or pass plain values",
        readable_name(j.ops->function));
  });
}

}  // namespace

error trade::lost_with_node(const exec::job& of) noexcept {
  const bool has_items = has_yielded(const_cast<exec::job&>(of));  // nothing is changed
  return spec::made_error(errc::node_lost, [&] {
    if (has_items) {
      return fmt::format(
          "{}: the node that ran it is lost; items of it were handed over before, so it is not run "
          "again: call it anew",
          readable_name(of.ops->function));
    }
    return fmt::format(
        "{}: the node that it was to run in is lost; call it again with another "
        "place, or as a wish: on_node(name, true)",
        readable_name(of.ops->function));
  });
}

// What asks for amounts is sent by who grants them, when it is ready; on_node asks there.
std::uint64_t trade::place(const options& asked, const spec::demand& what) {
  if (!is_open_.load()) return 0;
  const bool is_spread = asked.where.by == placement::rule::spread;
  const bool is_in_turn = is_spread && (what.is_empty() || !takes_offers());
  if (asked.where.by != placement::rule::node && !is_in_turn) {
    if (takes_offers()) await_offers(what, asked.where);
    return 0;
  }
  const std::uint64_t to =
      is_spread ? next_in_turn() : node_named(open_peers(peers_), is_open_, asked.where);
  if (to == 0) return 0;
  const bool is_isolated = goes_elsewhere(asked.isolation);
  if (!is_isolated && !asked.retry_exceptions) return to;
  if (is_spread || asked.where.is_soft) return 0;
  raise(errc::unsupported,
        fmt::format("where: asked for a task in {} with {}, which is not built yet; leave one of "
                    "the two out",
                    *asked.where.node, is_isolated ? "isolation = processes" : "retry_exceptions"));
}

// Of a job whose nodes are still joining the one that can give it may be among the missing.
void trade::await_offers(const spec::demand& what, const placement& where) const {
  if (joined_.load() >= expected_.load() || where.by == placement::rule::group) return;
  wait_for_node([&] {
    if (!is_open_.load() || joined_.load() >= expected_.load()) return true;
    return !desk::global().who_gives(what, where, sched::horizon::ever).empty();
  });
}

// A group lies better the more of them are there.
void trade::await_nodes() const {
  if (!takes_offers() || joined_.load() >= expected_.load()) return;
  wait_for_node([&] { return !is_open_.load() || joined_.load() >= expected_.load(); });
}

desk::departure trade::may_be_elsewhere(const exec::job& j) noexcept {
  using leave = desk::departure;
  constexpr std::uint64_t rare = exec::job_bits::stays | exec::job_bits::cancel;
  const exec::call_extra* const with = j.extra();
  if ((j.word() & rare) != 0 || with == nullptr || is_passed(&j) || !may_leave(j)) return leave::no;
  const bool is_bound = with->is_outside || with->losable || with->may_repeat() ||
                        with->isolation == isolation_mode::processes;
  if (is_bound) return leave::no;
  // This node comes first in any case. A lost one is not to be its end.
  return with->retries_left == 0 ? leave::if_it_must : leave::yes;
}

// Each node as often as it has workers; 0: this one.
std::uint64_t trade::next_in_turn() {
  const std::vector<peers::member> others = open_peers(peers_).all();
  std::uint64_t all = workers_;
  for (const peers::member& one : others) all += one.takes_work ? one.workers : 0;
  std::uint64_t at = places_++ % all;
  if (at < workers_) return 0;
  at -= workers_;
  for (const peers::member& one : others) {
    if (!one.takes_work) continue;
    if (at < one.workers) return one.epoch;
    at -= one.workers;
  }
  return 0;
}

// Users' values are written, and long ones wait: that is not for those who bring others' results,
// nor for who has let others through by ending.
void trade::take_placed(exec::job* j) noexcept {
  const bool waited = is_granted(*j);
  if (waited && leave_to_giver(j)) return;
  const peers* const by = peers_.load();
  if (!waited && !is_own_thread() && (by == nullptr || !by->is_loop())) return place_now(j);
  try {
    run_errand([this, j](bool /*runs*/) { place_now(j); });
  } catch (const std::bad_alloc&) {
    j->ops->cancel(j, error::out_of_memory());
  }
}

// It writes what goes of itself, too, while workers are at tasks that take long; what is on the
// disk it leaves to them. False: the caller's.
bool trade::leave_to_giver(exec::job* j) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!has_looker_) return false;
    granted_.push_back(j);
  } catch (const std::bad_alloc&) {
    return false;
  }
  giver_nap_.signal();
  return true;
}

void trade::place_granted() noexcept {
  std::vector<exec::job*> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(granted_);
  }
  for (exec::job* const j : all) place_now(j);
}

void trade::place_now(exec::job* j) noexcept {
  j->try_claim() ? place_claimed(j) : j->drop_entry();
}

void trade::place_claimed(exec::job* j) noexcept {
  ++givers_;
  error why = exec::ended_error();
  const bool is_gone = is_open_.load() && give_placed(j->extra()->claim->elsewhere.node, j, why);
  if (!is_gone) goes_nowhere(j, why);
  --givers_;
}

// False, and why not: the caller's.
bool trade::place_by_errand(exec::job* j, error& why) noexcept {
  try {
    run_errand([this, j](bool /*runs*/) { place_claimed(j); });
    return true;
  } catch (const std::bad_alloc&) {
    why = error::out_of_memory();
    return false;
  }
}

// False: it is the caller's, claimed as before.
bool trade::give_placed(std::uint64_t to, exec::job* j, error& why) noexcept {
  constexpr std::uint64_t unwanted = exec::job_bits::late | exec::job_bits::cancel;
  const bool is_unwanted = (j->word() & unwanted) != 0 || (exec::may_be_cancelled(j->parent) &&
                                                           exec::is_cancelled_caller(j->parent));
  why = stays_error(*j);
  if (is_passed(j) || !may_leave(*j)) return false;
  if (is_unwanted || carrier_of(j)->failure(j) != nullptr) {
    // It fails here, with that of its argument or as cancelled, which needs no place.
    if (comes_back(j, true)) exec::executor::resume(j);
    return true;
  }
  if (!peers_.load()->can_reach(to)) {
    desk::global().rest_other(to);
    why = lost_with_node(*j);
    return false;
  }
  const outcome is = give_claimed(to, j, &why);
  if (is == outcome::given || is == outcome::gone) return true;
  if (is == outcome::waits) return place_by_errand(j, why);
  if (is != outcome::full || j->extra()->retries_left > 0) return false;
  j->fail(why, 1);  // it may have left, and may run there
  return true;
}

// Of a claimed job that can't be where it was to go. A wish is one: others may run it then.
void trade::goes_nowhere(exec::job* j, const error& why, lost_run of) noexcept {
  exec::resource_claim& claim = *j->extra()->claim;
  // It may have been sent all the same, and have given items.
  const bool is_bundle = desk::place_of(claim).by == placement::rule::group;
  const bool may_run_here = claim.elsewhere.is_soft && is_open_.load() && !has_yielded(*j) &&
                            (!is_bundle || why.code() == errc::node_lost);
  if (!may_run_here) return j->fail(why, 1);
  try {
    asks_again(j, why);
  } catch (const infeasible&) {
    return j->fail(why, 1);  // only there it could be had
  } catch (...) {
    return j->fail(describe_current_exception(j->ops->function), 1);
  }
  if (of != lost_run::none) note_lost_run(*j, why);
  if (of == lost_run::charged) {
    --j->extra()->retries_left;
    ++j->extra()->attempt;
  }
  if (comes_back(j, why.code() != errc::node_lost)) exec::ready_task(j);
}

// Whose node is lost, or leaves, may go to a third one; what can't be sent stays here.
void trade::asks_again(exec::job* j, const error& why) {
  exec::call_extra& with = *j->extra();
  const bool is_lost = why.code() == errc::node_lost;
  if (is_lost) desk::global().rest_other(with.claim->elsewhere.node);
  with.claim->ask_again(!is_lost);
}

// Not on the loop's thread: what waited for them alone ends, and with it arguments of the user's.
void trade::forget_lost(const std::vector<lost_node>& nodes) const noexcept {
  const peers* const by = peers_.load();
  for (const lost_node& one : nodes) {
    surplus_data::global().lost(one.node);
    link_times::global().lost(one.node);
    // One that can't be reached from here may be again.
    if (by != nullptr && !by->has(one.node)) desk::global().lose_other(one.node);
  }
}

// What a node that is about to leave says is its own business.
error trade::why_not_there(const exec::job& j, const wire::result_view& came) noexcept {
  const auto* const said = std::get_if<wire::error_view>(&came.outcome);
  if (said == nullptr) return lost_with_node(j);
  error out = wire::to_error(*said);
  if (out.code() == errc::cancelled) return lost_with_node(j);
  // Else the maker of an array is lost that it reads, which says nothing of the node that says so:
  // who may go elsewhere for the loss of that has not lost it.
  const bool is_wish = is_placed(j) && j.extra()->claim->elsewhere.is_soft;
  const bool is_of_array =
      out.code() == errc::node_lost && out.message() != leaves_error().message();
  if (!is_wish || !is_of_array) return out;
  return spec::made_error(errc::object_lost, [&out] { return out.message(); });
}

// Of a job that was away, and may run once more. `why`: it can't there. With a lost node goes all
// that it had, begun or not: that is not known here.
void trade::go_on_here(exec::job* j, const error& why, lost_run of) noexcept {
  if (has_yielded(*j)) return j->fail(why, 1);
  if (!is_placed(*j)) {
    if (of != lost_run::none) note_lost_run(*j, why);
    if (comes_back(j, true)) exec::executor::resume(j);
    return;
  }
  if (j->extra()->retries_left == 0) return j->fail(why, 1);
  goes_nowhere(j, why, of);
}

}  // namespace manta::inline v0::node
