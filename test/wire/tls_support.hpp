// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/support.hpp"
#include "wire/tls.hpp"

// What the tests of TLS share: both ends over sockets in one thread, and an end by OpenSSL alone.

namespace tls_support {

using manta::errc;
using manta_test::dice;
namespace wire = manta::wire;
using wire::secret;
using wire::tls_identity;
using wire::tls_session;
using side = tls_session::side;
using step = tls_session::step;
using bytes = std::vector<std::byte>;
using bytes_view = std::span<const std::byte>;
using identity_ptr = std::shared_ptr<const tls_identity>;
using session_ptr = std::unique_ptr<tls_session>;

inline secret token(unsigned number) {
  std::array<std::byte, secret::bytes> from{};
  from[0] = static_cast<std::byte>(number);
  return secret(from);
}
inline identity_ptr someone(unsigned number = 1, tls_identity::lifetime valid = {}) {
  const auto made = tls_identity::make(token(number), valid);
  if (!made) FAIL(made.error().message());
  return *made;
}
inline session_ptr session(const identity_ptr& who, int socket, side at) {
  auto made = tls_session::start(who, socket, at);
  if (!made) FAIL(made.error().message());
  return std::move(made).value();
}

// Two sockets that are connected and never wait.
class wires {
 public:
  explicit wires(int room = 0) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends_.data()) != 0) {
      FAIL("no sockets for the test");
    }
    for (const int end : ends_) {
      if (room > 0) setsockopt(end, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    }
  }
  wires(const wires&) = delete;
  wires& operator=(const wires&) = delete;
  ~wires() {
    close_end(0);
    close_end(1);
  }
  int operator[](std::size_t end) const { return ends_[end]; }
  void close_end(std::size_t end) {
    const int file = std::exchange(ends_[end], -1);
    if (file >= 0) close(file);
  }
  // What has come there and is not read yet.
  int waiting(std::size_t end) const {
    int count = -1;
    REQUIRE(ioctl(ends_[end], FIONREAD, &count) == 0);
    return count;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

inline void say(int socket, bytes_view what) {
  REQUIRE(send(socket, what.data(), what.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(what.size()));
}
inline bytes hear(int socket) {
  bytes out(std::size_t{1} << 17U);
  const ssize_t got = recv(socket, out.data(), out.size(), MSG_DONTWAIT);
  out.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return out;
}

inline bool is_end(step is) { return is == step::failed || is == step::closed; }

// Both handshakes until each is done or has failed. Each turn brings one of them on, or both wait
// for ever; a handshake takes a few.
inline std::pair<step, step> shake(tls_session& a, tls_session& b) {
  step of_a = a.handshake();
  step of_b = b.handshake();
  for (int turn = 0; turn < 1000; ++turn) {
    if (of_a != step::done && !is_end(of_a)) of_a = a.handshake();
    if (of_b != step::done && !is_end(of_b)) of_b = b.handshake();
    if ((of_a == step::done || is_end(of_a)) && (of_b == step::done || is_end(of_b))) break;
  }
  return {of_a, of_b};
}

struct two_ends {
  explicit two_ends(int room = 0, unsigned token_a = 1, unsigned token_b = 1)
      : two_ends(someone(token_a), someone(token_b), room) {}
  two_ends(const identity_ptr& of_a, const identity_ptr& of_b, int room = 0)
      : sockets(room),
        a(session(of_a, sockets[0], side::dialler)),
        b(session(of_b, sockets[1], side::listener)) {}

  two_ends& connected() {
    REQUIRE(shake(*a, *b) == std::pair(step::done, step::done));
    return *this;
  }

  wires sockets;
  session_ptr a;
  session_ptr b;
};

inline bytes pattern(std::size_t size, std::uint64_t seed) {
  dice roll(seed);
  bytes out(size);
  for (std::byte& one : out) one = static_cast<std::byte>(roll.next());
  return out;
}

// One direction of a connection: what is written moves in memory before each call.
struct transfer {
  tls_session& from;
  tls_session& to;
  const bytes& what;
  std::size_t chunk;
  std::size_t sent = 0;
  bytes came{};
  step last_write = step::done;
  step last_read = step::done;

  bool is_done() const { return came.size() == what.size(); }
  void turn() {
    if (sent < what.size()) {
      const bytes moved(what.begin() + static_cast<std::ptrdiff_t>(sent), what.end());
      std::size_t put = 0;
      last_write = from.write(moved, put);
      sent += put;
    }
    if (is_done()) return;
    bytes some(chunk);
    std::size_t got = 0;
    last_read = to.read(some, got);
    came.insert(came.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(got));
  }
};

// Everything arrives as it was sent.
inline void carry(transfer& one) {
  while (!one.is_done() && !is_end(one.last_write) && !is_end(one.last_read)) one.turn();
  REQUIRE_FALSE(is_end(one.last_write));
  REQUIRE_FALSE(is_end(one.last_read));
  REQUIRE(one.came == one.what);
}
inline void carry(tls_session& from, tls_session& to, const bytes& what,
                  std::size_t chunk = 70000) {
  transfer one{from, to, what, chunk};
  carry(one);
}

// That it has failed for this reason, in one line, and has left nothing in OpenSSL's queue.
inline void check_failed(const tls_session& of, errc code, const std::string& why) {
  CHECK(of.failure().code() == code);
  CHECK_THAT(of.failure().message(), Catch::StartsWith("wire: ") && Catch::Matchers::Contains(why));
  CHECK(of.failure().message().find('\n') == std::string::npos);
  CHECK(ERR_peek_error() == 0);
}

inline step read_some(tls_session& from, bytes& to) {
  to.resize(1000);
  std::size_t got = 0;
  const step is = from.read(to, got);
  to.resize(got);
  return is;
}

// The other end by OpenSSL alone, with what manta would not do.
class raw_end {
 public:
  raw_end(int socket, bool is_dialler, int oldest, int newest)
      : context_(SSL_CTX_new(is_dialler ? TLS_client_method() : TLS_server_method())) {
    SSL_CTX_set_security_level(context_, 0);
    REQUIRE(SSL_CTX_set_min_proto_version(context_, oldest) == 1);
    REQUIRE(SSL_CTX_set_max_proto_version(context_, newest) == 1);
    SSL_CTX_set_verify(context_, SSL_VERIFY_NONE, nullptr);
    session_ = SSL_new(context_);
    REQUIRE(SSL_set_fd(session_, socket) == 1);
    if (is_dialler) {
      SSL_set_connect_state(session_);
    } else {
      SSL_set_accept_state(session_);
    }
  }
  raw_end(const raw_end&) = delete;
  raw_end& operator=(const raw_end&) = delete;
  ~raw_end() {
    SSL_free(session_);
    SSL_CTX_free(context_);
    ERR_clear_error();
  }
  // A certificate that it has signed itself, in manta's names.
  void show_certificate() {
    EVP_PKEY* const key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
    X509* const made = X509_new();
    X509_set_version(made, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
    X509_gmtime_adj(X509_getm_notBefore(made), -1000);
    X509_gmtime_adj(X509_getm_notAfter(made), 1000);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("manta cluster"), -1, -1, 0);
    X509_set_issuer_name(made, X509_get_subject_name(made));
    X509_set_pubkey(made, key);
    X509_sign(made, key, nullptr);
    CHECK(SSL_use_certificate(session_, made) == 1);
    CHECK(SSL_use_PrivateKey(session_, key) == 1);
    X509_free(made);
    EVP_PKEY_free(key);
  }
  SSL* get() { return session_; }
  // True: done.
  bool handshake() {
    ERR_clear_error();
    const bool is = SSL_do_handshake(session_) == 1;
    ERR_clear_error();
    return is;
  }

 private:
  SSL_CTX* context_;
  SSL* session_;
};

inline step shake(tls_session& ours, raw_end& other) {
  step is = step::wants_read;
  for (int turn = 0; turn < 100 && is != step::done && !is_end(is); ++turn) {
    other.handshake();
    ERR_clear_error();
    is = ours.handshake();
  }
  other.handshake();
  ERR_clear_error();
  return is;
}

// What a dialler says first.
inline bytes client_hello() {
  wires sockets;
  const session_ptr a = session(someone(), sockets[0], side::dialler);
  REQUIRE(a->handshake() == step::wants_read);
  bytes hello = hear(sockets[1]);
  REQUIRE(hello.size() > 100);
  return hello;
}

}  // namespace tls_support
