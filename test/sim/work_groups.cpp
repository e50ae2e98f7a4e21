// SPDX-License-Identifier: Apache-2.0
#include "sim/work_groups.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

namespace sim::work {

using namespace std::chrono_literals;
using manta::node::booking_note;
using seat = sched::group::seat;
using told = entry::what;

namespace {

constexpr duration first_pause = 2ms;
constexpr duration longest_pause = 250ms;

}  // namespace

groups::groups(home& of, books& with) : of_(of), books_(with) {
  with.on_group = [this](sched::request& one) { granted(one); };
}

groups::forming* groups::find(sched::group_id id) {
  const auto at = formings_.find(id);
  return at == formings_.end() ? nullptr : &at->second;
}

// ---- the workload

void groups::make(const std::vector<std::int64_t>& cpus, manta::strategy how) {
  std::vector<manta::spec::demand> bundles;
  for (const std::int64_t one : cpus) bundles.push_back(demand_of(one));
  if (books_.has.infeasible(bundles, how)) return;
  sched::group& g = books_.has.make_group(bundles, how);
  forming& f = formings_[g.id];
  f.of = &g;
  f.by = std::make_unique<sched::request>();
  f.by->forming = &g;
  const auto all = std::accumulate(cpus.begin(), cpus.end(), std::int64_t{0});
  of_.note({.is = told::grouped, .number = g.id, .amount = static_cast<std::uint64_t>(all)});
  if (books_.waits.ask(*f.by)) granted(*f.by);
}

void groups::remove_one() {
  if (formings_.empty()) return;
  auto at = formings_.begin();
  std::advance(at, static_cast<long>(of_.random().below(formings_.size())));
  remove(at->second, at->second.is_placed ? ending::value : ending::cancelled);
}

void groups::remove_all() {
  while (!formings_.empty()) remove_one();
}

void groups::remove(forming& f, ending how) {
  for (const sched::group::place& p : f.of->places) {
    const node_number there = books_.others[p.node];
    if (p.at == seat::nowhere || p.booking == 0 || there == 0) continue;
    say(there, act::drop, {.number = p.booking});
  }
  sched::group& g = *f.of;
  const sched::group_id id = g.id;
  if (f.own > 0) of_.note({.is = told::given_back, .number = id, .amount = f.own});
  of_.note({.is = told::group_ended, .number = id, .how = how});
  const auto by = std::move(f.by);
  formings_.erase(id);
  sched::request_list refused;
  books_.go_on(books_.waits.remove(g, refused));
}

// What lies here, after each change.
void groups::note_own(forming& f) {
  std::uint64_t now = 0;
  for (std::size_t b = 0; b < f.of->places.size(); ++b) {
    const sched::group::place& p = f.of->places[b];
    if (p.at == seat::nowhere || p.node != 0) continue;
    now += static_cast<std::uint64_t>(f.of->shown[b].cpus);
  }
  const std::uint64_t id = f.of->id;
  if (now > f.own) of_.note({.is = told::set_aside, .number = id, .amount = now - f.own});
  if (now < f.own) of_.note({.is = told::given_back, .number = id, .amount = f.own - now});
  f.own = now;
}

// ---- of this node

void groups::granted(sched::request& one) {
  forming& f = *find(one.forming->id);
  if (!ask_nodes(f)) opened(f);
}

// Of one that has found places. False: they are all this node's, and it has them.
bool groups::ask_nodes(forming& f) {
  note_own(f);
  if (!sched::ledger::is_asking(*f.of)) return false;
  f.rests = false;
  f.number = ++last_booking_;
  f.asked.clear();
  std::map<node_number, booking_note> notes;
  for (std::size_t b = 0; b < f.of->places.size(); ++b) {
    sched::group::place& p = f.of->places[b];
    const node_number there = books_.others[p.node];
    if (p.at != seat::asked || there == 0) continue;
    p.booking = f.number;
    f.asked.emplace(there, false);
    booking_note& note = notes[there];
    note.group = f.of->id;
    note.number = f.number;
    note.bundles.push_back(
        manta::node::bookings::bundle_of(static_cast<std::uint32_t>(b), f.of->shown[b]));
  }
  for (const auto& [to, note] : notes) say(to, act::book, note);
  return true;
}

void groups::say(node_number to, act what, const booking_note& note) {
  if (what == act::drop && of_.in.is(plant::drops_not_said)) return;
  booking_note said = note;
  said.act = static_cast<std::uint8_t>(what);
  const id request = of_.next_request(topic::booking);
  of_.out.clear();
  const manta::wire::ask_view asks{manta::wire::question::bookings,
                                   manta::codec::encode(of_.out, said)};
  if (writer_.write({request, of_.self, 0}, asks)) of_.mail.send(to, request, writer_);
}

// What was set aside for this try.
void groups::drop(const forming& f) {
  for (const auto& [to, is] : f.asked) say(to, act::drop, {.number = f.number});
}

void groups::rest(forming& f) {
  f.number = 0;
  f.asked.clear();
  f.rests = true;
  f.rest = ++rests_;
  f.pause = std::clamp<duration>(f.pause * 2, first_pause, longest_pause);
  of_.later(f.pause / 2 + of_.in.time.any(f.pause), [this, id = f.of->id, rest = f.rest] {
    forming* const still = find(id);
    if (still != nullptr && still->rests && still->rest == rest) try_again(*still);
  });
}

void groups::try_again(forming& f) {
  f.of->shuns.clear();
  f.rests = false;
  if (!f.is_placed) {
    f.by->now = sched::request::state::idle;
    if (books_.waits.ask(*f.by)) granted(*f.by);
  } else if (books_.has.place(*f.of)) {
    if (!ask_nodes(f)) opened(f);
  } else {
    rest(f);
  }
}

void groups::opened(forming& f) {
  const sched::group_id id = f.of->id;
  books_.has.confirm(*f.of);
  f.of->shuns.clear();
  f.number = 0;
  f.asked.clear();
  f.rests = false;
  f.pause = {};
  const auto is_lost = [](const auto& p) { return p.at == seat::nowhere; };
  const bool is_whole = std::ranges::none_of(f.of->places, is_lost);
  if (!is_whole) rest(f);
  f.is_placed = true;
  if (is_whole) of_.note({.is = told::group_placed, .number = id});
  books_.go_on(books_.waits.look_again());
  if (forming* const still = find(id)) give_up_if_hopeless(*still);
}

void groups::refused_by(forming& f, node_number who) {
  const sched::group_id id = f.of->id;
  drop(f);
  books_.has.take_apart(*f.of);
  note_own(f);
  if (books_.index.contains(who)) f.of->shuns.push_back(books_.index.at(who));
  if (!f.of->shuns.empty() && books_.has.place(*f.of)) {
    if (!ask_nodes(f)) return opened(f);
    return books_.go_on(books_.waits.look_again());
  }
  rest(f);
  books_.go_on(books_.waits.look_again());
  if (forming* const still = find(id)) give_up_if_hopeless(*still);
}

// True: it has, and is gone.
bool groups::give_up_if_hopeless(forming& f) {
  books_.has.judge(*f.of, false);
  if (!f.of->is_hopeless) return false;
  remove(f, ending::infeasible);
  return true;
}

void groups::give_up_hopeless() {
  std::vector<sched::group_id> all;
  for (const auto& [id, f] : formings_) all.push_back(id);
  for (const sched::group_id id : all) {
    if (forming* const f = find(id)) give_up_if_hopeless(*f);
  }
}

void groups::booked(node_number from, const booking_note& said) {
  forming* const f = find(said.group);
  if (f == nullptr || f->number == 0) return;
  const auto asked = f->asked.find(from);
  const bool is_old = f->number != said.number && !of_.in.is(plant::old_yes_taken);
  if (is_old || asked == f->asked.end()) return;
  if (static_cast<act>(said.act) == act::no) return refused_by(*f, from);
  asked->second = true;
  const bool is_all = std::ranges::all_of(f->asked, [](const auto& one) { return one.second; });
  if (is_all || of_.in.is(plant::opened_early)) opened(*f);
}

// ---- nodes that are lost

void groups::gone(node_number who) {
  std::vector<sched::group_id> asked;
  for (const auto& [id, f] : formings_) {
    if (f.number != 0 && f.asked.contains(who)) asked.push_back(id);
  }
  for (const sched::group_id id : asked) {
    if (forming* const f = find(id)) refused_by(*f, who);
  }
  if (of_.in.is(plant::makers_lost_kept)) return;
  std::vector<std::uint64_t> its;
  for (const auto& [key, one] : guests_) {
    if (key.first == who) its.push_back(key.second);
  }
  for (const std::uint64_t number : its) drop_guest(who, number);
}

void groups::lose_bundles(node_number who) {
  for (auto& [id, f] : formings_) {
    const bool was_asked = f.number != 0 && f.asked.contains(who);
    if (was_asked) {
      drop(f);
      books_.has.take_apart(*f.of);
    }
    const bool had = books_.has.lose(*f.of, books_.index.at(who));
    note_own(f);
    if (!was_asked && (!had || f.number != 0)) continue;
    f.pause = {};
    rest(f);
  }
}

// ---- of others

bool groups::book(node_number maker, const booking_note& asked) {
  std::vector<manta::spec::demand> all;
  guest made{.group = asked.group};
  for (const auto& one : asked.bundles) {
    all.push_back(manta::node::bookings::demand_of(one));
    made.amount += static_cast<std::uint64_t>(one.cpus);
  }
  sched::group& g = books_.has.make_group(std::move(all), manta::strategy::strict_pack, true);
  made.here = g.id;
  sched::request wants;
  wants.forming = &g;
  if (books_.waits.ask(wants)) {
    guests_[{maker, asked.number}] = made;
    of_.note({.is = told::set_aside, .number = made.group, .amount = made.amount});
    return true;
  }
  const sched::request_list through = books_.waits.withdraw(wants);
  books_.has.remove(g);
  books_.go_on(through);
  return false;
}

void groups::drop_guest(node_number maker, std::uint64_t number) {
  const auto at = guests_.find({maker, number});
  if (at == guests_.end()) return;
  const guest one = at->second;
  guests_.erase(at);
  of_.note({.is = told::given_back, .number = one.group, .amount = one.amount});
  sched::request_list refused;
  books_.go_on(books_.waits.remove(*books_.has.find_group(one.here), refused));
}

void groups::hear(node_number from, const manta::wire::ask_view& said) {
  const auto what = manta::codec::decode<booking_note>(said.with);
  switch (static_cast<act>(what.act)) {
    case act::book: {
      const act is = book(from, what) ? act::yes : act::no;
      return say(from, is, {.group = what.group, .number = what.number});
    }
    case act::drop:
      return drop_guest(from, what.number);
    case act::yes:
    case act::no:
      return booked(from, what);
    default:
      return;
  }
}

std::string groups::left() const {
  if (formings_.empty() && guests_.empty()) return {};
  return fmt::format("{} groups, {} of others; ", formings_.size(), guests_.size());
}

}  // namespace sim::work
