// SPDX-License-Identifier: Apache-2.0
// Fetches whose maker is lost: what far_pulls.cpp has to do with copies in other nodes.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "node/far_copies.hpp"
#include "node/far_pulls.hpp"
#include "node/link_times.hpp"
#include "node/peer_question.hpp"
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
