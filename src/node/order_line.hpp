// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "node/worker_order.hpp"
#include "store/segment.hpp"

// Orders over the socket between a node and a worker, some with a descriptor or a text.
//
// One message is one order; what is cut short, or has another size, is none. Threads: any.

namespace manta::inline v0::node {

/// An order as it came.
struct came_order {
  worker_order order;
  store::descriptor file;  ///< -1: none came with it
  std::string text;
};

enum class order_way : bool { waits, at_once };

/// False: the other side is gone or, at once, has no room for it. `file` stays the caller's; -1:
/// none. Of a text 1,024 bytes go.
bool send_order(int socket, const worker_order& order, order_way way, int file = -1,
                std::string_view text = {}) noexcept;

enum class got_order : unsigned char { order, nothing, closed };

/// The next one. `nothing`: there is none at once, or it was nonsense.
got_order receive_order(int socket, order_way way, came_order& into);

}  // namespace manta::inline v0::node
