// SPDX-License-Identifier: Apache-2.0
#include "sim/work_post.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace sim::work {

using manta::wire::arrival;
using manta::wire::courier;

namespace {

id process_of(node_number node) { return {7, node}; }

}  // namespace

post::post(stage& in, node_number self, on_message tell)
    : timer(in.time, [this] { return pump(); }), in_(in), self_(self), tell_(std::move(tell)) {
  in_.net.listen(host_of(self_), [this](network::link_ptr from, const caller& by) {
    accept(std::move(from), by.epoch);
  });
}

void post::joined(node_number who) {
  if (who == self_ || dead_.contains(who)) return;
  auto made = std::make_unique<peer>();
  made->of = this;
  made->node = who;
  courier::settings how{.self = process_of(self_), .epoch = self_, .peer = process_of(who)};
  how.on_arrival = [this] { timer.soon(); };
  how.clock = world::clock;
  how.answers_wait = std::chrono::microseconds(500);
  if (self_ > who) {
    how.dial = [this, who] {
      network::link_ptr out =
          in_.net.dial(host_of(self_), host_of(who), {process_of(self_), self_, process_of(who)});
      out->on_arrival([this] { timer.soon(); });
      return out;
    };
  }
  made->mail = std::make_unique<courier>(std::move(how), *made);
  peer& one = *peers_.emplace(who, std::move(made)).first->second;
  if (auto early = early_.extract(who)) one.mail->attach(std::move(early.mapped()));
  timer.soon();
}

void post::gone(node_number who) {
  dead_.insert(who);
  early_.erase(who);
  if (!in_.is(plant::dead_heard)) peers_.erase(who);
}

void post::accept(network::link_ptr from, node_number by) {
  if (dead_.contains(by)) return;
  from->on_arrival([this] { timer.soon(); });
  const auto known = peers_.find(by);
  if (known != peers_.end()) {
    known->second->mail->attach(std::move(from));
  } else {
    early_[by] = std::move(from);
  }
  timer.soon();
}

void post::send(node_number to, const id& request, const manta::wire::message_writer& what) {
  const auto found = peers_.find(to);
  if (found == peers_.end()) return;
  found->second->leaving.add(request, what.pieces(), what.size_bytes());
  timer.soon();
}

void post::peer::on_request(const arrival& came) {
  // Each begins at a multiple of 64 in memory of the courier's, which lives during the call.
  manta::wire::bundle::each(
      came.message, [&](const id& request, auto message) { of->tell_(node, request, message); });
  mail->answer(came, {});
}

void post::peer::flush() {
  if (leaving.empty()) return;
  const std::span<const std::byte> piece = leaving.bytes();
  if (mail->request({1, ++bundles}, {&piece, 1}, piece.size())) leaving.clear();
}

time_point post::pump() {
  const time_point now = in_.time.now();
  time_point next = time_point::max();
  for (auto& [node, one] : peers_) {
    one->flush();
    one->mail->pump(now);
    one->flush();  // what was said to what came
    if (const auto due = one->mail->due()) next = std::min(next, *due);
  }
  return next;
}

std::size_t post::unanswered() const {
  std::size_t out = 0;
  for (const auto& [node, one] : peers_) {
    if (!dead_.contains(node)) out += one->mail->unanswered();
  }
  return out;
}

}  // namespace sim::work
