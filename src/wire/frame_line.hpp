// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "wire/frame.hpp"
#include "wire/ring.hpp"

// Frames of any size through a ring, whose messages have at most a quarter of it.
//
// A frame that is longer travels in parts, each with the tag `more` but the last one; the first
// begins with the length of all. What has no room yet waits with who sends, in order. What the
// frame says is not looked at.
// Threads: as the ring's ends.

namespace manta::inline v0::wire {

class frame_sender {
 public:
  explicit frame_sender(const ring_memory& into) noexcept : ring_(into) {}

  /// Sends a frame, given as its pieces, or keeps what has no room. Throws std::bad_alloc.
  void send(std::span<const std::span<const std::byte>> pieces, std::size_t size);
  /// Sends what was kept. True: nothing is left.
  bool flush() noexcept;
  /// The same, waiting for room. False: not within `time`.
  bool flush(std::chrono::nanoseconds time) noexcept;
  /// Whether frames were kept.
  bool is_behind() const noexcept { return !kept_.empty(); }
  std::size_t kept_count() const noexcept { return kept_.size(); }
  /// Bytes of the kept frames, parts that were sent included.
  std::size_t kept_bytes() const noexcept { return kept_bytes_; }
  /// Wakes a reader that sleeps; after one or more frames.
  void bell() noexcept { ring_.bell(); }
  /// The same, but for one that is patient: see ring_writer.
  void soft_bell() noexcept { ring_.soft_bell(); }

 private:
  struct kept_frame {
    std::vector<std::byte> bytes;
    std::size_t done = 0;
  };
  bool send_part(kept_frame& of) noexcept;

  ring_writer ring_;
  std::deque<kept_frame> kept_;
  std::size_t kept_bytes_ = 0;
};

class frame_receiver {
 public:
  using got = ring_reader::got;
  explicit frame_receiver(const ring_memory& from) noexcept : ring_(from) {}

  /// Copies the next whole frame into `to`. nothing: parts of one may have come.
  got take(frame_buffer& to);
  bool has_message() const noexcept { return ring_.has_message(); }
  ring_reader& ring() noexcept { return ring_; }

 private:
  got take_more(frame_buffer& to);

  ring_reader ring_;
  frame_buffer parts_;
  std::span<std::byte> whole_;  // of parts_
  std::size_t done_ = 0;        // of it; 0: no frame in parts is under way
};

}  // namespace manta::inline v0::wire
