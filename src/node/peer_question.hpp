// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <manta/base/id.hpp>
#include <manta/codec/codec.hpp>

#include "node/peers.hpp"
#include "node/workbench.hpp"
#include "wire/views.hpp"

// A question to another node, or something that it is told and does not answer, as one message.
//
// It goes however much waits for that node: most are said by the loop's thread, or under a lock,
// where nobody can wait for room. Threads: any.

namespace manta::inline v0::node {

/// False: that node is gone. Throws why it can't be written, std::bad_alloc.
bool send_question(workbench& on, peers& by, std::uint64_t node, const base::id& request,
                   const wire::ask_view& what);

template <class T>
bool ask_peer(peers& by, std::uint64_t node, const base::id& request, wire::question what,
              const T& with) {
  const borrowed_workbench on;
  on->out.clear();
  return send_question(*on, by, node, request, {what, codec::encode(on->out, with)});
}
/// The same of one that says all by itself.
bool ask_peer(peers& by, std::uint64_t node, const base::id& request, wire::question what);

}  // namespace manta::inline v0::node
