// SPDX-License-Identifier: Apache-2.0
#include "own/units.hpp"

#include <algorithm>
#include <utility>

namespace manta::inline v0::own {

units::unit* units::find(number of) noexcept {
  const number slot = of & slot_mask;
  if ((of & ~slot_mask) != life_ || slot == 0 || slot > all_.size()) return nullptr;
  unit& is = all_[slot - 1];
  return is.is == state::none ? nullptr : &is;
}

bool units::has_room(std::size_t bytes) noexcept {
  const bool has =
      size() < most_units && bytes <= most_recipe && held_ + bytes_.size() + bytes <= most_waiting;
  if (!has) ++refused_;
  return has;
}

units::number units::take_slot() {
  if (free_.empty()) {
    all_.emplace_back();
    // So that giving one back needs no memory.
    free_.reserve(all_.capacity());
    ended_.reserve(all_.capacity());
    return number_of(all_.size() - 1);
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return number_of(slot);
}

units::number units::left(const base::id& of, const ancestor& under,
                          std::span<const std::span<const std::byte>> recipe) {
  std::size_t size = 0;
  for (const auto& piece : recipe) size += piece.size();
  if (!has_room(size)) return 0;
  unit made;
  made.id = of;
  // It may have been over since it was found.
  unit* const above = find(under.here);
  if (above != nullptr && above->needs > 0) {
    let_wait(under.here, *above);
    above->has_children = true;
    made.parent = under.here;
    made.under = under.id;
  } else if (under.here == 0) {
    made.under = under.id;
  }
  made.needs = 1;
  made.is = state::waits;
  made.at = bytes_.size();
  made.size = size;
  for (const auto& piece : recipe) {
    bytes_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  const number out = take_slot();
  all_[index_of(out)] = std::move(made);
  made_.push_back(out);
  ++waiting_;
  return out;
}

units::number units::came(const base::id& of, const base::id& under,
                          std::span<const std::byte> recipe) {
  if (size() >= most_units) {
    ++refused_;
    return 0;
  }
  unit made;
  made.id = of;
  made.under = under;
  made.needs = 1;
  made.is_guest = true;
  made.is = state::bare;
  if (has_room(recipe.size())) {
    made.is = state::held;
    made.size = recipe.size();
    made.recipe.assign(reinterpret_cast<const char*>(recipe.data()), recipe.size());
  }
  const number out = take_slot();
  by_caller_.insert_or_assign(of.low, out);
  held_ += made.size;
  all_[index_of(out)] = std::move(made);
  ++guests_;
  return out;
}

// What is held is told once something hangs by it.
void units::let_wait(number of, unit& is) {
  if (is.is != state::held) return;
  const std::size_t at = bytes_.size();
  bytes_ += is.recipe;
  made_.push_back(of);
  std::string().swap(is.recipe);
  held_ -= is.size;
  is.at = at;
  is.is = state::waits;
  ++waiting_;
}

bool units::lent(number of) {
  unit* const is = find(of);
  if (is == nullptr || is->needs == 0) return false;
  let_wait(of, *is);
  ++is->needs;
  return true;
}

void units::over(number of) noexcept {
  unit* const is = find(of);
  if (is == nullptr || is->needs == 0 || --is->needs > 0) return;
  if (is->is_guest) forget_callers(of, *is);
  if (is->is == state::held || is->is == state::bare) return drop(of);
  if (is->is == state::told || is->has_children) return ended_.push_back(of);
  if (--waiting_ == 0) forget_dead();
}

// What its job makes from now on has no record above it here.
void units::forget_callers(number of, const unit& is) noexcept {
  const auto remove = [&](std::uint64_t key) {
    const auto at = by_caller_.find(key);
    if (at != by_caller_.end() && at->second == of) by_caller_.erase(at);
  };
  remove(is.id.low);
  --guests_;
  const auto known = relatives_.find(of);
  if (known == relatives_.end()) return;
  for (const std::uint64_t key : known->second) remove(key);
  relatives_.erase(known);
}

void units::drop(number of) noexcept {
  unit& is = all_[index_of(of)];
  if (is.is == state::held) held_ -= is.size;
  is = {};
  free_.push_back(static_cast<std::uint32_t>(index_of(of)));
}

// All that waited is over: nobody will hear of it.
void units::forget_dead() noexcept {
  for (const number one : made_) drop(one);
  made_.clear();
  bytes_.clear();
}

units::work units::take() {
  work out;
  out.made.reserve(waiting_);
  for (const number one : made_) {
    unit& is = *find(one);
    if (is.needs == 0 && !is.has_children) {
      drop(one);
      continue;
    }
    is.is = state::told;
    out.made.push_back({one, is.parent, is.id, is.under, is.at, is.size});
  }
  made_.clear();
  waiting_ = 0;
  out.bytes = std::exchange(bytes_, {});
  out.ended = ended_;
  ended_.clear();
  for (const number one : out.ended) drop(one);
  return out;
}

// One without a recipe has no record: what is above it is the next.
units::ancestor units::ancestor_of(number of) const {
  const unit& is = all_[index_of(of)];
  if (is.is == state::bare) return {0, is.under};
  return {of, is.id};
}

units::ancestor units::nearest(const base::id& caller) const {
  const auto found = by_caller_.find(caller.low);
  return found == by_caller_.end() ? ancestor{} : ancestor_of(found->second);
}

bool units::leads_nowhere(const base::id& caller) const noexcept {
  return caller.low == 0 || nowhere_[caller.low % nowhere_.size()] == caller.low;
}

units::ancestor units::nearest(const base::id& caller, std::span<const shown> all) {
  std::vector<std::uint64_t> passed;
  for (std::uint64_t key = caller.low; key != 0 && passed.size() < most_steps;) {
    if (const auto found = by_caller_.find(key); found != by_caller_.end()) {
      const number of = found->second;
      std::vector<std::uint64_t>& known = relatives_[of];
      for (const std::uint64_t one : passed) {
        if (known.size() == most_relatives) break;
        if (by_caller_.try_emplace(one, of).second) known.push_back(one);
      }
      return ancestor_of(of);
    }
    passed.push_back(key);
    const auto up = std::ranges::find(all, key, &shown::self);
    key = up == all.end() ? 0 : up->caller;
  }
  nowhere_[caller.low % nowhere_.size()] = caller.low;
  return {};
}

}  // namespace manta::inline v0::own
