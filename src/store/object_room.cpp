// SPDX-License-Identifier: Apache-2.0
// How an object table makes room.
#include <algorithm>
#include <utility>

#include <manta/base/check.hpp>

#include "store/object_table.hpp"

namespace manta::inline v0::store {

namespace {

// At most this part of the budget is written before anybody needs its room.
constexpr std::uint64_t ahead_part = 8;
// The part of what was dropped in front of older ones that is written of those.
constexpr std::uint64_t owed_part = 8;
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
  if (is_asking_back_) return outcome::waiting;
  if (!has_asked_back_ && others_ != 0) {
    has_asked_back_ = is_asking_back_ = true;
    actions_.emplace_back(act::ask_back{});
    return outcome::waiting;
  }
  if (closed_ != 0 || reserving_ != 0) return outcome::waiting;
  if (const outcome got = compact(); got != outcome::stuck) return got;
  const bool is_large = bytes > ours_.most_shared();
  if (evict(is_large)) return outcome::progress;
  const outcome got = spill_some(bytes, is_large);
  if (is_large && got != outcome::stuck) spill_ahead();
  return got;
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

// Room for a large object comes from what has a segment of its own, if it can, the node's or a
// worker's; for a small one from those that share theirs. Of these the one that was used longest
// ago; null: there is none.
const object_table::line* object_table::oldest(const line (&of)[kinds], bool is_shared) {
  if (is_shared) return of[in_shared].empty() ? nullptr : &of[in_shared];
  const line& own = of[in_own];
  const line& workers = of[in_workers];
  if (own.empty() && workers.empty()) return nullptr;
  if (own.empty() || workers.empty()) return own.empty() ? &workers : &own;
  return own.begin()->first < workers.begin()->first ? &own : &workers;
}

bool object_table::evict(bool is_large) {
  for (const bool is_shared : {!is_large, is_large}) {
    const line* const from = oldest(idle_[cached], is_shared);
    if (from == nullptr) continue;
    const object_id id = from->begin()->second;
    end(id);
    actions_.emplace_back(act::evicted{id});
    return true;
  }
  return false;
}

// What is on the disk already costs no write, so it leaves before what is not, whoever was used
// longest ago. But what nobody uses must not stay for ever: each time it owes a part of a write.
bool object_table::drop_written(bool is_shared) {
  const line* const from = oldest(idle_[written], is_shared);
  if (from == nullptr) return false;
  const auto [turn, id] = *from->begin();
  entry& of = objects_.at(id);
  const line* const older = oldest(idle_[unwritten], is_shared);
  if (older != nullptr && older->begin()->first < turn) {
    owed_ = std::min(owed_ + of.at.bytes / owed_part, budget_ / ahead_part);
  }
  disturb(of);
  drop_from_memory(of);
  return true;
}

object_table::outcome object_table::spill_some(std::uint64_t bytes, bool is_large) {
  const std::uint64_t most = std::max(bytes, spill_batch);
  for (const bool is_shared : {!is_large, is_large}) {
    const bool is_other = is_shared == is_large;
    if (is_other && spilling_ >= bytes) return outcome::waiting;
    if (drop_written(is_shared)) return outcome::progress;
    if (spilling_ >= bytes) return outcome::waiting;
    while (spilling_ < most && spill_one(is_shared)) {
    }
  }
  return spilling_ != 0 ? outcome::waiting : outcome::stuck;
}

// Who asked for room for a large object once mostly asks again: the next ones to leave are written
// meanwhile, and stay in memory until then.
void object_table::spill_ahead() {
  const std::uint64_t most = budget_ / ahead_part;
  while (spilling_ < most) {
    const line* const from = oldest(idle_[unwritten], false);
    if (from == nullptr) return;
    const std::uint64_t bytes = objects_.at(from->begin()->second).at.bytes;
    const bool has_enough = written_ + spilling_ >= most;
    if (has_enough && owed_ < bytes) return;
    if (!spill_one(false)) return;
    if (has_enough) owed_ -= bytes;
  }
}

// The first that is not on the disk. False: there is none, or the disk is full. It keeps its turn:
// nobody has used it.
bool object_table::spill_one(bool is_shared) {
  const line* const from = oldest(idle_[unwritten], is_shared);
  if (from == nullptr || is_disk_full_) return false;
  const object_id id = from->begin()->second;
  entry& of = objects_.at(id);
  disturb(of);
  of.is = doing::spilling;
  spilling_ += of.at.bytes;
  actions_.emplace_back(act::spill{id, of.at});
  return true;
}

void object_table::spilled_to(object_id id, const std::optional<spilled>& at, std::string why) {
  entry& of = objects_.at(id);
  MANTA_CHECK_VALUE(of.is == doing::spilling, id);
  of.is = doing::nothing;
  spilling_ -= of.at.bytes;
  of.on_disk = at;
  spill_fault_ = at ? std::string() : std::move(why);
  if (!at) is_disk_full_ = true;
  settle(id, of, of.used);
  step();
}

void object_table::reserved(segment_id number, reserved_as how) {
  MANTA_CHECK_VALUE(number == reserving_ && number != 0, number);
  const std::uint64_t bytes = std::exchange(reserving_bytes_, 0);
  reserving_ = 0;
  reserve_end_ = how;
  if (how == reserved_as::made) {
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
  has_asked_back_ = false;  // workers may have put others away since
  limit_ = budget_;
  const reserved_as last = std::exchange(reserve_end_, reserved_as::made);
  step();
  // Until that is known, the last one is why.
  if (reserving_ != 0) reserve_end_ = last;
}

void object_table::tidy() {
  while (drop_longest_empty()) {
  }
  if (closed_ == 0 && reserving_ == 0) static_cast<void>(compact());
}

}  // namespace manta::inline v0::store
