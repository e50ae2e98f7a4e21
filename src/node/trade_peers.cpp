// SPDX-License-Identifier: Apache-2.0
// What the other nodes say, on the loop's thread: trade.hpp.
#include <algorithm>
#include <new>
#include <utility>
#include <variant>
#include <vector>

#include <manta/codec/errors.hpp>

#include "node/bookings.hpp"
#include "node/copy_cache.hpp"
#include "node/far_actors.hpp"
#include "node/far_arrays.hpp"
#include "node/far_copies.hpp"
#include "node/far_futures.hpp"
#include "node/far_handles.hpp"
#include "node/far_names.hpp"
#include "node/far_pulls.hpp"
#include "node/head_facts.hpp"
#include "node/node_things.hpp"
#include "node/resident_actors.hpp"
#include "node/trade.hpp"
#include "node/workbench.hpp"

namespace manta::inline v0::node {

void trade::on_message(peers& by, std::uint64_t from, const base::id& request,
                       const peers::kept_message& message) {
  try {
    if (early_.keeps(by, from, request, message)) return;
  } catch (const std::bad_alloc&) {
    return;  // as below
  }
  hear(by, from, request, message);
}

// The loop's thread: nothing that is the user's is read here.
void trade::hear(peers& by, std::uint64_t from, const base::id& request,
                 const peers::kept_message& message) noexcept {
  try {
    std::shared_ptr<far_arrivals> came;
    if (peers::has_handles(request)) came = far_handles::global().came(from, message.bytes);
    switch (peers::topic_of(request)) {
      case peers::task:
        return take_in(by, {from, request.low}, message, std::move(came));
      case peers::surplus:
        return take_in(by, {from, request.low}, message, std::move(came), too_long_a_wait());
      case peers::question:
        return head_facts::global().on_question(by, from, message.bytes);
      case peers::name:
        return far_names::global().on_question(by, from, request.low, message);
      case peers::spawn:
      case peers::construct:
      case peers::call:
      case peers::release:
      case peers::actor_order:
        return resident_actors::global().on_message(by, from, request, message, std::move(came));
      case peers::known:
        return far_actors::global().on_known(request.low);
      case peers::references:
        return far_handles::global().hear(from, message.bytes);
      case peers::pull:
        return far_pulls::global().on_question(by, from, request.low, message.bytes);
      case peers::pulled:
        return far_pulls::global().on_part(from, request.low, message.bytes);
      case peers::copy_answer:
        return far_copies::global().on_answer(from, request.low, message.bytes);
      case peers::booking:
        return bookings::hear(by, from, message.bytes);
      case peers::flow:
        return hear_flow(from, request.low, message.bytes);
      case peers::future:
        return far_futures::global().on_question(from, request.low, message);
      case peers::thing:
        return node_things::global().on_question(from, message, std::move(came));
      case peers::result_of_task:
      case peers::item:
      case peers::answer:
      case peers::future_answer:
      case peers::thing_answer:
      case peers::name_answer:
      case peers::result_of_call:
      case peers::spawned:
      case peers::actor_end: {
        {
          const std::lock_guard lock(mutex_);
          if (has_looker_) landed_.push_back({from, request, message, std::move(came)});
        }
        return nap_.signal();
      }
      case peers::stop: {
        const borrowed_workbench on;
        const result<const wire::message_view&> read = on->reader.read(message.bytes);
        const auto* const asked = read ? std::get_if<wire::ask_view>(&read->body) : nullptr;
        if (asked == nullptr || asked->what != wire::question::cancel_future) return;
        return stop_visit(by, from, codec::decode<stop_note>(asked->with));
      }
      default:
        return;
    }
  } catch (...) {
    // No memory, or nonsense: who waits for it hears of it when this node ends, and not before.
  }
}

void trade::see_offers(peers& by) noexcept {
  if (!takes_offers_.load()) return;
  try {
    std::vector<desk::other_node> all;
    for (const peers::member& one : by.all()) {
      all.push_back({one.epoch, one.takes_actors && by.can_reach(one.epoch)});
    }
    const std::vector<std::uint64_t> unknown = desk::global().see_others(all);
    for (const desk::other_node& one : all) {
      if (std::ranges::find(unknown, one.node) == unknown.end()) continue;
      const spec::node_introduction who = by.introduction_of(one.node);
      // Without: a head that was started again does not know yet.
      if (who.workers != 0) desk::global().add_other(one, who);
    }
    // Those who wait for the last of them look for what it has.
    joined_.store(std::max(joined_.load(), all.size()));
  } catch (const std::bad_alloc&) {
    return;  // at the next news
  }
}

void trade::on_news(peers& by) {
  see_offers(by);
  if (!early_.is_empty()) {
    early_.go_on(by, [&](std::uint64_t from, const base::id& request,
                         const peers::kept_message& message) { hear(by, from, request, message); });
  }
  if (is_asleep_.load()) woken();
}

void trade::on_gone(peers& by, std::uint64_t node, const std::string& why) {
  // One that can't be reached from here lives, and goes on where it was.
  if (!by.has(node)) early_.drop(node);
  far_actors::global().on_gone(node);
  head_facts::global().on_gone(node);
  try {
    far_names::global().on_gone(node);
    node_things::global().on_gone(node);
    const std::lock_guard lock(mutex_);
    if (has_looker_) lost_nodes_.push_back({node, why, last_request_.load()});
  } catch (...) {
    std::terminate();  // no memory: who waits for its word would wait for ever
  }
  resident_actors::global().on_gone(by, node);
  far_pulls::global().gone(node, why);
  desk::global().rest_other(node);  // before its tasks come back, and ask for another place
  try {
    // One that can't be reached from here lives, and so does what it has.
    if (!by.has(node)) {
      desk::global().lose_maker(node);
      far_arrays::global().gone(node);
      copy_cache::global().touch(node, base::now());
      far_handles::global().gone(node);
    }
  } catch (const std::bad_alloc&) {
    // What it had is kept.
  }
  nap_.signal();
  stop_visits(node);
}

void trade::on_begin(peers& by) {
  joined_.store(0);
  early_.begin();
  far_handles::global().begin(by);
  far_arrays::global().begin();
  far_pulls::global().begin(by);
}
void trade::on_joined(peers& /*by*/, const spec::node_member& one) {
  far_handles::global().joined(one.epoch);
  far_arrays::global().joined(one);
}

// Who was killed is not always gone when its connections are.
base::deadline trade::on_turn(peers& by, base::time_point now) {
  constexpr auto between_sweeps = std::chrono::milliseconds(100);
  constexpr auto until_room = std::chrono::milliseconds(1);
  base::deadline due;
  try {
    due = bookings::turn(by, now);
  } catch (const std::bad_alloc&) {
    due = now + between_sweeps;
  }
  if (far_pulls::global().answer_waiting(by)) due = base::earlier(due, now + until_room);
  due = base::earlier(due, far_pulls::global().relieve(by, now));
  due = base::earlier(due, copy_cache::global().sweep(now));
  due = base::earlier(due, far_copies::global().turn(now));
  far_arrays& arrays = far_arrays::global();
  if (!arrays.keeps()) return due;
  if (now >= next_sweep_) {
    arrays.sweep();
    next_sweep_ = now + between_sweeps;
  }
  return base::earlier(due, next_sweep_);
}

}  // namespace manta::inline v0::node
