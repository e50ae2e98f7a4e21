// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <manta/base/machine.hpp>
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
/// The largest that there can be: sizes of data have 29 bits in the format.
inline constexpr std::size_t largest_frame = (std::size_t{1} << 29U) - 8;

/// Where large ranges begin, counted from the frame's begin.
inline constexpr std::size_t segment_alignment = 64;

/// Memory for one frame, used again and again; begins at a multiple of segment_alignment.
class frame_buffer {
 public:
  frame_buffer() = default;
  /// Bytes of another one that are nobody else's to change, and begin at a multiple of
  /// segment_alignment.
  frame_buffer(std::shared_ptr<frame_buffer> of, std::span<std::byte> bytes) noexcept
      : of_(std::move(of)), at_(bytes.data()), size_(bytes.size()) {}
  frame_buffer(frame_buffer&& other) noexcept
      : memory_(std::move(other.memory_)),
        of_(std::move(other.of_)),
        at_(std::exchange(other.at_, nullptr)),
        room_(std::exchange(other.room_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  frame_buffer& operator=(frame_buffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    of_ = std::move(other.of_);
    at_ = std::exchange(other.at_, nullptr);
    room_ = std::exchange(other.room_, 0);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  /// Room for a frame of so many bytes, whose content is undefined. Throws std::bad_alloc.
  std::span<std::byte> reset(std::size_t bytes) {
    if (bytes > room_) {
      memory_.reset(static_cast<std::byte*>(::operator new(bytes, align)));
      base::welcome_large_pages(memory_.get(), bytes);
      of_ = nullptr;
      at_ = memory_.get();
      room_ = bytes;
    }
    size_ = bytes;
    return {at_, bytes};
  }
  std::span<const std::byte> bytes() const noexcept { return {at_, size_}; }
  /// The same, to fill.
  std::span<std::byte> room() noexcept { return {at_, size_}; }
  /// Gives memory back that only a large frame needed.
  void trim() noexcept {
    if (room_ <= kept) return;
    memory_.reset();
    at_ = nullptr;
    room_ = size_ = 0;
  }

 private:
  static constexpr std::align_val_t align{segment_alignment};
  static constexpr std::size_t kept = std::size_t{1} << 20U;
  struct free_aligned {
    void operator()(std::byte* p) const noexcept { ::operator delete(p, align); }
  };
  std::unique_ptr<std::byte, free_aligned> memory_;
  std::shared_ptr<frame_buffer> of_;  // or of somebody's
  std::byte* at_ = nullptr;
  std::size_t room_ = 0;  // of memory_
  std::size_t size_ = 0;
};

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
