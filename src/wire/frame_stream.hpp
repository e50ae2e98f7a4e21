// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <capnp/serialize-async.h>
#include <kj/async.h>

#include <manta/spec/error.hpp>

#include "wire/frame.hpp"
#include "wire/loop_core.hpp"
#include "wire/rpc_gate.hpp"
#include "wire/watched_socket.hpp"

// A socket as the stream of messages that Cap'n Proto's RPC runs on.
//
// Problem: version 0.9.2 believes the table at the begin of a frame; and it makes two system calls
// for each message that it reads and one for each that it writes.
// Idea: frames are read by our own code (frame.hpp) out of a buffer that takes whatever has come,
// and go on as segments whose sizes are checked. The last segment of a long one, where a long
// message lies, begins at a multiple of segment_alignment, so that the message may stay in it.
// Short ones are written into a buffer that leaves when the loop's turn is over.
// Limits: a frame has at most `frame_limit` bytes; what waits because the peer reads nothing, at
// most 1 MiB of short frames and one long one.
// Threads: the loop's only.

namespace manta::inline v0::wire {

class frame_stream final : private capnp::MessageStream, private flushed {
 public:
  frame_stream(loop_core& at, kj::Own<watched_socket> socket, std::size_t frame_limit);
  virtual ~frame_stream() noexcept(false);

  /// For the RPC; as long as this.
  capnp::MessageStream& messages() noexcept { return *this; }
  /// Why it ended, when that was a peer's doing that is worth a word.
  const std::optional<error>& fault() const noexcept { return fault_; }
  bool was_reset() const noexcept { return socket_->was_reset(); }
  /// The bytes of a message that was read, with the frame in which they lie; empty: they have to be
  /// copied.
  frame_buffer keep(std::span<const std::byte> message);
  /// Before it is closed: a socket with something unread is closed by a reset alone, which the peer
  /// takes for a failure of the path.
  void say_end() noexcept { socket_->shut(false); }

 private:
  kj::Promise<kj::Maybe<capnp::MessageReaderAndFds>> tryReadMessage(
      kj::ArrayPtr<kj::AutoCloseFd> files, capnp::ReaderOptions options,
      kj::ArrayPtr<capnp::word> scratch) override;
  kj::Promise<void> writeMessage(
      kj::ArrayPtr<const int> files,
      kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments) override;
  kj::Promise<void> writeMessages(
      kj::ArrayPtr<kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>>> messages) override;
  kj::Maybe<int> getSendBufferSize() override { return nullptr; }
  kj::Promise<void> end() override;

  using found = kj::Maybe<capnp::MessageReaderAndFds>;
  enum class filled { some, later, closed };

  // A frame's memory is either of these.
  struct frame_memory {
    kj::Array<capnp::word> own;
    std::shared_ptr<frame_buffer> kept;
  };
  class checked_frame;

  bool next_frame(capnp::ReaderOptions options, found& to);
  void begin_long(std::span<const std::byte> there, std::size_t length);
  found message_of(std::span<const std::byte> frame, frame_memory memory,
                   capnp::ReaderOptions options);
  filled fill();
  void flush() override;
  kj::Promise<void> write_all(std::vector<std::span<const std::byte>> pieces);
  bool write_some(std::span<std::span<const std::byte>>& left);
  void fail(error why);

  loop_core& at_;
  kj::Own<watched_socket> socket_;
  const std::size_t frame_limit_;
  rpc_gate gate_;
  std::optional<error> fault_;

  // Read: bytes of short frames, and one long frame that is being filled.
  kj::Array<capnp::word> in_;
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;
  std::shared_ptr<frame_buffer> long_;
  std::span<std::byte> long_bytes_;  // of it
  std::size_t long_done_ = 0;
  std::vector<std::weak_ptr<frame_buffer>> long_ones_;  // that may be read still
  std::vector<std::span<const std::byte>> segments_;

  // Written, and not yet sent.
  std::vector<std::byte> out_;
  std::size_t out_done_ = 0;
  bool is_to_flush_ = false;
  bool is_blocked_ = false;  // flush() waits for room in the socket
  kj::Promise<void> room_ = nullptr;
};

}  // namespace manta::inline v0::wire
