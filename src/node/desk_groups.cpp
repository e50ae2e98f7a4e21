// SPDX-License-Identifier: Apache-2.0
// Placement groups of this node, whose bundles may lie in others: desk.hpp, bookings.hpp.
//
// What a group's steps are decides sched/group_steps.hpp; here is what follows from them: claims
// that go on or are refused, letters, and how long a rest lasts.
#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include <manta/exec/actor_core.hpp>
#include <manta/exec/context.hpp>

#include "node/desk.hpp"
#include "node/desk_books.hpp"
#include "spec/made_error.hpp"

namespace manta::inline v0::node {

using exec::claim_list;
using exec::resource_claim;
using exec::resource_gate;

namespace {

// Whether there may be letters, and when there are at the latest: so that turns of the loop without
// any don't take the gate's lock. The second is the loop's thread's.
constinit std::atomic<bool> is_due{false};
base::deadline due_at;

constexpr duration until_memory_for_letters = std::chrono::milliseconds(10);

}  // namespace

std::unique_ptr<resource_claim> desk::make_group(std::vector<spec::demand> bundles, strategy how,
                                                 bool stays, sched::group_id& id) {
  const std::uint64_t caller = exec::caller_serial();
  return resource_gate::global().look([&]() -> std::unique_ptr<resource_claim> {
    sched::ledger& has = books_->has;
    const bool may_come = may_grow_ && !stays;
    auto made = std::make_unique<claim>();
    if (may_come) {
      for (const spec::demand& b : bundles) has.learn(b);
    }
    if (std::all_of(bundles.begin(), bundles.end(), [&](const auto& b) { return has.knows(b); })) {
      made->forming = &has.make_group(bundles, how, stays);
      id = made->forming->id;
    }
    // Who has a place now can have one: the question is for the rest.
    if (made->forming == nullptr || !has.has_place(*made->forming, sched::horizon::now)) {
      if (auto reason = has.infeasible(bundles, how, stays)) {
        if (!may_come || made->forming == nullptr) {
          if (made->forming != nullptr) has.remove(*made->forming);
          raise(errc::infeasible, *std::move(reason));
        }
        warn_of(*reason);
      }
    }
    try {
      if (!stays) books_->groups.add(id);
    } catch (...) {
      has.remove(*made->forming);
      throw;
    }
    made->caller = caller;
    made->generation = generation_;
    return made;
  });
}

void desk::wake() const noexcept {
  is_due.store(true);
  if (wake_ != nullptr) wake_();
}

// After each event that may have given a group something to say, or to wait for.
void desk::wake_if_news() noexcept {
  if (books_->groups.take_news()) wake();
}

// What an event has let go on, and what it has shown to be in vain.
claim_list desk::follow(const sched::group_steps::outcome& from) noexcept {
  claim_list out;
  for (sched::request* r = from.through.first; r != nullptr;) {
    sched::request* const following = r->next;
    list(claim::of(*r));
    send_where_granted(claim::of(*r));
    out.append(claim::of(*r));
    r = following;
  }
  out.append(refused_as_hopeless(from.hopeless));
  wake_if_news();
  return out;
}

// Of those that have rested; `due`: the next that will have. Throws std::bad_alloc.
void desk::try_again(base::time_point now, base::deadline& due, claim_list& through) {
  for (auto& [id, f] : books_->groups.all()) {
    if (f.rests && !f.until) f.until = base::after(f.pause.next(chance_));
    if (f.rests && *f.until <= now) through.append(follow(books_->groups.try_again(id)));
    if (f.rests && !f.until) f.until = base::after(f.pause.next(chance_));
    if (f.rests && (!due.has_value() || *f.until < *due)) due = *f.until;
  }
}

std::vector<booking_letter> desk::letters(base::time_point now, base::deadline& due) {
  std::vector<booking_letter> out;
  if (!is_due.exchange(false) && !(due_at.has_value() && *due_at <= now)) {
    due = due_at;
    return out;
  }
  change_soon([&]() -> claim_list {
    claim_list through;
    if (books_ == nullptr || is_closed_) return through;
    try {
      try_again(now, due, through);
      write_letters(out);
    } catch (const std::bad_alloc&) {
      // What is not said now is later; what goes on does now.
      out.clear();
      is_due.store(true);
      due = now + until_memory_for_letters;
      return through;
    }
    books_->groups.said();
    lent_is_said();
    return through;
  });
  due_at = due;
  return out;
}

// All that is to be said; it counts as said when all of it could be written.
void desk::write_letters(std::vector<booking_letter>& out) const {
  for (const sched::group_steps::letter& one : books_->groups.letters()) {
    const booking_act is = one.bundles.empty() ? booking_act::drop : booking_act::book;
    booking_letter& said = out.emplace_back();
    said.node = one.node;
    said.what.act = static_cast<std::uint8_t>(is);
    said.what.group = one.group;
    said.what.number = one.number;
    if (is == booking_act::drop) continue;
    const sched::group& g = *books_->has.find_group(one.group);
    for (const std::uint32_t b : one.bundles) {
      said.what.bundles.push_back(bookings::bundle_of(b, g.shown[b]));
    }
  }
  say_lent(out);
}

void desk::booked(std::uint64_t node, const booking_note& said) {
  const bool is_yes = static_cast<booking_act>(said.act) != booking_act::no;
  change_soon([&]() -> claim_list {
    if (books_ == nullptr || is_closed_) return {};
    return follow(books_->groups.answered(node, said.group, said.number, is_yes));
  });
}

void desk::hear_lent(std::uint64_t node, const booking_note& said) {
  change_soon([&]() -> claim_list {
    if (books_ == nullptr || is_closed_) return {};
    sched::group* const g = books_->has.find_group(said.group);
    if (g == nullptr || said.bundle >= g->places.size() || said.number == 0) return {};
    const sched::group::place& p = g->places[said.bundle];
    if (p.booking != said.number || books_->others[p.node] != node) return {};
    sched::ledger::note_lent(*g, said.bundle, said.cpus);
    return claims_of(books_->waits.look_again());
  });
}

claim_list desk::end_formings(const error& why) noexcept {
  claim_list out;
  while (sched::request* const by = books_->groups.take_first()) {
    claim::of(*by).refusal = why;
    out.append(claim::of(*by));
  }
  return out;
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

// Ends a group, of whoever; its actors are the caller's to kill.
claim_list desk::take_group(sched::group& g, std::vector<exec::actor_core*>& actors) {
  const error reason = removed_error(g.id);
  actors = actors_in(g);
  sched::request_list refused;
  const sched::request_list granted = books_->waits.remove(g, refused);
  claim_list out = claims_of(granted);
  out.append(refused_of(refused, [&reason](const claim&) -> const error& { return reason; }));
  return out;
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
    claim_list out;
    if (sched::request* const by = books_->groups.remove(*g)) {
      claim::of(*by).refusal = reason;
      out.append(claim::of(*by));
    }
    wake_if_news();
    out.append(take_group(*g, actors));
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

std::optional<std::uint64_t> desk::node_in_group(const spec::demand& asked,
                                                 const placement& where) {
  using seat = sched::group::seat;
  return resource_gate::global().look([&]() -> std::optional<std::uint64_t> {
    if (books_ == nullptr) return 0;
    const sched::ledger& has = books_->has;
    const sched::group* const g = has.find_group(where.group);
    if (g == nullptr) removed_error(where.group).raise();
    if (auto why = has.infeasible(asked, where)) raise(errc::infeasible, *std::move(why));
    const sched::need what = has.translate(asked);
    for (const sched::horizon when : {sched::horizon::now, sched::horizon::ever}) {
      for (std::size_t b = 0; b < g->places.size(); ++b) {
        const sched::group::place& p = g->places[b];
        const bool is_meant = where.bundle < 0 || static_cast<std::size_t>(where.bundle) == b;
        if (is_meant && p.at == seat::given && p.fits(what, when)) return books_->others[p.node];
      }
    }
    const bool is_own = !books_->groups.has(g->id);
    return is_own ? std::optional<std::uint64_t>(0) : std::nullopt;
  });
}

// Where none has it free, it waits there, in the first that can give it. False: nothing is held.
bool desk::lease_in_group(sched::node_id node, const sched::need& what, placement& where,
                          sched::grant& into) noexcept {
  const sched::group* const g = books_->has.find_group(where.group);
  if (g == nullptr) return false;
  for (const sched::horizon when : {sched::horizon::now, sched::horizon::ever}) {
    for (std::size_t b = 0; b < g->places.size(); ++b) {
      const sched::group::place& p = g->places[b];
      const bool is_meant = where.bundle < 0 || static_cast<std::size_t>(where.bundle) == b;
      if (!is_meant || p.node != node || p.at != sched::group::seat::given) continue;
      if (!p.fits(what, when)) continue;
      placement own = where;
      own.bundle = static_cast<int>(b);
      where.group = p.booking;
      where.bundle = own.bundle;
      return when == sched::horizon::now && books_->has.take(what, own, false, into);
    }
  }
  return false;
}

}  // namespace manta::inline v0::node
