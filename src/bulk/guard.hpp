// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <manta/base/id.hpp>

#include "bulk/message.hpp"

// What this room asks of who uses it: who may be at the other end of a socket and how that is
// encrypted, which wire/ knows, and where the bytes of an object are, which node/ knows.
//
// Threads: the bulk thread alone calls them.

namespace manta::inline v0::bulk {

/// Which end of a connection.
enum class line_end : std::uint8_t { dialler, listener };

enum class io_step : std::uint8_t { done, wants_read, wants_write, ended };

/// What encrypts one connection, over a socket that never waits. As wire/tls.hpp has it: what a
/// write has not taken is at the begin of the next one.
class cipher {
 public:
  virtual ~cipher() = default;
  virtual io_step handshake() = 0;
  virtual io_step read(std::span<std::byte> to, std::size_t& got) = 0;
  virtual io_step write(std::span<const std::byte> from, std::size_t& put) = 0;
};

class guard {
 public:
  virtual ~guard() = default;
  /// Whether the kernel says that a process may be there which this one talks to.
  virtual bool admits(int socket) = 0;
  /// Whether both ends prove themselves: over TCP.
  virtual bool asks_for_proof(int socket) = 0;
  /// Whether what is said there is encrypted.
  virtual bool encrypts(int socket) = 0;
  /// Null: it can't.
  virtual std::unique_ptr<cipher> encrypt(int socket, line_end as) = 0;
  /// What that end has to show, over both hellos.
  virtual proof_block proof_of(line_end by, const hello_block& dialler,
                               const hello_block& listener) = 0;
  virtual void draw(std::span<std::byte> nonce) = 0;
};

/// Bytes that stay where they are while `pin` lives.
struct pinned_bytes {
  std::span<const std::byte> bytes = {};
  std::shared_ptr<const void> pin = {};
};

class source {
 public:
  virtual ~source() = default;
  /// Exactly those bytes of that object; nothing: they are not here. May throw std::bad_alloc.
  virtual std::optional<pinned_bytes> find(const base::id& object, std::uint64_t at,
                                           std::uint32_t bytes) = 0;
};

}  // namespace manta::inline v0::bulk
