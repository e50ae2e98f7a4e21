// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>

// The first bytes of a connection over a socket, from both ends at once. Of one size, so that
// nothing is read by its own word about its length, and checked before Cap'n Proto is even made.
//
//   0       8          12     16        32       48       64      72         76      80      112
//   | magic | protocol | kind | cluster | sender | wanted | epoch | messages | bytes | nonce |
//
// All numbers little-endian. Who dials may leave the cluster zero, when it knows nothing but an
// address; it is told then. An address may have become another process's: who knows whom it wants
// says so, and both ends refuse what does not fit.
//
// Over TCP a proof follows each (proof.hpp), so that nobody is heard who has not got the token.
// Threads: none, plain values.

namespace manta::inline v0::wire {

/// What a connection is for, and so what may be said over it.
enum class guest_kind : std::uint32_t {
  member = 1,    ///< a process of the cluster, or one that is to be
  observer = 2,  ///< a tool, which looks and changes nothing
  peer = 3,      ///< a member, which gives work to another one or takes it
  asker = 4      ///< a member, which asks a head of its own for keys and values
};

/// Who is at the other end, by its own word.
struct greeting {
  base::id cluster = {};    ///< whose processes talk to each other; zero: whichever it is
  base::id sender = {};     ///< the process; not zero
  base::id wanted = {};     ///< who has to be at the other end; zero: whoever is
  std::uint64_t epoch = 0;  ///< of the sender
  guest_kind as = guest_kind::member;
  std::uint32_t credit_messages = 1;     ///< what may be sent before the first answer; 1 or more
  std::uint32_t credit_bytes = 1;        ///< of these; 1 or more
  std::array<std::byte, 32> nonce = {};  ///< drawn anew for each connection

  friend constexpr bool operator==(const greeting&, const greeting&) = default;
};

inline constexpr std::size_t greeting_bytes = 112;
/// A change of it is a change of what older builds would misread.
inline constexpr std::uint32_t protocol_version = 3;

using greeting_block = std::array<std::byte, greeting_bytes>;

/// Its bytes.
greeting_block to_bytes(const greeting& from) noexcept;

/// The greeting in exactly greeting_bytes. decode_failed: it is none.
result<greeting> to_greeting(std::span<const std::byte> bytes);

/// Whether who has greeted as `self` may go on with who greets as `peer`. unsupported: it is of
/// another cluster. node_lost: it is, or wants, another process.
result<void> check_greetings(const greeting& self, const greeting& peer);

}  // namespace manta::inline v0::wire
