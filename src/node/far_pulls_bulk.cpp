// SPDX-License-Identifier: Apache-2.0
// How arrays come by bulk/: all that far_pulls.cpp has to do with a station.
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

#include <manta/spec/error.hpp>

#include "node/array_home.hpp"
#include "node/copy_cache.hpp"
#include "node/far_copies.hpp"
#include "node/far_pulls.hpp"

namespace manta::inline v0::node {

namespace {

std::vector<bulk::place_of_holder> bulk_places_of(const std::string& text) {
  std::vector<bulk::place_of_holder> out;
  for (const wire::socket_address& one : places_of(text)) {
    bulk::place_of_holder& at = out.emplace_back();
    std::memcpy(&at.at, one.get(), one.size());
    at.size = one.size();
  }
  return out;
}

}  // namespace

std::uint64_t sent_array_bytes() noexcept { return far_pulls::global().sent_bytes(); }

void far_pulls::open_way(bulk::station& by, bool is_reached) {
  const std::lock_guard lock(mutex_);
  way_ = &by;
  is_way_reached_ = is_reached;
}

std::uint64_t far_pulls::sent_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return way_ == nullptr ? 0 : way_->sent_bytes();
}

void far_pulls::close_way(const bulk::station& by) noexcept {
  const std::lock_guard lock(mutex_);
  if (way_ == &by) way_ = nullptr;  // else it is a next runtime's
}

// Under the mutex. A head that was started again may not have known them from the start.
const std::vector<bulk::place_of_holder>& far_pulls::places_of_node(std::uint64_t node,
                                                                    std::string text) {
  read_places& of = places_[node];
  if (of.text == text) return of.at;
  of.at = bulk_places_of(text);
  of.text = std::move(text);
  return of.at;
}

// Under the mutex, when its room is there. False: it is to be asked for.
bool far_pulls::begin_bulk(std::uint64_t number, pull& of) {
  const distant_block::source& from = of.block->from();
  if (way_ == nullptr) return false;
  if (unreached_.has(from.owner, base::now())) return false;
  peers::bulk_place place = by_->bulk_place_of(from.owner);
  bulk::holder maker{from.owner, place.process, places_of_node(from.owner, std::move(place.at))};
  if (maker.places.empty()) return false;
  way_->fetch(order_of(number, of, std::move(maker)));
  return true;
}

// Under the mutex. Each order has a number of its own: something of an earlier one may be under
// way.
bulk::order far_pulls::order_of(std::uint64_t number, pull& of, bulk::holder from) {
  of.order = ++last_order_;
  // Of a lost maker nothing is learned.
  const std::uint64_t maker = of.block->from().owner;
  std::function<void()> begins;
  std::function<void(std::uint64_t)> came;
  if (!of.is_sought) {
    begins = [this, number] { begin_timing_of(number); };
    came = [this, maker](std::uint64_t bytes) { note_came(maker, bytes); };
  }
  return {.number = of.order,
          .object = of.block->from().id,
          .to = of.room->bytes(),
          .holders = {std::move(from)},
          .here = come_so_far(of),
          .reader = is_way_reached_ ? far_handles::global().self() : 0,
          .find = [this](std::uint64_t node) { return reader_at(node); },
          .unreached = [this](std::uint64_t node) { note_unreached(node); },
          .begins = std::move(begins),
          .came = std::move(came),
          .keeps = of.room,
          .left = [this, number](bulk::chunks_here here) { note_left(number, std::move(here)); },
          .done = [this, number](const error* why) { end_bulk(number, why); }};
}

// The bulk thread. No places: it is not asked.
bulk::holder far_pulls::reader_at(std::uint64_t node) {
  const std::lock_guard lock(mutex_);
  if (by_ == nullptr || !by_->can_reach(node)) return {};
  const base::time_point now = base::now();
  if (unreached_.has(node, now) || unreached_readers_.has(node, now)) return {};
  peers::bulk_place place = by_->bulk_place_of(node);
  return {node, place.process, places_of_node(node, std::move(place.at))};
}

// The bulk thread.
void far_pulls::note_unreached(std::uint64_t reader) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    unreached_readers_.note(reader, base::now());
  } catch (const std::bad_alloc&) {
    return;  // it is asked once more
  }
}

// What is kept for others, which goes on being so, what its value has, or what is kept for another
// call.
array_block* far_pulls::copy_of(const base::id& id) noexcept {
  distant_hold held;
  {
    const std::lock_guard lock(mutex_);
    if (by_ == nullptr) return nullptr;
    const auto known = views_.find(id);
    if (known != views_.end() && known->second != nullptr && known->second->try_hold()) {
      held.reset(known->second);
    }
  }
  if (array_block* const kept = far_copies::global().kept(id)) return kept;
  array_block* const is = held != nullptr ? held->here() : nullptr;
  if (is == nullptr) return copy_cache::global().find_named(id, base::now());
  is->hold();
  return is;
}

// Under the mutex.
void far_pulls::drop_bulk(const pull& of) noexcept {
  if (way_ == nullptr) return;
  try {
    way_->drop(of.order);
  } catch (const std::bad_alloc&) {
    return;  // it comes, for nothing
  }
}

// The bulk thread.
void far_pulls::end_bulk(std::uint64_t number, const error* why) noexcept {
  try {
    if (why != nullptr) return fail_bulk(number, *why);
    pull_ptr of;
    {
      const std::lock_guard lock(mutex_);
      const auto found = pulls_.find(number);
      if (found == pulls_.end()) return;  // it has ended
      of = found->second;
      of->is_landing = true;
    }
    land(number, *of);
  } catch (...) {
    const error failed = describe_current_exception("fetching an array");
    end(number, &failed);
  }
}

void far_pulls::fail_bulk(std::uint64_t number, const error& why) {
  if (was_of_copy(number)) return far_copies::global().failed(number);
  if (why.code() == errc::node_lost) {
    if (!ask_instead(number)) seek(number, why.message());
    return;
  }
  const error is = why.code() == errc::object_lost ? let_go_error() : why;
  end(number, &is);
}

// Whoever gave it had a copy; that does not any more.
bool far_pulls::was_of_copy(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = pulls_.find(number);
  if (found == pulls_.end() || !found->second->is_sought) return false;
  found->second->is_in_bulk = false;
  return true;
}

void far_pulls::land(std::uint64_t number, pull& of) {
  try {
    array_block* const as = of.room->seal();
    fetched_bytes_ += of.block->from().bytes - of.came;  // those of messages are counted
    // Who asks for it from here on finds it at rest.
    if (is_unread(of)) {
      of.block->arrives_unread(as);
    } else {
      of.block->arrives(as);
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    of.is_landing = false;
    throw;
  }
  end(number, nullptr);
}

bool far_pulls::is_unread(const pull& of) const noexcept {
  const std::lock_guard lock(mutex_);
  return of.is_of_many || (of.is_taken && !of.may_be_asked_again && of.waiting.empty());
}

// Its maker may be there still, and reached by the path of the messages only. False: the pull has
// ended, or its maker is no member. What comes so is written from the array's beginning on: not to
// where others may be sending what has come so far from. They are the room's uses beside those of
// the pull and of its order, and come and go on this thread.
bool far_pulls::ask_instead(std::uint64_t number) {
  pull_ptr of;
  bool is_read = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pulls_.find(number);
    if (found == pulls_.end() || by_ == nullptr) return true;  // close has ended it
    of = found->second;
    if (!by_->can_reach(of->block->from().owner)) return false;
    is_read = of->room.use_count() > 2;
  }
  const distant_block::source& from = of->block->from();
  std::shared_ptr<pull_room> fresh;  // may wait, so without the mutex
  if (is_read) fresh = std::make_shared<pull_room>(make_array_copy(from.bytes));
  std::uint64_t unasked = 0;
  {
    const std::lock_guard lock(mutex_);
    if (by_ == nullptr || !pulls_.contains(number)) return true;  // likewise, meanwhile
    // Who told of that has passed by this one, which comes by bulk as yet.
    if (!by_->can_reach(from.owner)) return false;
    if (fresh != nullptr) {
      std::swap(of->room, fresh);
      of->former = std::move(fresh);  // with what has come so far
    }
    of->is_in_bulk = false;
    unreached_.note(from.owner, base::now());
    unasked = ask_more(from.owner);
  }
  end_unasked(unasked);
  return true;
}

}  // namespace manta::inline v0::node
