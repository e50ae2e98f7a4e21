// SPDX-License-Identifier: Apache-2.0
#include "sched/link_paces.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace manta::inline v0::sched {

namespace {

using namespace std::chrono_literals;

// A byte takes no less and no more, whoever says so: 100 GB/s, and 10 kB/s.
constexpr double least_ns = 0.01;
constexpr double most_ns = 100'000;
constexpr double most_steep = 32;  // a sample, by what was known
// While something is under way without an end, what has come by then is a sample.
constexpr duration longest_sample = 50ms;
// What is nobody's: a PiB at once, or an hour for a sample.
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 50U;
constexpr duration longest = 1h;
// In that time half of what a link differs by is forgotten.
constexpr duration half_life = 60s;

// How much of the average a sample is: of so many bytes half, which is the most.
double weight_of(std::uint64_t bytes) noexcept {
  constexpr double half_bytes = 8.0 * (1U << 20U);
  const auto all = static_cast<double>(bytes);
  return std::clamp(all / (all + half_bytes), 0.125, 0.5);
}

double faded(double ns, duration since) noexcept {
  if (since <= duration::zero()) return ns;
  const double halves = static_cast<double>(since.count()) / static_cast<double>(half_life.count());
  const double usual = byte_pace{}.ns;
  return usual * std::pow(ns / usual, std::exp2(-halves));
}

}  // namespace

duration time_to_move(std::uint64_t bytes, byte_pace pace) noexcept {
  constexpr std::uint64_t most = std::uint64_t{1} << 60U;
  const double ns = std::ceil(static_cast<double>(bytes) * pace.ns);
  const bool is_less = ns < static_cast<double>(most);
  return duration(static_cast<duration::rep>(is_less ? static_cast<std::uint64_t>(ns) : most));
}

void moved_bytes::add(std::uint64_t bytes, byte_pace pace) noexcept {
  bytes_ = bytes > UINT64_MAX - bytes_ ? UINT64_MAX : bytes_ + bytes;
  ns_ += static_cast<double>(bytes) * pace.ns;
}

byte_pace moved_bytes::pace() const noexcept {
  return bytes_ == 0 ? byte_pace{} : byte_pace{ns_ / static_cast<double>(bytes_)};
}

bool is_telling_message(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t least = std::uint64_t{1} << 20U;
  return bytes >= least;
}

bool is_short_message(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t most = std::uint64_t{4} << 10U;
  return bytes <= most;
}

bool is_telling(const transfer& what) noexcept {
  const bool is_enough = what.bytes >= least_telling && what.bytes <= most_bytes;
  return is_enough && what.took > duration::zero() && what.took <= longest;
}

void arrivals::begins(std::uint64_t node, base::time_point now) {
  one& of = all_[node];
  if (of.under_way++ == 0) of.since = now;
}

void arrivals::begins_again(std::uint64_t node, base::time_point now) noexcept {
  const auto found = all_.find(node);
  if (found == all_.end()) return;
  found->second.since = now;
  found->second.bytes = 0;
}

std::optional<transfer> arrivals::came(std::uint64_t node, std::uint64_t bytes,
                                       base::time_point now) noexcept {
  const auto found = all_.find(node);
  if (found == all_.end()) return std::nullopt;
  one& of = found->second;
  of.bytes = bytes > UINT64_MAX - of.bytes ? UINT64_MAX : of.bytes + bytes;
  const transfer is{of.bytes, now - of.since};
  if (is.bytes < least_telling || is.took < longest_sample) return std::nullopt;
  of.since = now;
  of.bytes = 0;
  return is_telling(is) ? std::optional(is) : std::nullopt;
}

std::optional<transfer> arrivals::ends(std::uint64_t node, base::time_point now) noexcept {
  const auto found = all_.find(node);
  if (found == all_.end() || --found->second.under_way > 0) return std::nullopt;
  const transfer is{found->second.bytes, now - found->second.since};
  all_.erase(found);
  return is_telling(is) ? std::optional(is) : std::nullopt;
}

void link_paces::saw(const link& on, const transfer& what, base::time_point now) {
  if (!is_telling(what)) return;
  const double weight = weight_of(what.bytes);
  seen& of = all_.try_emplace(on, seen{.at = now}).first->second;
  const double before = faded(of.ns, now - of.at);
  const double took = static_cast<double>(what.took.count()) / static_cast<double>(what.bytes);
  const double ns = std::clamp(took, least_ns, std::min(most_ns, before * most_steep));
  of.ns = before * (1 - weight) + ns * weight;
  of.at = now;
}

const link_paces::seen* link_paces::find(const link& which) const noexcept {
  const auto found = all_.find(which);
  return found == all_.end() ? nullptr : &found->second;
}

// As it was measured, or the other way round.
byte_pace link_paces::between(std::uint64_t a, std::uint64_t b,
                              base::time_point now) const noexcept {
  const seen* is = find({a, b});
  if (is == nullptr) is = find({b, a});
  return is == nullptr ? byte_pace{} : byte_pace{faded(is->ns, now - is->at)};
}

byte_pace link_paces::of(const link& which, base::time_point now) const noexcept {
  const bool is_ours = which.from == 0 || which.to == 0;
  if (is_ours) return between(which.from, which.to, now);
  const byte_pace from = between(which.from, 0, now);
  const byte_pace to = between(0, which.to, now);
  return from.ns > to.ns ? from : to;
}

void link_paces::lost(std::uint64_t node) noexcept {
  std::erase_if(all_,
                [node](const auto& one) { return one.first.from == node || one.first.to == node; });
}

}  // namespace manta::inline v0::sched
