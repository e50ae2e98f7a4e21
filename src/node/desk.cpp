// SPDX-License-Identifier: Apache-2.0
#include "node/desk.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <manta/base/clock.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/context.hpp>
#include <manta/exec/executor.hpp>

namespace manta::inline v0::node {

namespace {

using exec::claim_list;
using exec::resource_claim;
using exec::resource_gate;

// Of each node, for itself.
constexpr const char* own_name = "local";

error removed_error(sched::group_id id) {
  return {errc::group_removed,
          fmt::format("asked for a part of placement group {}, which was removed; make a new one, "
                      "and remove it when its users have ended",
                      id & 0xffffffffU)};
}

}  // namespace

struct desk::claim final : exec::resource_claim, sched::request {
  claim() = default;
  struct of_others {};
  explicit claim(of_others /*mark*/) noexcept : resource_claim(given{}) {}

  std::uint64_t generation = 0;
  spec::demand asked;
  // Among what actors hold.
  claim* next_living = nullptr;
  claim* previous_living = nullptr;
  bool is_listed = false;

  const std::vector<int>& gpus() const noexcept override { return got.gpus; }

  static claim& of(exec::resource_claim& c) noexcept { return static_cast<claim&>(c); }
  static const claim& of(const exec::resource_claim& c) noexcept {
    return static_cast<const claim&>(c);
  }
  static claim& of(sched::request& r) noexcept { return static_cast<claim&>(r); }
  static const claim& of(const sched::request& r) noexcept { return static_cast<const claim&>(r); }
};

desk::books::books(std::uint64_t generation) : has(generation << 32U), waits(has) {}
desk::books::~books() = default;

desk& desk::global() {
  static auto* const made = new desk;
  return *made;
}

const spec::demand& desk::asked_by(const resource_claim& c) noexcept { return claim::of(c).asked; }
const placement& desk::place_of(const resource_claim& c) noexcept { return claim::of(c).where; }

void desk::open(const config& settings) {
  auto fresh = std::make_unique<books>(generation_ + 1);
  bundle capacity;
  capacity.cpus = settings.workers;
  capacity.gpus = settings.gpus;
  capacity.memory_bytes = static_cast<std::size_t>(settings.memory_bytes);
  if (settings.resources) capacity.resources = *settings.resources;
  fresh->has.add_node(own_name, settings.labels.value_or(label_list{}), spec::to_demand(capacity));
  resource_gate::global().look([&] {
    ++generation_;
    std::swap(books_, fresh);
  });
  resource_gate::global().open(this);
}

bool desk::is_current(const claim& c) const noexcept { return c.generation == generation_; }

claim_list desk::claims_of(const sched::request_list& granted) noexcept {
  claim_list out;
  for (sched::request* r = granted.first; r != nullptr;) {
    sched::request* const following = r->next;
    list(claim::of(*r));
    out.append(claim::of(*r));
    r = following;
  }
  return out;
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

// With a handle to each: an actor gives its claim back under the gate's lock, then its block goes.
std::vector<exec::actor_core*> desk::actors_in(const sched::group& g) const {
  std::vector<exec::actor_core*> out;
  const auto is_in = [&g](const claim& c) { return c.got.is_held && c.got.in == &g; };
  std::size_t count = 0;
  for (const claim* c = living_; c != nullptr; c = c->next_living) count += is_in(*c) ? 1 : 0;
  out.reserve(count);
  for (const claim* c = living_; c != nullptr; c = c->next_living) {
    if (is_in(*c) && c->holder->try_add_handle()) out.push_back(c->holder);
  }
  return out;
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
  made->what = has.translate(asked);
  made->where = where;
  if (made->where.node == own_name) made->where.node = has.node_name(0);
  if (auto reason = has.infeasible(asked, made->where)) raise(errc::infeasible, *std::move(reason));
  made->caller = caller;
  made->is_for_life = is_for_life;
  made->generation = generation_;
  made->asked = asked;
  return made;
}

std::unique_ptr<resource_claim> desk::note(const spec::demand& asked) {
  auto made = std::make_unique<claim>(claim::of_others{});
  made->generation = generation_;
  made->asked = asked;
  return made;
}

void desk::ask_here(resource_claim& c, std::uint64_t caller) {
  claim& one = claim::of(c);
  sched::ledger& has = books_->has;
  if (auto reason = has.infeasible(one.asked, {})) raise(errc::infeasible, *std::move(reason));
  one.what = has.translate(one.asked);
  one.caller = caller;
  one.generation = generation_;
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
  if (books_->waits.ask(one)) {
    list(one);
    return answer::granted;
  }
  c.since = base::now();
  return answer::waits;
}

claim_list desk::leave(resource_claim& c) noexcept {
  claim& one = claim::of(c);
  unlist(one);
  if (!is_current(one)) return {};
  if (one.now == sched::request::state::waiting) return claims_of(books_->waits.withdraw(one));
  return claims_of(books_->waits.give(one));
}

claim_list desk::lend(resource_claim& c) noexcept {
  claim& one = claim::of(c);
  return is_current(one) ? claims_of(books_->waits.lend(one)) : claim_list{};
}

void desk::take_back(resource_claim& c) noexcept {
  claim& one = claim::of(c);
  if (is_current(one)) books_->waits.take_back(one);
}

resource_claim* desk::take_waiting() noexcept {
  sched::request* const r = books_ == nullptr ? nullptr : books_->waits.take_first();
  return r == nullptr ? nullptr : &claim::of(*r);
}

std::unique_ptr<resource_claim> desk::make_group(std::vector<spec::demand> bundles, strategy how,
                                                 sched::group_id& id) {
  const std::uint64_t caller = exec::caller_serial();
  return resource_gate::global().look([&]() -> std::unique_ptr<resource_claim> {
    sched::ledger& has = books_->has;
    auto made = std::make_unique<claim>();
    if (std::all_of(bundles.begin(), bundles.end(), [&](const auto& b) { return has.knows(b); })) {
      made->forming = &has.make_group(bundles, how);
      id = made->forming->id;
    }
    // Who has a place now can have one: the question is for the rest.
    if (made->forming == nullptr || !has.has_place(*made->forming, sched::horizon::now)) {
      if (auto reason = has.infeasible(bundles, how)) {
        if (made->forming != nullptr) has.remove(*made->forming);
        raise(errc::infeasible, *std::move(reason));
      }
    }
    made->caller = caller;
    made->generation = generation_;
    return made;
  });
}

bool desk::remove_group(sched::group_id id) {
  const error reason = removed_error(id);
  bool was_there = false;
  std::vector<exec::actor_core*> actors;
  resource_gate::global().change([&]() -> claim_list {
    if (books_ == nullptr) return {};
    sched::group* const g = books_->has.find_group(id);
    if (g == nullptr) return {};
    was_there = true;
    actors = actors_in(*g);
    sched::request_list refused;
    const sched::request_list granted = books_->waits.remove(*g, refused);
    claim_list out = claims_of(granted);
    for (sched::request* r = refused.first; r != nullptr;) {
      sched::request* const following = r->next;
      claim::of(*r).refusal = reason;
      out.append(claim::of(*r));
      r = following;
    }
    return out;
  });
  bool is_short = false;
  for (exec::actor_core* const a : actors) {
    try {
      a->kill();
    } catch (const std::bad_alloc&) {
      is_short = true;
    }
    a->drop_handle();
  }
  if (is_short) throw std::bad_alloc();
  return was_there;
}

std::vector<demand_report> desk::unmet() const {
  std::vector<demand_report> out;
  const base::time_point now = base::now();
  resource_gate::global().look([&] {
    if (books_ == nullptr) return;
    std::vector<const claim*> shapes;  // one claim for each report
    books_->waits.each_waiting([&](const sched::request& r) {
      const claim& one = claim::of(r);
      const auto same = [&one](const claim* c) {
        return c->forming == one.forming && c->asked == one.asked && c->where == one.where;
      };
      const auto at = std::find_if(shapes.begin(), shapes.end(), same);
      const auto index = static_cast<std::size_t>(at - shapes.begin());
      if (at == shapes.end()) {
        shapes.push_back(&one);
        demand_report& made = out.emplace_back();
        made.where = one.where;
        made.is_group = one.forming != nullptr;
        if (!made.is_group) {
          made.bundles.push_back(spec::to_bundle(one.asked));
        } else {
          made.how = one.forming->how;
          for (const auto& b : one.forming->shown) made.bundles.push_back(spec::to_bundle(b));
        }
      }
      ++out[index].count;
      out[index].longest_wait = std::max(out[index].longest_wait, duration(now - one.since));
    });
  });
  return out;
}

resource_report desk::report() const {
  return resource_gate::global().look(
      [&] { return books_ == nullptr ? resource_report{} : books_->has.report(); });
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
