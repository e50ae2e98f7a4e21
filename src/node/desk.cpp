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

#include "spec/made_error.hpp"

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
  bool is_only_here = false;
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

desk::books::books(std::uint64_t generation) : has(generation << 32U), waits(has), others(1, 0) {}
desk::books::~books() = default;

desk& desk::global() {
  static auto* const made = new desk;
  return *made;
}

const spec::demand& desk::asked_by(const resource_claim& c) noexcept { return claim::of(c).asked; }
const placement& desk::place_of(const resource_claim& c) noexcept { return claim::of(c).where; }

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
    is_closed_ = false;
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
    send_where_granted(claim::of(*r));
    out.append(claim::of(*r));
    r = following;
  }
  return out;
}

// What other nodes have been granted of: the job's thread reads it when the gate lets it through.
void desk::send_where_granted(claim& c) const noexcept {
  if (c.forming != nullptr || !c.got.is_held || c.got.in != nullptr) return;
  const std::uint64_t node = books_->others[c.got.node];
  if (node != 0) c.elsewhere = {node, true, true};
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
    if (!may_grow_ || made->is_only_here) raise(errc::infeasible, *std::move(reason));
    warn_of(*reason);
  }
  made->caller = caller;
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
  sched::need own = c.what;
  own.stays = true;
  return books_->has.fits(own, c.where, sched::horizon::ever);
}

// Only what stays: all else was looked at when the call was made.
bool desk::can_never_be_given(claim& c) {
  const sched::ledger& has = books_->has;
  const bool is_sure = (has.node_count() == 1 && !may_grow_) || c.forming != nullptr ||
                       !c.what.stays || c.where.by == placement::rule::group;
  if (is_sure || has.fits(c.what, c.where, sched::horizon::ever)) return false;
  c.refusal = error(errc::infeasible,
                    has.infeasible(c.asked, c.where, true).value_or("asked for too much") +
                        "; this call, or one of its values, can't go to another node");
  return true;
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
  if (can_never_be_given(one)) return answer::refused;
  if (books_->waits.ask(one)) {
    list(one);
    send_where_granted(one);
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
      made->forming = &has.make_group(bundles, how, true);
      id = made->forming->id;
    }
    // Who has a place now can have one: the question is for the rest.
    if (made->forming == nullptr || !has.has_place(*made->forming, sched::horizon::now)) {
      if (auto reason = has.infeasible(bundles, how, true)) {
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
    out.append(refused_of(refused, [&reason](const claim&) -> const error& { return reason; }));
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

// ---- other nodes

void desk::open_to_others(leaver may_leave, bool may_grow) noexcept {
  resource_gate::global().look([&] {
    may_leave_ = may_leave;
    may_grow_ = may_grow;
  });
}

void desk::close_to_others() noexcept {
  resource_gate::global().change([&]() -> claim_list {
    may_leave_ = nullptr;
    may_grow_ = false;
    is_closed_ = true;
    if (books_ == nullptr) return {};
    for (const auto& [node, at] : books_->index) {
      books_->has.set(at, sched::ledger::standing::gone);
    }
    claim_list out = refuse_infeasible();
    out.append(claims_of(books_->waits.look_again()));
    return out;
  });
}

// What nobody can give any more, because its nodes are lost or this one's runtime ends.
claim_list desk::refuse_infeasible() noexcept {
  return refused_of(books_->waits.refuse_infeasible(), [this](const claim& c) {
    if (is_closed_) return exec::ended_error();
    return spec::made_error(errc::infeasible, [&] {
      return books_->has.infeasible(c.asked, c.where, c.what.stays).value_or("asked for too much");
    });
  });
}

template <class Why>
claim_list desk::refused_of(const sched::request_list& refused, Why&& why) noexcept {
  claim_list out;
  for (sched::request* r = refused.first; r != nullptr;) {
    sched::request* const following = r->next;
    claim& one = claim::of(*r);
    one.refusal = why(one);
    out.append(one);
    r = following;
  }
  return out;
}

// 0, which is this one, when it is not known.
sched::node_id desk::index_of(std::uint64_t other) const noexcept {
  if (books_ == nullptr) return 0;
  const auto found = books_->index.find(other);
  return found == books_->index.end() ? 0 : found->second;
}

std::vector<std::uint64_t> desk::see_others(const std::vector<other_node>& all) {
  using standing = sched::ledger::standing;
  std::vector<std::uint64_t> unknown;
  resource_gate::global().change([&]() -> claim_list {
    if (books_ == nullptr || is_closed_) return {};
    bool is_news = false;
    for (const other_node& one : all) {
      const sched::node_id at = index_of(one.node);
      if (at == 0) {
        unknown.push_back(one.node);
        continue;
      }
      const standing now = one.takes_work ? standing::gives : standing::rests;
      is_news = is_news || books_->has.of(at) != now;
      books_->has.set(at, now);
    }
    return is_news ? claims_of(books_->waits.look_again()) : claim_list{};
  });
  return unknown;
}

namespace {

bool has_few(const std::string& list) noexcept {
  constexpr std::ptrdiff_t most_keys = 256;
  return std::ranges::count(list, ',') < most_keys;
}

}  // namespace

// By its own word, so within what this node could have itself.
spec::demand desk::offer_of(const spec::node_introduction& who) {
  constexpr std::uint32_t most_workers = 1'000'000;
  constexpr std::uint32_t most_gpus = 1024;
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 53U;
  bundle out;
  out.cpus = std::min(who.workers, most_workers);
  out.gpus = std::min(who.gpus, most_gpus);
  out.memory_bytes = std::min(who.memory_bytes, most_bytes);
  if (!has_few(who.resources)) return spec::to_demand(out);
  if (auto said = spec::parse_resources(who.resources)) out.resources = *std::move(said);
  return spec::to_demand(out);
}

label_list desk::labels_of(const spec::node_introduction& who) {
  if (!has_few(who.labels)) return {};
  auto said = spec::parse_labels(who.labels);
  return said ? *std::move(said) : label_list{};
}

void desk::add_other(const other_node& one, const spec::node_introduction& who) {
  using standing = sched::ledger::standing;
  const spec::demand offer = offer_of(who);
  label_list labels = labels_of(who);
  resource_gate::global().change([&]() -> claim_list {
    if (books_ == nullptr || is_closed_ || index_of(one.node) != 0) return {};
    const auto noted = books_->index.emplace(one.node, 0).first;
    try {
      books_->others.reserve(books_->others.size() + 1);
      noted->second = books_->has.add_other(who.name, std::move(labels), offer);
    } catch (...) {
      books_->index.erase(noted);
      throw;
    }
    const sched::node_id at = noted->second;
    if (at == books_->others.size()) books_->others.push_back(0);
    books_->others[at] = one.node;
    books_->has.set(at, one.takes_work ? standing::gives : standing::rests);
    return claims_of(books_->waits.look_again());
  });
}

void desk::rest_other(std::uint64_t node) noexcept {
  resource_gate::global().look([&] {
    if (const sched::node_id at = index_of(node); at != 0) {
      books_->has.set(at, sched::ledger::standing::rests);
    }
  });
}

void desk::lose_other(std::uint64_t node) noexcept {
  resource_gate::global().change([&]() -> claim_list {
    const sched::node_id at = index_of(node);
    if (at == 0) return {};
    books_->has.set(at, sched::ledger::standing::gone);
    books_->others[at] = 0;
    books_->index.erase(node);
    claim_list out = may_grow_ ? claim_list{} : refuse_infeasible();
    // A wish that it could fulfil binds no more.
    out.append(claims_of(books_->waits.look_again()));
    return out;
  });
}

std::vector<std::uint64_t> desk::who_gives(const spec::demand& asked, const placement& where,
                                           sched::horizon when) {
  return resource_gate::global().look([&] {
    std::vector<std::uint64_t> out;
    if (books_ == nullptr) return out;
    for (const sched::node_id at : books_->has.who_gives(asked, where, when)) {
      if (at == 0 || books_->others[at] != 0) out.push_back(books_->others[at]);
    }
    return out;
  });
}

struct desk::loan {
  std::uint64_t generation = 0;
  sched::need what;
  sched::grant got;

  loan() = default;
  loan(const loan&) = delete;
  loan& operator=(const loan&) = delete;
  ~loan() {
    desk& of = desk::global();
    resource_gate::global().change([&]() -> claim_list {
      if (!got.is_held || generation != of.generation_) return {};
      of.books_->has.give(what, got);
      return of.claims_of(of.books_->waits.look_again());
    });
  }
};

std::shared_ptr<void> desk::lease(std::uint64_t node, const spec::demand& asked) {
  if (asked.is_empty()) return nullptr;
  auto made = std::make_shared<loan>();
  const bool is_given = resource_gate::global().look([&] {
    const sched::node_id at = index_of(node);
    if (at == 0 || !books_->has.knows(asked)) return false;
    made->generation = generation_;
    made->what = books_->has.translate(asked);
    made->got.gpus.reserve(sched::gpu_count(made->what.gpus));
    return books_->has.take_of(at, made->what, made->got);
  });
  return is_given ? made : nullptr;
}

void desk::check_here(const spec::demand& asked) const {
  resource_gate::global().look([&] {
    if (books_ == nullptr) return;
    if (auto reason = books_->has.infeasible(asked, {}, true)) {
      raise(errc::infeasible, *std::move(reason));
    }
  });
}

// ---- reports

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
