// SPDX-License-Identifier: Apache-2.0
#include "own/rings.hpp"

namespace manta::inline v0::own {

ring_step follow_ring(ring_probe& of, const std::optional<edge>& leads_out) noexcept {
  if (!leads_out.has_value()) return ring_step::ends;
  if (*leads_out == of.first) return ring_step::closes;
  if (of.steps == most_ring_steps) return ring_step::ends;
  ++of.steps;
  return ring_step::passes_on;
}

}  // namespace manta::inline v0::own
