// SPDX-License-Identifier: Apache-2.0
#include "wire/secret.hpp"

#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include <catch2/catch.hpp>
#include <openssl/err.h>
#include <sys/wait.h>
#include <unistd.h>

namespace secret_test {
namespace {

namespace wire = manta::wire;
using wire::mac;
using wire::secret;
using bytes = std::vector<std::byte>;
using bytes_view = std::span<const std::byte>;

bytes from_hex(std::string_view text) {
  bytes out;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    out.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return out;
}
bytes repeated(std::size_t count, unsigned value) { return {count, static_cast<std::byte>(value)}; }
bytes counted(unsigned from, unsigned to) {
  bytes out;
  for (unsigned i = from; i <= to; ++i) out.push_back(static_cast<std::byte>(i));
  return out;
}
bytes of_text(std::string_view text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}
secret numbered(unsigned first) {
  std::array<std::byte, secret::bytes> from;
  for (std::byte& one : from) one = static_cast<std::byte>(first++);
  return secret(from);
}
bytes mac_of(bytes_view key, bytes_view data) {
  const bytes_view pieces[] = {data};
  const mac made = wire::authenticate(key, pieces);
  return {made.begin(), made.end()};
}
bytes expanded(bytes_view from, bytes_view salt, bytes_view info, std::size_t size) {
  bytes out(size);
  wire::expand(from, salt, info, out);
  return out;
}

}  // namespace

// RFC 5869, appendix A.1 to A.3.
TEST_CASE("HKDF gives what its standard's examples give", "[wire][secret]") {
  CHECK(expanded(repeated(22, 0x0b), counted(0x00, 0x0c), counted(0xf0, 0xf9), 42) ==
        from_hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b88718"
                 "5865"));
  CHECK(expanded(counted(0x00, 0x4f), counted(0x60, 0xaf), counted(0xb0, 0xff), 82) ==
        from_hex("b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac78272"
                 "71cb41c65e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f"
                 "1d87"));
  CHECK(expanded(repeated(22, 0x0b), {}, {}, 42) ==
        from_hex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a"
                 "96c8"));
}

// RFC 4231, cases 1 to 4, 6 and 7.
TEST_CASE("HMAC gives what its standard's examples give", "[wire][secret]") {
  CHECK(mac_of(repeated(20, 0x0b), of_text("Hi There")) ==
        from_hex("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"));
  CHECK(mac_of(of_text("Jefe"), of_text("what do ya want for nothing?")) ==
        from_hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"));
  CHECK(mac_of(repeated(20, 0xaa), repeated(50, 0xdd)) ==
        from_hex("773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"));
  CHECK(mac_of(counted(0x01, 0x19), repeated(50, 0xcd)) ==
        from_hex("82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"));
  CHECK(mac_of(repeated(131, 0xaa),
               of_text("Test Using Larger Than Block-Size Key - Hash Key First")) ==
        from_hex("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"));
  CHECK(mac_of(repeated(131, 0xaa),
               of_text("This is a test using a larger than block-size key and a larger than "
                       "block-size data. The key needs to be hashed before being used by the HMAC "
                       "algorithm.")) ==
        from_hex("9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"));
}

TEST_CASE("a mac is over all pieces in their order", "[wire][secret]") {
  const secret key = numbered(1);
  const bytes all = of_text("one two three");
  const bytes_view whole[] = {all};
  const bytes_view parts[] = {bytes_view(all).first(4), {}, bytes_view(all).subspan(4)};
  const bytes_view turned[] = {parts[2], parts[0]};
  CHECK(wire::authenticate(key, parts) == wire::authenticate(key, whole));
  CHECK(wire::authenticate(key, turned) != wire::authenticate(key, whole));
  CHECK(wire::authenticate(numbered(2), whole) != wire::authenticate(key, whole));
  CHECK(wire::authenticate(key, {}) != wire::authenticate(key, whole));
  CHECK(wire::authenticate(key, whole) == wire::authenticate(bytes_view(key.view()), whole));
}

TEST_CASE("each use of a secret has one of its own", "[wire][secret]") {
  const secret from = numbered(7);
  CHECK(wire::derive(from, "a") == wire::derive(from, "a"));
  CHECK_FALSE(wire::derive(from, "a") == wire::derive(from, "b"));
  CHECK_FALSE(wire::derive(from, "a") == wire::derive(from, "a a"));
  CHECK_FALSE(wire::derive(from, "") == from);
  CHECK_FALSE(wire::derive(numbered(8), "a") == wire::derive(from, "a"));
  const bytes expected = expanded(from.view(), {}, of_text("a"), 32);
  CHECK(wire::is_equal(wire::derive(from, "a").view(), expected));
}

// A compiler leaves out writes to what nobody reads any more: then the bytes would still be here.
TEST_CASE("a secret's memory is wiped when it goes", "[wire][secret]") {
  alignas(secret) std::byte place[sizeof(secret)];
  auto* const made = new (place) secret(numbered(100));
  REQUIRE(made->view()[0] == std::byte{100});
  std::destroy_at(made);
  // Read as the next owner of the memory would.
  const volatile std::byte* const after = place;
  for (std::size_t i = 0; i < sizeof place; ++i) CHECK(after[i] == std::byte{0});
}

TEST_CASE("secrets are copied and compared", "[wire][secret]") {
  static_assert(std::is_nothrow_copy_constructible_v<secret>);
  const secret one = numbered(1);
  secret other = one;
  CHECK(other == one);
  other = numbered(2);
  CHECK_FALSE(other == one);
  CHECK(secret() == secret(std::array<std::byte, secret::bytes>{}));
  for (std::size_t i = 0; i < secret::bytes; ++i) {
    std::array<std::byte, secret::bytes> changed;
    std::copy(one.view().begin(), one.view().end(), changed.begin());
    changed[i] ^= std::byte{1};
    CHECK_FALSE(secret(changed) == one);
  }
}

TEST_CASE("equal is what has the same bytes and as many", "[wire][secret]") {
  const bytes one = of_text("abc");
  CHECK(wire::is_equal(one, of_text("abc")));
  CHECK_FALSE(wire::is_equal(one, of_text("abd")));
  CHECK_FALSE(wire::is_equal(one, of_text("ab")));
  CHECK_FALSE(wire::is_equal(one, {}));
  CHECK(wire::is_equal({}, {}));
}

TEST_CASE("random bytes differ each time, in a child too", "[wire][secret]") {
  bytes first(64);
  bytes second(64);
  wire::fill_random(first);
  wire::fill_random(second);
  CHECK(first != second);
  CHECK(first != bytes(64));
  wire::fill_random({});
  // More than the kernel gives in one piece where a signal comes.
  bytes many(std::size_t{1} << 20U);
  wire::fill_random(many);
  CHECK_FALSE(
      std::all_of(many.end() - 64, many.end(), [](std::byte b) { return b == std::byte{}; }));

  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    bytes in_child(64);
    wire::fill_random(in_child);
    _exit(write(ends[1], in_child.data(), 64) == 64 ? 0 : 1);
  }
  bytes in_child(64);
  CHECK(read(ends[0], in_child.data(), 64) == 64);
  wire::fill_random(first);
  CHECK(first != in_child);
  close(ends[0]);
  close(ends[1]);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("errors of the user's own OpenSSL stay in its queue", "[wire][secret]") {
  ERR_clear_error();
  ERR_raise(ERR_LIB_USER, 77);
  const unsigned long before = ERR_peek_last_error();
  wire::derive(numbered(1), "x");
  wire::authenticate(numbered(1), {});
  CHECK(ERR_peek_last_error() == before);
  CHECK(ERR_get_error() == before);
  CHECK(ERR_get_error() == 0);
}

}  // namespace secret_test
