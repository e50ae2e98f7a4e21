// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <manta/spec/error.hpp>

#include "wire/views.hpp"

// A frame is what travels: a table of segment sizes, then the segments (the stream form of Cap'n
// Proto; drawn here for two segments).
//
//   0            4         8         12       16
//   | count - 1 | words 0 | words 1 | zeros | segment 0 ... | segment 1 ... |
//
// Problem: Cap'n Proto 0.9.2 trusts that table too much; a crafted one makes it write past a
// buffer.
// Idea: the table is read here, without Cap'n Proto, and everything in it is checked against the
// bytes that are really there. Only then a reader is built on the segments, whose own checks of
// pointers hold.
// Invariants: the count is 1 to limits::frame_segments; each segment lies within the frame; all of
// them fill it to the last byte; nothing is computed from the sizes that could overflow (counts are
// of 32 bits, sums of 64).
// Threads: any; no state.

namespace manta::inline v0::wire {

/// The bytes of a frame, unless told: what one message may take.
inline constexpr std::size_t default_frame_limit = std::size_t{64} << 20U;

/// Where large ranges begin, counted from the frame's begin.
inline constexpr std::size_t segment_alignment = 64;

/// Bytes of the table for so many segments.
constexpr std::size_t table_bytes(std::size_t segments) noexcept {
  return (4 + 4 * segments + 7) / 8 * 8;
}

/// The length of the frame that begins with `begin`, for who reads from a stream: 0 when more bytes
/// are needed to say it (8 are enough to begin with). decode_failed for a table that is nonsense.
result<std::size_t> frame_length(std::span<const std::byte> begin,
                                 std::size_t limit = default_frame_limit);

/// Puts the segments of a whole frame into `segments`. The frame begins at a multiple of 8.
result<void> split_frame(std::span<const std::byte> frame, std::size_t limit,
                         std::vector<std::span<const std::byte>>& segments);

}  // namespace manta::inline v0::wire
