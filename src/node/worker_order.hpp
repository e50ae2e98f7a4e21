// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace manta::inline v0::node {

/// What a node and a worker tell each other beside the rings, since those are not read while a task
/// runs.
struct worker_order {
  enum class kind : std::uint64_t {
    stop,   ///< that task or call: the flight's number, to a worker; its request's, to the node
    end,    ///< to the node: the same, and who runs it ends
    kill,   ///< to a worker: its actor with that id, low and high
    leave,  ///< to a worker: nothing comes any more, so it ends when it has nothing left to do
    // Of arrays: lent_arrays.hpp.
    segment,  ///< with the descriptor of that segment
    drop,     ///< to a worker: that segment is gone; to the node: it has no use for it
    room,     ///< to the node: a request's number and bytes; back: it and a segment, or 0 and why
    // Of generators: worker_streams.hpp.
    abandon,         ///< that generator, as `stop` names it: nobody reads it any more
    flow,            ///< to a worker: how many of its items the reader has taken
    end_coroutines,  ///< to a worker: the runtime ends, and with it what is suspended
  };
  kind what = kind::stop;
  std::uint64_t number = 0;
  std::uint64_t value = 0;
  std::uint32_t credits = 0;  // of flow: how many may be ahead
};

}  // namespace manta::inline v0::node
