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

groups::groups(home& of, books& with)
    : of_(of), books_(with), steps_(with.has, with.waits, with.others), chance_(of.self) {
  with.on_group = [this](sched::request& one) { granted(one); };
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
  steps_.add(g.id);
  const auto all = std::accumulate(cpus.begin(), cpus.end(), std::int64_t{0});
  of_.note({.is = told::grouped, .number = g.id, .amount = static_cast<std::uint64_t>(all)});
  if (books_.waits.ask(*f.by)) granted(*f.by);
}

void groups::remove_one() {
  if (formings_.empty()) return;
  auto at = formings_.begin();
  std::advance(at, static_cast<long>(of_.random().below(formings_.size())));
  remove(at->second, at->second.is_whole ? ending::value : ending::cancelled);
}

void groups::remove_all() {
  while (!formings_.empty()) remove_one();
}

void groups::remove(forming& f, ending how) {
  sched::group& g = *f.of;
  const sched::group_id id = g.id;
  steps_.remove(g);
  if (f.own > 0) of_.note({.is = told::given_back, .number = id, .amount = f.own});
  of_.note({.is = told::group_ended, .number = id, .how = how});
  const auto by = std::move(f.by);
  formings_.erase(id);
  sched::request_list refused;
  books_.go_on(books_.waits.remove(g, refused));
  settle();
}

// ---- of this node

// Of groups that ask other nodes first: what group_steps has the line look at again lets them
// through without a word.
void groups::note_turns() {
  for (auto& [id, f] : formings_) {
    const bool is_through = f.by->now == sched::request::state::held;
    if (is_through && !f.is_through) of_.note({.is = told::group_turn});
    f.is_through = is_through;
  }
}

// What lies here, after each change: what came back may be what another one has now.
void groups::note_own() {
  note_turns();
  std::map<sched::group_id, std::uint64_t> now;
  for (auto& [id, f] : formings_) {
    for (std::size_t b = 0; b < f.of->places.size(); ++b) {
      const sched::group::place& p = f.of->places[b];
      if (p.at == seat::nowhere || p.node != 0) continue;
      now[id] += static_cast<std::uint64_t>(f.of->shown[b].cpus);
    }
    if (now[id] >= f.own) continue;
    of_.note({.is = told::given_back, .number = id, .amount = f.own - now[id]});
    f.own = now[id];
  }
  for (auto& [id, f] : formings_) {
    if (now[id] <= f.own) continue;
    of_.note({.is = told::set_aside, .number = id, .amount = now[id] - f.own});
    f.own = now[id];
  }
}

void groups::note_placed() {
  for (auto& [id, f] : formings_) {
    const auto is_given = [](const auto& p) { return p.at == seat::given; };
    const bool is_whole = std::ranges::all_of(f.of->places, is_given);
    if (is_whole && !f.is_whole) of_.note({.is = told::group_placed, .number = id});
    f.is_whole = is_whole;
  }
}

void groups::granted(sched::request& one) {
  const auto at = formings_.find(one.forming->id);
  if (at != formings_.end()) at->second.is_through = true;  // which was noted in its order
  static_cast<void>(steps_.asks(one));
  settle();
}

void groups::follow(const sched::group_steps::outcome& from) {
  note_own();
  note_placed();
  books_.go_on(from.through);
  settle();
}

// After each event.
void groups::settle() {
  note_own();
  note_placed();
  send_letters();
  begin_rests();
  const auto is_hopeless = [](const auto& one) { return one.second.of->is_hopeless; };
  const auto at = std::ranges::find_if(formings_, is_hopeless);
  if (at != formings_.end()) remove(at->second, ending::infeasible);
}

void groups::send_letters() {
  const auto all = steps_.letters();
  steps_.said();
  for (const sched::group_steps::letter& one : all) {
    booking_note note{.group = one.group, .number = one.number};
    for (const std::uint32_t b : one.bundles) {
      const sched::group& g = *formings_.at(one.group).of;
      note.bundles.push_back(manta::node::bookings::bundle_of(b, g.shown[b]));
    }
    say(one.node, one.bundles.empty() ? act::drop : act::book, note);
  }
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

void groups::begin_rests() {
  for (auto& [id, f] : steps_.all()) {
    if (!f.rests || f.until) continue;
    const duration wait = f.pause.next(chance_);
    const time_point until = of_.in.time.now() + wait;
    f.until = until;
    of_.later(wait, [this, id = id, until] {
      const auto still = steps_.all().find(id);
      const bool is_due = still != steps_.all().end() && still->second.rests;
      if (is_due && still->second.until == until) try_again(id);
    });
  }
}

void groups::try_again(sched::group_id id) { follow(steps_.try_again(id)); }

void groups::booked(node_number from, const booking_note& said) {
  const bool is_yes = static_cast<act>(said.act) != act::no;
  const auto at = steps_.all().find(said.group);
  if (at == steps_.all().end()) return;
  const bool is_any = of_.in.is(plant::old_yes_taken);
  const std::uint64_t number = is_any ? at->second.number : said.number;
  if (is_yes && of_.in.is(plant::opened_early)) {
    std::vector<node_number> others;
    for (const auto& [node, is] : at->second.asked) others.push_back(node);
    for (const node_number one : others) {
      if (one != from) follow(steps_.answered(one, said.group, number, true));
    }
  }
  follow(steps_.answered(from, said.group, number, is_yes));
}

// ---- nodes that are lost

void groups::gone(node_number who) {
  follow(steps_.stop_asking(who));
  if (of_.in.is(plant::makers_lost_kept)) return;
  std::vector<std::uint64_t> its;
  for (const auto& [key, one] : guests_) {
    if (key.first == who) its.push_back(key.second);
  }
  for (const std::uint64_t number : its) drop_guest(who, number);
}

void groups::lose_bundles(node_number who) {
  steps_.lose(who);
  settle();
}

void groups::give_up_hopeless() { follow(steps_.give_up_hopeless()); }

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
