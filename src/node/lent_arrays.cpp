// SPDX-License-Identifier: Apache-2.0
#include "node/lent_arrays.hpp"

#include <utility>

#include <fcntl.h>

#include "node/array_home.hpp"
#include "node/order_line.hpp"

namespace manta::inline v0::node {

lent_array::lent_array(lent_array&& other) noexcept
    : count(std::exchange(other.count, 0)),
      block(std::exchange(other.block, nullptr)),
      in(std::exchange(other.in, nullptr)),
      pinned(std::exchange(other.pinned, 0)),
      granted(std::exchange(other.granted, std::nullopt)),
      granted_bytes(other.granted_bytes),
      is_kept(other.is_kept),
      who(other.who) {}

lent_array& lent_array::operator=(lent_array&& other) noexcept {
  std::swap(count, other.count);
  std::swap(block, other.block);
  std::swap(in, other.in);
  std::swap(pinned, other.pinned);
  std::swap(granted, other.granted);
  std::swap(granted_bytes, other.granted_bytes);
  std::swap(is_kept, other.is_kept);
  std::swap(who, other.who);
  return *this;
}

lent_array::~lent_array() {
  if (pinned != 0) in->unpin_also(pinned, who);
  if (granted && is_kept) in->segment_kept(*granted);
  if (granted && !is_kept) in->segment_gone(*granted);
  if (block != nullptr) block->drop();
}

lent_arrays::lent_arrays(std::uint64_t worker, wire::segment_shelf* shelf)
    : worker_(worker), shelf_(shelf) {
  if (shelf != nullptr) {
    array_home::global().add_shelf(static_cast<store::holder>(worker), *shelf);
  }
}

lent_arrays::~lent_arrays() {
  if (shelf_ != nullptr) array_home::global().remove_shelf(*shelf_);
}

void lent_arrays::lend(const base::id& what, int socket) {
  lent_array& one = by_id_[what];
  // First, so that who lends may take it back when what follows throws.
  ++one.count;
  if (one.block == nullptr) {
    one.block = array_names::global().find(what);
    if (one.block == nullptr) return;  // nobody holds it: never, see above
    one.who = static_cast<store::holder>(worker_);
    stored_object at = one.block->object();
    one.in = std::move(at.in);
    one.pinned = at.id;
    if (one.in != nullptr) one.in->pin_also(one.pinned, one.who);  // else another node's
  }
  const std::uint64_t segment = one.block->place().segment;
  if (given_.contains(segment)) return;
  say({worker_order::kind::segment, segment, 0}, one.block->file(), socket);
  given_.insert(segment);
}

bool lent_arrays::give_back(const base::id& what, std::uint32_t n, std::vector<lent_array>& ended) {
  lent_array* const found = find(what);
  if (found == nullptr || found->count < n) return false;
  if (found->count > n) {
    found->count -= n;
    return true;
  }
  // If it was the maker's; others have no such number there.
  const auto came = came_.find(what.low);
  if (shelf_ != nullptr && found->granted && came != came_.end()) {
    kept_[what.low] = {found->in, *found->granted, found->granted_bytes, came->second};
    found->is_kept = true;
  }
  if (found->granted && came != came_.end()) came_.erase(came);
  ended.push_back(std::move(*found));
  by_id_.erase(what);
  return true;
}

// A segment that the worker has taken for another array.
std::unordered_map<std::uint64_t, lent_arrays::kept_segment>::iterator lent_arrays::taken(
    const base::id& what) {
  if (what.high != (array_mark | worker_)) return kept_.end();
  const auto found = kept_.find(what.low);
  return found != kept_.end() && !shelf_->has(what.low) ? found : kept_.end();
}

// What the worker has, by now; null: it is not there.
lent_array* lent_arrays::find(const base::id& what) {
  const auto found = by_id_.find(what);
  if (found != by_id_.end()) return &found->second;
  const auto again = taken(what);
  if (again == kept_.end()) return nullptr;
  kept_segment& of = again->second;
  lent_array room;
  room.in = std::move(of.in);
  room.granted = of.number;
  room.granted_bytes = of.bytes;
  came_[what.low] = std::move(of.view);
  kept_.erase(again);
  grant(std::move(room), what.low);
  return &by_id_.at(what);
}

void lent_arrays::grant(lent_array room, std::uint64_t segment) {
  room.count = 1;
  room.who = static_cast<store::holder>(worker_);
  by_id_.insert_or_assign(base::id{array_mark | worker_, segment}, std::move(room));
}

bool lent_arrays::file_came(std::uint64_t segment, store::descriptor file) {
  const auto found = by_id_.find(base::id{array_mark | worker_, segment});
  if (found == by_id_.end()) return false;
  auto view = store::segment_view::map(std::move(file));
  if (!view || view->bytes().size() < found->second.granted_bytes) return false;
  came_[segment] = std::make_shared<const store::segment_view>(*std::move(view));
  return true;
}

bool lent_arrays::has_file_of(const spec::reference& came) const {
  const auto found = by_id_.find(came.what);
  return found == by_id_.end() || found->second.block != nullptr || came_.contains(came.what.low);
}

placed_block* lent_arrays::receive(const spec::reference& came) {
  lent_array* const found = find(came.what);
  if (found == nullptr) return nullptr;
  lent_array& one = *found;
  if (one.block == nullptr) one.block = adopt(one, came);
  if (one.block == nullptr || one.block->place() != came.place) return nullptr;
  one.block->hold();
  return one.block;
}

// An array that the worker made becomes an object of the store, with a hold.
placed_block* lent_arrays::adopt(lent_array& room, const spec::reference& came) {
  const auto file = came_.find(came.what.low);
  const spec::array_place& place = came.place;
  const bool is_place = room.granted && file != came_.end() && place.segment == came.what.low &&
                        place.at == 0 && place.bytes != 0 && place.bytes <= room.granted_bytes;
  if (!is_place) return nullptr;
  return adopt_block(room.in, *room.granted, place, room.who, file->second, came.what);
}

std::shared_ptr<const store::segment_view> lent_arrays::segment_gone(std::uint64_t segment,
                                                                     int socket) {
  std::shared_ptr<const store::segment_view> view;
  bool is_known = given_.erase(segment) != 0;
  if (const auto kept = kept_.find(segment); kept != kept_.end()) {
    view = std::move(kept->second.view);
    kept_.erase(kept);
    is_known = true;
  }
  // One that never left the worker, and was taken from the shelf.
  const auto unsent = by_id_.find(base::id{array_mark | worker_, segment});
  if (unsent != by_id_.end() && unsent->second.granted && unsent->second.block == nullptr) {
    unsent->second.granted.reset();
    by_id_.erase(unsent);
    is_known = true;
  }
  if (is_known) say({worker_order::kind::drop, segment, 0}, -1, socket);
  return view;
}

void lent_arrays::let_go(std::uint64_t segment) {
  if (shelf_ == nullptr) return;
  const base::id what{array_mark | worker_, segment};
  if (const auto kept = taken(what); kept != kept_.end()) {
    kept->second.in->segment_gone(kept->second.number);
    return;
  }
  const auto unsent = by_id_.find(what);
  const bool is_there = unsent != by_id_.end() && unsent->second.granted &&
                        unsent->second.block == nullptr && !shelf_->has(segment);
  if (!is_there) return;
  const lent_array gone = std::move(unsent->second);
  by_id_.erase(unsent);
  came_.erase(segment);
}

// Never waits: what has no room goes at the next tick, in its order.
void lent_arrays::say(const worker_order& order, int file, int socket, std::string_view text) {
  if (late_.empty() && send_order(socket, order, order_way::at_once, file, text)) return;
  late_.push_back({order, store::descriptor(file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, 0)),
                   std::string(text)});
}

void lent_arrays::flush(int socket) noexcept {
  while (!late_.empty()) {
    const late_order& first = late_.front();
    if (!send_order(socket, first.order, order_way::at_once, first.file.number(), first.text)) {
      return;
    }
    late_.pop_front();
  }
}

std::vector<lent_array> lent_arrays::leave() noexcept {
  std::vector<lent_array> all;
  all.reserve(by_id_.size() + kept_.size());
  for (auto& [id, one] : by_id_) all.push_back(std::move(one));
  for (auto& [number, one] : kept_) {
    lent_array& room = all.emplace_back();
    room.in = std::move(one.in);
    room.granted = one.number;
  }
  by_id_.clear();
  kept_.clear();
  came_.clear();
  given_.clear();
  late_.clear();
  return all;
}

}  // namespace manta::inline v0::node
