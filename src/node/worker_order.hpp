// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace manta::inline v0::node {

/// What a node and a worker tell each other beside the rings, since those are not read while a task
/// runs.
struct worker_order {
  enum class kind : std::uint64_t {
    stop,  ///< that task or call: the flight's number, to a worker; its request's, to the node
    end,   ///< to the node: the same, and who runs it ends
    kill,  ///< to a worker: its actor of that number
  };
  kind what = kind::stop;
  std::uint64_t number = 0;
};

}  // namespace manta::inline v0::node
