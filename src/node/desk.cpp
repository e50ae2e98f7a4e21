// SPDX-License-Identifier: Apache-2.0
#include "node/desk.hpp"

#include <algorithm>
#include <cstdio>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <manta/base/clock.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/context.hpp>
#include <manta/exec/executor.hpp>

#include "node/desk_books.hpp"
#include "node/workbench.hpp"
#include "spec/made_error.hpp"

namespace manta::inline v0::node {

namespace {

using exec::claim_list;
using exec::resource_claim;
using exec::resource_gate;

// Of each node, for itself.
constexpr const char* own_name = "local";

}  // namespace

error removed_error(sched::group_id id) {
  return {errc::group_removed,
          fmt::format("asked for a part of placement group {}, which was removed; make a new one, "
                      "and remove it when its users have ended",
                      id & 0xffffffffU)};
}

desk::books::books(std::uint64_t generation)
    : has(generation << 32U), waits(has), others(1, 0), groups(has, waits, others) {}
desk::books::~books() = default;

desk& desk::global() {
  static auto* const made = new desk;
  return *made;
}

const spec::demand& desk::asked_by(const resource_claim& c) noexcept { return claim::of(c).asked; }
const placement& desk::place_of(const resource_claim& c) noexcept {
  const claim& one = claim::of(c);
  const bool is_told = one.elsewhere.node != 0 && one.there.by == placement::rule::group;
  return is_told ? one.there : one.where;
}

void desk::open(const config& settings, int first_gpu) {
  auto fresh = std::make_unique<books>(generation_ + 1);
  bundle capacity;
  capacity.cpus = settings.workers;
  capacity.gpus = settings.gpus;
  capacity.memory_bytes = static_cast<std::size_t>(settings.memory_bytes);
  if (settings.resources) capacity.resources = *settings.resources;
  fresh->has.add_node(own_name, settings.labels.value_or(label_list{}), spec::to_demand(capacity),
                      first_gpu);
  resource_gate::global().look([&] {
    ++generation_;
    chance_ = base::chance::of_now();
    is_closed_ = false;
    is_leaving_ = false;
    fresh->groups.others_may_join(may_grow_);
    std::swap(books_, fresh);
  });
  resource_gate::global().open(this);
}

bool desk::is_current(const claim& c) const noexcept { return c.generation == generation_; }

// A group that asks other nodes goes on when they have said yes.
claim_list desk::claims_of(const sched::request_list& granted) noexcept {
  return follow({.through = books_->groups.let_through(granted), .hopeless = {}});
}

// What other nodes have been granted of: the job's thread reads it when the gate lets it through.
void desk::send_where_granted(claim& c) const noexcept {
  if (c.forming != nullptr || !c.got.is_held) return;
  const std::uint64_t node = books_->others[c.got.node];
  if (node == 0) return;
  c.elsewhere = {node, true, true};
  if (c.got.in == nullptr) return;
  c.there.by = placement::rule::group;
  c.there.group = c.got.in->places[c.got.bundle].booking;
  c.there.bundle = static_cast<int>(c.got.bundle);
}

void desk::list(claim& c) noexcept {
  if (c.holder == nullptr) return;
  c.is_listed = true;
  c.previous_living = nullptr;
  c.next_living = living_;
  if (living_ != nullptr) living_->previous_living = &c;
  living_ = &c;
}

void desk::unlist(claim& c) noexcept {
  if (!c.is_listed) return;
  c.is_listed = false;
  (c.previous_living == nullptr ? living_ : c.previous_living->next_living) = c.next_living;
  if (c.next_living != nullptr) c.next_living->previous_living = c.previous_living;
}

std::unique_ptr<resource_claim> desk::prepare(const spec::demand& asked, const placement& where,
                                              std::uint64_t caller, bool is_for_life) {
  sched::ledger& has = books_->has;
  if (where.by == placement::rule::group) {
    const sched::group* const g = has.find_group(where.group);
    if (g == nullptr) removed_error(where.group).raise();
    if (where.bundle < -1 || where.bundle >= static_cast<int>(g->bundles.size())) {
      raise(errc::invalid_argument,
            fmt::format("in_group: asked bundle {}, the placement group has {}; indices start at "
                        "0, -1 is any",
                        where.bundle, g->bundles.size()));
    }
  }
  auto made = std::make_unique<claim>();
  if (may_grow_) has.learn(asked);
  made->what = has.translate(asked);
  // Who named a node, or had its turn, was asked before where that is.
  made->is_only_here = is_for_life || where.by == placement::rule::node ||
                       (where.by == placement::rule::spread && asked.is_empty());
  made->what.stays = made->is_only_here;
  made->where = where;
  if (made->where.node == own_name) made->where.node = has.node_name(0);
  if (auto reason = has.infeasible(asked, made->where, made->is_only_here)) {
    if (is_closed_) exec::ended_error().raise();
    const bool is_final = made->is_only_here || where.by == placement::rule::group;
    if (!may_grow_ || is_final) raise(errc::infeasible, *std::move(reason));
    warn_of(*reason);
  }
  made->caller = caller;
  made->from = neutral_caller::node_in(caller);
  made->is_for_life = is_for_life;
  made->generation = generation_;
  made->asked = asked;
  return made;
}

std::unique_ptr<resource_claim> desk::note(const spec::demand& asked) {
  auto made = std::make_unique<claim>(claim::of_others{});
  made->is_only_here = true;  // when it comes back
  made->generation = generation_;
  made->asked = asked;
  return made;
}

void desk::ask_again(resource_claim& c, std::uint64_t caller, bool here) {
  claim& one = claim::of(c);
  sched::ledger& has = books_->has;
  one.is_only_here = one.is_only_here || here;
  if (auto reason = has.infeasible(one.asked, one.where, one.is_only_here)) {
    if (!may_grow_ || one.is_only_here) raise(errc::infeasible, *std::move(reason));
    warn_of(*reason);
  }
  one.what = has.translate(one.asked);
  one.caller = caller;
  one.generation = generation_;
}

// Its job is known by now. What is for an actor is asked where that lives.
bool desk::stays(const claim& c) const noexcept {
  const exec::job* const j = c.asked_by();
  const bool is_bound = c.is_only_here || c.holder != nullptr || c.forming != nullptr;
  if (is_bound || j == nullptr || may_leave_ == nullptr) return true;
  const departure is = may_leave_(*j);
  if (is != departure::if_it_must) return is == departure::no;
  if (c.where.by == placement::rule::group) return false;  // it is where its bundle is
  return books_->has.gives_here(c.what, c.where, sched::horizon::ever);
}

// Only what stays: all else was looked at when the call was made.
bool desk::can_never_be_given(claim& c) {
  const sched::ledger& has = books_->has;
  const bool is_sure =
      (has.node_count() == 1 && !may_grow_) || c.forming != nullptr || !c.what.stays;
  if (is_sure || has.fits(c.what, c.where, sched::horizon::ever)) return false;
  c.refusal = error(errc::infeasible, why_never(c));
  return true;
}

std::string desk::why_never(const claim& c) const {
  const sched::ledger& has = books_->has;
  if (c.forming != nullptr) {
    return has.infeasible(c.forming->shown, c.forming->how).value_or("asked for too much");
  }
  std::string out = has.infeasible(c.asked, c.where, c.what.stays).value_or("asked for too much");
  const bool may_leave = !c.what.stays || (has.node_count() == 1 && !may_grow_);
  return may_leave ? out : out + "; this call, or one of its values, can't go to another node";
}

void desk::warn_of(const std::string& reason) {
  constexpr std::size_t most_warnings = 64;
  if (books_->warned.size() >= most_warnings || !books_->warned.insert(reason).second) return;
  std::fprintf(stderr, "manta: a task waits for a node that joins: %s\n", reason.c_str());
}

desk::answer desk::ask(resource_claim& c) {
  claim& one = claim::of(c);
  if (!is_current(one)) {
    c.refusal = exec::ended_error();
    return answer::refused;
  }
  const bool is_in_group = one.where.by == placement::rule::group;
  if (is_in_group && books_->has.find_group(one.where.group) == nullptr) {
    c.refusal = removed_error(one.where.group);
    return answer::refused;
  }
  one.what.stays = stays(one);
  const bool has_choice =
      !one.what.stays && !is_in_group && one.where.by != placement::rule::spread;
  const auto look_at_data = [&] { one.near = index_of(data_of_(*one.asked_by())); };
  // As far as it is not reserved for others. One with a soft wish may go to others all the same.
  const auto is_free_here = [&] {
    return !one.where.is_soft && books_->has.gives_here(one.what, one.where, sched::horizon::now);
  };
  one.near = 0;
  // What is granted here needs no look at its arrays.
  const bool looks_later = has_choice && is_free_here();
  if (has_choice && !looks_later) look_at_data();
  if (can_never_be_given(one)) return answer::refused;
  if (books_->waits.ask(one)) {
    if (books_->groups.asks(one)) {
      wake_if_news();
      c.since = base::now();
      return answer::waits;
    }
    list(one);
    send_where_granted(one);
    return answer::granted;
  }
  if (looks_later) look_at_data();  // it is reserved for others
  c.since = base::now();
  return answer::waits;
}

claim_list desk::leave(resource_claim& c) noexcept {
  claim& one = claim::of(c);
  unlist(one);
  if (!is_current(one)) return {};
  if (one.got.is_lent) note_lent(one, -1);
  if (one.now == sched::request::state::waiting) return claims_of(books_->waits.withdraw(one));
  return claims_of(books_->waits.give(one));
}

claim_list desk::lend(resource_claim& c) noexcept {
  claim& one = claim::of(c);
  if (!is_current(one)) return {};
  const bool was_lent = one.got.is_lent;
  claim_list out = claims_of(books_->waits.lend(one));
  if (one.got.is_lent && !was_lent) note_lent(one, 1);
  return out;
}

void desk::take_back(resource_claim& c) noexcept {
  claim& one = claim::of(c);
  if (!is_current(one)) return;
  if (one.got.is_lent) note_lent(one, -1);
  books_->waits.take_back(one);
}

resource_claim* desk::take_waiting() noexcept {
  if (books_ == nullptr) return nullptr;
  if (sched::request* const r = books_->waits.take_first()) return &claim::of(*r);
  sched::request* const r = books_->groups.take_first();
  return r == nullptr ? nullptr : &claim::of(*r);
}

// ---- reports

// In line, or in none: a group for which nodes are asked, or that rests.
template <class Each>
void desk::each_waiting(Each&& each) const {
  books_->waits.each_waiting([&](const sched::request& r) { each(claim::of(r)); });
  for (const auto& [id, f] : books_->groups.all()) {
    if (f.by != nullptr) each(claim::of(*f.by));
  }
}

std::vector<demand_report> desk::unmet() const {
  std::vector<demand_report> out;
  const base::time_point now = base::now();
  resource_gate::global().look([&] {
    if (books_ == nullptr) return;
    std::vector<const claim*> shapes;  // one claim for each report
    each_waiting([&](const claim& one) {
      const auto same = [&one](const claim* c) {
        return c->forming == one.forming && c->asked == one.asked && c->where == one.where;
      };
      const auto at = std::find_if(shapes.begin(), shapes.end(), same);
      const auto index = static_cast<std::size_t>(at - shapes.begin());
      if (at == shapes.end()) {
        shapes.push_back(&one);
        out.push_back(report_of(one));
      }
      ++out[index].count;
      out[index].longest_wait = std::max(out[index].longest_wait, duration(now - one.since));
    });
  });
  return out;
}

demand_report desk::report_of(const claim& one) {
  demand_report out;
  out.where = one.where;
  out.is_group = one.forming != nullptr;
  if (!out.is_group) {
    out.bundles.push_back(spec::to_bundle(one.asked));
  } else {
    out.how = one.forming->how;
    for (const auto& b : one.forming->shown) out.bundles.push_back(spec::to_bundle(b));
  }
  return out;
}

resource_report desk::report() const {
  return resource_gate::global().look(
      [&] { return books_ == nullptr ? resource_report{} : books_->has.report(); });
}

label_list desk::labels() const {
  return resource_gate::global().look(
      [&] { return books_ == nullptr ? label_list{} : books_->has.labels(0); });
}

std::string desk::node_name() const {
  return resource_gate::global().look(
      [&] { return books_ == nullptr ? std::string(own_name) : books_->has.node_name(0); });
}

void desk::call_node(std::string name) {
  resource_gate::global().look([&] {
    if (books_ != nullptr) books_->has.rename(0, std::move(name));
  });
}

}  // namespace manta::inline v0::node
