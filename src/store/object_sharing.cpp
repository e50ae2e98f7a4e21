// SPDX-License-Identifier: Apache-2.0
// How the store is shared with workers: they read in it, and bring segments of their own.
#include <fmt/format.h>

#include "store/object_store.hpp"

namespace manta::inline v0::store {

object_store::located object_store::locate(object_id object) const {
  const std::lock_guard lock(mutex_);
  if (!table_.is_known(object)) return {};
  const place at = table_.place_of(object);
  if (const auto in = segments_.find(at.segment); in != segments_.end()) {
    return {at, in->second, nullptr};
  }
  const auto guest = guests_.find(at.segment);
  return guest == guests_.end() ? located{} : located{at, nullptr, guest->second.view};
}

// What lies there, in a segment of the store or of a worker.
std::span<const std::byte> object_store::seen(const place& at, std::uint64_t bytes) const {
  const auto guest = guests_.find(at.segment);
  if (guest == guests_.end()) return span_of(at, bytes);
  return guest->second.view->bytes().subspan(at.at, bytes);
}

// For who uses it without the lock.
std::shared_ptr<const void> object_store::memory_of(segment_id number) const {
  if (const auto guest = guests_.find(number); guest != guests_.end()) return guest->second.view;
  return segments_.at(number);
}

result<segment_id> object_store::admit_segment(std::uint64_t bytes, holder worker) {
  const locked lock(mutex_);
  waiter one;
  const request_id asked = begin(one);
  table_.create_segment(asked, bytes, worker);
  perform();
  if (!one.is_done) {
    table_.retry();
    perform();
  }
  if (!one.is_done) one.why = table_.give_up(asked);
  waiters_.erase(asked);
  perform();
  if (one.why) return *std::move(one.why);
  const segment_id number = one.at.at(0).segment;
  if (shared_ && !shared_->take(bytes)) {
    table_.segment_gone(number);
    perform();
    return error(errc::store_full,
                 fmt::format("store: asked {} bytes for an isolated worker, and the stores of this "
                             "user on this machine have what quota_bytes allows all of them; raise "
                             "quota_bytes or drop references there",
                             bytes));
  }
  guests_[number].bytes = bytes;
  return number;
}

void object_store::segment_gone(segment_id number) {
  const locked lock(mutex_);
  table_.segment_gone(number);
  perform();
}

void object_store::segment_gone(segment_id number, holder worker) {
  const locked lock(mutex_);
  if (!table_.is_of(number, worker)) return;
  table_.segment_gone(number);
  perform();
}

void object_store::segment_kept(segment_id number) {
  const locked lock(mutex_);
  table_.segment_kept(number);
  perform();
}

void object_store::perform(const act::offer& is) {
  if (!with_.on_segment_idle || !with_.on_segment_idle(is.segment, is.of)) {
    table_.segment_gone(is.segment);
  }
}

void object_store::perform(const act::ask_back& /*is*/) {
  if (with_.take_back_idle) {
    for (const auto& [one, of] : with_.take_back_idle()) {
      if (table_.is_of(one, of)) table_.segment_gone(one);
    }
  }
  table_.asked_back();
}

std::optional<reading> object_store::adopt(const place& at, holder worker,
                                           std::shared_ptr<const segment_view> view) {
  const locked lock(mutex_);
  // All of it is read when it is spilled.
  const std::uint64_t mapped = view->bytes().size();
  if (at.bytes > mapped || at.at > mapped - at.bytes) return std::nullopt;
  const object_id id = next_object_ + 1;
  if (!table_.add_pinned(id, at, worker)) return std::nullopt;
  next_object_ = id;
  guests_[at.segment].view = std::move(view);
  perform();
  return reading(this, id, 0, seen(at, at.bytes));
}

void object_store::pin_also(object_id object, holder who) {
  const locked lock(mutex_);
  table_.pin_also(object, who);
  perform();
}

}  // namespace manta::inline v0::store
