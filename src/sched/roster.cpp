// SPDX-License-Identifier: Apache-2.0
#include "sched/roster.hpp"

#include <algorithm>

#include <manta/base/check.hpp>

namespace manta::inline v0::sched {

namespace {

// The weight of a new time in the average: a program changes its mind within some tens of tasks.
constexpr std::int64_t weight = 8;

}  // namespace

std::size_t roster::start() {
  const auto free = std::ranges::find_if(all_, [](const member& w) { return !w.is_there; });
  const auto number = static_cast<std::size_t>(free - all_.begin());
  if (free == all_.end()) all_.emplace_back();
  all_[number] = member{.is_there = true};
  ++size_;
  return number;
}

void roster::joined(std::size_t number) noexcept {
  MANTA_CHECK_VALUE(all_[number].is_there, number);
  all_[number].has_joined = true;
}

void roster::left(std::size_t number) noexcept {
  member& w = all_[number];
  MANTA_CHECK_VALUE(w.is_there, number);
  if (w.is_blocked) --blocked_;
  w = member{};
  --size_;
}

std::size_t roster::window() const noexcept {
  const std::int64_t more = with_.ahead.count() / std::max<std::int64_t>(average_ns_, 1);
  return std::clamp<std::size_t>(static_cast<std::size_t>(more) + 1, 2, with_.most);
}

std::size_t roster::place() const noexcept {
  std::size_t best = nobody;
  std::size_t fewest = window();
  std::size_t open = 0;
  // More than the target are there when blocked ones went on: the last of them get nothing new.
  for (std::size_t i = 0; i < all_.size() && open < with_.target; ++i) {
    if (!is_open(all_[i])) continue;
    ++open;
    // Those that wait on its stack count here: there are places for so many.
    if (load(all_[i]) >= fewest || all_[i].tasks >= with_.most) continue;
    best = i;
    fewest = load(all_[i]);
  }
  return best;
}

void roster::sent(std::size_t number) noexcept { ++all_[number].tasks; }

void roster::stacked(std::size_t number, std::size_t tasks) noexcept {
  all_[number].stacked = tasks;
}

void roster::ran(nanoseconds time) noexcept {
  average_ns_ += (std::max<std::int64_t>(time.count(), 0) - average_ns_) / weight;
}

void roster::taken_back(std::size_t number) noexcept {
  MANTA_CHECK_VALUE(all_[number].tasks > 0, number);
  --all_[number].tasks;
}

void roster::blocked(std::size_t number, bool is_blocked) noexcept {
  member& w = all_[number];
  if (w.is_blocked == is_blocked) return;
  w.is_blocked = is_blocked;
  blocked_ += is_blocked ? 1 : std::size_t(-1);
}

bool roster::wants_worker() const noexcept {
  return size_ - blocked_ < with_.target && size_ < with_.limit;
}

std::size_t roster::surplus() const noexcept {
  if (size_ - blocked_ <= with_.target) return nobody;
  for (std::size_t i = all_.size(); i-- > 0;) {
    if (is_open(all_[i]) && load(all_[i]) == 0) return i;
  }
  return nobody;
}

std::size_t roster::most_loaded() const noexcept {
  std::size_t best = nobody;
  std::size_t most = 1;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (!all_[i].has_joined || load(all_[i]) <= most) continue;
    best = i;
    most = load(all_[i]);
  }
  return best;
}

std::size_t roster::idle() const noexcept {
  std::size_t open = 0;
  for (std::size_t i = 0; i < all_.size() && open < with_.target; ++i) {
    if (!is_open(all_[i])) continue;
    ++open;
    if (load(all_[i]) == 0) return i;
  }
  return nobody;
}

}  // namespace manta::inline v0::sched
