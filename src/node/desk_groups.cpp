// SPDX-License-Identifier: Apache-2.0
// Placement groups of this node, whose bundles may lie in others: desk.hpp, bookings.hpp.
//
// A group that has found its places has them in the ledger at once; where some are other nodes',
// these are asked, all at the same time, and nobody gets anything in it before the last one has
// said yes. One no: all goes back, who refused is shunned, and it looks for other places at once;
// when there are none it rests, each time longer, by chance, so that two that want the same do not
// meet for ever. What lies in a node that is lost looks for a place the same way.
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
      if (!stays) books_->formings.try_emplace(id);
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

// Of a group that has found places. False: they are all this node's, and it has them.
bool desk::ask_nodes(sched::group& g, claim* by) noexcept {
  if (!sched::ledger::is_asking(g)) return false;
  const auto at = books_->formings.find(g.id);
  forming& f = at->second;
  f.by = by;
  f.rests = false;
  f.is_said = false;
  f.number = ++last_booking_;
  f.asked.clear();
  try {
    for (sched::group::place& p : g.places) {
      const std::uint64_t node = books_->others[p.node];
      if (p.at != sched::group::seat::asked || node == 0) continue;
      p.booking = f.number;
      f.asked.emplace(node, false);
    }
  } catch (const std::bad_alloc&) {
    books_->has.take_apart(g);
    rest(f);
  }
  wake();
  return true;
}

void desk::rest(forming& f) noexcept {
  f.number = 0;
  f.asked.clear();
  f.rests = true;
  f.next = base::after(f.pause.next(chance_));
  wake();
}

// Without memory it is not said: what is set aside there stays so until this node ends.
void desk::say_drop(std::uint64_t node, std::uint64_t number) noexcept {
  try {
    const std::pair<std::uint64_t, std::uint64_t> one(node, number);
    if (std::ranges::find(books_->drops, one) == books_->drops.end()) books_->drops.push_back(one);
  } catch (const std::bad_alloc&) {
    return;
  }
}

void desk::drop_places(const sched::group& g) noexcept {
  for (const sched::group::place& p : g.places) {
    const bool is_there = p.at != sched::group::seat::nowhere && p.booking != 0;
    if (is_there && books_->others[p.node] != 0) say_drop(books_->others[p.node], p.booking);
  }
  wake();
}

// All its places are given: it, and what waited in it, go on.
claim_list desk::opened(sched::group& g, forming& f) noexcept {
  claim_list out;
  books_->has.confirm(g);
  g.shuns.clear();
  f.number = 0;
  f.asked.clear();
  f.rests = false;
  f.pause.reset();
  // Meanwhile others may have been lost.
  const auto is_lost = [](const auto& p) { return p.at == sched::group::seat::nowhere; };
  if (std::ranges::any_of(g.places, is_lost)) rest(f);
  if (claim* const by = std::exchange(f.by, nullptr)) out.append(*by);
  out.append(claims_of(books_->waits.look_again()));
  // What can't leave this node has no place in bundles of others.
  out.append(refuse_infeasible(g.id));
  out.append(give_up_if_hopeless(g, f));
  return out;
}

// What can never have a place waits no longer: it, while it is in no line, and what waits in it.
claim_list desk::give_up_if_hopeless(sched::group& g, forming& f) noexcept {
  books_->has.judge(g, may_grow_);
  return g.is_hopeless ? give_up(g, f) : claim_list{};
}

claim_list desk::give_up(sched::group& g, forming& f) noexcept {
  claim_list out;
  f.rests = false;
  if (claim* const by = std::exchange(f.by, nullptr)) {
    by->refusal = spec::made_error(errc::infeasible, [&] { return why_never(*by); });
    out.append(*by);
  }
  out.append(refuse_infeasible(g.id));
  return out;
}

claim_list desk::refused_by(sched::group& g, forming& f, sched::node_id node) noexcept {
  for (const auto& [asked, is] : f.asked) say_drop(asked, f.number);
  books_->has.take_apart(g);
  try {
    g.shuns.push_back(node);
  } catch (const std::bad_alloc&) {
    g.shuns.clear();
  }
  if (!g.shuns.empty() && books_->has.place(g)) {
    if (!ask_nodes(g, f.by)) return opened(g, f);
    return claims_of(books_->waits.look_again());  // what it had asked for and needs no more
  }
  rest(f);
  claim_list out = claims_of(books_->waits.look_again());
  out.append(give_up_if_hopeless(g, f));
  return out;
}

// It has rested. Throws std::bad_alloc, with nothing done.
claim_list desk::try_again(sched::group& g, forming& f) {
  g.shuns.clear();
  f.rests = false;
  if (claim* const by = f.by) {
    // In line with all others: it may have to wait for its turn.
    f.by = nullptr;
    by->now = sched::request::state::idle;
    try {
      if (!books_->waits.ask(*by)) return {};
    } catch (...) {
      f.by = by;
      f.rests = true;
      throw;
    }
    f.by = by;
    return ask_nodes(g, by) ? claim_list{} : opened(g, f);
  }
  if (books_->has.place(g)) return ask_nodes(g, nullptr) ? claim_list{} : opened(g, f);
  rest(f);
  return {};
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
      for (auto& [id, f] : books_->formings) {
        sched::group* const g = books_->has.find_group(id);
        if (g == nullptr) continue;
        if (f.rests && f.next <= now) through.append(try_again(*g, f));
        if (f.rests && (!due.has_value() || f.next < *due)) due = f.next;
      }
      write_letters(out);
    } catch (const std::bad_alloc&) {
      // What is not said now is later; what goes on does now.
      out.clear();
      is_due.store(true);
      due = now + until_memory_for_letters;
      return through;
    }
    books_->drops.clear();
    for (auto& [id, f] : books_->formings) f.is_said = f.is_said || f.number != 0;
    lent_is_said();
    return through;
  });
  due_at = due;
  return out;
}

// All that is to be said; it counts as said when all of it could be written.
void desk::write_letters(std::vector<booking_letter>& out) const {
  for (const auto& [node, number] : books_->drops) {
    const auto act = static_cast<std::uint8_t>(booking_act::drop);
    out.push_back({node, {.act = act, .number = number}});
  }
  for (const auto& [id, f] : books_->formings) {
    const sched::group* const g = books_->has.find_group(id);
    if (g == nullptr || f.number == 0 || f.is_said) continue;
    for (const auto& [node, is] : f.asked) {
      booking_letter one{node, {.act = static_cast<std::uint8_t>(booking_act::book)}};
      one.what.group = id;
      one.what.number = f.number;
      for (std::size_t b = 0; b < g->places.size(); ++b) {
        const sched::group::place& p = g->places[b];
        if (p.booking != f.number || books_->others[p.node] != node) continue;
        one.what.bundles.push_back(bookings::bundle_of(static_cast<std::uint32_t>(b), g->shown[b]));
      }
      out.push_back(std::move(one));
    }
  }
  say_lent(out);
}

void desk::booked(std::uint64_t node, const booking_note& said) {
  change_soon([&]() -> claim_list {
    if (books_ == nullptr || is_closed_) return {};
    sched::group* const g = books_->has.find_group(said.group);
    const auto at = books_->formings.find(said.group);
    if (g == nullptr || at == books_->formings.end()) return {};
    forming& f = at->second;
    const auto asked = f.asked.find(node);
    // Of an older try, or nobody's.
    if (f.number == 0 || f.number != said.number || asked == f.asked.end()) return {};
    if (static_cast<booking_act>(said.act) == booking_act::no) {
      return refused_by(*g, f, index_of(node));
    }
    asked->second = true;
    const bool is_all = std::ranges::all_of(f.asked, [](const auto& one) { return one.second; });
    return is_all ? opened(*g, f) : claim_list{};
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

// Its index is still known.
claim_list desk::lose_bundles(std::uint64_t node, sched::node_id at) noexcept {
  claim_list out;
  for (auto& [id, f] : books_->formings) {
    sched::group* const g = books_->has.find_group(id);
    if (g == nullptr) continue;
    const bool was_asked = f.number != 0 && f.asked.contains(node);
    if (was_asked) {
      for (const auto& [asked, is] : f.asked) say_drop(asked, f.number);
      books_->has.take_apart(*g);
    }
    const bool had = books_->has.lose(*g, at);
    // Its other tries go on: what is lost here looks for its place after them.
    if (!was_asked && (!had || f.number != 0)) continue;
    f.pause.reset();
    rest(f);
  }
  return out;
}

claim_list desk::end_formings(const error& why) noexcept {
  claim_list out;
  for (auto& [id, f] : books_->formings) {
    if (claim* const by = std::exchange(f.by, nullptr)) {
      by->refusal = why;
      out.append(*by);
    }
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
    drop_places(*g);
    const auto at = books_->formings.find(id);
    if (at != books_->formings.end()) {
      if (claim* const by = at->second.by) {
        by->refusal = reason;
        out.append(*by);
      }
      books_->formings.erase(at);
    }
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
    const bool is_own = !books_->formings.contains(g->id);
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
