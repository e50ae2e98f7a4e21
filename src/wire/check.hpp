// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <manta/spec/error.hpp>

#include "wire/views.hpp"

// Whether a message keeps the ranges and limits of the protocol. One set of checks for both sides
// of the border: the writer asks before it writes, so that a fault is found where it was made, and
// the reader asks after it read, since a peer may be of another version, faulty or hostile.
// Nothing is asserted here; a breach is an error that says field, value and allowed range. Any
// thread.

namespace manta::inline v0::wire {

/// Which side asks: its errors say what to do there.
enum class side : std::uint8_t {
  writer,  ///< errc::invalid_argument
  reader   ///< errc::decode_failed
};

/// The error of a breach: "wire: the field is 7, allowed are 0 to 2; ...".
error refusal(side who, std::string_view field, std::string_view found, std::string_view allowed);

result<void> check(side who, const envelope& head);
result<void> check(side who, const task_view& task);
result<void> check(side who, const result_view& done);
result<void> check(side who, const call_view& call);
result<void> check(side who, const put_view& put);
result<void> check(side who, const changes_view& changes);
result<void> check(side who, const spawn_view& spawn);
result<void> check(side who, const ask_view& asked);
result<void> check(side who, const item_view& item);
result<void> check(side who, const flow_view& flow);
result<void> check(side who, const heartbeat_view& said);
result<void> check(side who, const bulletin_view& said);
result<void> check(side who, const actor_end_view& end);

/// A count against its limit, before anything is done for each item.
result<void> check_count(side who, const char* field, std::size_t count, std::size_t limit);

}  // namespace manta::inline v0::wire
