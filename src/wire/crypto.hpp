// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

// OpenSSL as this room uses it, for .cpp files alone.
//
// Problem: the user's program may use OpenSSL, too: with providers, a configuration and errors in
// its threads' queues that are none of ours, as ours are none of its.
// Idea: a library context of our own, which no configuration file and no other code changes; and a
// mark in the queue of errors, to which it goes back.
// Threads: any.

namespace manta::inline v0::wire {

/// Ours. Made by the first who asks and never freed: threads that have used it may outlive all.
OSSL_LIB_CTX* crypto_context();

/// Errors that OpenSSL leaves in this thread's queue meanwhile are taken out again.
class crypto_errors {
 public:
  crypto_errors() noexcept;
  crypto_errors(const crypto_errors&) = delete;
  crypto_errors& operator=(const crypto_errors&) = delete;
  ~crypto_errors();
};

/// Frees what one of OpenSSL's functions has made.
template <auto Free>
struct crypto_free {
  template <class T>
  void operator()(T* one) const noexcept {
    Free(one);
  }
};

using key_ptr = std::unique_ptr<EVP_PKEY, crypto_free<EVP_PKEY_free>>;
using certificate_ptr = std::unique_ptr<X509, crypto_free<X509_free>>;

}  // namespace manta::inline v0::wire
