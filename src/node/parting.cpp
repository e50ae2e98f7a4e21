// SPDX-License-Identifier: Apache-2.0
#include "node/parting.hpp"

#include <chrono>
#include <exception>

#include <fmt/format.h>

#include "node/far_pulls.hpp"
#include "own/room_limits.hpp"

namespace manta::inline v0::node {

bool parting::is_over() noexcept {
  if (others_ == nullptr) return true;
  try {
    left_ = far_arrays::global().measure_stayed();
    if (left_.arrays == 0) return true;
    const base::time_point now = base::now();
    if (now < next_) return false;
    next_ = now + own::room_limits::between_pleas;
    for (const std::uint64_t node : left_.in) {
      far_pulls::ask_to_take(*others_, node, far_pulls::plea::leaves);
    }
  } catch (const std::exception&) {
    // No memory: the next time.
  }
  return false;
}

std::string parting::text_of_left(const std::string& name, duration limit) const noexcept {
  if (left_.arrays == 0) return {};
  try {
    return fmt::format(
        "{} was to leave within {} ms, and does with {} arrays ({} bytes) of its results that "
        "other nodes have not fetched: who reads them finds node_lost; give it more time "
        "(drain-ms, MANTA_DRAIN_MS)",
        name, std::chrono::ceil<std::chrono::milliseconds>(limit).count(), left_.arrays,
        left_.bytes);
  } catch (const std::exception&) {
    return {};  // no memory for it
  }
}

}  // namespace manta::inline v0::node
