// SPDX-License-Identifier: Apache-2.0
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "wire/tls_support.hpp"

namespace tls_refusal_test {
namespace {

using Catch::Matchers::Contains;
using manta::errc;
using manta_test::dice;
using tls_support::bytes;
using tls_support::bytes_view;
using tls_support::check_failed;
using tls_support::client_hello;
using tls_support::hear;
using tls_support::identity_ptr;
using tls_support::is_end;
using tls_support::pattern;
using tls_support::raw_end;
using tls_support::read_some;
using tls_support::say;
using tls_support::session;
using tls_support::session_ptr;
using tls_support::shake;
using tls_support::side;
using tls_support::someone;
using tls_support::step;
using tls_support::token;
using tls_support::two_ends;
using tls_support::wires;

}  // namespace

TEST_CASE("who has another token is refused at both ends, with the reason", "[wire][tls]") {
  two_ends both(0, 1, 2);
  // The dialler looks first: what it refuses, the listener hears.
  CHECK(shake(*both.a, *both.b) == std::pair(step::failed, step::failed));
  check_failed(*both.a, errc::unsupported, "found one that it has not signed");
  CHECK_THAT(both.a->failure().message(), Contains("give both processes the same token"));
  check_failed(*both.b, errc::unsupported, "does not know who has signed this one's certificate");
}

TEST_CASE("a dialler without a certificate is refused", "[wire][tls]") {
  wires sockets;
  raw_end other(sockets[0], true, TLS1_3_VERSION, TLS1_3_VERSION);
  const session_ptr b = session(someone(), sockets[1], side::listener);
  CHECK(shake(*b, other) == step::failed);
  check_failed(*b, errc::unsupported, "found that it shows none");
}

TEST_CASE("a certificate that nobody of the cluster has signed is refused at each end",
          "[wire][tls]") {
  {
    wires sockets;
    raw_end other(sockets[0], true, TLS1_3_VERSION, TLS1_3_VERSION);
    other.show_certificate();
    const session_ptr b = session(someone(), sockets[1], side::listener);
    CHECK(shake(*b, other) == step::failed);
    check_failed(*b, errc::unsupported, "found one that it has not signed");
  }
  wires sockets;
  raw_end other(sockets[1], false, TLS1_3_VERSION, TLS1_3_VERSION);
  other.show_certificate();
  const session_ptr a = session(someone(), sockets[0], side::dialler);
  CHECK(shake(*a, other) == step::failed);
  check_failed(*a, errc::unsupported, "found one that it has not signed");
}

TEST_CASE("a certificate out of its time is refused at each end, with both times", "[wire][tls]") {
  using std::chrono::hours;
  const identity_ptr good = someone();
  const identity_ptr old = someone(1, {hours(-48), hours(-1)});
  const identity_ptr early = someone(1, {hours(1), hours(48)});
  for (const auto& [bad, why] : {std::pair(old, "certificate was valid until "),
                                 std::pair(early, "certificate is valid from ")}) {
    // The dialler's one: it is done, and hears what the listener thinks when it reads.
    two_ends dialler(bad, good);
    CHECK(shake(*dialler.a, *dialler.b) == std::pair(step::done, step::failed));
    check_failed(*dialler.b, errc::unsupported, why);
    CHECK_THAT(dialler.b->failure().message(),
               Contains(" UTC, and here it is 20") || Contains(" on, and here it is 20"));
    CHECK_THAT(dialler.b->failure().message(), Contains("compare the clocks of both machines"));
    bytes came;
    CHECK(read_some(*dialler.a, came) == step::failed);
    check_failed(*dialler.a, errc::unsupported, "this one's certificate is not valid now");

    two_ends listener(good, bad);
    CHECK(shake(*listener.a, *listener.b) == std::pair(step::failed, step::failed));
    check_failed(*listener.a, errc::unsupported, why);
    check_failed(*listener.b, errc::unsupported, "this one's certificate is not valid now");
  }
}

// The listener is gone when the dialler writes: the reason still lies in the socket.
TEST_CASE("a dialler that is refused hears why from a write, too", "[wire][tls]") {
  two_ends both(someone(1, {std::chrono::hours(-48), std::chrono::hours(-1)}), someone());
  CHECK(shake(*both.a, *both.b) == std::pair(step::done, step::failed));
  both.sockets.close_end(1);
  std::size_t put = 0;
  CHECK(both.a->write(pattern(100, 1), put) == step::failed);
  check_failed(*both.a, errc::unsupported, "this one's certificate is not valid now");
}

TEST_CASE("other versions of TLS are refused at each end", "[wire][tls]") {
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION}) {
    CAPTURE(version);
    wires sockets;
    raw_end dialler(sockets[0], true, version, version);
    SSL_set_cipher_list(dialler.get(), "ALL:@SECLEVEL=0");
    const session_ptr b = session(someone(), sockets[1], side::listener);
    CHECK(shake(*b, dialler) == step::failed);
    check_failed(*b, errc::unsupported, "speaks another version of it");

    wires others;
    raw_end listener(others[1], false, version, version);
    listener.show_certificate();
    const session_ptr a = session(someone(), others[0], side::dialler);
    CHECK(shake(*a, listener) == step::failed);
    check_failed(*a, errc::unsupported, "speaks another version of it");
  }
}

TEST_CASE("bytes that are no TLS are refused with the likely reason", "[wire][tls]") {
  std::vector<bytes> all;
  for (const std::string_view text : {"manta-w\n and what a greeting has behind that",
                                      "GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n"}) {
    const auto view = std::as_bytes(std::span(text));
    all.emplace_back(view.begin(), view.end());
  }
  all.emplace_back(64);
  all.emplace_back(64, std::byte{0xff});
  for (const bytes& one : all) {
    for (const side at : {side::dialler, side::listener}) {
      wires sockets;
      const session_ptr b = session(someone(), sockets[1], at);
      b->handshake();
      say(sockets[0], one);
      CHECK(b->handshake() == step::failed);
      check_failed(*b, errc::unsupported, "started with insecure-plaintext and this one was not");
    }
  }
}

TEST_CASE("random bytes end a handshake at each end", "[wire][tls]") {
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  dice roll(seed);
  const identity_ptr who = someone();
  for (int i = 0; i < manta_test::repeats(300, 30000); ++i) {
    wires sockets;
    const side at = roll.one_in(2) ? side::dialler : side::listener;
    const session_ptr b = session(who, sockets[1], at);
    b->handshake();
    bytes noise = pattern(1 + roll.below(400), roll.next());
    if (roll.one_in(2)) {
      // As a record that is complete, of any kind.
      noise.resize(std::max<std::size_t>(noise.size(), 6));
      const std::size_t size = noise.size() - 5;
      noise[0] = static_cast<std::byte>(20 + roll.below(5));
      noise[1] = std::byte{3};
      noise[2] = static_cast<std::byte>(roll.below(5));
      noise[3] = static_cast<std::byte>(size >> 8U);
      noise[4] = static_cast<std::byte>(size);
    }
    say(sockets[0], noise);
    sockets.close_end(0);
    REQUIRE(b->handshake() == step::failed);
    REQUIRE(b->failure().message().starts_with("wire: "));
    REQUIRE(ERR_peek_error() == 0);
  }
}

TEST_CASE("a handshake that is cut anywhere is no handshake", "[wire][tls]") {
  const identity_ptr who = someone();
  const bytes hello = client_hello();
  for (std::size_t size = 0; size < hello.size(); ++size) {
    CAPTURE(size);
    wires sockets;
    const session_ptr b = session(who, sockets[1], side::listener);
    say(sockets[0], bytes_view(hello).first(size));
    REQUIRE(b->handshake() == step::wants_read);
    sockets.close_end(0);
    REQUIRE(b->handshake() == step::failed);
    check_failed(*b, errc::node_lost, "was to begin, found that the other process has ended it");
  }
}

// Somebody between both, who sees all and changes one bit of it.
TEST_CASE("a handshake with one changed byte is not done at both ends", "[wire][tls]") {
  const identity_ptr who = someone();
  std::size_t position = 0;
  bool is_changed = true;
  while (is_changed) {
    CAPTURE(position);
    is_changed = false;
    wires near;
    wires far;
    const session_ptr a = session(who, near[0], side::dialler);
    const session_ptr b = session(who, far[0], side::listener);
    step of_a = step::wants_read;
    step of_b = step::wants_read;
    std::size_t seen = 0;
    const auto pass = [&](int from, int to) {
      bytes some = hear(from);
      if (position >= seen && position < seen + some.size()) {
        some[position - seen] ^= std::byte{0x04};
        is_changed = true;
      }
      seen += some.size();
      if (!some.empty()) say(to, some);
    };
    for (int turn = 0; turn < 6; ++turn) {
      if (of_a != step::done && !is_end(of_a)) of_a = a->handshake();
      pass(near[1], far[1]);
      if (of_b != step::done && !is_end(of_b)) of_b = b->handshake();
      pass(far[1], near[1]);
    }
    if (is_changed) {
      REQUIRE_FALSE((of_a == step::done && of_b == step::done));
    } else {
      // Past the last byte: nothing was changed, and so it works.
      REQUIRE(of_a == step::done);
      REQUIRE(of_b == step::done);
      CHECK(position > 1000);
    }
    position += is_changed ? 7 : 0;
  }
}

TEST_CASE("a record that was changed, repeated, left out or turned ends the session",
          "[wire][tls]") {
  const identity_ptr who = someone();
  const auto spoiled = [&](const auto& spoil) {
    two_ends both(who, who);
    both.connected();
    std::array<bytes, 2> records;
    for (bytes& one : records) {
      std::size_t put = 0;
      REQUIRE(both.a->write(pattern(20, 1), put) == step::done);
      one = hear(both.sockets[1]);
    }
    say(both.sockets[0], spoil(records[0], records[1]));
    bytes came;
    step is = read_some(*both.b, came);
    // The record before the spoiled one may be there.
    const std::size_t count = came.size();
    if (is == step::done) is = read_some(*both.b, came);
    if (is == step::wants_read) {
      both.sockets.close_end(0);
      is = read_some(*both.b, came);
    }
    REQUIRE(is == step::failed);
    CHECK(both.b->failure().code() == errc::node_lost);
    return std::pair(count, both.b->failure());
  };
  const bytes sample = [&] {
    two_ends both(who, who);
    both.connected();
    std::size_t put = 0;
    REQUIRE(both.a->write(pattern(20, 1), put) == step::done);
    return hear(both.sockets[1]);
  }();
  // Behind the head of five bytes all is encrypted or its checksum.
  for (std::size_t at = 0; at < sample.size(); ++at) {
    CAPTURE(at);
    const auto [count, why] = spoiled([at](bytes one, const bytes&) {
      one[at] ^= std::byte{1};
      return one;
    });
    CHECK(count == 0);
    CHECK_THAT(why.message(), Contains("is not what it sent") ||
                                  Contains("has ended the connection without a word"));
    if (at >= 5) CHECK_THAT(why.message(), Contains("is not what it sent"));
  }
  const auto twice = spoiled([](bytes one, const bytes&) {
    const bytes same = one;
    one.insert(one.end(), same.begin(), same.end());
    return one;
  });
  CHECK(twice.first == 20);
  CHECK_THAT(twice.second.message(), Contains("is not what it sent"));
  const auto second_only = spoiled([](const bytes&, const bytes& other) { return other; });
  CHECK(second_only.first == 0);
  CHECK_THAT(second_only.second.message(), Contains("is not what it sent"));
}

// What OpenSSL sees who looks at it from outside.
TEST_CASE("a process's certificate says what it may be used for", "[wire][tls]") {
  wires sockets;
  raw_end other(sockets[0], true, TLS1_3_VERSION, TLS1_3_VERSION);
  const session_ptr b = session(someone(), sockets[1], side::listener);
  shake(*b, other);
  STACK_OF(X509)* const chain = SSL_get_peer_cert_chain(other.get());
  REQUIRE(chain != nullptr);
  CHECK(sk_X509_num(chain) == 1);
  X509* const shown = sk_X509_value(chain, 0);
  CHECK(X509_get_version(shown) == 2);
  const unsigned flags = X509_get_extension_flags(shown);
  CHECK((flags & EXFLAG_BCONS) != 0);
  CHECK((flags & EXFLAG_CA) == 0);
  CHECK(X509_get_key_usage(shown) == KU_DIGITAL_SIGNATURE);
  CHECK(X509_get_extended_key_usage(shown) == (XKU_SSL_SERVER | XKU_SSL_CLIENT));
  CHECK(X509_get0_authority_key_id(shown) != nullptr);
  CHECK(EVP_PKEY_is_a(X509_get0_pubkey(shown), "ED25519") == 1);
  const std::time_t now = std::time(nullptr);
  const auto shifted = [now](int days) { return now + std::time_t{86400} * days; };
  std::time_t at = shifted(-2);
  CHECK(X509_cmp_time(X509_get0_notBefore(shown), &at) > 0);
  at = now - 86400 + 3600;
  CHECK(X509_cmp_time(X509_get0_notBefore(shown), &at) < 0);
  at = shifted(3650);
  CHECK(X509_cmp_time(X509_get0_notAfter(shown), &at) > 0);
  at = shifted(3655);
  CHECK(X509_cmp_time(X509_get0_notAfter(shown), &at) < 0);

  // Another process's is another one.
  wires others;
  raw_end second(others[0], true, TLS1_3_VERSION, TLS1_3_VERSION);
  const session_ptr c = session(someone(), others[1], side::listener);
  shake(*c, second);
  X509* const different = sk_X509_value(SSL_get_peer_cert_chain(second.get()), 0);
  CHECK(ASN1_INTEGER_cmp(X509_get0_serialNumber(shown), X509_get0_serialNumber(different)) != 0);
  CHECK(EVP_PKEY_eq(X509_get0_pubkey(shown), X509_get0_pubkey(different)) != 1);
  CHECK(X509_NAME_cmp(X509_get_issuer_name(shown), X509_get_issuer_name(different)) == 0);
}

}  // namespace tls_refusal_test
