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

#include "node/errand.hpp"
#include "node/passed_job.hpp"
#include "node/placing.hpp"
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
        "channels, generators and tasks of isolated workers stay in their node; "
        "leave its place out, or pass plain values",
        readable_name(j.ops->function));
  });
}

}  // namespace

error trade::lost_with_node(const exec::job& of) noexcept {
  return spec::made_error(errc::node_lost, [&] {
    return fmt::format(
        "{}: the node that it was to run in is lost; call it again with another "
        "place, or as a wish: on_node(name, true)",
        readable_name(of.ops->function));
  });
}

std::uint64_t trade::place(const options& asked) {
  if (!is_open_.load()) return 0;
  const bool is_spread = asked.where.by == placement::rule::spread;
  const std::uint64_t to =
      is_spread ? next_in_turn() : node_named(*peers_.load(), is_open_, asked.where);
  if (to == 0) return 0;
  const bool is_isolated = goes_elsewhere(asked.isolation);
  if (!is_isolated && !asked.retry_exceptions) return to;
  if (is_spread || asked.where.is_soft) return 0;
  raise(errc::unsupported,
        fmt::format("where: asked for a task in {} with {}, which is not built yet; leave one of "
                    "the two out",
                    *asked.where.node, is_isolated ? "isolation = processes" : "retry_exceptions"));
}

// Each node as often as it has workers; 0: this one.
std::uint64_t trade::next_in_turn() {
  const std::vector<peers::member> others = peers_.load()->all();
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

// Users' values are written, and long ones wait: that is not for those who bring others' results.
void trade::take_placed(exec::job* j) noexcept {
  const peers* const by = peers_.load();
  if (!is_looker() && (by == nullptr || !by->is_loop())) return place_now(j);
  try {
    run_errand([this, j](bool /*runs*/) { place_now(j); });
  } catch (const std::bad_alloc&) {
    j->ops->cancel(j, error::out_of_memory());
  }
}

void trade::place_now(exec::job* j) noexcept {
  ++givers_;
  if (!j->try_claim()) {
    j->drop_entry();
  } else {
    error why = exec::ended_error();
    const bool is_gone = is_open_.load() && give_placed(j->extra()->claim->elsewhere.node, j, why);
    if (!is_gone) goes_nowhere(j, why);
  }
  --givers_;
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
    why = lost_with_node(*j);
    return false;
  }
  const outcome is = give_claimed(to, j, &why);
  if (is == outcome::given || is == outcome::gone) return true;
  if (is != outcome::full || j->extra()->retries_left > 0) return false;
  j->fail(why, 1);  // it may have left, and may run there
  return true;
}

// Of a claimed job that can't be where it was to go. A wish is one: it runs here then.
void trade::goes_nowhere(exec::job* j, const error& why) noexcept {
  exec::resource_claim& claim = *j->extra()->claim;
  const bool may_be_here = claim.elsewhere.is_soft && is_open_.load();
  if (!may_be_here) return j->fail(why, 1);
  try {
    claim.ask_here();
  } catch (...) {
    return j->fail(describe_current_exception(j->ops->function), 1);
  }
  if (comes_back(j, true)) exec::ready_task(j);
}

// What a node that is about to leave says is its own business.
error trade::why_not_there(const exec::job& j, const wire::result_view& came) noexcept {
  const auto* const said = std::get_if<wire::error_view>(&came.outcome);
  if (said == nullptr) return lost_with_node(j);
  error out = wire::to_error(*said);
  const errc is = out.code();
  const bool is_of_task = is == errc::infeasible || is == errc::unsupported ||
                          is == errc::store_full || is == errc::out_of_memory;
  return is_of_task ? out : lost_with_node(j);
}

// Of a job that was away, and may run once more. `why`: it can't there.
void trade::go_on_here(exec::job* j, const error& why) noexcept {
  if (!is_placed(*j)) {
    if (comes_back(j, true)) exec::executor::resume(j);
    return;
  }
  j->extra()->retries_left == 0 ? j->fail(why, 1) : goes_nowhere(j, why);
}

}  // namespace manta::inline v0::node
