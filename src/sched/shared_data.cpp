// SPDX-License-Identifier: Apache-2.0
#include "sched/shared_data.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>
#include <utility>

#include <manta/base/check.hpp>

namespace manta::inline v0::sched {

namespace {

constexpr duration longest_move{std::int64_t{1} << 60U};

duration sum_of(duration a, duration b) noexcept {
  return std::min(std::min(a, longest_move) + std::min(b, longest_move), longest_move);
}

bool fits(const moved_data& what, duration most) noexcept {
  return sum_of(what.along, what.part) <= most;
}

std::uint64_t capped_sum(std::uint64_t a, std::uint64_t b) noexcept {
  return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

}  // namespace

void moved_data::add(std::uint64_t more, byte_pace pace, const fetched_data& as) noexcept {
  is_coming = is_coming || as.is_coming;
  if (as.is_there || as.is_coming) return;
  missing = sum_of(missing, time_to_move(more, pace));
  part = sum_of(part, time_to_move(part_of(more, as.readers, as.have), pace));
}

std::uint64_t part_of(std::uint64_t bytes, std::uint64_t readers, std::uint64_t have) noexcept {
  if (readers <= 1 || have >= readers - 1) return bytes;
  // Neither the product nor the sum leaves its range so.
  return static_cast<std::uint64_t>(static_cast<double>(bytes) / static_cast<double>(readers) *
                                    static_cast<double>(have + 1));
}

bool is_worth_giving(const moved_data& what, const overflow_queue& here) noexcept {
  if (what.is_coming || !fits(what, worth_moving(here.task_time))) return false;
  return what.missing == duration::zero() || what.missing < wait_of(here);
}

// Its amounts are held there until it has ended, so that few wait for what is coming.
bool is_worth_sending(const moved_data& what, duration task_time) noexcept {
  // What asks for whole cpus, or for a gpu, seldom takes less.
  constexpr duration when_unknown = std::chrono::milliseconds(1);
  return fits(what, worth_moving(task_time > duration::zero() ? task_time : when_unknown));
}

bool may_wait_for_them(const spec::demand& what, placement::rule where) noexcept {
  const bool is_of_cores = what.gpus == 0 && what.memory_bytes == 0 && what.custom.empty();
  return is_of_cores && where != placement::rule::group;
}

void shared_data::begin(std::uint64_t most_kept) noexcept {
  most_kept_ = most_kept;
  all_.clear();
  nodes_.clear();
}

bool shared_data::is_kept(const data& what) const noexcept {
  return what.contents != 0 && what.bytes != 0 && what.bytes <= most_kept_;
}

bool shared_data::is_in_use(const copy& has, base::time_point now) const noexcept {
  return now < has.until || now - has.used < kept_for_;
}

shared_data::one& shared_data::use(const data& what, base::time_point now) {
  one& of = all_[what];
  if (now - of.used >= kept_for_) {
    of.readers.clear();
    of.earlier.clear();
  }
  of.used = now;
  return of;
}

fetched_data shared_data::look(const data& what, std::uint64_t node, const reader& by,
                               base::time_point now) {
  if (!is_kept(what)) return {};
  one& of = use(what, now);
  of.earlier.erase(by.task);
  if (of.count() < most_readers) of.readers.insert(by.task);
  if (now < of.crowded_until) return {};
  fetched_data out;
  const std::uint64_t most = std::max<std::uint64_t>(by.waiting, 1);
  out.readers = std::clamp<std::uint64_t>(of.count(), 1, most);
  for (const auto& [in, has] : of.given) {
    if (now >= has.until) continue;
    ++out.have;
    if (in != node) continue;
    out.is_coming = now < has.from;
    out.is_there = !out.is_coming;
  }
  return out;
}

void shared_data::gave(const data& what, std::uint64_t node, std::uint64_t task,
                       base::time_point now, byte_pace pace) {
  if (!is_kept(what)) return;
  one& of = use(what, now);
  of.readers.erase(task);
  of.earlier.erase(task);
  node_of& in = nodes_[node];
  const auto [at, is_new] = of.given.try_emplace(node);
  copy& has = at->second;
  if (is_new) {
    try {
      in.brought.emplace(task, what);
    } catch (const std::bad_alloc&) {
      of.given.erase(at);
      throw;
    }
    has.task = task;
  }
  const bool is_used = !is_new && is_in_use(has, now);
  has.used = now;
  // As long as before: that it was there still nobody has said.
  if (!is_new && now < has.until) return;
  if (has.task != task) {
    in.brought.emplace(task, what);
    in.brought.erase(std::pair{has.task, what});
    has.task = task;
  }
  // Where others have read it since it most likely is: it is paid for once more, in case it is not.
  has.takes = is_used ? duration::zero() : time_to_move(what.bytes, pace);
  // What is further off nobody knows: what bytes take is another thing by then.
  constexpr duration known_ahead = std::chrono::seconds(10);
  if (!is_used) {
    in.comes_at = std::min(std::max(in.comes_at, now) + has.takes, now + known_ahead);
  }
  has.from = is_used ? now : in.comes_at;
  has.until = has.from + kept_for_;
  if (!is_new) return;
  in.bytes = capped_sum(in.bytes, what.bytes);
  if (in.bytes > most_kept_) make_room(node, what, now);
}

// As own/copy_limits.hpp has it: those used least lately go first.
void shared_data::make_room(std::uint64_t node, const data& except, base::time_point now) noexcept {
  while (nodes_.find(node)->second.bytes > most_kept_) {
    auto oldest = all_.end();
    base::time_point used{};
    for (auto at = all_.begin(); at != all_.end(); ++at) {
      const auto found = at->second.given.find(node);
      if (found == at->second.given.end() || at->first == except) continue;
      if (oldest != all_.end() && found->second.used >= used) continue;
      oldest = at;
      used = found->second.used;
    }
    if (oldest == all_.end()) return;
    one& of = oldest->second;
    const auto which = of.given.find(node);
    if (is_in_use(which->second, now)) of.crowded_until = now + kept_for_;
    drop(oldest->first, of, which);
  }
}

shared_data::copies::iterator shared_data::drop(const data& what, one& of,
                                                copies::iterator which) noexcept {
  const auto found = nodes_.find(which->first);
  MANTA_CHECK(found != nodes_.end());
  node_of& in = found->second;
  MANTA_CHECK_VALUE(in.bytes >= what.bytes, in.bytes);
  in.bytes -= what.bytes;
  const std::size_t gone = in.brought.erase(std::pair{which->second.task, what});
  MANTA_CHECK(gone == 1);
  return of.given.erase(which);
}

void shared_data::drop(std::uint64_t node, const data& what, bool comes_no_more) noexcept {
  const auto in = all_.find(what);
  MANTA_CHECK(in != all_.end());
  one& of = in->second;
  const auto which = of.given.find(node);
  MANTA_CHECK(which != of.given.end());
  // What comes behind it comes sooner.
  if (comes_no_more) nodes_.find(node)->second.comes_at -= which->second.takes;
  drop(what, of, which);
}

void shared_data::came_back(std::uint64_t node, std::uint64_t task) noexcept {
  const auto in = nodes_.find(node);
  if (in == nodes_.end()) return;
  const auto& brought = in->second.brought;
  for (auto at = brought.lower_bound({task, {}}); at != brought.end() && at->first == task;) {
    const data what = (at++)->second;
    drop(node, what, true);
  }
}

void shared_data::lost(std::uint64_t node) noexcept {
  const auto in = nodes_.find(node);
  if (in == nodes_.end()) return;
  while (!in->second.brought.empty()) {
    const data what = in->second.brought.begin()->second;
    drop(node, what, false);
  }
  nodes_.erase(in);
}

void shared_data::sweep(base::time_point now) noexcept {
  if (now - swept_ < kept_for_ / 2) return;
  swept_ = now;
  for (auto at = all_.begin(); at != all_.end();) {
    one& of = at->second;
    for (auto in = of.given.begin(); in != of.given.end();) {
      in = is_in_use(in->second, now) ? std::next(in) : drop(at->first, of, in);
    }
    of.earlier.swap(of.readers);
    of.readers.clear();
    const bool is_over = of.given.empty() && now - of.used >= kept_for_ && now >= of.crowded_until;
    at = is_over ? all_.erase(at) : std::next(at);
  }
  std::erase_if(nodes_, [now](const auto& each) {
    return each.second.bytes == 0 && now >= each.second.comes_at;
  });
}

}  // namespace manta::inline v0::sched
