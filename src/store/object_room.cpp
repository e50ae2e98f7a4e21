// SPDX-License-Identifier: Apache-2.0
// How an object table makes room.
#include <algorithm>

#include <manta/base/check.hpp>

#include "store/object_table.hpp"

namespace manta::inline v0::store {

namespace {

constexpr std::uint64_t compact_step = std::uint64_t{4} << 20U;

}  // namespace

std::uint64_t object_table::room() const noexcept {
  const std::uint64_t used = reserved_bytes();
  return used < limit_ ? limit_ - used : 0;
}

// Its segment counts as pinned: settle() takes that back.
object_table::outcome object_table::take_place(std::uint64_t bytes, object_id id, bool is_maker,
                                               place& at) {
  if (const auto got = ours_.allocate(bytes, id)) {
    at = *got;
    ours_.pin(at.segment);
    return outcome::served;
  }
  if (reserving_ != 0) return outcome::waiting;
  // Near the budget a smaller segment than usual will do.
  const std::uint64_t size =
      std::min(round_up(ours_.segment_for(bytes), page), room() / page * page);
  if (size < round_up(bytes, page)) return make_room(round_up(bytes, page));
  reserving_ = next_segment_++;
  reserving_bytes_ = size;
  reserving_for_ = bytes;
  is_reserving_for_maker_ = is_maker;
  actions_.emplace_back(act::reserve{reserving_, size});
  return outcome::waiting;
}

object_table::outcome object_table::make_room(std::uint64_t bytes) {
  if (drop_longest_empty()) return outcome::progress;
  if (closed_ != 0 || reserving_ != 0) return outcome::waiting;
  if (const outcome got = compact(); got != outcome::stuck) return got;
  // Room for a large object comes from large ones, if it can. What a worker's segment loses is room
  // only when the worker gives all of it back.
  static constexpr kind for_large[kinds] = {in_own, in_shared, in_workers};
  static constexpr kind for_small[kinds] = {in_shared, in_own, in_workers};
  const auto& order = bytes > ours_.most_shared() ? for_large : for_small;
  if (evict(order)) return outcome::progress;
  if (const outcome got = spill_some(bytes, order); got != outcome::stuck) return got;
  if (!has_asked_back_ && others_ != 0) {
    has_asked_back_ = true;
    actions_.emplace_back(act::ask_back{});
  }
  return outcome::stuck;
}

bool object_table::drop_longest_empty() {
  const auto empty = ours_.longest_empty();
  if (!empty) return false;
  ours_.drop(*empty);
  actions_.emplace_back(act::drop{*empty});
  return true;
}

// Closes the sparsest segment, when all in it fits elsewhere.
object_table::outcome object_table::compact() {
  if (live_ > compact_at_) return outcome::stuck;
  const auto from = ours_.sparse();
  if (!from) return outcome::stuck;
  const std::vector<allocator::object> all = ours_.close(*from);
  std::vector<place> to;
  for (const auto& one : all) {
    const auto at = ours_.allocate(one.at.bytes, one.tag);
    if (!at) break;
    to.push_back(*at);
  }
  if (to.size() < all.size()) {
    for (const place& at : to) ours_.release(at);
    ours_.reopen(*from);
    compact_at_ = live_ > compact_step ? live_ - compact_step : 0;
    return outcome::stuck;
  }
  compact_at_ = ~std::uint64_t{0};
  closed_ = *from;
  moving_ = all.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    entry& one = objects_.at(all[i].tag);
    disturb(one);
    one.is = doing::moving;
    one.to = to[i];
    ours_.pin(to[i].segment);
    actions_.emplace_back(act::move{all[i].tag, one.at, one.to});
  }
  return outcome::waiting;
}

void object_table::moved(object_id id) {
  entry& of = objects_.at(id);
  MANTA_CHECK_VALUE(of.is == doing::moving, id);
  of.is = doing::nothing;
  // Who reads it meanwhile reads it where it was.
  const bool stays = !of.pins.empty() || of.is_erased;
  if (!stays) std::swap(of.at, of.to);
  ours_.unpin(of.to.segment);
  ours_.release(of.to);
  actions_.emplace_back(act::freed{0, of.to});
  settle(id, of);
  if (--moving_ == 0) end_compaction();
  step();
}

void object_table::end_compaction() {
  ours_.reopen(closed_);
  closed_ = 0;
  while (drop_longest_empty()) {
  }
}

bool object_table::evict(const kind (&order)[kinds]) {
  for (const kind where : order) {
    const line& from = idle_[0][where];
    if (from.empty()) continue;
    const object_id id = from.begin()->second;
    end(id);
    actions_.emplace_back(act::evicted{id});
    return true;
  }
  return false;
}

object_table::outcome object_table::spill_some(std::uint64_t bytes, const kind (&order)[kinds]) {
  if (spilling_ >= bytes) return outcome::waiting;
  const std::uint64_t most = std::max(bytes, spill_batch);
  for (const kind where : order) {
    if (begin_spill(idle_[1][where], most)) return outcome::progress;
  }
  return spilling_ != 0 ? outcome::waiting : outcome::stuck;
}

// True: something was on the disk already, and is in memory no more.
bool object_table::begin_spill(line& from, std::uint64_t bytes) {
  bool is_dropped = false;
  while (spilling_ < bytes && !from.empty() && !is_dropped) {
    const object_id id = from.begin()->second;
    entry& of = objects_.at(id);
    if (of.on_disk) {
      disturb(of);
      drop_from_memory(of);
      is_dropped = true;
    } else if (is_disk_full_) {
      break;
    } else {
      disturb(of);
      of.is = doing::spilling;
      spilling_ += of.at.bytes;
      actions_.emplace_back(act::spill{id, of.at});
    }
  }
  return is_dropped;
}

void object_table::spilled_to(object_id id, const std::optional<spilled>& at) {
  entry& of = objects_.at(id);
  MANTA_CHECK_VALUE(of.is == doing::spilling, id);
  of.is = doing::nothing;
  spilling_ -= of.at.bytes;
  of.on_disk = at;
  has_spill_failed_ = !at;
  if (!at) is_disk_full_ = true;
  if (at && of.pins.empty() && !of.is_erased) drop_from_memory(of);
  settle(id, of);
  step();
}

void object_table::reserved(segment_id number, bool is_there) {
  MANTA_CHECK_VALUE(number == reserving_ && number != 0, number);
  const std::uint64_t bytes = std::exchange(reserving_bytes_, 0);
  reserving_ = 0;
  has_reserve_failed_ = !is_there;
  if (is_there) {
    ours_.add(number, bytes, reserving_for_);
    // Whom it is for takes it before another may drop it to make room.
    is_makers_turn_ = is_reserving_for_maker_;
  } else {
    limit_ = std::min(limit_, reserved_bytes());
  }
  step();
}

void object_table::retry() {
  is_disk_full_ = false;
  limit_ = budget_;
  step();
}

void object_table::tidy() {
  while (drop_longest_empty()) {
  }
  if (closed_ == 0 && reserving_ == 0) static_cast<void>(compact());
}

}  // namespace manta::inline v0::store
