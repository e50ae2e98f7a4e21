// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "wire/endpoint.hpp"
#include "wire/greeting.hpp"
#include "wire/link.hpp"
#include "wire/loop.hpp"
#include "wire/proof.hpp"

// The link over a socket: Cap'n Proto's RPC on a loop's thread (mailbox.capnp).
//
// Problem: a system call and a wake cost more than everything else, so many messages have to share
// them; and a peer that is slow, silent or hostile must cost its own link only.
// Idea: senders put messages into a queue and tell the loop. It makes a call with what is there
// when none is under way; what comes meanwhile is the next batch. The answer says how much more
// the receiver has room for, and is held back while that is nothing.
//
//   connecting -> greeting -> open -> ended        ended comes from each of them, with a reason
//
// At a unix socket the kernel says whose process the other end is. Over TCP it proves the token
// (proof.hpp); between machines all of it is encrypted (tls.hpp). What comes out of the socket
// passes greeting.hpp, then frame_stream.hpp (sizes), then rpc_gate.hpp (kinds), and only then
// Cap'n Proto; then counts and sizes of the batch.
// Limits: the settings below; a batch has at most 1,024 messages and, but for its last, 1 MiB.
// Threads: any for links; the loop may go first, which ends them.

namespace manta::inline v0::wire {

struct socket_settings {
  /// One message.
  std::size_t frame_limit = default_frame_limit;
  /// What may wait here until send refuses.
  std::size_t most_messages = std::size_t{1} << 16U;
  std::size_t most_bytes = std::size_t{256} << 20U;
  /// What may lie here and be taken by nobody until the peer has to wait.
  std::uint32_t credit_messages = 4096;
  std::uint32_t credit_bytes = std::uint32_t{16} << 20U;
  /// How long the other end may take to greet, and a connection to be made.
  std::chrono::milliseconds greeting_limit{3000};
  /// How long a batch may lie with the other end before it counts as dead.
  std::chrono::milliseconds slow_limit{30000};
  /// The user whose processes may be at the other end; what SO_PEERCRED says is believed.
  std::uint32_t user;
  /// What is proved over TCP, and how it is encrypted beyond this machine; null: no TCP.
  std::shared_ptr<const trust> trusts = {};
  /// Whether connections within this machine are encrypted, too. The same at both ends.
  bool encrypts_loopback = false;

  /// Whether a connection over TCP to there is.
  bool encrypts(const socket_address& other) const noexcept {
    return !trusts->allows_plaintext() && (encrypts_loopback || !other.is_loopback());
  }

  socket_settings();  ///< `user` is who runs this process
};

/// A link to whoever listens at one of `to`, tried one after the other, at once: it connects by
/// itself, and ends with node_lost where nobody listens. What is sent meanwhile waits.
/// invalid_argument: there is none in `to`, or one of TCP without settings.trusts. The credits of
/// `self` are taken from `how`.
result<std::unique_ptr<link>> connect(loop& at, std::vector<socket_address> to,
                                      const greeting& self, const socket_settings& how = {});
/// The same at the unix socket `path`. invalid_argument: that is too long for one.
result<std::unique_ptr<link>> connect(loop& at, const std::string& path, const greeting& self,
                                      const socket_settings& how = {});

}  // namespace manta::inline v0::wire
