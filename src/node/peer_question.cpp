// SPDX-License-Identifier: Apache-2.0
#include "node/peer_question.hpp"

namespace manta::inline v0::node {

bool send_question(workbench& on, peers& by, std::uint64_t node, const base::id& request,
                   const wire::ask_view& what) {
  const result<void> written = on.writer.write({request, 1, 0}, what);
  if (!written) written.error().raise();
  return by.send_anyway(node, request, on.writer.pieces(), on.writer.size_bytes()).has_value();
}

bool ask_peer(peers& by, std::uint64_t node, const base::id& request, wire::question what) {
  const borrowed_workbench on;
  return send_question(*on, by, node, request, {what, {}});
}

}  // namespace manta::inline v0::node
