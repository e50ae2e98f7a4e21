// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <kj/async-unix.h>
#include <kj/async.h>
#include <kj/io.h>

#include <manta/spec/error.hpp>

#include "wire/tls.hpp"

// A socket on the loop, with or without TLS over it. Who uses it does not see which.
// Threads: the loop's only.

namespace manta::inline v0::wire {

/// Closed with this.
class watched_socket {
 public:
  enum class step {
    done,
    later,  ///< wait for has_data or has_room
    closed  ///< by the other end, or lost; nothing more goes
  };

  watched_socket(kj::UnixEventPort& at, kj::AutoCloseFd socket)
      : port_(at),
        file_(kj::mv(socket)),
        observer_(port_, file_, kj::UnixEventPort::FdObserver::OBSERVE_READ) {}

  /// From here on all goes through TLS: negotiate() until that is done.
  result<void> encrypt(std::shared_ptr<const tls_identity> self, tls_session::side at);
  step negotiate();

  /// done: `got` bytes, 1 or more. Ask again until it says later, before waiting for has_data.
  step receive(std::span<std::byte> to, std::size_t& got);
  /// done: all of `left` has gone. Takes off it what has.
  step send(std::span<std::span<const std::byte>>& left);
  /// Nothing more will be sent, or, with `both`, received.
  void shut(bool both) noexcept;

  /// When receive, or negotiate, has something to do. One at a time.
  kj::Promise<void> has_data();
  /// When it has room again; any number may ask. Watched for that only while somebody waits: else
  /// each message that the peer reads would wake this loop.
  kj::Promise<void> has_room();
  int file() const noexcept { return file_; }
  /// What TLS says of its end; null without it, and when all is well.
  const error* failure() const noexcept;
  /// It was closed by a reset, or any other failure of the path, and not by an end of the stream. A
  /// unix socket has no path: who resets it is who closes it, with something left unread.
  bool was_reset() const noexcept;

 private:
  step step_of(tls_session::step is);
  step send_encrypted(std::span<std::span<const std::byte>>& left);

  kj::UnixEventPort& port_;
  kj::AutoCloseFd file_;
  kj::UnixEventPort::FdObserver observer_;
  std::unique_ptr<tls_session> tls_;
  bool wants_room_ = false;  // to read, TLS has something to write first
  bool has_failed_ = false;
  bool was_reset_ = false;
};

}  // namespace manta::inline v0::wire
