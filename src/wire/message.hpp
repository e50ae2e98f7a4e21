// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <manta/spec/error.hpp>

#include "wire/frame.hpp"
#include "wire/views.hpp"

// Writing and reading the messages of src/wire/protocol.capnp.
//
// Problem: a message a microsecond, so neither may an allocation be made for each, nor a large
// array be copied; and what comes in may be anything.
// Idea, writing: one builder whose first segment is memory that the writer owns and uses again; the
// builder's law is that it is zero, so what was used (and no more) is zeroed before the next
// message. Large ranges are hung in by reference: the finished frame is a list of pieces, some of
// them the caller's own memory, for one gathering write.
// Idea, reading: first the frame's table by our own code (frame.hpp), then Cap'n Proto with limits
// on what it follows, then our own checks of every value (check.hpp). Views into the frame come
// out; lists of structs are put into vectors that the reader keeps.
// Invariants:
// 1. Nothing is written that the reader would refuse: both use the same checks.
// 2. A large range begins at a multiple of 64 in the frame, and where it is read, or is refused.
// 3. No exception of Cap'n Proto leaves this file's classes; a bad_alloc does.
// 4. What a reader keeps is bounded by the limits: at most 262,144 references and as many large
//    ranges, and 65,536 changes.
// Threads: externally synchronised; one writer or reader serves one thread at a time.

namespace manta::inline v0::wire {

/// Makes frames, one at a time.
class message_writer {
 public:
  /// Bytes of the memory that is used again and again; a message with more allocates. A frame has
  /// at most `frame_limit` bytes.
  explicit message_writer(std::size_t scratch_bytes = 8192,
                          std::size_t frame_limit = default_frame_limit);
  ~message_writer();
  message_writer(const message_writer&) = delete;
  message_writer& operator=(const message_writer&) = delete;

  /// From the next message on.
  void limit(std::size_t frame_limit) noexcept;
  /// Makes the message and drops the one before. What `body` refers to is used until then when it
  /// is a segment's bytes, and not after this call when it is anything else. Names and the texts of
  /// errors are cut at their limit with a mark. invalid_argument, with nothing written, for what
  /// the reader would refuse or a frame that is too large.
  result<void> write(const envelope& head, const task_view& body);
  result<void> write(const envelope& head, const result_view& body);
  result<void> write(const envelope& head, const call_view& body);
  result<void> write(const envelope& head, const put_view& body);
  result<void> write(const envelope& head, const changes_view& body);
  result<void> write(const envelope& head, const spawn_view& body);
  result<void> write(const envelope& head, const ask_view& body);
  result<void> write(const envelope& head, const actor_end_view& body);
  result<void> write(const envelope& head, const item_view& body);
  result<void> write(const envelope& head, const flow_view& body);
  result<void> write(const envelope& head, const heartbeat_view& body);
  result<void> write(const envelope& head, const bulletin_view& body);

  /// The frame, in order; empty when nothing was written. Valid until the next write or clear. A
  /// message without segments and within the scratch memory is one piece.
  std::span<const std::span<const std::byte>> pieces() const noexcept;
  /// The sum of the pieces.
  std::size_t size_bytes() const noexcept;
  /// Copies the frame. Requires `to` to have size_bytes().
  void flatten(std::span<std::byte> to) const noexcept;
  /// Drops the message: its segments may go.
  void clear() noexcept;

 private:
  struct state;
  template <class Body>
  result<void> make(const envelope& head, const Body& body);

  std::unique_ptr<state> state_;
};

/// Reads frames, one at a time.
class message_reader {
 public:
  /// A frame with more than `frame_limit` bytes is refused.
  explicit message_reader(std::size_t frame_limit = default_frame_limit);
  ~message_reader();
  message_reader(const message_reader&) = delete;
  message_reader& operator=(const message_reader&) = delete;

  /// The message in a whole frame that begins at a multiple of 8; of 64 when it has segments. The
  /// views are valid as long as the frame and until the next read. decode_failed for everything
  /// that is not a message within the limits. Every byte of a large range is the frame's own: no
  /// copy.
  result<const message_view&> read(std::span<const std::byte> frame);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace manta::inline v0::wire
