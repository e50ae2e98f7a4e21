// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>

#include "control/cluster_rows.hpp"
#include "life/membership.hpp"
#include "spec/cluster.hpp"
#include "wire/link.hpp"
#include "wire/message.hpp"
#include "wire/views.hpp"

// What life/membership.hpp says, as messages over links and as rows of the control store.
//
// Threads: one at a time for each post.

namespace manta::inline v0::node {

/// Writes and reads the messages of one process.
class cluster_post {
 public:
  explicit cluster_post(const base::id& self) noexcept : self_(self) {}

  /// What link::send says, or invalid_argument: it can't be written.
  result<void> send(wire::link& to, const life::heartbeat& said);
  result<void> send(wire::link& to, const life::bulletin& said);
  /// Valid until the next one. decode_failed, for what is no message.
  result<const wire::message_view&> read(std::span<const std::byte> message) {
    return reader_.read(message);
  }

 private:
  template <class Body>
  result<void> send_body(wire::link& to, std::uint64_t epoch, const Body& body);

  const base::id self_;
  std::uint64_t last_ = 0;
  wire::message_writer writer_;
  wire::message_reader reader_;
  std::vector<wire::member_view> members_;
};

life::heartbeat to_heartbeat(const wire::envelope& head, const wire::heartbeat_view& said);
life::bulletin to_bulletin(const wire::envelope& head, const wire::bulletin_view& said);

control::node_row to_row(const spec::node_member& member);
spec::node_member to_member(const control::node_row& row);

}  // namespace manta::inline v0::node
