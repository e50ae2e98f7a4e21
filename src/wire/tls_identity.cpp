// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <ctime>
#include <utility>

#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <manta/base/check.hpp>

#include "wire/crypto.hpp"
#include "wire/tls.hpp"
#include "wire/tls_hooks.hpp"

namespace manta::inline v0::wire {

namespace {

using name_ptr = std::unique_ptr<X509_NAME, crypto_free<X509_NAME_free>>;
using integer_ptr = std::unique_ptr<ASN1_INTEGER, crypto_free<ASN1_INTEGER_free>>;
using number_ptr = std::unique_ptr<BIGNUM, crypto_free<BN_free>>;
using extension_ptr = std::unique_ptr<X509_EXTENSION, crypto_free<X509_EXTENSION_free>>;

constexpr std::size_t most_certificate_bytes = std::size_t{16} << 10U;
constexpr std::size_t tls_read_bytes = std::size_t{64} << 10U;

// The authority's certificate is made by each process on its own and goes to nobody: it is valid at
// any time, so that clocks decide about those of processes alone.
constexpr std::time_t authority_begin = 1577836800;  // 2020
constexpr std::time_t authority_end = 253402300799;  // the end of 9999

struct certificate_plan {
  const char* name;
  std::time_t begin;
  std::time_t end;
  EVP_PKEY* key;  // whose it is
  X509* issuer;   // null: itself
  EVP_PKEY* signer;
  std::span<const std::pair<int, const char*>> extensions;
};

error no_identity() {
  const unsigned long code = ERR_peek_last_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return error(errc::unsupported,
               fmt::format("wire: asked a certificate for this process, OpenSSL found: {}; compare "
                           "its version, 3.0 or later with Ed25519, and its settings",
                           reason == nullptr ? "no reason" : reason));
}

key_ptr authority_key(const secret& token) {
  const secret from = derive(token, "manta tls authority 1");
  return key_ptr(EVP_PKEY_new_raw_private_key_ex(
      crypto_context(), "ED25519", nullptr,
      reinterpret_cast<const unsigned char*>(from.view().data()), secret::bytes));
}

integer_ptr random_serial() {
  std::array<unsigned char, 16> bytes;
  fill_random(std::as_writable_bytes(std::span(bytes)));
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7fU) | 0x40U);
  const number_ptr number(BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr));
  return integer_ptr(number == nullptr ? nullptr : BN_to_ASN1_INTEGER(number.get(), nullptr));
}

bool add_extensions(X509* to, const certificate_plan& plan) {
  X509V3_CTX about{};
  X509V3_set_ctx(&about, plan.issuer == nullptr ? to : plan.issuer, to, nullptr, nullptr, 0);
  for (const auto& [kind, value] : plan.extensions) {
    const extension_ptr one(X509V3_EXT_conf_nid(nullptr, &about, kind, value));
    if (one == nullptr || X509_add_ext(to, one.get(), -1) != 1) return false;
  }
  return true;
}

// Null: OpenSSL has said why.
certificate_ptr make_certificate(const certificate_plan& plan) {
  certificate_ptr made(X509_new_ex(crypto_context(), nullptr));
  const name_ptr name(X509_NAME_new());
  const integer_ptr serial = random_serial();
  if (made == nullptr || name == nullptr || serial == nullptr) return nullptr;
  const auto* const text = reinterpret_cast<const unsigned char*>(plan.name);
  const X509_NAME* const issuer =
      plan.issuer == nullptr ? name.get() : X509_get_subject_name(plan.issuer);
  const bool is =
      X509_NAME_add_entry_by_txt(name.get(), "CN", MBSTRING_ASC, text, -1, -1, 0) == 1 &&
      X509_set_version(made.get(), 2) == 1 &&
      X509_set_serialNumber(made.get(), serial.get()) == 1 &&
      ASN1_TIME_set(X509_getm_notBefore(made.get()), plan.begin) != nullptr &&
      ASN1_TIME_set(X509_getm_notAfter(made.get()), plan.end) != nullptr &&
      X509_set_subject_name(made.get(), name.get()) == 1 &&
      X509_set_issuer_name(made.get(), issuer) == 1 && X509_set_pubkey(made.get(), plan.key) == 1 &&
      add_extensions(made.get(), plan) && X509_sign(made.get(), plan.signer, nullptr) > 0 &&
      // OpenSSL keeps what the extensions mean once somebody asks: now, before threads share it.
      X509_check_purpose(made.get(), -1, 0) == 1;
  return is ? std::move(made) : nullptr;
}

certificate_ptr make_authority(EVP_PKEY* key) {
  static constexpr std::pair<int, const char*> extensions[] = {
      {NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
      {NID_key_usage, "critical,keyCertSign"},
      {NID_subject_key_identifier, "hash"},
  };
  return make_certificate(
      {"manta cluster", authority_begin, authority_end, key, nullptr, key, extensions});
}

certificate_ptr make_own(EVP_PKEY* key, X509* authority, EVP_PKEY* signer,
                         tls_identity::lifetime valid) {
  // Each process is a dialler to some and a listener to others.
  static constexpr std::pair<int, const char*> extensions[] = {
      {NID_basic_constraints, "critical,CA:FALSE"},
      {NID_key_usage, "critical,digitalSignature"},
      {NID_ext_key_usage, "critical,serverAuth,clientAuth"},
      {NID_subject_key_identifier, "hash"},
      {NID_authority_key_identifier, "keyid:always"},
  };
  const std::time_t now = std::time(nullptr);
  return make_certificate({"manta process", now + static_cast<std::time_t>(valid.begin.count()),
                           now + static_cast<std::time_t>(valid.end.count()), key, authority,
                           signer, extensions});
}

// All that decides what is said and accepted; a file of settings may have put something else there.
bool settle_context(SSL_CTX* of) {
  SSL_CTX_clear_options(of, SSL_CTX_get_options(of));
  SSL_CTX_set_options(of, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(of, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_security_level(of, 2);
  // A record at a time, from wherever the caller's bytes are now; buffers only while they hold any.
  SSL_CTX_set_mode(of, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                           SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  // One system call for what has come, not two for each record.
  SSL_CTX_set_read_ahead(of, 1);
  SSL_CTX_set_default_read_buffer_len(of, tls_read_bytes);
  SSL_CTX_set_max_cert_list(of, most_certificate_bytes);
  SSL_CTX_set_verify(of, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, tls_hooks::on_verify);
  SSL_CTX_set_verify_depth(of, 0);
  return SSL_CTX_set_min_proto_version(of, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_max_proto_version(of, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_num_tickets(of, 0) == 1 && SSL_CTX_set_max_early_data(of, 0) == 1 &&
         SSL_CTX_set_ciphersuites(of, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") == 1 &&
         SSL_CTX_set1_groups_list(of, "X25519") == 1 &&
         SSL_CTX_set1_sigalgs_list(of, "ed25519") == 1 &&
         SSL_CTX_set1_client_sigalgs_list(of, "ed25519") == 1 &&
         X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(of), X509_V_FLAG_X509_STRICT) == 1;
}

}  // namespace

void tls_identity::free_context::operator()(ssl_ctx_st* one) const noexcept { SSL_CTX_free(one); }

result<std::shared_ptr<const tls_identity>> tls_identity::make(const secret& token) {
  return make(token, lifetime{});
}

result<std::shared_ptr<const tls_identity>> tls_identity::make(const secret& token,
                                                               lifetime valid) {
  const crypto_errors none;
  const key_ptr signer = authority_key(token);
  const key_ptr own(EVP_PKEY_Q_keygen(crypto_context(), nullptr, "ED25519"));
  if (signer == nullptr || own == nullptr) return no_identity();
  const certificate_ptr authority = make_authority(signer.get());
  if (authority == nullptr) return no_identity();
  const certificate_ptr certificate = make_own(own.get(), authority.get(), signer.get(), valid);
  if (certificate == nullptr) return no_identity();
  context_ptr context(SSL_CTX_new_ex(crypto_context(), nullptr, TLS_method()));
  if (context == nullptr || !settle_context(context.get()) ||
      SSL_CTX_use_certificate(context.get(), certificate.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), own.get()) != 1 ||
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority.get()) != 1) {
    return no_identity();
  }
  return std::shared_ptr<const tls_identity>(new tls_identity(std::move(context)));
}

}  // namespace manta::inline v0::wire
