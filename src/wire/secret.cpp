// SPDX-License-Identifier: Apache-2.0
#include "wire/secret.hpp"

#include <algorithm>
#include <cerrno>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <sys/random.h>

#include <manta/base/check.hpp>

#include "wire/crypto.hpp"

namespace manta::inline v0::wire {

namespace {

using bytes_view = std::span<const std::byte>;

using mac_ptr = std::unique_ptr<EVP_MAC, crypto_free<EVP_MAC_free>>;
using mac_run_ptr = std::unique_ptr<EVP_MAC_CTX, crypto_free<EVP_MAC_CTX_free>>;
using kdf_ptr = std::unique_ptr<EVP_KDF, crypto_free<EVP_KDF_free>>;
using kdf_run_ptr = std::unique_ptr<EVP_KDF_CTX, crypto_free<EVP_KDF_CTX_free>>;

const unsigned char* raw(bytes_view of) noexcept {
  return reinterpret_cast<const unsigned char*>(of.data());
}

// OpenSSL's parameters take what they only read as something that could be written.
OSSL_PARAM digest_parameter() noexcept {
  static char name[] = "SHA256";
  return OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, name, 0);
}
OSSL_PARAM bytes_parameter(const char* name, bytes_view value) noexcept {
  // Without a pointer the parameter would count as one that was not given at all.
  static std::byte nothing{};
  std::byte* const at = value.empty() ? &nothing : const_cast<std::byte*>(value.data());
  return OSSL_PARAM_construct_octet_string(name, at, value.size());
}

}  // namespace

OSSL_LIB_CTX* crypto_context() {
  static OSSL_LIB_CTX* const ours = [] {
    const crypto_errors none;
    OSSL_LIB_CTX* const made = OSSL_LIB_CTX_new();
    MANTA_CHECK(made != nullptr);
    return made;
  }();
  return ours;
}

crypto_errors::crypto_errors() noexcept { ERR_set_mark(); }
crypto_errors::~crypto_errors() { ERR_pop_to_mark(); }

secret::secret(std::span<const std::byte, bytes> from) noexcept {
  std::copy(from.begin(), from.end(), bytes_.begin());
}

secret::~secret() { wipe(bytes_); }

bool operator==(const secret& a, const secret& b) noexcept { return is_equal(a.view(), b.view()); }

void wipe(std::span<std::byte> what) noexcept { OPENSSL_cleanse(what.data(), what.size()); }

void fill_random(std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = getrandom(to.data(), to.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    MANTA_CHECK_VALUE(got > 0, errno);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

void expand(bytes_view from, bytes_view salt, bytes_view info, std::span<std::byte> to) {
  const crypto_errors none;
  const kdf_ptr kind(EVP_KDF_fetch(crypto_context(), OSSL_KDF_NAME_HKDF, nullptr));
  MANTA_CHECK(kind != nullptr);
  const kdf_run_ptr run(EVP_KDF_CTX_new(kind.get()));
  MANTA_CHECK(run != nullptr);
  const OSSL_PARAM how[] = {digest_parameter(), bytes_parameter(OSSL_KDF_PARAM_KEY, from),
                            bytes_parameter(OSSL_KDF_PARAM_SALT, salt),
                            bytes_parameter(OSSL_KDF_PARAM_INFO, info), OSSL_PARAM_construct_end()};
  const int is =
      EVP_KDF_derive(run.get(), reinterpret_cast<unsigned char*>(to.data()), to.size(), how);
  MANTA_CHECK_VALUE(is == 1, to.size());
}

secret derive(const secret& from, std::string_view label) {
  std::array<std::byte, secret::bytes> made;
  expand(from.view(), {}, std::as_bytes(std::span(label)), made);
  const secret out(made);
  wipe(made);
  return out;
}

mac authenticate(bytes_view key, std::span<const bytes_view> pieces) {
  const crypto_errors none;
  const mac_ptr kind(EVP_MAC_fetch(crypto_context(), OSSL_MAC_NAME_HMAC, nullptr));
  MANTA_CHECK(kind != nullptr);
  const mac_run_ptr run(EVP_MAC_CTX_new(kind.get()));
  MANTA_CHECK(run != nullptr);
  const OSSL_PARAM how[] = {digest_parameter(), OSSL_PARAM_construct_end()};
  MANTA_CHECK(EVP_MAC_init(run.get(), raw(key), key.size(), how) == 1);
  for (const bytes_view piece : pieces) {
    MANTA_CHECK(EVP_MAC_update(run.get(), raw(piece), piece.size()) == 1);
  }
  mac out;
  std::size_t size = 0;
  const int is =
      EVP_MAC_final(run.get(), reinterpret_cast<unsigned char*>(out.data()), &size, out.size());
  MANTA_CHECK_VALUE(is == 1 && size == out.size(), size);
  return out;
}

mac authenticate(const secret& key, std::span<const bytes_view> pieces) {
  return authenticate(bytes_view(key.view()), pieces);
}

bool is_equal(bytes_view a, bytes_view b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace manta::inline v0::wire
