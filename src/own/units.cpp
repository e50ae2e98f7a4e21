// SPDX-License-Identifier: Apache-2.0
#include "own/units.hpp"

#include <cstring>
#include <utility>

namespace manta::inline v0::own {

units::recipe::recipe(std::span<const std::span<const std::byte>> pieces) {
  std::size_t size = 0;
  for (const auto& piece : pieces) size += piece.size();
  if (size > most_here) far_ = new char[size];
  size_ = static_cast<std::uint32_t>(size);
  char* to = size > most_here ? far_ : here_;
  for (const auto& piece : pieces) {
    if (!piece.empty()) std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
}

void units::recipe::take(recipe& other) noexcept {
  if (other.size_ > most_here) {
    far_ = other.far_;
  } else {
    std::memcpy(here_, other.here_, other.size_);
  }
  size_ = std::exchange(other.size_, 0);
}

units::unit* units::find(number of) noexcept {
  return const_cast<unit*>(std::as_const(*this).find(of));
}

const units::unit* units::find(number of) const noexcept {
  const number slot = of & slot_mask;
  if ((of & ~slot_mask) != life_ || slot == 0 || slot > all_.size()) return nullptr;
  const unit& is = all_[slot - 1];
  return is.is == state::none || is.is == state::over ? nullptr : &is;
}

// Its number may be another one's by now.
units::unit* units::find(const ancestor& of) noexcept {
  unit* const is = find(of.here);
  return is != nullptr && is->id == of.id ? is : nullptr;
}

bool units::has_room(std::size_t recipe_bytes) noexcept {
  const bool has = size_ < most_units && recipe_bytes <= most_recipe &&
                   bytes_ + recipe_bytes + bytes_of_a_unit <= most_bytes_;
  if (!has) ++refused_;
  return has;
}

units::number units::put(unit made) {
  const std::size_t bytes = made.how.size() + bytes_of_a_unit;
  number out = 0;
  if (free_.empty()) {
    // So that ending one needs no memory.
    const std::size_t all = all_.size() + 1;
    if (free_.capacity() < all) free_.reserve(2 * all);
    if (ended_.capacity() < all) ended_.reserve(2 * all);
    all_.push_back(std::move(made));
    out = number_of(all_.size() - 1);
  } else {
    const std::uint32_t slot = free_.back();
    all_[slot] = std::move(made);
    free_.pop_back();
    out = number_of(slot);
  }
  ++size_;
  bytes_ += bytes;
  return out;
}

units::number units::left(const base::id& of, const ancestor& under, recipe how) {
  if (!has_room(how.size())) return 0;
  // So that telling of it, and of what is above it, needs no memory.
  if (made_.capacity() < made_.size() + 2) made_.reserve(2 * made_.size() + 2);
  unit made;
  made.id = of;
  if (under.here == 0) made.under = under.id;
  made.how = std::move(how);
  made.needs = 1;
  made.is = state::kept;
  // It may have ended since it was found.
  unit* const above = find(under);
  if (above != nullptr) {
    made.parent = under.here;
    made.under = under.id;
  }
  const bool is_others = made.under != base::id{} || !has_main_;
  const number out = put(std::move(made));
  if (above != nullptr) {
    ++above->children;
    tell(under.here, *above);
  }
  if (is_others) tell(out, all_[index_of(out)]);
  return out;
}

units::number units::came(const base::id& of, const base::id& under, recipe how) {
  if (size_ >= most_units) {
    ++refused_;
    return 0;
  }
  unit made;
  made.id = of;
  made.under = under;
  made.needs = 1;
  made.is_guest = true;
  made.is = state::bare;
  // What leaves has the other half: others' tasks may wait here in long lines.
  if (how.size() > 0 && held_ + how.size() <= most_bytes_ / 2 && has_room(how.size())) {
    held_ += how.size();
    made.is = state::kept;
    made.how = std::move(how);
  }
  const number out = put(std::move(made));
  try {
    by_caller_.insert_or_assign(of.low, out);
  } catch (...) {
    free(out);
    throw;
  }
  ++guests_;
  return out;
}

void units::tell(number of, unit& is) {
  if (is.is != state::kept) return;
  is.at = static_cast<std::uint32_t>(made_.size());
  made_.push_back(of);
  is.is = state::waits;
  ++waiting_;
}

bool units::lent(const ancestor& of) {
  unit* const is = find(of);
  if (is == nullptr || is->needs == 0) return false;
  tell(of.here, *is);
  ++is->needs;
  return true;
}

void units::over(number of) noexcept {
  unit* const is = find(of);
  if (is == nullptr || is->needs == 0 || --is->needs > 0) return;
  if (is->is_guest) forget_callers(of, *is);
  if (is->children == 0) end(of, *is);
}

// Nothing needs it: what is above it may have waited for that alone.
void units::end(number of, unit& is) noexcept {
  const number parent = is.parent;
  if (is.is == state::told) {
    forget(is);
    is.is = state::over;
    ended_.push_back(of);
  } else {
    free(of);
  }
  unit* const above = find(parent);
  if (above == nullptr || --above->children > 0 || above->needs > 0) return;
  end(parent, *above);  // who came has no parent here
}

void units::forget(unit& is) noexcept {
  bytes_ -= is.how.size() + bytes_of_a_unit;
  if (is.is_guest) held_ -= is.how.size();
  --size_;
  is = {};
}

void units::free(number of) noexcept {
  unit& is = all_[index_of(of)];
  if (is.is == state::waits) {
    made_[is.at] = 0;
    --waiting_;
  }
  if (is.is != state::over) forget(is);
  is = {};
  free_.push_back(static_cast<std::uint32_t>(index_of(of)));
  close_gaps();
}

// Where nobody takes for long, what is over leaves no trace.
void units::close_gaps() noexcept {
  constexpr std::size_t few = 1024;
  if (waiting_ == 0) return made_.clear();
  if (made_.size() < few || made_.size() / 2 < waiting_) return;
  std::erase(made_, 0U);
  for (std::size_t at = 0; at < made_.size(); ++at) {
    all_[index_of(made_[at])].at = static_cast<std::uint32_t>(at);
  }
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

units::work units::take(std::size_t most) {
  work out;
  std::size_t bytes = 0;
  std::size_t done = 0;
  try {
    for (; done < made_.size() && bytes < most; ++done) {
      if (made_[done] == 0) continue;
      out.made.push_back(told(made_[done]));
      bytes += out.made.back().recipe.size() + bytes_of_a_unit;
    }
    out.ended = ended_;
  } catch (...) {
    return {};  // another time
  }
  for (const record& one : out.made) {
    unit& is = all_[index_of(one.unit)];
    is.is = state::told;
    is.at = unlisted;
  }
  waiting_ -= out.made.size();
  made_.erase(made_.begin(), made_.begin() + static_cast<std::ptrdiff_t>(done));
  out.is_cut = !made_.empty();
  for (std::size_t at = 0; at < made_.size(); ++at) {
    if (made_[at] != 0) all_[index_of(made_[at])].at = static_cast<std::uint32_t>(at);
  }
  ended_.clear();
  for (const number one : out.ended) free(one);
  return out;
}

units::record units::told(number of) const {
  const unit* const is = find(of);
  return is == nullptr ? record{of, {}, {}, {}} : record{of, is->id, is->under, is->how.text()};
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

void units::calls(const base::id& self, const base::id& caller) {
  const auto found = by_caller_.find(caller.low);
  if (found == by_caller_.end()) return;
  const number of = found->second;
  std::deque<std::uint64_t>& known = relatives_[of];
  known.push_back(self.low);
  bool is_new = false;
  try {
    const auto [at, is_unknown] = by_caller_.try_emplace(self.low, of);
    // A task may have come twice, and make the same calls once more.
    const bool is_others = at->second != of && all_[index_of(at->second)].id.low != self.low;
    if (is_others) at->second = of;
    is_new = is_unknown || is_others;
  } catch (...) {
    known.pop_back();
    throw;
  }
  if (!is_new) return known.pop_back();  // it goes on after it was suspended, or has come itself
  if (known.size() <= most_relatives) return;
  const auto oldest = by_caller_.find(known.front());
  if (oldest != by_caller_.end() && oldest->second == of) by_caller_.erase(oldest);
  known.pop_front();
}

}  // namespace manta::inline v0::own
