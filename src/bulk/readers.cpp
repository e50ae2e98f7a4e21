// SPDX-License-Identifier: Apache-2.0
#include "bulk/readers.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace manta::inline v0::bulk {

readers::entry* readers::find(tree& in, place at) {
  const auto found = std::ranges::find(in, at, &entry::at);
  return found == in.end() ? nullptr : &*found;
}

// Whether what it has comes from one that has the object, and not through `except`.
bool readers::leads_up(tree& in, const entry& from, place except) {
  const entry* one = &from;
  for (std::size_t i = 0; i <= in.size(); ++i) {
    if (one->at == except) return false;
    if (!one->is_reading || one->above == 0) return true;
    one = find(in, one->above);
    if (one == nullptr) return false;  // it is gone, and might wait for anybody
  }
  return false;
}

// The one below which the next is; null: below the maker.
const readers::entry* readers::above_next(tree& in, place except) const {
  const auto at_maker = static_cast<std::size_t>(std::ranges::count_if(
      in, [except](const entry& one) { return one.above == 0 && one.at != except; }));
  if (at_maker < with_.fan_out) return nullptr;
  for (const entry& one : in) {
    if (one.below < with_.fan_out && leads_up(in, one, except)) return &one;
  }
  return nullptr;
}

std::uint64_t readers::ask(const base::id& object, std::uint64_t reader, std::uint64_t line,
                           base::time_point now) {
  forget_old(now);
  const auto in = all_.try_emplace(object).first;
  tree& of = in->second;
  auto known = std::ranges::find(of, reader, &entry::reader);
  if (known != of.end() && known->is_reading) {
    const entry* const above = find(of, known->above);
    return above != nullptr ? above->reader : 0;
  }
  const place except = known != of.end() ? known->at : 0;
  const entry* const above = above_next(of, except);
  const place at = above != nullptr ? above->at : 0;
  const std::uint64_t whom = above != nullptr ? above->reader : 0;
  if (known == of.end()) {
    if (size_ >= with_.most) {
      if (of.empty()) all_.erase(in);
      return 0;
    }
    of.push_back({.at = ++last_, .reader = reader});
    ++size_;
    known = std::prev(of.end());
  } else {
    take_line(object, *known);
  }
  by_line_[line].emplace_back(object, known->at);
  known->line = line;
  known->above = at;
  known->is_reading = true;
  if (entry* const parent = find(of, at)) ++parent->below;
  return whom;
}

// Below the maker it still counts: who has had it from there is to give it on.
void readers::stop_reading(tree& in, entry& of) {
  if (!of.is_reading) return;
  of.is_reading = false;
  entry* const parent = find(in, of.above);
  if (parent != nullptr) --parent->below;
}

void readers::take_line(const base::id& object, const entry& of) {
  const auto its = by_line_.find(of.line);
  if (its == by_line_.end()) return;
  std::erase(its->second, known_place(object, of.at));
  if (its->second.empty()) by_line_.erase(its);
}

void readers::take_out(trees::iterator in, std::size_t which) {
  tree& of = in->second;
  take_line(in->first, of[which]);
  stop_reading(of, of[which]);
  of.erase(of.begin() + static_cast<std::ptrdiff_t>(which));
  --size_;
  if (of.empty()) all_.erase(in);
}

void readers::ended(const base::id& object, std::uint64_t reader, bool has_it,
                    base::time_point now) {
  const auto in = all_.find(object);
  if (in == all_.end()) return;
  const auto one = std::ranges::find(in->second, reader, &entry::reader);
  if (one == in->second.end()) return;
  if (!has_it) return take_out(in, static_cast<std::size_t>(one - in->second.begin()));
  if (!one->is_reading) return;
  stop_reading(in->second, *one);
  one->until = now + with_.told_for;
  old_.emplace_back(one->until, std::pair(object, one->at));
}

void readers::closed(std::uint64_t line) {
  const auto its = by_line_.find(line);
  if (its == by_line_.end()) return;
  const std::vector<known_place> were = std::move(its->second);
  by_line_.erase(its);
  for (const auto& [object, at] : were) {
    const auto in = all_.find(object);
    if (in == all_.end()) continue;
    const auto one = std::ranges::find(in->second, at, &entry::at);
    if (one == in->second.end()) continue;
    take_out(in, static_cast<std::size_t>(one - in->second.begin()));
  }
}

void readers::forget_old(base::time_point now) {
  while (!old_.empty() && old_.front().first <= now) {
    const auto [object, at] = old_.front().second;
    old_.pop_front();
    const auto in = all_.find(object);
    if (in == all_.end()) continue;
    const auto one = std::ranges::find(in->second, at, &entry::at);
    if (one == in->second.end() || one->is_reading || one->until > now) continue;
    take_out(in, static_cast<std::size_t>(one - in->second.begin()));
  }
}

}  // namespace manta::inline v0::bulk
