// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "own/references.hpp"

// Delegations that go in a ring through several nodes.
//
// Problem. A task that returns another's future stands for it; one that comes round would wait for
// itself. Inside of a node that is seen as it is made; of a ring through several nodes each sees a
// part.
// Idea. What leads out of a node is an edge, which that node has numbered. Who makes something that
// others know stand for what leads out sends a probe along that edge; each node looks where its
// part leads, and passes the probe on by the edge that leads out of there. One that comes to the
// edge by which it began has gone round: that edge is ended, and its error goes round.
//
//      A: x -----edge 1----> B: y
//         ^                     |
//         '------edge 2---------'      made last: its probe goes by 2, then by 1, and comes to 2
//
// Why each ring is found: an edge is there before its probe goes, so that of the ring's last edge
// meets all others. Why nothing else is ended: a probe comes to its first edge only when what that
// leads to waits for it.
// Pure. Threads: any.

namespace manta::inline v0::own {

/// What leads out of a node.
struct edge {
  node_number node = 0;      ///< out of which
  std::uint8_t kind = 0;     ///< of what: the node's business
  std::uint64_t number = 0;  ///< that node's
  friend bool operator==(const edge&, const edge&) = default;
};

struct ring_probe {
  edge first;               ///< by which it began
  std::uint32_t steps = 0;  ///< edges since
};

enum class ring_step : std::uint8_t {
  ends,       ///< what is asked about is made here, or is there; or the probe is lost in a ring
              ///< that it does not belong to
  passes_on,  ///< along the edge that leads out
  closes      ///< that edge has it in a ring
};

/// Of longer rings nothing is found.
inline constexpr std::uint32_t most_ring_steps = 10'000;

/// What becomes of a probe where its part leads out so; counts the step.
ring_step follow_ring(ring_probe& of, const std::optional<edge>& leads_out) noexcept;

}  // namespace manta::inline v0::own
