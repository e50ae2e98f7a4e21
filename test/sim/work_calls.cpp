// SPDX-License-Identifier: Apache-2.0
#include "sim/work_calls.hpp"

#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace sim::work {

using namespace std::chrono_literals;
namespace wire = manta::wire;
using told = entry::what;

void calls::call(std::uint64_t caller, node_number to, const std::vector<id>& things) {
  const one made{.node = to, .caller = caller, .number = ++last_[{caller, to}]};
  of_.note({.is = told::called, .other = to, .number = made.number, .caller = caller});
  send(made, things);
}

void calls::send(const one& call, const std::vector<id>& things) {
  const id request = of_.next_request(topic::call);
  open_[request.low] = call;
  const auto references = handles::written(things);
  wire::call_view said{
      .actor = {9, call.node}, .caller = {of_.self, call.caller}, .call_number = call.number};
  said.arguments.references = references;
  if (of_.writer.write({request, of_.self, 0}, said)) refs_.send(call.node, request, references);
  if (!of_.in.is(plant::calls_sent_again)) return;
  of_.later(60ms, [this, number = request.low] {
    const auto found = open_.find(number);
    if (found == open_.end()) return;
    const one again = found->second;
    open_.erase(found);
    send(again, {});
  });
}

void calls::hear_call(node_number from, const id& request, const wire::call_view& said,
                      handles::arrivals came) {
  line_.push_back({from, said.caller.low, said.call_number, request.low, std::move(came)});
  if (of_.in.is(plant::two_readers) && line_.size() > 1) {
    of_.later(of_.in.time.any(3ms), [this] { read_next(1); });
  }
  read_soon();
}

void calls::read_soon() {
  if (has_reader_ || line_.empty()) return;
  has_reader_ = true;
  of_.later(of_.in.time.any(3ms), [this] {
    has_reader_ = false;
    read_next(0);
    read_soon();
  });
}

void calls::read_next(std::size_t at) {
  if (line_.size() <= at) return;
  const one next = std::move(line_[at]);
  line_.erase(line_.begin() + static_cast<std::ptrdiff_t>(at));
  of_.note({.is = told::handled, .other = next.node, .number = next.number, .caller = next.caller});
  refs_.read(next.came, of_.keeps && of_.random().one_in(2));
  std::vector<id> things;
  if (refs_.held() > 0 && of_.random().one_in(4)) things.push_back(refs_.any());
  const auto references = handles::written(things);
  const id request{topic::result_of_call, next.request};
  wire::result_view said{.task = {1, next.number}};
  said.outcome = manta::spec::parcel_view{{}, {}, references};
  if (of_.writer.write({request, of_.self, 0}, said)) refs_.send(next.node, request, references);
}

void calls::hear_result(node_number from, const id& request, const handles::arrivals& came) {
  const auto found = open_.find(request.low);
  const bool is_late = found == open_.end() || found->second.node != from;
  refs_.read(came, of_.keeps && !is_late && of_.random().one_in(2));
  if (is_late) return;
  const one& of = found->second;
  of_.note({.is = told::answered,
            .other = from,
            .number = of.number,
            .caller = of.caller,
            .how = ending::value});
  open_.erase(found);
}

void calls::drop(node_number who) {
  std::deque<one> stay;
  for (one& each : std::exchange(line_, {})) {
    if (each.node == who) {
      refs_.read(each.came, false);
    } else {
      stay.push_back(std::move(each));
    }
  }
  line_ = std::move(stay);
}

void calls::lose(node_number who) {
  if (of_.in.is(plant::lost_calls_kept)) return;
  for (auto at = open_.begin(); at != open_.end();) {
    const one& of = at->second;
    const bool is_lost = of.node == who;
    if (is_lost) {
      of_.note({.is = told::answered,
                .other = who,
                .number = of.number,
                .caller = of.caller,
                .how = ending::lost});
    }
    at = is_lost ? open_.erase(at) : std::next(at);
  }
}

std::string calls::left() const {
  if (open_.empty() && line_.empty()) return {};
  return fmt::format("{} calls without an answer, {} not read; ", open_.size(), line_.size());
}

}  // namespace sim::work
