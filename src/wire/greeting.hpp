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
//   0        8          12      16        32       48      56                60
//   | magic | protocol | zero | cluster | sender | epoch | credit messages | credit bytes |
//
// All numbers little-endian. Threads: none, plain values.

namespace manta::inline v0::wire {

/// Who is at the other end, by its own word.
struct greeting {
  base::id cluster = {};              ///< whose processes talk to each other; not zero
  base::id sender = {};               ///< the process; not zero
  std::uint64_t epoch = 0;            ///< of the sender
  std::uint32_t credit_messages = 1;  ///< what may be sent before the first answer; 1 or more
  std::uint32_t credit_bytes = 1;     ///< of these; 1 or more

  friend constexpr bool operator==(const greeting&, const greeting&) = default;
};

inline constexpr std::size_t greeting_bytes = 64;
/// A change of it is a change of what older builds would misread.
inline constexpr std::uint32_t protocol_version = 1;

/// Its bytes.
std::array<std::byte, greeting_bytes> to_bytes(const greeting& from) noexcept;

/// The greeting in exactly greeting_bytes. unsupported: whoever sent it speaks another protocol or
/// is of another cluster than `cluster`. decode_failed: it is no greeting.
result<greeting> to_greeting(std::span<const std::byte> bytes, const base::id& cluster);

}  // namespace manta::inline v0::wire
