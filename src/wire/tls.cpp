// SPDX-License-Identifier: Apache-2.0
#include "wire/tls.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <manta/base/check.hpp>

#include "wire/crypto.hpp"
#include "wire/tls_hooks.hpp"

namespace manta::inline v0::wire {

namespace {

constexpr std::size_t tls_record_bytes = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr std::uint64_t tls_records_with_one_key = std::uint64_t{1} << 22U;

// The first of the errors that OpenSSL left, which is the cause; the queue is empty then.
unsigned long first_tls_error() noexcept {
  const unsigned long first = ERR_get_error();
  ERR_clear_error();
  return first;
}

std::string_view text_of_tls_error(unsigned long code) noexcept {
  const char* const text = code == 0 ? nullptr : ERR_reason_error_string(code);
  return text == nullptr ? "no reason" : text;
}

error no_tls_there() {
  return error(
      errc::unsupported,
      "wire: a TLS connection was to begin, found other bytes; either the other process was "
      "started with insecure-plaintext and this one was not, or it is no process of manta");
}
error other_tls_version() {
  return error(errc::unsupported,
               "wire: asked TLS 1.3, found that the other process speaks another version of it; "
               "build both with the same version of manta");
}
// Both ends had proved themselves before: what is wrong now came in between, or was meant.
error altered_bytes(unsigned long code) {
  return error(errc::node_lost,
               fmt::format("wire: what came from the other process is not what it sent ({}); the "
                           "connection is closed: look at the network between both when it happens "
                           "again",
                           text_of_tls_error(code)));
}

// What the other end has sent as the reason to end.
error tls_alert(int alert, unsigned long code) {
  switch (alert) {
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_DECRYPT_ERROR:
      return error(errc::unsupported,
                   "wire: asked to be let in, found that the other process does not know who has "
                   "signed this one's certificate; give both processes the same token");
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_BAD_CERTIFICATE:
      return error(errc::unsupported,
                   "wire: asked to be let in, found that to the other process this one's "
                   "certificate is not valid now; compare the clocks of both machines, or start "
                   "this process anew");
    case SSL_AD_PROTOCOL_VERSION:
      return other_tls_version();
    case SSL_AD_BAD_RECORD_MAC:
      return altered_bytes(code);
    default:
      return error(
          errc::unsupported,
          fmt::format("wire: the other process has ended TLS ({}); compare the versions of "
                      "manta and OpenSSL of both",
                      text_of_tls_error(code)));
  }
}

// What this end found wrong with what came.
error tls_fault(unsigned long code) {
  switch (ERR_GET_REASON(code)) {
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_WRONG_SSL_VERSION:
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_UNKNOWN_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
      return other_tls_version();
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return error(errc::unsupported,
                   "wire: asked the other process for a certificate of this cluster, found that it "
                   "shows none; whoever connected is no process of manta");
    default:
      return error(errc::unsupported,
                   fmt::format("wire: TLS with the other process has failed ({}); compare the "
                               "versions of manta and OpenSSL of both, and what else may listen or "
                               "dial there",
                               text_of_tls_error(code)));
  }
}

// Whether these may be the first bytes of TLS: a handshake or an alert of version 3.
bool may_be_tls(std::span<const unsigned char> first) noexcept {
  return (first.empty() || first[0] == SSL3_RT_HANDSHAKE || first[0] == SSL3_RT_ALERT) &&
         (first.size() < 2 || first[1] == 3);
}

}  // namespace

void tls_session::free_session::operator()(ssl_st* one) const noexcept { SSL_free(one); }

tls_session::tls_session(std::shared_ptr<const tls_identity> self, int socket) noexcept
    : self_(std::move(self)), socket_{.file = socket} {}

// Without a word: who wants one calls say_close.
tls_session::~tls_session() = default;

result<std::unique_ptr<tls_session>> tls_session::start(std::shared_ptr<const tls_identity> self,
                                                        int socket, side at) {
  MANTA_CHECK(self != nullptr);
  MANTA_CHECK_VALUE(socket >= 0, socket);
  const crypto_errors none;
  std::unique_ptr<tls_session> made(new tls_session(std::move(self), socket));
  made->session_.reset(SSL_new(made->self_->context_.get()));
  if (made->session_ == nullptr) return error::out_of_memory();
  SSL* const session = made->session_.get();
  BIO* const way = tls_hooks::way_to(*made);
  if (way == nullptr) return error::out_of_memory();
  SSL_set_bio(session, way, way);
  SSL_set_app_data(session, &made->socket_);
  if (at == side::dialler) {
    SSL_set_connect_state(session);
  } else {
    SSL_set_accept_state(session);
  }
  return made;
}

// What the last call has come to, which returned `is` and not a success.
tls_session::step tls_session::settle(int is) {
  switch (SSL_get_error(session_.get(), is)) {
    case SSL_ERROR_WANT_READ:
      return step::wants_read;
    case SSL_ERROR_WANT_WRITE:
      return step::wants_write;
    case SSL_ERROR_ZERO_RETURN:
      is_closed_ = true;
      return step::closed;
    default:
      return fail(describe());
  }
}

tls_session::step tls_session::fail(error why) {
  if (!failure_.has_value()) failure_.emplace(std::move(why));
  return step::failed;
}

error tls_session::describe() {
  const unsigned long code = first_tls_error();
  if (!may_be_tls(std::span(socket_.first).first(socket_.first_count))) return no_tls_there();
  if (socket_.refusal.has_value()) return *socket_.refusal;
  const bool is_tls = ERR_GET_LIB(code) == ERR_LIB_SSL;
  const int alert = is_tls ? ERR_GET_REASON(code) - SSL_AD_REASON_OFFSET : -1;
  if (alert >= 0 && alert < 256) return tls_alert(alert, code);
  if (socket_.is_ended) {
    return error(errc::node_lost,
                 is_ready_
                     ? "wire: the other process has ended the connection without a word; see "
                       "whether it and its machine still run"
                     : "wire: a TLS connection was to begin, found that the other process has "
                       "ended it; see why in what that one printed");
  }
  if (socket_.why != 0) {
    return error(
        errc::node_lost,
        fmt::format("wire: the connection to the other process is lost: {}; see whether it "
                    "and its machine still run",
                    std::strerror(socket_.why)));
  }
  return is_ready_ ? altered_bytes(code) : tls_fault(code);
}

// Nothing can be written any more; but who refuses a peer says why and closes: that may lie here.
error tls_session::last_words() {
  std::byte one{};
  std::size_t got = 0;
  ERR_clear_error();
  SSL_read_ex(session_.get(), &one, 1, &got);
  return describe();
}

tls_session::step tls_session::handshake() {
  if (failure_.has_value()) return step::failed;
  if (is_ready_) return step::done;
  ERR_clear_error();
  const int is = SSL_do_handshake(session_.get());
  if (is != 1) return settle(is);
  // By its settings OpenSSL has refused all else; this is what everything rests upon.
  MANTA_CHECK_VALUE(SSL_version(session_.get()) == TLS1_3_VERSION, SSL_version(session_.get()));
  MANTA_CHECK(SSL_get0_peer_certificate(session_.get()) != nullptr);
  MANTA_CHECK(SSL_get_verify_result(session_.get()) == X509_V_OK);
  is_ready_ = true;
  return step::done;
}

tls_session::step tls_session::read(std::span<std::byte> to, std::size_t& got) {
  MANTA_CHECK(!to.empty());
  got = 0;
  if (failure_.has_value()) return step::failed;
  MANTA_CHECK(is_ready_);
  while (got < to.size()) {
    std::size_t more = 0;
    ERR_clear_error();
    const int is = SSL_read_ex(session_.get(), to.data() + got, to.size() - got, &more);
    if (is != 1) {
      const step end = settle(is);
      is_drained_ = end == step::wants_read || end == step::wants_write;
      // An end comes with the next call.
      return got == 0 ? end : step::done;
    }
    got += more;
  }
  is_drained_ = false;
  return step::done;
}

tls_session::step tls_session::write(std::span<const std::byte> from, std::size_t& put) {
  put = 0;
  if (failure_.has_value()) return step::failed;
  MANTA_CHECK(is_ready_);
  MANTA_CHECK_VALUE(from.size() >= promised_, promised_);
  while (put < from.size()) {
    const std::size_t size =
        promised_ > 0 ? promised_ : std::min(from.size() - put, tls_record_bytes);
    if (promised_ == 0 && records_ >= tls_records_with_one_key) renew_keys();
    std::size_t done = 0;
    ERR_clear_error();
    const int is = SSL_write_ex(session_.get(), from.data() + put, size, &done);
    if (is != 1) {
      promised_ = size;
      const step end = socket_.why == 0 ? settle(is) : fail(last_words());
      return put == 0 ? end : step::done;
    }
    promised_ = 0;
    ++records_;
    put += done;
  }
  return step::done;
}

bool tls_session::has_more() const noexcept {
  if (!is_ready_ || is_drained_) return false;
  return is_closed_ || failure_.has_value() || SSL_has_pending(session_.get()) == 1;
}

void tls_session::renew_keys() noexcept {
  MANTA_CHECK(is_ready_);
  const crypto_errors none;
  // Not in the middle of a record, whose rest has the keys that it began with.
  if (promised_ == 0 && SSL_key_update(session_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1) {
    records_ = 0;
  }
}

void tls_session::say_close() noexcept {
  if (!is_ready_ || failure_.has_value()) return;
  ERR_clear_error();
  SSL_shutdown(session_.get());
  ERR_clear_error();
}

const error& tls_session::failure() const noexcept {
  MANTA_CHECK(failure_.has_value());
  return *failure_;
}

}  // namespace manta::inline v0::wire
