// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <manta/base/id.hpp>

#include "node/peers.hpp"

// The ids of what several nodes know.

namespace manta::inline v0::node {

/// Apart from what isolated workers draw for theirs.
inline constexpr std::uint64_t drawn_by_node = std::uint64_t{1} << 63U;

/// The actor that the member `maker` has named as its `number`th: one that it has made in another
/// node, or one of its own whose handle went to one.
constexpr base::id far_actor_id(std::uint64_t maker, std::uint64_t number) noexcept {
  return {maker | drawn_by_node, number};
}

constexpr bool is_far_actor_id(const base::id& of) noexcept { return of.high >> 62U == 2; }
constexpr std::uint64_t maker_of(const base::id& of) noexcept { return of.high & ~drawn_by_node; }

/// The future that the member `owner` has named as its `number`th.
constexpr base::id far_future_id(std::uint64_t owner, std::uint64_t number) noexcept {
  return {owner | std::uint64_t{3} << 62U, number};
}
constexpr bool is_far_future_id(const base::id& of) noexcept { return of.high >> 62U == 3; }

/// The array that the member `owner` has named as its `number`th.
constexpr base::id far_array_id(std::uint64_t owner, std::uint64_t number) noexcept {
  return {owner | std::uint64_t{1} << 62U, number};
}
constexpr bool is_far_array_id(const base::id& of) noexcept { return of.high >> 62U == 1; }

/// The channel, semaphore or barrier that the member `owner` has named so. `drawn` is by chance: to
/// know the id is to have been given it, since whoever names one to its owner may use it.
constexpr base::id far_thing_id(std::uint64_t owner, std::uint64_t drawn) noexcept {
  return {owner | std::uint64_t{2} << 60U, drawn};
}
constexpr bool is_far_thing_id(const base::id& of) noexcept { return of.high >> 60U == 2; }

/// What a message about one of those actors is called by, besides: those of one share a line there,
/// in which they keep their order. Two of different makers that happened to share one would wait
/// for each other.
constexpr std::uint64_t line_of(const base::id& actor) noexcept {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  return ((actor.low ^ (maker_of(actor) * odd)) << peers::line_shift) >> peers::line_shift;
}
constexpr std::uint64_t line_about(peers::topic what, const base::id& actor) noexcept {
  return static_cast<std::uint64_t>(what) | line_of(actor) << peers::line_shift;
}

}  // namespace manta::inline v0::node
