// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <manta/base/id.hpp>

#include "node/peers.hpp"

// The ids of actors that a node has made in another one.

namespace manta::inline v0::node {

/// Apart from what isolated workers draw for theirs.
inline constexpr std::uint64_t drawn_by_node = std::uint64_t{1} << 63U;

/// The actor that the member `maker` has made as its `number`th; both say it by that number alone.
constexpr base::id far_actor_id(std::uint64_t maker, std::uint64_t number) noexcept {
  return {maker | drawn_by_node, number};
}

/// What a message about one of them is called by, besides: those of one share a line there, in
/// which they keep their order.
constexpr std::uint64_t line_about(peers::topic what, const base::id& actor) noexcept {
  return static_cast<std::uint64_t>(what) | actor.low << peers::line_shift;
}

}  // namespace manta::inline v0::node
