// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

#include <manta/spec/error.hpp>

// Where a process can be reached: as people write it, and as the kernel has it.
//
// Threads: any; values. resolve asks the machine's resolver, on a thread of its own.

namespace manta::inline v0::wire {

/// "unix:/path", "host:port" or "[address]:port".
struct endpoint {
  std::string path = {};   ///< of a unix socket; empty: it is a host and a port
  std::string host = {};   ///< a name or a number; empty: any of this machine's, to listen at
  std::uint16_t port = 0;  ///< 0: any that is free, to listen at

  bool is_unix() const noexcept { return !path.empty(); }
  /// As it was written.
  std::string text() const;

  /// invalid_argument: it is none of these.
  static result<endpoint> parse(std::string_view text);

  friend bool operator==(const endpoint&, const endpoint&) = default;
};

/// One that the kernel understands.
class socket_address {
 public:
  socket_address() = default;
  /// `size` bytes of any family.
  socket_address(const sockaddr* from, socklen_t size) noexcept;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&at_); }
  socklen_t size() const noexcept { return size_; }
  int family() const noexcept { return at_.ss_family; }
  bool is_unix() const noexcept { return family() == AF_UNIX; }
  /// Whether what is sent there stays on this machine whatever happens.
  bool is_loopback() const noexcept;
  /// Whether it is every address of this machine.
  bool is_any() const noexcept;
  /// Of TCP.
  std::uint16_t port() const noexcept;
  std::string text() const;

  /// At which a socket listens, or to which it is connected.
  static socket_address of(int socket) noexcept;
  static socket_address peer_of(int socket) noexcept;

 private:
  sockaddr_storage at_{};
  socklen_t size_ = 0;
};

/// What an endpoint stands for, the best first. node_lost: no such name, or nobody who knows it
/// answers within `limit`; with none of it only numbers are asked for. invalid_argument: a path
/// with more bytes than fit (107).
result<std::vector<socket_address>> resolve(const endpoint& from, std::chrono::milliseconds limit);

}  // namespace manta::inline v0::wire
