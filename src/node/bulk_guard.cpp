// SPDX-License-Identifier: Apache-2.0
#include "node/bulk_guard.hpp"

#include <array>
#include <string_view>
#include <utility>

#include <sys/socket.h>

#include "wire/endpoint.hpp"
#include "wire/proof.hpp"
#include "wire/tls.hpp"

namespace manta::inline v0::node {

namespace {

bulk::io_step io_step_of(wire::tls_session::step is) noexcept {
  switch (is) {
    case wire::tls_session::step::done:
      return bulk::io_step::done;
    case wire::tls_session::step::wants_read:
      return bulk::io_step::wants_read;
    case wire::tls_session::step::wants_write:
      return bulk::io_step::wants_write;
    default:
      return bulk::io_step::ended;
  }
}

class tls_cipher final : public bulk::cipher {
 public:
  explicit tls_cipher(std::unique_ptr<wire::tls_session> session) : session_(std::move(session)) {}

  bulk::io_step handshake() override { return io_step_of(session_->handshake()); }
  bulk::io_step read(std::span<std::byte> to, std::size_t& got) override {
    return io_step_of(session_->read(to, got));
  }
  bulk::io_step write(std::span<const std::byte> from, std::size_t& put) override {
    return io_step_of(session_->write(from, put));
  }

 private:
  std::unique_ptr<wire::tls_session> session_;
};

}  // namespace

bulk_guard::bulk_guard(wire::socket_settings of)
    : of_(std::move(of)),
      key_(of_.trusts == nullptr ? wire::secret() : of_.trusts->key_for("manta: proof of bulk")) {}

bool bulk_guard::admits(int socket) {
  if (!wire::socket_address::of(socket).is_unix()) return of_.trusts != nullptr;
  ucred other{};
  socklen_t size = sizeof other;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == of_.user;
}

bool bulk_guard::asks_for_proof(int socket) { return !wire::socket_address::of(socket).is_unix(); }

bool bulk_guard::encrypts(int socket) {
  const wire::socket_address other = wire::socket_address::peer_of(socket);
  return !other.is_unix() && of_.encrypts(other);
}

std::unique_ptr<bulk::cipher> bulk_guard::encrypt(int socket, bulk::line_end as) {
  auto made =
      wire::tls_session::start(of_.trusts->identity(), socket,
                               as == bulk::line_end::dialler ? wire::tls_session::side::dialler
                                                             : wire::tls_session::side::listener);
  if (!made) return nullptr;
  return std::make_unique<tls_cipher>(*std::move(made));
}

bulk::proof_block bulk_guard::proof_of(bulk::line_end by, const bulk::hello_block& dialler,
                                       const bulk::hello_block& listener) {
  const std::string_view label = by == bulk::line_end::dialler ? "dialler" : "listener";
  const std::array<std::span<const std::byte>, 3> pieces{std::as_bytes(std::span(label)),
                                                         std::span(dialler), std::span(listener)};
  return wire::authenticate(key_, pieces);
}

}  // namespace manta::inline v0::node
