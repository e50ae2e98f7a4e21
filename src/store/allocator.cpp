// SPDX-License-Identifier: Apache-2.0
#include "store/allocator.hpp"

#include <algorithm>
#include <iterator>

#include <manta/base/check.hpp>

namespace manta::inline v0::store {

std::uint64_t allocator::segment_for(std::uint64_t bytes) const noexcept {
  if (bytes > most_shared()) return round_up(bytes, unit);
  const std::uint64_t grown = std::max(shared_reserved_, 4 * bytes);
  return std::clamp(grown, full_segment_ / 8, full_segment_);
}

void allocator::add(std::uint32_t segment, std::uint64_t bytes, std::uint64_t for_object) {
  const auto [made, is_new] = segments_.try_emplace(segment);
  MANTA_CHECK_VALUE(is_new, segment);
  state& of = made->second;
  of.bytes = bytes;
  of.is_own = for_object > most_shared();
  of.emptied = ++turn_;
  reserved_ += bytes;
  empty_.emplace(of.emptied, segment);
  if (of.is_own) {
    own_empty_.emplace(bytes, segment);
  } else {
    shared_reserved_ += bytes;
    list_tail(segment, of);
  }
}

std::optional<place> allocator::allocate(std::uint64_t bytes, std::uint64_t tag) {
  if (bytes == 0 || bytes > most_bytes) return std::nullopt;
  bytes = round_up(bytes, unit);
  std::optional<place> got;
  if (bytes > most_shared()) {
    got = take_own(bytes, tag);
  } else {
    got = take_free(bytes, tag);
    if (!got) got = take_tail(bytes, tag);
  }
  if (!got) return got;
  state& in = segments_.at(got->segment);
  if (in.live == 0) empty_.erase({in.emptied, got->segment});
  in.live += bytes;
  live_ += bytes;
  if (!in.is_own) shared_live_ += bytes;
  return got;
}

// At most an eighth of the segment beside it.
std::optional<place> allocator::take_own(std::uint64_t bytes, std::uint64_t tag) {
  const auto found = own_empty_.lower_bound({bytes, 0});
  if (found == own_empty_.end() || found->first > bytes + bytes / 8) return std::nullopt;
  const std::uint32_t segment = found->second;
  own_empty_.erase(found);
  state& in = segments_.at(segment);
  in.blocks[0] = {bytes, tag, true};
  in.used = bytes;
  in.warm = std::max(in.warm, bytes);
  return place{segment, 0, bytes};
}

std::optional<place> allocator::take_free(std::uint64_t bytes, std::uint64_t tag) {
  const auto found = free_.lower_bound({bytes, 0, 0});
  if (found == free_.end()) return std::nullopt;
  const free_block is = *found;
  free_.erase(found);
  state& in = segments_.at(is.segment);
  in.blocks[is.at] = {bytes, tag, true};
  if (is.bytes > bytes) {
    in.blocks[is.at + bytes] = {is.bytes - bytes, 0, false};
    free_.insert({is.bytes - bytes, is.segment, is.at + bytes});
  }
  return place{is.segment, is.at, bytes};
}

std::optional<place> allocator::take_tail(std::uint64_t bytes, std::uint64_t tag) {
  auto found = warm_tails_.lower_bound({bytes, 0});
  if (found == warm_tails_.end()) {
    found = tails_.lower_bound({bytes, 0});
    if (found == tails_.end()) return std::nullopt;
  }
  const std::uint32_t segment = found->second;
  state& in = segments_.at(segment);
  unlist_tail(segment, in);
  const place got{segment, in.used, bytes};
  in.blocks[in.used] = {bytes, tag, true};
  in.used += bytes;
  in.warm = std::max(in.warm, in.used);
  list_tail(segment, in);
  return got;
}

void allocator::release(const place& of) {
  const auto found = segments_.find(of.segment);
  MANTA_CHECK_VALUE(found != segments_.end(), of.segment);
  state& in = found->second;
  release_block(in, of);
  in.live -= of.bytes;
  live_ -= of.bytes;
  if (!in.is_own) shared_live_ -= of.bytes;
  if (in.live != 0) return;
  in.emptied = ++turn_;
  empty_.emplace(in.emptied, of.segment);
  if (in.is_own) own_empty_.emplace(in.bytes, of.segment);
}

// Joined with its neighbours, or with the tail.
void allocator::release_block(state& in, const place& of) {
  auto gone = in.blocks.find(of.at);
  MANTA_CHECK_VALUE(gone != in.blocks.end() && gone->second.is_live, of.at);
  MANTA_CHECK_VALUE(gone->second.bytes == of.bytes, of.bytes);
  const bool is_listed = !in.is_own && !in.is_closed;
  gone->second.is_live = false;
  if (gone != in.blocks.begin()) {
    const auto before = std::prev(gone);
    if (!before->second.is_live) {
      if (is_listed) free_.erase({before->second.bytes, of.segment, before->first});
      before->second.bytes += gone->second.bytes;
      in.blocks.erase(gone);
      gone = before;
    }
  }
  if (const auto after = std::next(gone); after != in.blocks.end() && !after->second.is_live) {
    if (is_listed) free_.erase({after->second.bytes, of.segment, after->first});
    gone->second.bytes += after->second.bytes;
    in.blocks.erase(after);
  }
  if (gone->first + gone->second.bytes != in.used) {
    if (is_listed) free_.insert({gone->second.bytes, of.segment, gone->first});
    return;
  }
  if (is_listed) unlist_tail(of.segment, in);
  in.used = gone->first;
  in.blocks.erase(gone);
  if (is_listed) list_tail(of.segment, in);
}

void allocator::list_tail(std::uint32_t segment, const state& of) {
  if (of.bytes > of.used) tails_.emplace(of.bytes - of.used, segment);
  if (of.warm > of.used) warm_tails_.emplace(of.warm - of.used, segment);
}

void allocator::unlist_tail(std::uint32_t segment, const state& of) {
  tails_.erase({of.bytes - of.used, segment});
  warm_tails_.erase({of.warm - of.used, segment});
}

void allocator::pin(std::uint32_t segment) noexcept {
  if (const auto found = segments_.find(segment); found != segments_.end()) ++found->second.pinned;
}

void allocator::unpin(std::uint32_t segment) noexcept {
  const auto found = segments_.find(segment);
  if (found != segments_.end() && found->second.pinned != 0) --found->second.pinned;
}

// Not the one with the largest tail, which takes what is moved; else two would change places for
// ever.
std::optional<std::uint32_t> allocator::sparse() const {
  if (shared_reserved_ <= 2 * shared_live_ + full_segment_ || tails_.empty()) return std::nullopt;
  const std::uint32_t target = tails_.rbegin()->second;
  std::optional<std::uint32_t> best;
  std::uint64_t least = 0;
  for (const auto& [segment, is] : segments_) {
    if (is.is_own || is.is_closed || is.live == 0 || is.pinned != 0 || segment == target) continue;
    if (is.live > is.bytes / 2 || (best && is.live >= least)) continue;
    best = segment;
    least = is.live;
  }
  return best;
}

std::vector<allocator::object> allocator::close(std::uint32_t segment) {
  std::vector<object> out;
  const auto found = segments_.find(segment);
  if (found == segments_.end() || found->second.is_own || found->second.is_closed) return out;
  state& of = found->second;
  of.is_closed = true;
  unlist_tail(segment, of);
  for (const auto& [at, is] : of.blocks) {
    if (is.is_live) {
      out.push_back({is.tag, {segment, at, is.bytes}});
    } else {
      free_.erase({is.bytes, segment, at});
    }
  }
  return out;
}

void allocator::reopen(std::uint32_t segment) {
  const auto found = segments_.find(segment);
  if (found == segments_.end() || !found->second.is_closed) return;
  state& of = found->second;
  of.is_closed = false;
  list_tail(segment, of);
  for (const auto& [at, is] : of.blocks) {
    if (!is.is_live) free_.insert({is.bytes, segment, at});
  }
}

std::optional<std::uint32_t> allocator::longest_empty() const {
  if (empty_.empty()) return std::nullopt;
  return empty_.begin()->second;
}

void allocator::drop(std::uint32_t segment) {
  const auto found = segments_.find(segment);
  if (found == segments_.end()) return;
  const state& of = found->second;
  MANTA_CHECK_VALUE(of.live == 0, of.live);
  empty_.erase({of.emptied, segment});
  reserved_ -= of.bytes;
  if (of.is_own) {
    own_empty_.erase({of.bytes, segment});
  } else {
    shared_reserved_ -= of.bytes;
    unlist_tail(segment, of);
  }
  segments_.erase(found);
}

std::optional<place> allocator::cold(std::uint64_t ahead, std::uint64_t most) const {
  std::uint64_t warm = 0;
  for (const sized& one : warm_tails_) warm += one.first;
  if (warm >= ahead) return std::nullopt;
  for (const sized& one : tails_) {
    const state& of = segments_.at(one.second);
    if (of.warm < of.bytes) {
      return place{one.second, of.warm, std::min({most, ahead - warm, of.bytes - of.warm})};
    }
  }
  return std::nullopt;
}

void allocator::warmed(const place& now) {
  const auto found = segments_.find(now.segment);
  if (found == segments_.end()) return;
  state& of = found->second;
  const std::uint64_t end = std::min(now.at + now.bytes, of.bytes);
  if (now.at > of.warm || end <= of.warm) return;
  const bool is_listed = !of.is_own && !of.is_closed;
  if (is_listed) unlist_tail(now.segment, of);
  of.warm = end;
  if (is_listed) list_tail(now.segment, of);
}

bool allocator::is_sound() const {
  std::uint64_t live = 0;
  std::uint64_t reserved = 0;
  std::size_t free_blocks = 0;
  std::size_t empty = 0;
  for (const auto& [segment, of] : segments_) {
    std::uint64_t at = 0;
    std::uint64_t lives = 0;
    bool was_free = false;
    for (const auto& [from, is] : of.blocks) {
      if (from != at || is.bytes == 0 || is.bytes % unit != 0) return false;
      if (!is.is_live && was_free) return false;
      was_free = !is.is_live;
      at += is.bytes;
      if (is.is_live) lives += is.bytes;
      const bool is_listed = free_.contains({is.bytes, segment, from});
      if (is_listed != (!is.is_live && !of.is_closed)) return false;
      free_blocks += is_listed ? 1 : 0;
    }
    if (was_free || at != of.used || lives != of.live) return false;
    if (of.used > of.warm || of.warm > of.bytes) return false;
    const bool has_tail = !of.is_own && !of.is_closed && of.used < of.bytes;
    if (tails_.contains({of.bytes - of.used, segment}) != has_tail) return false;
    const bool has_warm = has_tail && of.warm > of.used;
    if (warm_tails_.contains({of.warm - of.used, segment}) != has_warm) return false;
    if (own_empty_.contains({of.bytes, segment}) != (of.is_own && lives == 0)) return false;
    if (empty_.contains({of.emptied, segment}) != (lives == 0)) return false;
    empty += lives == 0 ? 1 : 0;
    live += lives;
    reserved += of.bytes;
  }
  return live == live_ && reserved == reserved_ && free_blocks == free_.size() &&
         empty == empty_.size();
}

}  // namespace manta::inline v0::store
