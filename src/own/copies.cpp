// SPDX-License-Identifier: Apache-2.0
#include "own/copies.hpp"

#include <algorithm>
#include <new>

namespace manta::inline v0::own {

std::vector<copies::member> copies::begin(search number, const base::id& of,
                                          std::span<const member> among, base::time_point now) {
  if (is_known_none(of, now) || all_.contains(number)) return {};
  state made{.of = of, .until = now + with_.answer_limit};
  for (const member one : among) {
    if (made.asked.size() < with_.most_asked) made.asked.insert(one);
  }
  if (made.asked.empty()) return {};
  std::vector<member> out(made.asked.begin(), made.asked.end());
  all_.emplace(number, std::move(made));
  return out;
}

// Of one that nobody was just taken for.
copy_step copies::next(searches::iterator of, base::time_point now) {
  state& is = of->second;
  if (is.taken != 0) return {};
  if (!is.spare.empty()) {
    is.taken = is.spare.front();
    is.spare.pop_front();
    return {copy_step::kind::take, is.taken};
  }
  if (!is.asked.empty()) return {};
  const base::id object = is.of;
  all_.erase(of);
  note_none(object, now);
  return {copy_step::kind::none, 0};
}

copy_step copies::answered(search number, member by, bool has_it, base::time_point now) {
  const auto of = all_.find(number);
  if (of == all_.end() || !of->second.asked.contains(by)) return {};
  if (has_it) of->second.spare.push_back(by);  // first: there may be no memory for it
  of->second.asked.erase(by);
  return next(of, now);
}

copy_step copies::failed(search number, base::time_point now) {
  const auto of = all_.find(number);
  if (of == all_.end()) return {};
  of->second.taken = 0;
  return next(of, now);
}

void copies::over(search number) noexcept { all_.erase(number); }

void copies::clear() noexcept {
  all_.clear();
  none_.clear();
  none_in_order_.clear();
}

copies::steps copies::gone(member one, base::time_point now) {
  steps out;
  out.reserve(all_.size());
  for (auto at = all_.begin(); at != all_.end();) {
    const auto of = at++;
    const search number = of->first;
    std::erase(of->second.spare, one);
    if (of->second.asked.erase(one) == 0) continue;
    const copy_step is = next(of, now);
    if (is.is != copy_step::kind::waits) out.emplace_back(number, is);
  }
  return out;
}

copies::steps copies::look(base::time_point now) {
  steps out;
  out.reserve(all_.size());
  for (auto at = all_.begin(); at != all_.end();) {
    const auto of = at++;
    const search number = of->first;
    if (of->second.asked.empty() || of->second.until > now) continue;
    of->second.asked.clear();
    const copy_step is = next(of, now);
    if (is.is != copy_step::kind::waits) out.emplace_back(number, is);
  }
  return out;
}

base::deadline copies::due() const {
  base::deadline out;
  for (const auto& [number, of] : all_) {
    if (of.asked.empty()) continue;
    out = out.has_value() ? std::min(*out, of.until) : of.until;
  }
  return out;
}

bool copies::is_known_none(const base::id& of, base::time_point now) noexcept {
  while (!none_in_order_.empty() && none_in_order_.front().first <= now) {
    const auto& [until, id] = none_in_order_.front();
    const auto known = none_.find(id);
    if (known != none_.end() && known->second == until) none_.erase(known);
    none_in_order_.pop_front();
  }
  return none_.contains(of);
}

// Without room, or memory, they are asked once more.
void copies::note_none(const base::id& of, base::time_point now) noexcept {
  if (is_known_none(of, now) || none_.size() >= with_.most_known) return;
  const base::time_point until = now + with_.none_for;
  try {
    none_in_order_.emplace_back(until, of);
    none_.emplace(of, until);
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace manta::inline v0::own
