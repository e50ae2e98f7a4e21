// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wire/crypto.hpp"
#include "wire/tls.hpp"

// What OpenSSL calls in the middle of a session's functions: for bytes, and about certificates.
//
// Its own way to a socket writes so that a peer that is gone raises SIGPIPE, which is the user's
// program's; here the kernel is asked not to.
// Threads: whose call it is.

namespace manta::inline v0::wire {

struct tls_hooks {
  /// The way to the socket of `of`, or null; SSL_set_bio takes it over.
  static BIO* way_to(tls_session& of);

  /// Notes why a certificate was not taken, while it is known which; changes nothing.
  static int on_verify(int is_good, X509_STORE_CTX* about);

 private:
  static BIO_METHOD* method();
  static int on_create(BIO* way);
  static int on_write(BIO* way, const char* from, std::size_t size, std::size_t* put);
  static int on_read(BIO* way, char* to, std::size_t size, std::size_t* got);
  static long on_control(BIO* way, int what, long number, void* more);
};

}  // namespace manta::inline v0::wire
