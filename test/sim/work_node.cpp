// SPDX-License-Identifier: Apache-2.0
#include "sim/work_node.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

namespace sim::work {

using namespace std::chrono_literals;
namespace wire = manta::wire;
using manta::node::peers;
using references_view = std::span<const manta::spec::reference>;

namespace {

constexpr std::size_t most_things = 8;
constexpr std::size_t most_open = 12;
constexpr std::size_t most_groups = 3;

references_view handles_in(const wire::message_view& of) {
  if (const auto* const task = std::get_if<wire::task_view>(&of.body)) {
    return task->arguments.references;
  }
  if (const auto* const call = std::get_if<wire::call_view>(&of.body)) {
    return call->arguments.references;
  }
  const auto* const came = std::get_if<wire::result_view>(&of.body);
  const auto* const value =
      came == nullptr ? nullptr : std::get_if<manta::spec::parcel_view>(&came->outcome);
  return value == nullptr ? references_view() : value->references;
}

}  // namespace

node::node(stage& in, node_number self, const std::set<node_number>& others)
    : of_(in, self,
          [this](node_number from, const id& request, std::span<const std::byte> message) {
            on_message(from, request, message);
          }),
      handles_(of_),
      books_(self),
      tasks_(of_, handles_, books_),
      groups_(of_, books_),
      calls_(of_, handles_),
      newest_(self) {
  of_.note({.is = entry::what::joined, .amount = static_cast<std::uint64_t>(cpus_of(self))});
  for (const node_number one : others) joined(one);
  static_cast<void>(handles_.make());
  work();
}

// What waits in line goes before the line does.
node::~node() {
  while (books_.waits.take_first() != nullptr) {
  }
}

void node::joined(node_number who) {
  if (who == of_.self) return;
  newest_ = std::max(newest_, who);
  others_.insert(who);
  handles_.joined(who);
  of_.mail.joined(who);
  books_.joined(who);
  for (auto at = early_.begin(); at != early_.end();) {
    auto& [from, all] = *at;
    while (!all.empty() && is_clear(all.front().request, all.front().message.bytes())) {
      const letter next = std::move(all.front());
      all.pop_front();
      hear(from, next.request, next.message.bytes());
    }
    at = all.empty() ? early_.erase(at) : std::next(at);
  }
}

// In trade::on_gone's order.
void node::gone(node_number who) {
  others_.erase(who);
  early_.erase(who);
  of_.mail.gone(who);
  handles_.gone(who);
  calls_.drop(who);
  tasks_.gone(who);
  groups_.gone(who);
  lost_.push_back(who);
  land_soon();
}

void node::go_on() {
  of_.mail.timer.go_on();
  if (!of_.mail.timer.is_stopped()) of_.go_on();
}

// ---- messages

void node::on_message(node_number from, const id& request, std::span<const std::byte> message) {
  const auto found = early_.find(from);
  const bool passes = of_.in.is(plant::calls_pass_early) && !peers::has_handles(request);
  if (passes || (found == early_.end() && is_clear(request, message))) {
    return hear(from, request, message);
  }
  early_[from].push_back(kept(request, message));
}

node::letter node::kept(const id& request, std::span<const std::byte> message) {
  letter out;
  out.request = request;
  std::ranges::copy(message, out.message.reset(message.size()).data());
  return out;
}

bool node::is_clear(const id& request, std::span<const std::byte> message) {
  if (!peers::has_handles(request)) return true;
  const auto read = reader_.read(message);
  return !read || std::ranges::all_of(handles_in(*read), [this](const auto& one) {
    return one.owner.high == of_.self || one.owner.high <= newest_;
  });
}

void node::hear(node_number from, const id& request, std::span<const std::byte> message) {
  const auto read = reader_.read(message);
  if (!read) return of_.note({.is = entry::what::nonsense, .other = from});
  const auto came = handles_.came(from, request, handles_in(*read));
  switch (peers::topic_of(request)) {
    case topic::task:
    case topic::surplus:
      return tasks_.hear_task(from, request, std::get<wire::task_view>(read->body), came);
    case topic::result_of_task:
    case topic::result_of_call: {
      letter& one = landed_.emplace_back(kept(request, message));
      one.from = from;
      one.came = came;
      return land_soon();
    }
    case topic::stop:
      return tasks_.hear_stop(from, std::get<wire::ask_view>(read->body));
    case topic::call:
      return calls_.hear_call(from, request, std::get<wire::call_view>(read->body), came);
    case topic::booking:
      return groups_.hear(from, std::get<wire::ask_view>(read->body));
    case topic::references:
      return handles_.hear(from, std::get<wire::ask_view>(read->body));
    default:
      return;
  }
}

void node::land_soon() {
  if (std::exchange(has_looker_, true)) return;
  of_.later(of_.in.time.any(of_.random().one_in(8) ? 60ms : 2ms), [this] {
    has_looker_ = false;
    land();
  });
}

void node::land() {
  const std::vector<node_number> lost = std::exchange(lost_, {});
  const std::deque<letter> landed = std::exchange(landed_, {});
  for (const node_number one : lost) lose_offer(one);
  for (const letter& one : landed) hand_out(one);
  for (const node_number one : lost) {
    tasks_.lose_flights(one);
    calls_.lose(one);
  }
}

// As desk::lose_other.
void node::lose_offer(node_number who) {
  const sched::node_id at = books_.index.at(who);
  books_.has.set(at, sched::ledger::standing::gone);
  groups_.lose_bundles(who);
  books_.others[at] = 0;
  books_.index.erase(who);
  books_.has.judge(false);
  books_.refuse_infeasible();
  groups_.give_up_hopeless();
  books_.go_on(books_.waits.look_again());
}

void node::hand_out(const letter& one) {
  const auto read = reader_.read(one.message.bytes());
  if (peers::topic_of(one.request) == topic::result_of_task) {
    tasks_.hear_result(one.from, std::get<wire::result_view>(read->body), one.came);
  } else {
    calls_.hear_result(one.from, one.request, one.came);
  }
}

// ---- the workload

void node::work() {
  of_.later(1ms + of_.in.time.any(18ms), [this] {
    if (is_quiet_) return;
    act();
    work();
  });
}

std::vector<id> node::some_things(std::size_t most) {
  std::vector<id> out;
  if (handles_.held() == 0) return out;
  for (std::size_t i = of_.random().below(most + 1); i > 0; --i) out.push_back(handles_.any());
  return out;
}

void node::act() {
  switch (of_.random().below(12)) {
    case 0:
      if (handles_.held() < most_things) static_cast<void>(handles_.make());
      return;
    case 1:
    case 2:
    case 3: {
      if (others_.empty() || calls_.open() >= most_open) return;
      const auto to =
          *std::next(others_.begin(), static_cast<long>(of_.random().below(others_.size())));
      return calls_.call(of_.self << 8U | of_.random().below(2), to, some_things(2));
    }
    case 4:
    case 5:
    case 6:
      return start_task();
    case 7:
      if (of_.random().one_in(3)) tasks_.stop_one();
      return;
    case 8:
      return of_.random().one_in(2) ? make_group() : groups_.remove_one();
    default:
      if (handles_.held() > 0) handles_.drop(handles_.any());
      return;
  }
}

void node::start_task() {
  if (tasks_.open() >= most_open) return;
  tasks::wish asked{.retries = static_cast<std::uint32_t>(of_.random().below(3)),
                    .things = some_things(1)};
  switch (of_.random().below(4)) {
    case 0:  // goes of itself, which one that may not run again never does
      asked.retries += 1;
      if (!others_.empty() && of_.random().one_in(4)) return start_burst(asked);
      break;
    case 1:
      if (!others_.empty()) {
        asked.node =
            *std::next(others_.begin(), static_cast<long>(of_.random().below(others_.size())));
      }
      asked.cpus = 500;
      if (asked.node != 0 && of_.random().one_in(3)) return start_burst(asked);
      break;
    default:
      asked.cpus = 250 * static_cast<std::int64_t>(1 + of_.random().below(8));
      break;
  }
  tasks_.start(asked);
}

// More than one node takes at once.
void node::start_burst(tasks::wish asked) {
  if (asked.node == 0) {
    asked.node = *std::next(others_.begin(), static_cast<long>(of_.random().below(others_.size())));
  }
  for (int i = 0; i < 8; ++i) tasks_.start(asked);
}

void node::make_group() {
  if (groups_.open() >= most_groups) return;
  std::vector<std::int64_t> cpus(1 + of_.random().below(4));
  for (std::int64_t& one : cpus) one = 250 * static_cast<std::int64_t>(1 + of_.random().below(4));
  groups_.make(cpus, static_cast<manta::strategy>(of_.random().below(4)));
}

void node::let_go() {
  groups_.remove_all();
  of_.keeps = false;
  handles_.drop_all();
}

void node::probe() {
  tasks_.start({.cpus = cpus_of(of_.self), .node = of_.self, .is_probe = true});
}

std::string node::left() const {
  std::string out = handles_.left() + tasks_.left() + groups_.left() + calls_.left();
  if (!early_.empty()) out += "messages that wait for news; ";
  if (!landed_.empty()) out += "results that nobody reads; ";
  if (of_.mail.unanswered() > 0) {
    out += fmt::format("{} requests that nobody has answered; ", of_.mail.unanswered());
  }
  return out;
}

}  // namespace sim::work
