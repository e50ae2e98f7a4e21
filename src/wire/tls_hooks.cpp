// SPDX-License-Identifier: Apache-2.0
#include "wire/tls_hooks.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <string>

#include <fmt/format.h>
#include <openssl/bio.h>
#include <sys/socket.h>

#include <manta/base/check.hpp>

namespace manta::inline v0::wire {

namespace {

std::string text_of_tls_time(const std::tm& at) {
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", at.tm_year + 1900, at.tm_mon + 1,
                     at.tm_mday, at.tm_hour, at.tm_min, at.tm_sec);
}
std::string text_of_tls_time(const ASN1_TIME* at) {
  std::tm parts{};
  return ASN1_TIME_to_tm(at, &parts) == 1 ? text_of_tls_time(parts) : "a time that can't be read";
}
std::string text_of_tls_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return text_of_tls_time(parts);
}

error refused_certificate(int why, const X509* one) {
  if (why == X509_V_ERR_CERT_HAS_EXPIRED && one != nullptr) {
    return error(
        errc::unsupported,
        fmt::format("wire: the other process's certificate was valid until {}, and here it "
                    "is {}; compare the clocks of both machines, or start that process "
                    "anew",
                    text_of_tls_time(X509_get0_notAfter(one)), text_of_tls_now()));
  }
  if (why == X509_V_ERR_CERT_NOT_YET_VALID && one != nullptr) {
    return error(
        errc::unsupported,
        fmt::format("wire: the other process's certificate is valid from {} on, and here it "
                    "is {}; compare the clocks of both machines",
                    text_of_tls_time(X509_get0_notBefore(one)), text_of_tls_now()));
  }
  return error(errc::unsupported,
               fmt::format("wire: asked the other process for a certificate of this cluster, found "
                           "one that it has not signed ({}); give both processes the same token",
                           X509_verify_cert_error_string(why)));
}

}  // namespace

BIO_METHOD* tls_hooks::method() {
  // Lives as long as the process, as OpenSSL's own do.
  static BIO_METHOD* const ours = [] {
    BIO_METHOD* const made =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "manta socket");
    MANTA_CHECK(made != nullptr);
    BIO_meth_set_create(made, on_create);
    BIO_meth_set_write_ex(made, on_write);
    BIO_meth_set_read_ex(made, on_read);
    BIO_meth_set_ctrl(made, on_control);
    return made;
  }();
  return ours;
}

BIO* tls_hooks::way_to(tls_session& of) {
  BIO* const way = BIO_new_ex(crypto_context(), method());
  if (way != nullptr) BIO_set_data(way, &of.socket_);
  return way;
}

int tls_hooks::on_create(BIO* way) {
  BIO_set_init(way, 1);
  return 1;
}

int tls_hooks::on_write(BIO* way, const char* from, std::size_t size, std::size_t* put) {
  auto& to = *static_cast<tls_session::socket_view*>(BIO_get_data(way));
  BIO_clear_retry_flags(way);
  ssize_t sent = 0;
  do {
    sent = send(to.file, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    *put = static_cast<std::size_t>(sent);
    return 1;
  }
  *put = 0;
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    BIO_set_retry_write(way);
  } else {
    to.why = errno;
  }
  return 0;
}

int tls_hooks::on_read(BIO* way, char* to, std::size_t size, std::size_t* got) {
  auto& from = *static_cast<tls_session::socket_view*>(BIO_get_data(way));
  BIO_clear_retry_flags(way);
  ssize_t came = 0;
  do {
    came = recv(from.file, to, size, MSG_DONTWAIT);
  } while (came < 0 && errno == EINTR);
  *got = 0;
  if (came > 0) {
    *got = static_cast<std::size_t>(came);
    for (std::size_t i = 0; i < *got && from.first_count < from.first.size(); ++i) {
      from.first[from.first_count++] = static_cast<unsigned char>(to[i]);
    }
    return 1;
  }
  if (came == 0) {
    from.is_ended = true;
  } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
    BIO_set_retry_read(way);
  } else {
    from.why = errno;
  }
  return 0;
}

long tls_hooks::on_control(BIO* way, int what, long /*number*/, void* /*more*/) {
  if (what == BIO_CTRL_FLUSH) return 1;
  if (what == BIO_CTRL_EOF) {
    return static_cast<const tls_session::socket_view*>(BIO_get_data(way))->is_ended ? 1 : 0;
  }
  return 0;
}

int tls_hooks::on_verify(int is_good, X509_STORE_CTX* about) {
  if (is_good == 1) return is_good;
  const auto* const session = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(about, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const socket = static_cast<tls_session::socket_view*>(SSL_get_app_data(session));
  if (socket != nullptr && !socket->refusal.has_value()) {
    socket->refusal.emplace(refused_certificate(X509_STORE_CTX_get_error(about),
                                                X509_STORE_CTX_get_current_cert(about)));
  }
  return is_good;
}

}  // namespace manta::inline v0::wire
