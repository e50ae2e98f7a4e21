// SPDX-License-Identifier: Apache-2.0
#include "bulk/plan.hpp"

#include <algorithm>
#include <utility>

namespace manta::inline v0::bulk {

void plan::add(pull_id pull, std::uint64_t bytes, std::span<const holder_id> holders,
               const chunks_here& here) {
  if (pulls_.contains(pull)) return;
  pull_state made;  // before it is listed: there may be no memory for it
  made.bytes = made.left = bytes;
  for (const holder_id one : holders) made.holders.try_emplace(one);
  if (bytes > 0) made.here.resize(static_cast<std::size_t>((bytes - 1) / with_.chunk_bytes + 1));
  if (here.size() == made.here.size()) go_on_with(made, here);
  const auto at = pulls_.emplace(pull, std::move(made)).first;
  note_wanted(at);
  if (at->second.left == 0) return finish(at, pull_end::whole);
  if (at->second.holders.empty()) finish(at, pull_end::unreachable);
}

// What is lacking was asked for before, as far as next() can tell.
void plan::go_on_with(pull_state& of, const chunks_here& here) const {
  of.here = here;
  of.fresh = of.bytes;
  for (std::size_t i = 0; i < here.size(); ++i) {
    const std::uint64_t at = i * std::uint64_t{with_.chunk_bytes};
    if (here[i]) {
      of.left -= size_of(of, at);
    } else {
      of.again.push_back(at);
    }
  }
}

void plan::drop(pull_id pull) {
  if (const auto found = pulls_.find(pull); found != pulls_.end()) forget(found);
  std::erase_if(ended_, [pull](const ended_pull& one) { return one.pull == pull; });
}

void plan::opened(line_id line, holder_id to) {
  if (lines_.try_emplace(line, line_state{to, {}}).second && with_.credits > 0) {
    free_.emplace(0, line);
  }
}

void plan::closed(line_id line) {
  const auto found = lines_.find(line);
  if (found == lines_.end()) return;
  free_.erase({found->second.under_way.size(), line});
  const auto gone = lines_.extract(found);
  const std::deque<chunk_ask>& were = gone.mapped().under_way;
  // In front, and in their order: what was asked for first is to be here first.
  for (auto one = were.rbegin(); one != were.rend(); ++one) {
    const auto of = pulls_.find(one->pull);
    if (of != pulls_.end()) again_in_front(of, one->at);
  }
}

void plan::lost(holder_id holder) {
  for (auto at = pulls_.begin(); at != pulls_.end();) {
    const auto of = at++;
    pull_state& one = of->second;
    if (one.holders.erase(holder) == 0) continue;
    wants_no_more(holder, of->first);
    if (one.holders.empty()) {
      finish(of, pull_end::unreachable);
      continue;
    }
    if (!is_all_had(one)) {
      finish(of, pull_end::not_there);
      continue;
    }
    // Those that had nothing to give while it had a helper have now.
    if (one.helpers.erase(holder) > 0 && one.helpers.empty()) note_wanted(of);
  }
}

std::optional<chunk_ask> plan::take_front(line_id line) {
  const auto found = lines_.find(line);
  if (found == lines_.end() || found->second.under_way.empty()) return std::nullopt;
  std::deque<chunk_ask>& under_way = found->second.under_way;
  const chunk_ask out = under_way.front();
  free_.erase({under_way.size(), line});
  under_way.pop_front();
  free_.emplace(under_way.size(), line);
  return out;
}

void plan::came(line_id line) {
  const std::optional<chunk_ask> asked = take_front(line);
  const auto of = asked ? pulls_.find(asked->pull) : pulls_.end();
  if (of == pulls_.end()) return;
  of->second.left -= asked->bytes;
  of->second.here[static_cast<std::size_t>(asked->at / with_.chunk_bytes)] = true;
  for (auto& [holder, lacking] : of->second.holders) lacking.erase(asked->at);
  of->second.wrong.erase(asked->at);
  if (of->second.left == 0) finish(of, pull_end::whole);
}

void plan::lacks(line_id line) {
  const holder_id by = lines_.contains(line) ? lines_.at(line).to : 0;
  const std::optional<chunk_ask> asked = take_front(line);
  const auto of = asked ? pulls_.find(asked->pull) : pulls_.end();
  if (of == pulls_.end()) return;
  if (left_helper(of, by, asked->at)) return;
  const auto holder = of->second.holders.find(by);
  if (holder != of->second.holders.end()) holder->second.insert(asked->at);
  if (!somebody_has(of->second, asked->at)) return finish(of, pull_end::not_there);
  again_behind(of, asked->at);
}

// Once more elsewhere where there is one, else from the same: the path may have done it.
void plan::wrong(line_id line) {
  const holder_id by = lines_.contains(line) ? lines_.at(line).to : 0;
  const std::optional<chunk_ask> asked = take_front(line);
  const auto of = asked ? pulls_.find(asked->pull) : pulls_.end();
  if (of == pulls_.end()) return;
  if (left_helper(of, by, asked->at)) return;
  pull_state& pull = of->second;
  if (!pull.wrong.insert(asked->at).second) return finish(of, pull_end::damaged);
  const auto holder = pull.holders.find(by);
  if (holder != pull.holders.end()) {
    holder->second.insert(asked->at);
    if (!somebody_has(pull, asked->at)) holder->second.erase(asked->at);
  }
  again_behind(of, asked->at);
}

// A helper is there to save others work: whoever is named first has what it does not give.
bool plan::left_helper(pull_place which, holder_id by, std::uint64_t at) {
  pull_state& of = which->second;
  if (of.helpers.erase(by) == 0) return false;
  of.holders.erase(by);
  wants_no_more(by, which->first);
  again_behind(which, at);
  if (!is_all_had(of)) {
    finish(which, of.holders.empty() ? pull_end::unreachable : pull_end::not_there);
  }
  return true;
}

void plan::told(line_id line, holder_id helper) {
  const std::optional<chunk_ask> asked = take_front(line);
  const auto of = asked ? pulls_.find(asked->pull) : pulls_.end();
  if (of == pulls_.end()) return;
  if (helper != 0 && of->second.holders.try_emplace(helper).second) {
    of->second.helpers.insert(helper);
  }
  again_behind(of, asked->at);
}

void plan::again_in_front(pull_place which, std::uint64_t at) {
  which->second.again.push_front(at);
  note_wanted(which);
}

void plan::again_behind(pull_place which, std::uint64_t at) {
  which->second.again.push_back(at);
  note_wanted(which);
}

// Of whom is looked at when one is to be asked.
void plan::note_wanted(pull_place which) {
  for (const auto& [holder, lacking] : which->second.holders) {
    wanted_[holder].insert(which->first);
  }
}

// Helpers come and go, so nothing of one is kept that has nothing to do.
void plan::wants_no_more(holder_id of, pull_id pull) {
  const auto its = wanted_.find(of);
  if (its == wanted_.end()) return;
  its->second.erase(pull);
  if (its->second.empty()) wanted_.erase(its);
}

void plan::forget(pull_place which) {
  for (const auto& [holder, lacking] : which->second.holders) wants_no_more(holder, which->first);
  pulls_.erase(which);
}

const chunk_ask* plan::front(line_id line) const {
  const auto found = lines_.find(line);
  if (found == lines_.end() || found->second.under_way.empty()) return nullptr;
  return &found->second.under_way.front();
}

std::size_t plan::under_way(line_id line) const {
  const auto found = lines_.find(line);
  return found == lines_.end() ? 0 : found->second.under_way.size();
}

std::uint32_t plan::size_of(const pull_state& of, std::uint64_t at) const {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(with_.chunk_bytes, of.bytes - at));
}

bool plan::somebody_has(const pull_state& of, std::uint64_t at) {
  return std::ranges::any_of(of.holders,
                             [at](const auto& one) { return !one.second.contains(at); });
}

bool plan::may_ask(const pull_state& of, holder_id whom) {
  return of.helpers.empty() || of.helpers.contains(whom);
}

bool plan::is_here(pull_id pull, std::uint64_t at, std::uint64_t bytes) const {
  const auto found = pulls_.find(pull);
  if (found == pulls_.end()) return false;
  const pull_state& of = found->second;
  if (bytes == 0 || at > of.bytes || bytes > of.bytes - at) return false;
  const std::uint64_t last = (at + bytes - 1) / with_.chunk_bytes;
  for (std::uint64_t one = at / with_.chunk_bytes; one <= last; ++one) {
    if (!of.here[static_cast<std::size_t>(one)]) return false;
  }
  return true;
}

bool plan::is_all_had(const pull_state& of) {
  if (of.holders.empty()) return false;
  return std::ranges::all_of(of.holders.begin()->second,
                             [&of](std::uint64_t chunk) { return somebody_has(of, chunk); });
}

std::optional<std::uint64_t> plan::pick(pull_state& of, holder_id holder) const {
  const auto known = of.holders.find(holder);
  if (known == of.holders.end() || !may_ask(of, holder)) return std::nullopt;
  const chunk_set& lacking = known->second;
  for (auto at = of.again.begin(); at != of.again.end(); ++at) {
    if (lacking.contains(*at)) continue;
    const std::uint64_t out = *at;
    of.again.erase(at);
    return out;
  }
  if (of.fresh >= of.bytes) return std::nullopt;
  const std::uint64_t out = of.fresh;
  of.fresh += size_of(of, out);
  return out;
}

std::optional<chunk_ask> plan::next() {
  for (const auto& [count, line] : free_) {
    line_state& is = lines_.at(line);
    const auto its = wanted_.find(is.to);
    if (its == wanted_.end()) continue;
    std::set<pull_id>& some = its->second;
    while (!some.empty()) {
      const auto of = pulls_.find(*some.begin());
      const std::optional<std::uint64_t> at = pick(of->second, is.to);
      if (!at.has_value()) {
        some.erase(some.begin());
        continue;
      }
      const chunk_ask out{line, of->first, *at, size_of(of->second, *at)};
      is.under_way.push_back(out);
      const auto node = free_.extract({count, line});  // `count` and `line` go with it
      if (is.under_way.size() < with_.credits) free_.emplace(is.under_way.size(), out.line);
      return out;
    }
    wanted_.erase(its);
  }
  return std::nullopt;
}

std::optional<ended_pull> plan::next_end() {
  if (ended_.empty()) return std::nullopt;
  const ended_pull out = ended_.front();
  ended_.pop_front();
  return out;
}

bool plan::needs(holder_id holder) const {
  return std::ranges::any_of(pulls_, [holder](const auto& one) {
    const pull_state& of = one.second;
    const auto known = of.holders.find(holder);
    if (known == of.holders.end() || !may_ask(of, holder)) return false;
    if (of.fresh < of.bytes) return true;
    return std::ranges::any_of(of.again,
                               [&](std::uint64_t at) { return !known->second.contains(at); });
  });
}

void plan::finish(pull_place which, pull_end how) {
  ended_.push_back({which->first, how});
  if (how != pull_end::whole) ended_.back().here.swap(which->second.here);
  forget(which);
}

}  // namespace manta::inline v0::bulk
