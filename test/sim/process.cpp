// SPDX-License-Identifier: Apache-2.0
#include "sim/process.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace sim {

using namespace std::chrono_literals;
using manta::base::id;
using manta::node::cluster_member;
using manta::spec::node_member;
using manta::spec::node_state;
using manta::wire::arrival;
using manta::wire::courier;
using manta::wire::link;
using what = entry::what;

std::string host_of(std::size_t slot) { return fmt::format("n{}", slot); }

process::process(scene& in, std::size_t slot, const id& own)
    : name(own),
      timer(in.time, [this] { return pump(); }),
      in_(in),
      slot_(slot),
      host_(host_of(slot)),
      peers_([](const id& a, const id& b) { return a.low < b.low; }) {
  member_ = std::make_unique<cluster_member>(
      in.settings(false), name,
      manta::spec::node_introduction{.name = host_, .address = host_, .host = host_, .pid = 7},
      [this] { return dial(head_host, {}); }, *this, in.time.now());
  note(what::began);
}

void process::note(what is, std::uint64_t other, std::uint64_t number, std::string why) {
  in_.log({.is = is,
           .process = name.low,
           .other = other,
           .epoch = epoch_,
           .number = number,
           .why = std::move(why)});
}

std::unique_ptr<link> process::dial(const std::string& to, const id& wanted) {
  const bool is_head = to == head_host;
  if (is_head && ++dials_ > 1 && in_.with.broken == plant::no_new_connection) return nullptr;
  std::unique_ptr<link> made = in_.net.dial(host_, to, {name, epoch_, wanted});
  made->on_arrival([this] { timer.soon(); });
  if (!is_head || !tampering_link::is_for(in_.with.broken)) return made;
  return std::make_unique<tampering_link>(std::move(made), in_.with.broken, broken_memory_);
}

time_point process::pump() {
  const time_point now = in_.time.now();
  member_->pump(now);
  time_point next = member_->due();
  for (auto& [other, one] : peers_) {
    one->mail->pump(now);
    if (const auto due = one->mail->due()) next = std::min(next, *due);
  }
  return is_over ? time_point::max() : next;
}

void process::on_joined(std::uint64_t epoch) {
  epoch_ = epoch;
  note(what::joined);
  if (in_.with.works) work();
  change_load();
}

void process::on_changed(const node_member& one) {
  if (one.is == node_state::ended) {
    note(what::saw_end, one.process.low);
    // What it sends is heard for a while, as long as it has not heard of its end itself.
    in_.time.after(5s, [this, &in = in_, own = name, slot = host_, other = one.process] {
      if (in.is_here(slot, own)) peers_.erase(other);
    });
  } else if (in_.with.works && !peers_.contains(one.process)) {
    meet(one);
  }
}

void process::on_over(const std::optional<manta::error>& why) {
  is_over = true;
  note(why ? what::ended : what::left, 0, 0, why ? why->message() : std::string());
  in_.gone(slot_);
}

process::peer& process::make_peer(const id& other, courier::settings how) {
  auto made = std::make_unique<peer>();
  made->of = this;
  made->other = other;
  how.self = name;
  how.epoch = epoch_;
  how.peer = other;
  how.on_arrival = [this] { timer.soon(); };
  how.clock = world::clock;
  made->mail = std::make_unique<courier>(std::move(how), *made);
  return *peers_.emplace(other, std::move(made)).first->second;
}

// The one that began first dials, so that there is one connection.
void process::meet(const node_member& one) {
  courier::settings how;
  if (name.low < one.process.low) {
    how.dial = [this, to = one.who.address, who = one.process] { return dial(to, who); };
  }
  make_peer(one.process, std::move(how));
  timer.soon();
}

void process::accept(std::unique_ptr<link> from, const caller& by) {
  using worth = manta::life::seat::worth;
  if (epoch_ == 0 || !in_.with.works || by.wanted != name) return;  // it may come again
  // Nothing is remembered of one that has ended, so nothing can be handled once.
  if (member_->seat().of(by.process, by.epoch) == worth::stale) return;
  const auto known = peers_.find(by.process);
  peer& one = known != peers_.end() ? *known->second : make_peer(by.process, {});
  from->on_arrival([this] { timer.soon(); });
  one.mail->attach(std::move(from));
  timer.soon();
}

// Until the storm is over, so that at the end everybody has to know of the last one.
void process::change_load() {
  const duration wait = 50ms + in_.time.any(900ms);
  if (in_.time.now() + wait > in_.begin() + in_.with.storm) return;
  in_.time.after(wait, [this, own = name, &in = in_, slot = host_] {
    if (!in.is_here(slot, own) || is_over) return;
    if (!timer.is_stopped()) {
      load_.queued = static_cast<std::uint32_t>(in.time.random().below(100));
      load_.running = static_cast<std::uint32_t>(in.time.random().below(4));
      member_->set_load(load_);
    }
    change_load();
  });
}

// Every now and then it has something for somebody.
void process::work() {
  in_.time.after(20ms + in_.time.any(200ms), [this, own = name, &in = in_, slot = host_] {
    if (!in.is_here(slot, own)) return;
    work();
    if (peers_.empty() || is_over || timer.is_stopped()) return;
    auto at = peers_.begin();
    std::advance(at, static_cast<long>(in.time.random().below(peers_.size())));
    ask(*at->second, ++last_request_);
    timer.soon();
  });
}

void process::ask(peer& whom, std::uint64_t number) {
  std::array<std::byte, 8> bytes{};
  std::memcpy(bytes.data(), &number, sizeof number);
  const std::span<const std::byte> piece = bytes;
  const id request{name.low, ++last_id_};
  if (!whom.mail->request(request, {&piece, 1}, bytes.size())) return;
  whom.open[request.low] = number;
  if (in_.with.broken != plant::new_ids) return;
  in_.time.after(200ms,
                 [this, own = name, &in = in_, slot = host_, to = whom.other, request, number] {
                   if (!in.is_here(slot, own) || is_over || timer.is_stopped()) return;
                   const auto at = peers_.find(to);
                   if (at != peers_.end() && at->second->open.contains(request.low))
                     ask(*at->second, number);
                 });
}

void process::peer::on_request(const arrival& came) {
  using worth = manta::life::seat::worth;
  std::uint64_t number = 0;
  std::memcpy(&number, came.message.data(), sizeof number);
  const bool is_stale = of->member_->seat().of(other, came.head.epoch) == worth::stale;
  if (!is_stale || of->in_.with.broken == plant::no_fence) {
    of->note(what::accepted, other.low, number);
  }
  mail->answer(came, {std::byte{1}});
}

void process::peer::on_answer(const id& request, std::span<const std::byte> /*answer*/) {
  open.erase(request.low);
}

void process::drain() {
  if (timer.is_stopped()) {
    is_to_drain_ = true;
    return;
  }
  note(what::drained);
  if (in_.with.broken == plant::no_drain) return;
  member_->drain(2s, in_.time.now());
  timer.soon();
}

void process::go_on() {
  timer.go_on();
  if (!timer.is_stopped() && std::exchange(is_to_drain_, false)) drain();
}

view_of_members process::view() const {
  view_of_members out;
  for (const auto& [other, one] : member_->seat().others()) {
    out[other.low] = {one.epoch, one.is, one.load};
  }
  return out;
}

}  // namespace sim
