// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <wire/protocol.capnp.h>

#include "wire/views.hpp"

// The part of the writer of messages (message.hpp) that is about a cluster's members.
//
// Threads: any; there is no state.

namespace manta::inline v0::wire {

void put_heartbeat(manta_wire_schema::Heartbeat::Builder to, const heartbeat_view& said);
void put_bulletin(manta_wire_schema::Bulletin::Builder to, const bulletin_view& said);

}  // namespace manta::inline v0::wire
