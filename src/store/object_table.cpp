// SPDX-License-Identifier: Apache-2.0
#include "store/object_table.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <manta/base/check.hpp>

namespace manta::inline v0::store {

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
// Workers keep at most this part of the budget for what they make next.
constexpr std::uint64_t most_kept_part = 4;

error more_than_all(std::uint64_t bytes, std::uint64_t budget) {
  return {errc::store_full, fmt::format("store: asked {} bytes, the whole store has {}; raise "
                                        "store_bytes or make smaller objects",
                                        bytes, budget)};
}

}  // namespace

object_table::object_table(std::uint64_t budget)
    : budget_(budget / page * page),
      limit_(budget_),
      ours_(std::clamp(budget / 16 / mib * mib, mib, allocator::usual_segment)) {}

// Requests.

void object_table::create(request_id asked, object_id id, std::uint64_t bytes, holder who) {
  MANTA_CHECK_VALUE(!objects_.contains(id) && bytes != 0, id);
  if (bytes > budget_) {
    actions_.emplace_back(act::refused{asked, more_than_all(bytes, budget_)});
    return;
  }
  makers_.push_back({asked, who, id, bytes, false, {}, 0});
  step();
}

void object_table::create_segment(request_id asked, std::uint64_t bytes, holder worker) {
  if (bytes == 0 || bytes > budget_) {
    actions_.emplace_back(act::refused{asked, more_than_all(bytes, budget_)});
    return;
  }
  makers_.push_back({asked, worker, 0, round_up(bytes, page), true, {}, 0});
  step();
}

void object_table::pin(request_id asked, std::vector<object_id> objects, holder who) {
  readers_.push_back({asked, who, 0, 0, false, std::move(objects), 0});
  step();
}

std::optional<error> object_table::give_up(request_id asked) {
  const auto is_it = [&](const auto& one) { return one.id == asked; };
  if (const auto maker = std::ranges::find_if(makers_, is_it); maker != makers_.end()) {
    error why = full(*maker);
    makers_.erase(maker);
    step();
    return why;
  }
  const auto reader = std::ranges::find_if(readers_, is_it);
  if (reader == readers_.end()) return std::nullopt;
  error why = full(*reader);
  const auto gone = std::move(*reader);
  readers_.erase(reader);
  leave(gone);
  step();
  return why;
}

// What it has pinned so far.
void object_table::leave(const asking& of) {
  for (std::size_t i = 0; i < of.begun; ++i) unpin_one(of.all[i], of.who);
}

// Each line's first has its turn for room. When there is none for it and nothing is under way that
// would make some, the other line's may take what it finds: what it waits for may be that.
void object_table::step() {
  for (;;) {
    answer_readers();
    asking* const reader = first_reader();
    if (reader == nullptr && makers_.empty()) break;
    const bool is_maker = !makers_.empty() && (is_makers_turn_ || reader == nullptr);
    outcome got = is_maker ? serve_maker() : serve_reader(*reader);
    if (got == outcome::served) is_makers_turn_ = !is_maker;
    if (got == outcome::stuck && reader != nullptr && !makers_.empty()) {
      got = is_maker ? serve_reader(*reader) : serve_maker();
    }
    if (got == outcome::waiting || got == outcome::stuck) return;
  }
  has_asked_back_ = false;
}

// The first that lacks room; others only wait for the disk.
object_table::asking* object_table::first_reader() {
  const auto found =
      std::ranges::find_if(readers_, [](const auto& one) { return one.begun != one.all.size(); });
  return found == readers_.end() ? nullptr : &*found;
}

// One reader at a time holds some while it waits for room for others: two could wait for each
// other.
void object_table::answer_readers() {
  bool is_first = true;
  std::erase_if(readers_, [&](asking& of) {
    if (const auto absent =
            std::ranges::find_if(of.all, [this](object_id id) { return !is_readable(id); });
        absent != of.all.end()) {
      actions_.emplace_back(act::refused{of.id, unknown(*absent)});
      leave(of);
      return true;
    }
    const bool are_here =
        std::ranges::all_of(of.all, [this](object_id id) { return objects_.at(id).is_here; });
    for (; (is_first || are_here) && of.begun < of.all.size(); ++of.begun) {
      entry& one = objects_.at(of.all[of.begun]);
      if (!one.is_here && one.is != doing::restoring) break;
      pin_one(one, of.who);
    }
    if (of.begun < of.all.size()) is_first = false;
    if (!are_here) return false;
    act::granted answer{of.id, {}};
    for (const object_id id : of.all) answer.at.push_back(objects_.at(id).at);
    actions_.emplace_back(std::move(answer));
    return true;
  });
}

error object_table::unknown(object_id id) const {
  const auto found = objects_.find(id);
  if (found != objects_.end() && !found->second.lost.empty()) {
    return {errc::object_lost, found->second.lost};
  }
  return {errc::object_lost,
          fmt::format("store: asked to read object {}, which is not here, or could not be "
                      "read back from the disk",
                      id)};
}

bool object_table::are_here(const std::vector<object_id>& all) const {
  return std::ranges::all_of(
      all, [this](object_id id) { return is_readable(id) && objects_.at(id).is_here; });
}

bool object_table::is_readable(object_id id) const {
  const auto found = objects_.find(id);
  return found != objects_.end() && !found->second.is_erased && found->second.is != doing::making;
}

object_table::outcome object_table::serve_reader(asking& of) {
  const object_id id = of.all[of.begun];
  entry& one = objects_.at(id);
  place at;
  if (const outcome got = take_place(one.bytes, id, false, at); got != outcome::served) return got;
  one.at = at;
  one.is = doing::restoring;
  live_ += at.bytes;
  actions_.emplace_back(act::restore{id, *one.on_disk, at});
  pin_one(one, of.who);
  ++of.begun;
  return outcome::served;
}

object_table::outcome object_table::serve_maker() {
  asking& of = makers_.front();
  if (of.is_segment) {
    if (of.bytes > room()) return make_room(of.bytes);
    const segment_id made = next_segment_++;
    segments_.emplace(made, foreign{of.bytes, 0, of.who, false, false});
    others_ += of.bytes;
    has_asked_back_ = false;
    actions_.emplace_back(act::granted{of.id, {{made, 0, of.bytes}}});
  } else {
    place at;
    const outcome got = take_place(of.bytes, of.object, true, at);
    if (got != outcome::served) return got;
    live_ += at.bytes;
    entry& made = objects_[of.object];
    made.bytes = of.bytes;
    made.is = doing::making;
    made.at = at;
    made.made_by = of.who;
    actions_.emplace_back(act::granted{of.id, {at}});
  }
  makers_.pop_front();
  return outcome::served;
}

void object_table::restored(object_id id, bool is_right, std::string why) {
  entry& of = objects_.at(id);
  MANTA_CHECK_VALUE(of.is == doing::restoring, id);
  of.is = doing::nothing;
  of.is_here = true;
  if (!is_right) {
    // Who waits for it is refused by the next step, and with the last of them it ends.
    if (!of.is_erased) actions_.emplace_back(act::lost{id});
    of.is_erased = true;
    of.lost = std::move(why);
  }
  settle(id, of);
  step();
}

// Objects.

void object_table::seal(object_id id) {
  entry& of = objects_.at(id);
  MANTA_CHECK_VALUE(of.is == doing::making, id);
  of.is = doing::nothing;
  of.is_here = true;
  settle(id, of);
  step();
}

// It was pinned while it was made, and stays so.
void object_table::seal_pinned(object_id id, holder who) {
  entry& of = objects_.at(id);
  MANTA_CHECK_VALUE(of.is == doing::making, id);
  of.is = doing::nothing;
  of.is_here = true;
  ++of.pins[who];
  step();
}

bool object_table::add(object_id id, const place& at, holder worker) {
  if (!add_foreign(id, at, worker)) return false;
  settle(id, objects_.at(id));
  step();
  return true;
}

bool object_table::add_pinned(object_id id, const place& at, holder worker) {
  if (!add_foreign(id, at, worker)) return false;
  ++objects_.at(id).pins[0];
  return true;
}

void object_table::pin_also(object_id id, holder who) {
  const auto found = objects_.find(id);
  if (found != objects_.end()) pin_one(found->second, who);
}

bool object_table::add_foreign(object_id id, const place& at, holder worker) {
  const auto in = segments_.find(at.segment);
  if (in == segments_.end() || in->second.of != worker || in->second.is_orphan) return false;
  if (at.bytes == 0 || at.bytes > in->second.bytes || at.at > in->second.bytes - at.bytes) {
    return false;
  }
  MANTA_CHECK_VALUE(!objects_.contains(id), id);
  keep(in->second, false);
  in->second.live += at.bytes;
  live_ += at.bytes;
  entry& of = objects_[id];
  of.bytes = at.bytes;
  of.is_here = true;
  of.at = at;
  of.made_by = worker;
  return true;
}

void object_table::unpin(object_id id, holder who) {
  unpin_one(id, who);
  step();
}

void object_table::keep_as_cache(object_id id) {
  if (is_known(id)) value_is(id, false);
  step();
}

bool object_table::need(object_id id) {
  if (!is_known(id)) return false;
  value_is(id, true);
  return true;
}

void object_table::value_is(object_id id, bool is_needed) {
  entry& of = objects_.at(id);
  disturb(of);
  of.is_needed = is_needed;
  settle(id, of);
}

void object_table::erase(object_id id) {
  const auto found = objects_.find(id);
  if (found == objects_.end()) return;
  disturb(found->second);
  found->second.is_erased = true;
  settle(id, found->second);
  step();
}

void object_table::holder_gone(holder who) {
  std::erase_if(makers_, [&](const asking& of) { return of.who == who; });
  // With the requests go the pins that they had.
  std::erase_if(readers_, [&](const asking& of) { return of.who == who; });
  std::vector<object_id> touched;
  for (auto& [id, of] : objects_) {
    if (of.pins.erase(who) != 0) touched.push_back(id);
    if (of.is == doing::making && of.made_by == who) {
      of.is = doing::nothing;
      of.is_erased = true;
      touched.push_back(id);
    }
  }
  for (const object_id id : touched) {
    if (const auto found = objects_.find(id); found != objects_.end()) settle(id, found->second);
  }
  std::vector<segment_id> its;
  for (auto& [number, of] : segments_) {
    if (of.of == who && who != 0) its.push_back(number);
  }
  for (const segment_id one : its) segment_gone(one);
  step();
}

void object_table::segment_gone(segment_id number) {
  const auto found = segments_.find(number);
  if (found == segments_.end()) return;
  found->second.is_orphan = true;
  drop_foreign(number);
  step();
}

void object_table::segment_kept(segment_id number) {
  const auto found = segments_.find(number);
  if (found == segments_.end() || found->second.is_orphan) return;
  keep(found->second, true);
  drop_foreign(number);
  step();
}

void object_table::keep(foreign& one, bool is_kept) {
  if (std::exchange(one.is_kept, is_kept) == is_kept) return;
  if (is_kept) {
    kept_ += one.bytes;
  } else {
    kept_ -= one.bytes;
  }
}

// Or lets its worker use it again: unless somebody waits for room, or much is kept already.
void object_table::drop_foreign(segment_id number) {
  const auto found = segments_.find(number);
  foreign& one = found->second;
  if (one.live != 0 || (!one.is_orphan && !one.is_kept)) return;
  if (!one.is_orphan && waiting() == 0 && kept_ <= budget_ / most_kept_part) {
    actions_.emplace_back(act::offer{number, one.of});
    return;
  }
  keep(one, false);
  others_ -= one.bytes;
  segments_.erase(found);
  actions_.emplace_back(act::drop{number});
}

void object_table::asked_back() {
  is_asking_back_ = false;
  step();
}

void object_table::pin_one(entry& of, holder who) {
  disturb(of);
  if (of.is == doing::spilling) of.used = ++turn_;
  ++of.pins[who];
}

void object_table::unpin_one(object_id id, holder who) {
  const auto found = objects_.find(id);
  if (found == objects_.end()) return;
  entry& of = found->second;
  const auto pins = of.pins.find(who);
  if (pins == of.pins.end()) return;
  if (--pins->second == 0) of.pins.erase(pins);
  settle(id, of);
}

object_table::kind object_table::kind_of(const entry& of) const {
  if (segments_.contains(of.at.segment)) return in_workers;
  return of.at.bytes > ours_.most_shared() ? in_own : in_shared;
}

object_table::value object_table::value_of(const entry& of) noexcept {
  if (!of.is_needed) return cached;
  return of.on_disk ? written : unwritten;
}

// Where it may leave memory, or move, from now on; or ends. `turn`: when it was used, if not now.
void object_table::settle(object_id id, entry& of, std::uint64_t turn) {
  if (of.is_idle || !of.pins.empty() || of.is != doing::nothing) return;
  if (of.is_erased) return end(id);
  if (!of.is_here) return;
  of.used = turn != 0 ? turn : ++turn_;
  of.is_idle = true;
  const kind where = kind_of(of);
  idle_[value_of(of)][where].emplace(of.used, id);
  if (value_of(of) == written && where != in_shared) written_ += of.at.bytes;
  ours_.unpin(of.at.segment);
}

void object_table::disturb(entry& of) {
  if (!of.is_idle) return;
  of.is_idle = false;
  const kind where = kind_of(of);
  idle_[value_of(of)][where].erase(of.used);
  if (value_of(of) == written && where != in_shared) written_ -= of.at.bytes;
  ours_.pin(of.at.segment);
}

void object_table::drop_from_memory(entry& of) {
  ours_.unpin(of.at.segment);
  give_back(of.at);
  of.is_here = false;
  of.at = {};
}

void object_table::give_back(const place& at) {
  live_ -= at.bytes;
  const auto in = segments_.find(at.segment);
  if (in == segments_.end()) {
    ours_.release(at);
    actions_.emplace_back(act::freed{0, at});
    return;
  }
  in->second.live -= at.bytes;
  actions_.emplace_back(act::freed{in->second.of, at});
  has_asked_back_ = false;
  drop_foreign(at.segment);
}

void object_table::end(object_id id) {
  const auto found = objects_.find(id);
  entry& of = found->second;
  disturb(of);
  if (of.at.bytes != 0) drop_from_memory(of);
  if (of.on_disk) {
    actions_.emplace_back(act::forget{*of.on_disk});
    is_disk_full_ = false;
  }
  objects_.erase(found);
}

std::string_view object_table::text_of(reserved_as how) noexcept {
  switch (how) {
    case reserved_as::no_memory:
      return "this machine has no more memory for it; drop references";
    case reserved_as::no_quota:
      return "all programs of this user on this machine have what quota_bytes allows them; raise "
             "quota_bytes or drop references";
    case reserved_as::made:
      break;
  }
  return "raise store_bytes or drop references";
}

error object_table::full(const asking& of) const {
  std::map<holder, std::uint64_t> pinned;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t making_bytes = 0;
  for (const auto& [id, one] : objects_) {
    if (one.is == doing::making) making_bytes += one.at.bytes;
    if (!one.pins.empty()) pinned_bytes += one.at.bytes;
    for (const auto& [who, count] : one.pins) pinned[who] += one.at.bytes;
  }
  std::vector<std::pair<std::uint64_t, holder>> most;
  most.reserve(pinned.size());
  for (const auto& [who, bytes] : pinned) most.emplace_back(bytes, who);
  std::ranges::sort(most, std::greater<>());
  if (most.size() > 3) most.resize(3);
  std::string by;
  for (const auto& [bytes, who] : most) {
    by += fmt::format("{}{} by {}", by.empty() ? ": " : ", ", bytes,
                      who == 0 ? "this process" : fmt::format("worker {}", who));
  }
  std::uint64_t asked = of.bytes;
  std::uint64_t away = of.bytes;
  for (const object_id id : of.all) {
    const auto one = objects_.find(id);
    if (one == objects_.end()) continue;
    asked += one->second.bytes;
    if (!one->second.is_here) away += one->second.bytes;
  }
  // What the last reserve met is not why, then. One that is under way may be for this very asking.
  const bool is_beyond_budget = reserved_bytes() - reserving_bytes_ + away > budget_;
  return {errc::store_full,
          fmt::format("store: asked {} bytes; of {} are {} reserved, {} read by {} holders{}, {} "
                      "being made{}; {}",
                      asked, budget_, reserved_bytes(), pinned_bytes, pinned.size(), by,
                      making_bytes, spill_fault_.empty() ? "" : "; " + spill_fault_,
                      text_of(is_beyond_budget ? reserved_as::made : reserve_end_))};
}

bool object_table::is_sound() const {
  std::uint64_t live = 0;
  std::uint64_t others = 0;
  std::uint64_t spilling = 0;
  std::uint64_t ahead = 0;
  std::size_t idle = 0;
  std::size_t moving = 0;
  std::map<segment_id, std::uint64_t> live_in;
  for (const auto& [id, of] : objects_) {
    const bool has_place = of.at.bytes != 0;
    if (has_place != (of.is_here || of.is == doing::making || of.is == doing::restoring)) {
      return false;
    }
    if (!has_place && (!of.on_disk || !of.pins.empty())) return false;
    const bool may_leave = of.is_here && of.pins.empty() && of.is == doing::nothing;
    if (of.is_idle != may_leave || (may_leave && of.is_erased)) return false;
    if (of.is_idle) {
      if (value_of(of) == written && kind_of(of) != in_shared) ahead += of.at.bytes;
      const line& in = idle_[value_of(of)][kind_of(of)];
      const auto found = in.find(of.used);
      if (found == in.end() || found->second != id) return false;
      ++idle;
    }
    live += of.at.bytes;
    live_in[of.at.segment] += of.at.bytes;
    if (of.is == doing::spilling) spilling += of.at.bytes;
    if (of.is == doing::moving) ++moving;
  }
  std::uint64_t kept = 0;
  for (const auto& [number, of] : segments_) {
    others += of.bytes;
    if (of.is_kept) kept += of.bytes;
    if (live_in[number] != of.live || (of.is_orphan && of.live == 0)) return false;
  }
  std::size_t listed = 0;
  for (const auto& each : idle_) {
    for (const line& one : each) listed += one.size();
  }
  return live == live_ && others == others_ && kept == kept_ && ahead == written_ &&
         spilling == spilling_ && idle == listed && moving == moving_ &&
         reserved_bytes() <= budget_ && ours_.is_sound();
}

}  // namespace manta::inline v0::store
