// SPDX-License-Identifier: Apache-2.0
// How the store is shared with workers: they read in it, and bring segments of their own.
#include "store/object_store.hpp"

namespace manta::inline v0::store {

object_store::located object_store::locate(object_id object) const {
  const std::lock_guard lock(mutex_);
  if (!table_.is_known(object)) return {};
  const place at = table_.place_of(object);
  const auto in = segments_.find(at.segment);
  return in == segments_.end() ? located{} : located{at, in->second};
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
  return one.at.at(0).segment;
}

void object_store::segment_gone(segment_id number) {
  const locked lock(mutex_);
  table_.segment_gone(number);
  perform();
}

std::optional<object_id> object_store::adopt(const place& at, holder worker) {
  const locked lock(mutex_);
  const object_id id = next_object_ + 1;
  if (!table_.add_pinned(id, at, worker)) return std::nullopt;
  next_object_ = id;
  perform();
  return id;
}

void object_store::pin_also(object_id object, holder who) {
  const locked lock(mutex_);
  table_.pin_also(object, who);
  perform();
}

}  // namespace manta::inline v0::store
