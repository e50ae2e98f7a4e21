// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <capnp/rpc.capnp.h>

#include <manta/spec/error.hpp>

// Which messages of Cap'n Proto's RPC may come over a link.
//
// Problem: the RPC can do much more than a mailbox needs, and keeps notes for each question until
// its asker says that it is done; who never says that makes it keep any number.
// Idea: what two mailboxes do not say to each other ends the link, and so do more open questions
// than an honest end has. Threads: externally synchronised.

namespace manta::inline v0::wire {

class rpc_gate {
 public:
  /// The message may go on. decode_failed: it ends the link.
  result<void> pass(capnp::rpc::Message::Reader message);

 private:
  // One call at a time, whose `finish` may be on its way when the next one comes; one bootstrap.
  static constexpr int most_open = 4;
  int open_ = 0;
  bool was_bootstrapped_ = false;
};

}  // namespace manta::inline v0::wire
