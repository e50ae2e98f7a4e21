// SPDX-License-Identifier: Apache-2.0
#include "sim/work_tasks.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "node/stop_note.hpp"
#include "sched/overflow.hpp"

namespace sim::work {

using namespace std::chrono_literals;
namespace wire = manta::wire;
using manta::spec::demand;
using told = entry::what;

struct tasks::job final : sched::request {
  enum class place { in_line, away, here };

  std::uint64_t name = 0;  // in the log
  wish asked;
  place at = place::in_line;
  node_number node = 0;      // where it is, if away
  std::uint64_t flight = 0;  // the number of the request that gave it
  std::uint32_t attempt = 0;
  std::uint64_t turn = 0;  // of its runs here
  node_number giver = 0;   // of a task of another node
  bool is_stopped = false;
  handles::arrivals came = {};
};

tasks::tasks(home& of, handles& refs, books& with) : of_(of), refs_(refs), books_(with) {
  with.on_task = [this](sched::request& one) { granted(static_cast<job&>(one)); };
  with.on_let_through = [this](const sched::request& one) {
    if (one.forming != nullptr) return of_.note({.is = told::group_turn});
    note_line(told::let_through, static_cast<const job&>(one));
  };
  with.on_refused_task = [this](sched::request& one) {
    job& is = static_cast<job&>(one);
    note_line(told::left_line, is);
    is.giver != 0 ? answer(is, ending::infeasible) : end(is, ending::infeasible);
  };
}
tasks::~tasks() = default;

// ---- the workload

void tasks::start(const wish& asked) {
  auto made = std::make_unique<job>();
  job& one = *made;
  one.name = of_.self << 32U | of_.next_request(topic::task).low;
  one.asked = asked;
  for (const id& thing : asked.things) refs_.pin(thing);
  of_.note({.is = told::asked,
            .number = one.name,
            .amount = asked.retries,
            .cpus = static_cast<std::uint64_t>(asked.cpus)});
  if (asked.is_probe) of_.note({.is = told::probed, .number = one.name});
  own_.emplace(one.name, std::move(made));
  const bool is_named = asked.node != 0 && asked.node != of_.self;
  if (asked.cpus == 0 || is_named) {
    send(one, asked.node);
  } else {
    ask(one);
  }
}

void tasks::stop_one() {
  if (own_.empty()) return;
  auto at = own_.begin();
  std::advance(at, static_cast<long>(of_.random().below(own_.size())));
  job& one = *at->second;
  if (one.is_stopped || one.asked.is_probe) return;
  one.is_stopped = true;
  of_.note({.is = told::stop_asked, .number = one.name});
  if (one.at != job::place::away) {
    if (one.at == job::place::here) leave(one);
    return end(one, ending::cancelled);
  }
  const manta::node::stop_note said{one.flight, 1, one.name, one.attempt, true};
  of_.out.clear();
  const id request = of_.next_request(topic::stop);
  const wire::ask_view asks{wire::question::cancel_future, manta::codec::encode(of_.out, said)};
  if (of_.writer.write({request, of_.self, 0}, asks)) of_.mail.send(one.node, request, of_.writer);
  if (of_.in.is(plant::ends_twice)) {
    of_.note({.is = told::ended, .number = one.name, .how = ending::cancelled});
  }
}

// ---- resources

// As the desk: a task that may not run again stays where it can.
void tasks::ask(job& of) {
  const demand amount = demand_of(of.asked.cpus);
  of.at = job::place::in_line;
  const bool is_bound = of.giver != 0 || of.asked.node == of_.self;
  of.what = sched::need{};
  if (books_.has.infeasible(amount, {}, is_bound)) {
    return of.giver != 0 ? answer(of, ending::infeasible) : end(of, ending::infeasible);
  }
  of.what = books_.has.translate(amount);
  of.what.stays = true;
  const bool can_stay = books_.has.fits(of.what, {}, sched::horizon::ever);
  of.what.stays = is_bound || (of.asked.retries == 0 && can_stay);
  of.caller = of.from = of.giver;
  if (of_.in.is(plant::guests_in_turn)) {
    of.from = 0;
    of.caller = of.giver == 0 ? 0 : of.giver << 32U | of.flight;
  }
  if (of.giver != 0 && of_.in.is(plant::guests_unasked)) return run(of);
  const bool is_granted = books_.waits.ask(of);
  note_line(is_granted ? told::let_through : told::waits, of);
  if (is_granted) granted(of);
}

void tasks::note_line(entry::what is, const job& of) const {
  const bool is_own = is == told::let_through && of.got.node == 0;
  of_.note({.is = is,
            .other = of.giver,
            .number = of.name,
            .amount = is_own ? static_cast<std::uint64_t>(of.asked.cpus) : 0,
            .cpus = static_cast<std::uint64_t>(of.asked.cpus)});
}

void tasks::granted(job& of) {
  const node_number to = books_.others[of.got.node];
  to == 0 ? run(of) : send(of, to);
}

void tasks::give_back(job& of) {
  if (of.now == sched::request::state::waiting) {
    note_line(told::left_line, of);
    return books_.go_on(books_.waits.withdraw(of));
  }
  if (of.now == sched::request::state::held) books_.go_on(books_.waits.give(of));
}

void tasks::gone(node_number who) {
  books_.has.set(books_.index.at(who), sched::ledger::standing::rests);
  lose_visits(who);
}

// ---- tasks that are elsewhere

// To `to`, or to any node, which may send it back.
void tasks::send(job& of, node_number to) {
  if (to == 0) {
    auto at = books_.index.begin();
    if (!books_.index.empty())
      std::advance(at, static_cast<long>(of_.random().below(books_.index.size())));
    if (books_.index.empty() || of.attempt > 0) return run(of);
    to = at->first;
  }
  if (!of_.mail.has(to)) {  // it named one that is gone: a wish
    of.asked.node = 0;
    return of.asked.cpus == 0 ? run(of) : ask(of);
  }
  const id request = of_.next_request(of.asked.cpus == 0 ? topic::surplus : topic::task);
  of.at = job::place::away;
  of.node = to;
  of.flight = request.low;
  flights_[of.flight] = &of;
  const wire::options_view with{.cpus = of.asked.cpus, .max_retries = of.asked.retries};
  const auto references = handles::written(of.asked.things);
  wire::task_view said{.id = {1, of.name}, .attempt = of.attempt};
  if (of.asked.cpus > 0) said.options = &with;
  said.arguments.references = references;
  if (of_.writer.write({request, of_.self, 0}, said)) refs_.send(to, request, references);
}

void tasks::hear_result(node_number from, const wire::result_view& said,
                        const handles::arrivals& came) {
  const auto found = flights_.find(said.execution);
  const bool is_late = found == flights_.end() || found->second->node != from;
  refs_.read(came, of_.keeps && !is_late && of_.random().one_in(2));
  if (is_late) return;
  job& of = *found->second;
  flights_.erase(found);
  const auto* const why = std::get_if<wire::error_view>(&said.outcome);
  if (said.may_repeat) {
    if (of_.in.is(plant::refusals_forgotten)) return;
    of.at = job::place::in_line;
    return of.is_stopped ? end(of, ending::cancelled) : run(of);
  }
  if (why == nullptr) return end(of, ending::value);
  switch (why->chain.front().code) {
    case manta::errc::cancelled:
      return end(of, ending::cancelled);
    case manta::errc::infeasible:
      return end(of, ending::infeasible);
    default:
      return end(of, ending::failed);
  }
}

void tasks::lose_flights(node_number with) {
  if (of_.in.is(plant::lost_not_ended)) return;
  std::vector<job*> lost;
  for (const auto& [number, one] : flights_) {
    if (one->node == with) lost.push_back(one);
  }
  for (job* const one : lost) flights_.erase(one->flight);
  for (job* const one : lost) go_on_here(*one);
}

// It may have run there. What it held of that node's comes back first.
void tasks::go_on_here(job& of) {
  if (of_.in.is(plant::grants_kept) && of.now == sched::request::state::held) {
    auto kept = std::make_unique<job>();
    kept->what = of.what;
    kept->got = of.got;
    forgotten_.push_back(std::move(kept));
    of.now = sched::request::state::idle;
    of.got = {};
  }
  give_back(of);
  of.at = job::place::in_line;
  if (of.is_stopped) return end(of, ending::cancelled);
  if (of.asked.retries == 0 && !of_.in.is(plant::runs_again)) return end(of, ending::lost);
  if (of.asked.retries > 0) --of.asked.retries;
  ++of.attempt;
  of.asked.node = 0;
  of.asked.cpus == 0 ? run(of) : ask(of);
}

// ---- runs

void tasks::run(job& of) {
  of.at = job::place::here;
  of.turn = ++turns_;
  if (of.asked.cpus == 0) ++guests_;
  const auto amount = static_cast<std::uint64_t>(of.what.is_empty() ? 0 : of.asked.cpus);
  of_.note({.is = told::began, .number = of.name, .amount = amount});
  const duration most = of_.random().one_in(8) ? 400ms : 30ms;
  const duration takes = of.asked.is_probe ? duration(1ms) : 1ms + of_.in.time.any(most);
  of_.later(takes, [this, one = &of, turn = of.turn] {
    if (job* const still = find(one, turn)) finish(*still);
  });
}

tasks::job* tasks::find(const job* one, std::uint64_t turn) const {
  const auto is = [&](const auto& each) {
    return each.second.get() == one && each.second->turn == turn;
  };
  if (const auto at = std::ranges::find_if(own_, is); at != own_.end()) return at->second.get();
  const auto at = std::ranges::find_if(visits_, is);
  return at == visits_.end() ? nullptr : at->second.get();
}

void tasks::leave(job& of) {
  of_.note({.is = told::over, .number = of.name});
  if (of.asked.cpus == 0) --guests_;
  of.turn = 0;
}

void tasks::finish(job& of) {
  leave(of);
  const ending how = of_.random().one_in(10) ? ending::failed : ending::value;
  of.giver != 0 ? answer(of, how) : end(of, how);
}

void tasks::end(job& of, ending how) {
  of_.note({.is = told::ended, .number = of.name, .how = how});
  give_back(of);
  const auto things = of.asked.things;
  own_.erase(of.name);
  for (const id& one : things) refs_.unpin(one);
}

// ---- tasks of other nodes

void tasks::hear_task(node_number from, const id& request, const wire::task_view& said,
                      handles::arrivals came) {
  auto made = std::make_unique<job>();
  made->name = said.id.low;
  made->giver = from;
  made->flight = request.low;
  made->attempt = said.attempt;
  made->came = std::move(came);
  made->asked.cpus = said.options != nullptr ? said.options->cpus : 0;
  const auto [at, is_new] = visits_.try_emplace({from, request.low}, std::move(made));
  if (!is_new) return;
  job& one = *at->second;
  if (one.asked.cpus > 0) return ask(one);
  const sched::overflow_queue here{guests_, 1, 25ms};
  sched::refuses({}, here) ? answer(one, ending::lost, true) : run(one);
}

void tasks::answer(job& of, ending how, bool runs_at_home) {
  const bool has_run = how == ending::value;
  refs_.read(std::exchange(of.came, {}), of_.keeps && has_run && of_.random().one_in(3));
  std::vector<id> things;
  if (has_run && refs_.held() > 0 && of_.random().one_in(3)) things.push_back(refs_.any());
  const auto references = handles::written(things);
  static constexpr std::array codes = {manta::errc::task_error, manta::errc::task_error,
                                       manta::errc::task_error, manta::errc::cancelled,
                                       manta::errc::node_lost,  manta::errc::infeasible};
  const wire::cause_view why{.code = codes.at(static_cast<std::size_t>(how))};
  wire::result_view said{.task = {1, of.name}, .attempt = of.attempt, .execution = of.flight};
  said.ran = 1ms;
  said.may_repeat = runs_at_home;
  if (has_run) {
    said.outcome = manta::spec::parcel_view{{}, {}, references};
  } else {
    said.outcome = wire::error_view{{&why, 1}};
  }
  const id request = of_.next_request(topic::result_of_task);
  if (of_.writer.write({request, of_.self, 0}, said)) refs_.send(of.giver, request, references);
  give_back(of);
  visits_.erase({of.giver, of.flight});
}

void tasks::hear_stop(node_number from, const wire::ask_view& said) {
  const auto asked = manta::codec::decode<manta::node::stop_note>(said.with);
  const auto found = visits_.find({from, asked.number});
  if (found == visits_.end()) return;  // its answer is on its way
  job& of = *found->second;
  if (of.at == job::place::here) {
    leave(of);
  } else if (of_.in.is(plant::stops_not_answered)) {
    refs_.read(of.came, false);
    give_back(of);
    visits_.erase(found);
    return;
  }
  answer(of, ending::cancelled);
}

// What runs is stopped, what waits never begins; nobody is told.
void tasks::lose_visits(node_number giver) {
  std::vector<visitor> all;
  for (const auto& [who, one] : visits_) {
    if (who.first == giver) all.push_back(who);
  }
  for (const visitor& who : all) {
    job& of = *visits_.at(who);
    if (of.at == job::place::here) leave(of);
    refs_.read(std::exchange(of.came, {}), false);
    if (of_.in.is(plant::guests_kept) && of.now == sched::request::state::held) {
      forgotten_.push_back(std::move(visits_.at(who)));
    } else {
      give_back(of);
    }
    visits_.erase(who);
  }
}

std::string tasks::left() const {
  std::string out;
  if (!own_.empty() || !visits_.empty() || !flights_.empty()) {
    out += fmt::format("{} tasks, {} of others, {} away; ", own_.size(), visits_.size(),
                       flights_.size());
  }
  if (books_.waits.waiting() > 0) out += fmt::format("{} in line; ", books_.waits.waiting());
  const manta::resource_report has = books_.has.report();
  if (has.total != has.free) {
    out += fmt::format("{} of {} cpus are free; ", has.free.cpus, has.total.cpus);
  }
  if (books_.has.node_count() > books_.most_others + 1) {
    out += fmt::format("accounts of {} nodes, of which it knew {}; ", books_.has.node_count(),
                       books_.most_others + 1);
  }
  return out;
}

}  // namespace sim::work
