// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>

#include "wire/frame.hpp"

// What carries messages between two processes, from the begin of a connection to its end.
//
// Problem: on one machine messages go through rings, between machines through sockets, and in tests
// through faults; who sends them should not know.
// Idea: an end has a queue out and a queue in, both bounded, and an end of life with a reason. One
// link is one connection: it repeats nothing and comes back never. What has to outlive it, and
// to be handled exactly once, is the courier's (courier.hpp).
//
//   ring_link     shared memory: who waits reads it            (ring_link.hpp)
//   socket_link   Cap'n Proto's RPC on a thread of its own     (socket_link.hpp)
//   faulty_link   a link that loses, repeats and delays        (tests)
//
// Promises of every body: messages come whole, in order and at most once; what was taken by
// send may be lost when the link ends; both ends are told of that, when one of them dies too.
// Threads: any, for all of it.

namespace manta::inline v0::wire {

/// What a link may take before send refuses, and how it stands.
struct link_state {
  /// Nothing: it works, or is being made. Else why it ended:
  ///   node_lost      the other end closed, died, or there is none
  ///   decode_failed  the other end sent what no end of ours sends
  ///   timed_out      the other end did not greet, or took nothing, within the limit
  ///   unsupported    the other end is of another cluster, user or protocol
  ///   cancelled      close() was called here
  std::optional<error> ended;
  std::size_t waiting_messages = 0;  ///< sent, and not yet with the other end as far as is known
  std::size_t waiting_bytes = 0;     ///< of these
  /// What both ends took to agree on it, by who accepted it: some trips over the path between them,
  /// and the work of the machines. Zero: that is not known.
  std::chrono::nanoseconds greeted_in{};
  /// Its end was a reset: of the path, or of a machine whose process died with something unread.
  bool was_reset = false;
  /// Of which the other end is, and who that is, when it has greeted; zero: not yet, or it does not
  /// know.
  base::id cluster{};
  base::id process{};
};

/// One end of a connection. See above for what it promises.
class link {
 public:
  enum class got : std::uint8_t {
    message,
    nothing,  ///< more may come
    ended     ///< nothing will come any more
  };

  link() = default;
  link(const link&) = delete;
  link& operator=(const link&) = delete;
  /// Ends it as close does, and forgets what on_arrival was given: when that is running on another
  /// thread this waits for its return.
  virtual ~link() = default;

  /// Sends a message of `size` bytes, 1 or more, given as its pieces, which are copied. store_full:
  /// so much waits already that the cap is reached; send again when others have left.
  /// invalid_argument: it is larger than the link carries. Else the reason of the link's end.
  virtual result<void> send(std::span<const std::span<const std::byte>> pieces,
                            std::size_t size) = 0;
  /// The same of a message that is as it has to be, and stays so: whoever can keeps it instead of a
  /// copy.
  virtual result<void> send_kept(const std::shared_ptr<const frame_buffer>& message) {
    const std::span<const std::byte> all = message->bytes();
    return send({&all, 1}, all.size());
  }
  /// Moves the next message into `to`, which begins at a multiple of segment_alignment. After the
  /// end first what had come before.
  virtual got take(frame_buffer& to) = 0;
  /// Until take has something to say. False: not within `time`.
  virtual bool wait(std::chrono::nanoseconds time) = 0;
  /// `tell` is called when messages have come or the link has ended: by a socket's loop thread, by
  /// a ring's waiter. It may use the link, and must not block or throw. Replaces the one before,
  /// which is not running any more when this returns, but on the thread that it runs on.
  virtual void on_arrival(std::function<void()> tell) = 0;
  /// Ends it. What was sent and has not left is dropped.
  virtual void close() = 0;
  virtual link_state state() const = 0;
};

}  // namespace manta::inline v0::wire
