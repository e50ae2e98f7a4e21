// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <manta/spec/error.hpp>

#include "wire/secret.hpp"

struct ssl_ctx_st;  // OpenSSL's
struct ssl_st;

// TLS between the processes of one cluster, which is made of their token alone.
//
// Problem: beyond one machine everything that is said has to be secret and from whom it seems; and
// nobody should have to make, hand out or renew a certificate for that.
// Idea: who has the token has the key of an authority, which is derived from it. Each process makes
// a key and a certificate of its own, signs that as the authority, forgets the authority's key, and
// takes of others what that authority has signed. Both ends show one, or nothing is said.
//
//   token --HKDF--> authority's key, in each process the same
//   own random key --signed by it--> certificate <--checked-- the other process's authority
//
// It says that the other process has the token, and no more: not which process it is, nor on which
// machine. TLS 1.3 with Ed25519, X25519 and AES-128-GCM or ChaCha20; no tickets, no resumption,
// nothing before the handshake, no names that are checked.
//
// A dialler's handshake is done before the listener has looked at its certificate: what that one
// thinks of it, the dialler hears as the failure of a read or a write. Neither end belongs to a
// cluster before something was read.
//
// Limits: a certificate is valid for ten years. A session's functions empty this thread's queue of
// OpenSSL's errors. No signal comes of a peer that is gone.
// Threads: an identity from any; a session by one at a time.

namespace manta::inline v0::wire {

/// Who this process is to those with the same token. Immutable.
class tls_identity {
 public:
  /// When its certificate is valid, seen from when it is made.
  struct lifetime {
    std::chrono::seconds begin = -std::chrono::hours(24);  ///< for clocks that are behind
    std::chrono::seconds end = std::chrono::hours(24 * 3652);
  };

  /// out_of_memory, or unsupported: this machine's OpenSSL can't do it.
  static result<std::shared_ptr<const tls_identity>> make(const secret& token);
  /// The same with a lifetime of one's own.
  static result<std::shared_ptr<const tls_identity>> make(const secret& token, lifetime valid);

 private:
  friend class tls_session;
  struct free_context {
    void operator()(ssl_ctx_st* one) const noexcept;
  };
  using context_ptr = std::unique_ptr<ssl_ctx_st, free_context>;

  explicit tls_identity(context_ptr context) noexcept : context_(std::move(context)) {}

  context_ptr context_;
};

/// One connection, over a socket that is connected and never waits. It neither owns nor closes it;
/// nobody else reads or writes there.
class tls_session {
 public:
  enum class side : std::uint8_t { dialler, listener };
  enum class step : std::uint8_t {
    done,
    wants_read,   ///< call again when the socket is readable
    wants_write,  ///< call again when it has room
    closed,       ///< the other process has said that it says no more
    failed,       ///< failure() says why; all that is called then fails as well
  };

  /// out_of_memory: OpenSSL has none for it.
  static result<std::unique_ptr<tls_session>> start(std::shared_ptr<const tls_identity> self,
                                                    int socket, side at);
  tls_session(const tls_session&) = delete;
  tls_session& operator=(const tls_session&) = delete;
  ~tls_session();

  /// Until it is done, before anything is read or written.
  step handshake();

  /// done: `got` bytes are there, 1 or more. `to` has room.
  step read(std::span<std::byte> to, std::size_t& got);

  /// done: `put` bytes of `from` were taken, 1 or more unless `from` has none. What was not taken
  /// must be at the begin of the next call's, whole, and may lie elsewhere: some of it may be
  /// encrypted already.
  step write(std::span<const std::byte> from, std::size_t& put);

  /// Whether a read might give something though the socket has become readable for what came
  /// before: bytes, or an end, wait inside.
  bool has_more() const noexcept;

  /// New keys for what is written from here on, which happens by itself every 2^22 records: beyond
  /// 2^24 the cipher says too much about them.
  void renew_keys() noexcept;

  /// Tells the other process that nothing more comes, when there is room for that right now.
  void say_close() noexcept;

  /// Requires that something has failed. node_lost: the connection is lost, or somebody changed
  /// what was sent. unsupported: who is at the other end has another token, another clock, another
  /// version, or speaks no TLS.
  const error& failure() const noexcept;
  /// The errno of what the kernel has refused last; 0: nothing.
  int lost_by() const noexcept { return socket_.why; }

 private:
  friend struct tls_hooks;
  struct free_session {
    void operator()(ssl_st* one) const noexcept;
  };
  // What OpenSSL's callbacks know of the session.
  struct socket_view {
    int file = -1;
    int why = 0;            // the errno of what the kernel refused
    bool is_ended = false;  // it has said that nothing more comes
    std::uint8_t first_count = 0;
    std::array<unsigned char, 2> first{};  // bytes that ever came
    std::optional<error> refusal{};        // of the certificate
  };

  tls_session(std::shared_ptr<const tls_identity> self, int socket) noexcept;

  step settle(int is);
  step fail(error why);
  error describe();
  error last_words();

  std::shared_ptr<const tls_identity> self_;
  socket_view socket_;
  std::unique_ptr<ssl_st, free_session> session_;
  std::optional<error> failure_;
  std::uint64_t records_ = 0;  // written with the keys of now
  std::size_t promised_ = 0;   // bytes that a write has begun with, to be given once more
  bool is_ready_ = false;
  bool is_drained_ = false;  // the last read has left nothing that is whole
  bool is_closed_ = false;
};

}  // namespace manta::inline v0::wire
