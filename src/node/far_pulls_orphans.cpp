// SPDX-License-Identifier: Apache-2.0
// Fetches whose maker is lost, is about to leave or has no room: what far_pulls.cpp has to do with
// copies in other nodes, and what it takes before anybody reads it.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "node/array_home.hpp"
#include "node/far_arrays.hpp"
#include "node/far_copies.hpp"
#include "node/far_pulls.hpp"
#include "node/link_times.hpp"
#include "node/peer_question.hpp"
#include "node/resting_array.hpp"
#include "node/trade.hpp"
#include "node/worker_facts.hpp"
#include "spec/made_error.hpp"

namespace manta::inline v0::node {

namespace {

error no_copy_error(const std::string& why) noexcept {
  return spec::made_error(errc::node_lost, [&] {
    return fmt::format(
        "an array that another node has made stayed there, and that node is lost: {}; no other "
        "node has a copy of it; call its task again",
        why);
  });
}

}  // namespace

// The loop's thread. Those that come by bulk may have a helper that gives all that is missing;
// else the bulk thread says so at once. One without room is looked at by who is about to start it.
void far_pulls::gone(std::uint64_t node, const std::string& why) noexcept {
  far_copies::global().gone(node);
  {
    const std::lock_guard lock(mutex_);
    late_.lost(node);
    try {
      if (way_ != nullptr) way_->lose(node);
    } catch (const std::bad_alloc&) {
      // It finds out by itself.
    }
  }
  for (;;) {
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      if (by_ == nullptr) return;  // close ends them
      const auto found = std::ranges::find_if(pulls_, [node](const auto& one) {
        const pull& is = *one.second;
        if (is.is_landing || is.is_sought || is.is_in_bulk || is.room == nullptr) return false;
        return is.block->from().owner == node;
      });
      if (found == pulls_.end()) return;
      number = found->first;
    }
    seek(number, why);
  }
}

// Once for each: from then on it is a matter of copies.
void far_pulls::seek(std::uint64_t number, const std::string& why) noexcept {
  peers* by = nullptr;
  copy_question of;
  try {
    const std::lock_guard lock(mutex_);
    const auto found = pulls_.find(number);
    if (found == pulls_.end() || by_ == nullptr) return;  // it has ended, or close ends it
    pull& is = *found->second;
    if (is.is_landing || is.is_sought) return;
    is.is_sought = true;
    if (std::exchange(is.is_timed, false)) link_times::global().ends(is.block->from().owner);
    is.is_in_bulk = false;
    is.why_lost = why;
    const distant_block::source& from = is.block->from();
    of = {from.id.high, from.id.low, from.owner, from.contents, from.bytes};
    if (way_ != nullptr) by = by_;
  } catch (const std::bad_alloc&) {
    const error failed = error::out_of_memory();
    return end(number, &failed);
  }
  if (by == nullptr) return no_copy(number);
  far_copies::global().seek(*by, number, of);
}

// False: it can't be had there.
bool far_pulls::fetch_of(std::uint64_t number, std::uint64_t holder) noexcept {
  std::shared_ptr<pull_room> unused;  // goes without the mutex
  try {
    const std::lock_guard lock(mutex_);
    const auto found = pulls_.find(number);
    if (found == pulls_.end() || by_ == nullptr || way_ == nullptr) return false;
    pull& is = *found->second;
    if (is.is_landing || is.is_in_bulk) return true;
    if (!by_->can_reach(holder)) return false;
    peers::bulk_place place = by_->bulk_place_of(holder);
    bulk::holder from{holder, place.process, places_of_node(holder, std::move(place.at))};
    if (from.places.empty()) return false;
    if (is.former != nullptr) {
      unused = std::exchange(is.room, std::move(is.former));
      is.came = 0;
    }
    way_->fetch(order_of(number, is, std::move(from)));
    is.is_in_bulk = true;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::optional<copy_question> far_pulls::let_room_go(std::uint64_t number) noexcept {
  std::shared_ptr<pull_room> room;  // both go without the mutex
  std::shared_ptr<pull_room> former;
  const std::lock_guard lock(mutex_);
  const auto found = pulls_.find(number);
  if (found == pulls_.end() || by_ == nullptr) return std::nullopt;
  pull& is = *found->second;
  if (is.is_landing || is.is_in_bulk) return std::nullopt;
  room.swap(is.room);
  former.swap(is.former);
  const distant_block::source& from = is.block->from();
  return copy_question{from.id.high, from.id.low, from.owner, from.contents, from.bytes};
}

void far_pulls::is_here(std::uint64_t number, array_block* copy) noexcept {
  pull_ptr of;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pulls_.find(number);
    const bool is_wanted = found != pulls_.end() && by_ != nullptr && !found->second->is_landing &&
                           !found->second->is_in_bulk;
    if (is_wanted) of = found->second;
    if (is_wanted) of->is_landing = true;
  }
  if (of == nullptr) return copy->drop();
  of->block->arrives(copy);
  end(number, nullptr);
}

void far_pulls::no_copy(std::uint64_t number) noexcept {
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pulls_.find(number);
    if (found == pulls_.end()) return;
    why.swap(found->second->why_lost);
  }
  const error lost = no_copy_error(why);
  end(number, &lost);
}

// Under the mutex. By bulk, and by messages, whose parts come in their order.
bulk::chunks_here far_pulls::come_so_far(const pull& of) const {
  if (of.here.empty() && of.came == 0) return {};
  const std::uint64_t chunk = way_->chunk_bytes();
  const std::uint64_t whole = of.block->from().bytes;
  bulk::chunks_here out = of.here;
  out.resize(static_cast<std::size_t>((whole - 1) / chunk + 1));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (std::min<std::uint64_t>(whole, (i + 1) * chunk) <= of.came) out[i] = true;
  }
  return out;
}

// All at once: were more asked for as each of many is given up, that would be the next of them.
void far_pulls::stop_waiting(std::span<const wait> all, bool are_cancelled) noexcept {
  if (all.empty()) return;
  std::map<std::uint64_t, pull_ptr> given_up;  // they go without the mutex
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [block, who] : all) {
      const auto known = numbers_.find(block);
      if (known == numbers_.end()) continue;
      const auto found = pulls_.find(known->second);
      pull& is = *found->second;
      if (std::erase(is.waiting, who) == 0) continue;
      if (!are_cancelled) is.may_be_asked_again = true;
      if (is.may_be_asked_again || is.is_taken || is.is_landing) continue;
      if (!is.waiting.empty()) continue;
      if (is.is_in_bulk) drop_bulk(is);
      if (!is.is_sought) expect_late(found->first, is);
      numbers_.erase(known);
      given_up.insert(pulls_.extract(found));
    }
  }
  for (const auto& [number, one] : given_up) {
    end_timing(*one);
    if (one->is_sought) far_copies::global().over(number);
  }
}

// ---- those of one that leaves, or has lent too much

void far_pulls::ask_to_take(peers& by, std::uint64_t node, plea why) {
  const base::id request{peers::pull, static_cast<std::uint64_t>(why)};
  ask_peer(by, node, request, wire::question::take_arrays);
}

base::deadline far_pulls::relieve(peers& by, base::time_point now) noexcept {
  const far_arrays& lent = far_arrays::global();
  if (!lent.is_crowded()) return std::nullopt;
  if (now < next_plea_) return next_plea_;
  next_plea_ = now + own::room_limits::between_pleas;
  try {
    for (const std::uint64_t node : lent.measure_stayed().in) {
      ask_to_take(by, node, plea::has_no_room);
    }
  } catch (const std::exception&) {
    // No memory: the next time.
  }
  return next_plea_;
}

// The loop's thread, which can't wait for room. However often it asks, once at a time.
void far_pulls::take_soon(std::uint64_t node, plea why) {
  {
    const std::lock_guard lock(mutex_);
    if (by_ == nullptr) return;
    if (const auto found = taking_.find(node); found != taking_.end()) {
      found->second = found->second || why == plea::leaves;
      return;
    }
  }
  const auto done = [this](const std::uint64_t* of) {
    {
      const std::lock_guard lock(mutex_);
      taking_.erase(*of);
    }
    delete of;
  };
  // The line may be dropped with all that is in it.
  const std::shared_ptr<const std::uint64_t> turn(new std::uint64_t(node), done);
  {
    const std::lock_guard lock(mutex_);
    taking_.emplace(node, false);
  }
  facts_line::global().add([this, turn, why] {
    take_from(*turn, why);
    if (has_asked_to_leave(*turn)) take_from(*turn, plea::leaves);
  });
}

bool far_pulls::has_asked_to_leave(std::uint64_t node) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = taking_.find(node);
  return found != taking_.end() && std::exchange(found->second, false);
}

// What can't be fetched now it asks for once more. Of who leaves all is taken, whatever room there
// is, and whoever waits for some: it would be lost.
void far_pulls::take_from(std::uint64_t node, plea why) noexcept {
  const bool leaves = why == plea::leaves;
  std::vector<distant_hold> all;
  try {
    all = kept_by(node, leaves);
  } catch (const std::bad_alloc&) {
    return;
  }
  for (const distant_hold& one : all) {
    if (one->here() != nullptr && is_settled(*one)) let_go(*one);
  }
  for (const distant_hold& one : all) {
    if (one->here() != nullptr || one->taken() != nullptr) continue;
    if (!leaves && !has_room_for_taken(one->from().bytes)) continue;
    try {
      if (ask(*one, {.takes = why, .room = {}}).is_refused && !leaves) return;
    } catch (...) {
      continue;
    }
  }
}

// Under no mutex.
bool far_pulls::has_room_for_taken(std::uint64_t bytes) const noexcept {
  const array_home& home = array_home::global();
  const std::uint64_t limit = home.limit_bytes();
  const bool has_disk = home.has_disk();
  const std::lock_guard lock(mutex_);
  return own::room_limits::may_take(bytes, unread_bytes_ + taken_bytes_, limit, has_disk);
}

// A copy on the heap has come a while ago: one of many GB could be named, and be refused then.
bool far_pulls::is_settled(const distant_block& of) const noexcept {
  const std::lock_guard lock(mutex_);
  return base::now() - of.came_ >= own::room_limits::settled_after;
}

bool far_pulls::may_wait() const noexcept {
  const std::lock_guard lock(mutex_);
  return !trade::is_own_thread() && (by_ == nullptr || !by_->is_loop());
}

void raise_on_disk() {
  raise(errc::store_full,
        "an array of another node that nobody has read yet is on this one's disk, and the thread "
        "that is to send it does not wait for room; read its value before it is given on");
}

// All together: two that have a part of what they read each could wait for each other.
bool far_pulls::wake_taken(std::span<array_block* const> all, bool waits) {
  std::vector<distant_block*> blocks;
  std::vector<resting_array*> taken;
  for (array_block* const one : all) {
    if (!one->is_away(0)) continue;
    auto& block = static_cast<distant_block&>(*one);
    if (block.taken() == nullptr) continue;
    blocks.push_back(&block);
    taken.push_back(block.taken());
  }
  if (blocks.empty()) return true;
  std::optional<std::vector<array_block*>> awake = wake_arrays(taken, waits);
  if (!awake) return false;
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i]->wakes((*awake)[i]);
  return true;
}

// ---- what they take (link_times.hpp)

// Under the mutex, when some of it is asked for first: what came before of another way, and how
// long it took to be reached, says nothing of the link.
void far_pulls::begin_timing(pull& of) {
  const std::uint64_t maker = of.block->from().owner;
  if (of.is_timed) return link_times::global().begins_again(maker);
  link_times::global().begins(maker);
  of.is_timed = true;
}

// The bulk thread.
void far_pulls::begin_timing_of(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = pulls_.find(number);
  if (found == pulls_.end() || found->second->is_sought) return;
  try {
    begin_timing(*found->second);
  } catch (const std::bad_alloc&) {
    return;  // it is not measured
  }
}

// Of one that nobody else finds any more.
void far_pulls::end_timing(pull& of) noexcept {
  const std::uint64_t maker = of.block->from().owner;
  if (std::exchange(of.is_timed, false)) note_time(maker, link_times::global().ends(maker));
}

void far_pulls::note_came(std::uint64_t maker, std::uint64_t bytes) noexcept {
  note_time(maker, link_times::global().came(maker, bytes));
}

void far_pulls::note_time(std::uint64_t maker,
                          const std::optional<sched::transfer>& what) noexcept {
  if (!what.has_value()) return;
  const std::lock_guard lock(mutex_);
  if (by_ == nullptr) return;
  try {
    const transfer_note said{what->bytes, static_cast<std::uint64_t>(what->took.count())};
    ask_peer(*by_, maker, {peers::pull, 1}, wire::question::transfer_time, said);
  } catch (...) {
    return;  // the next one is said
  }
}

// The bulk thread.
void far_pulls::note_left(std::uint64_t number, bulk::chunks_here here) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = pulls_.find(number);
  if (found != pulls_.end()) found->second->here = std::move(here);
}

}  // namespace manta::inline v0::node
