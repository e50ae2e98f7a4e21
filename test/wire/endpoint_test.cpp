// SPDX-License-Identifier: Apache-2.0
#include "wire/endpoint.hpp"

#include <chrono>
#include <string>

#include <catch2/catch.hpp>

#include "wire/greeting.hpp"

namespace endpoint_test {

namespace {

using namespace std::chrono_literals;
using manta::errc;
using manta::wire::endpoint;
using manta::wire::resolve;
namespace wire = manta::wire;

wire::greeting some_greeting() {
  wire::greeting out;
  out.cluster = {1, 2};
  out.sender = {3, 4};
  out.wanted = {5, 6};
  out.epoch = 7;
  out.as = wire::guest_kind::observer;
  out.credit_messages = 8;
  out.credit_bytes = 9;
  out.nonce.fill(std::byte{10});
  return out;
}

}  // namespace

TEST_CASE("addresses are read as people write them", "[wire]") {
  CHECK(*endpoint::parse("host:80") == endpoint{.host = "host", .port = 80});
  CHECK(*endpoint::parse(":0") == endpoint{});
  CHECK(*endpoint::parse("[::1]:65535") == endpoint{.host = "::1", .port = 65535});
  CHECK(*endpoint::parse("unix:/a b") == endpoint{.path = "/a b"});
  for (const char* const text : {"host:80", "[::1]:7", "unix:/a", "10.0.0.1:0"}) {
    CHECK(endpoint::parse(text)->text() == text);
  }
  for (const std::string text : {"", "host", "host:", "host:x", "host:65536", "host:-1", "::1:80",
                                 "unix:a", "unix:", "host:80 "}) {
    CAPTURE(text);
    const auto wrong = endpoint::parse(text);
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().code() == errc::invalid_argument);
    CHECK(wrong.error().message().find('\n') == std::string::npos);
  }
  CHECK_FALSE(endpoint::parse(std::string(300, 'a') + ":1"));
}

TEST_CASE("addresses become numbers, or a reason", "[wire]") {
  const auto v4 = resolve({.host = "127.0.0.2", .port = 5}, 1s);
  REQUIRE(v4);
  CHECK(v4->front().text() == "127.0.0.2:5");
  CHECK(v4->front().is_loopback());
  CHECK(v4->front().port() == 5);
  const auto far = resolve({.host = "192.0.2.1", .port = 5}, 1s);
  REQUIRE(far);
  CHECK_FALSE(far->front().is_loopback());
  const auto mapped = resolve({.host = "::ffff:127.0.0.1", .port = 5}, 1s);
  REQUIRE(mapped);
  CHECK(mapped->front().is_loopback());
  CHECK(resolve({.host = "::1", .port = 5}, 1s)->front().text() == "[::1]:5");
  CHECK(resolve({.path = "/tmp/x"}, 1s)->front().is_unix());
  CHECK(resolve({.path = std::string(200, 'x')}, 1s).error().code() == errc::invalid_argument);
  CHECK(resolve({.host = "no.such.name.invalid", .port = 1}, 10s).error().code() ==
        errc::node_lost);
}

TEST_CASE("a greeting comes back from its bytes, and nothing else does", "[wire]") {
  const wire::greeting one = some_greeting();
  CHECK(*wire::to_greeting(wire::to_bytes(one)) == one);
  const wire::greeting_block good = wire::to_bytes(one);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    wire::greeting_block bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto read = wire::to_greeting(bad);
    CAPTURE(bit);
    if (read) {
      CHECK(wire::to_bytes(*read) == bad);  // another value of a field
      CHECK(bit >= 12U * 8);
    } else {
      CHECK(
          (read.error().code() == errc::decode_failed || read.error().code() == errc::unsupported));
    }
  }
  wire::greeting_block first = good;  // of the first protocol
  first[8] = std::byte{1};
  CHECK(wire::to_greeting(first).error().message().find("speaks protocol 1") != std::string::npos);
}

TEST_CASE("two greetings fit when cluster and process do", "[wire]") {
  wire::greeting a = some_greeting();
  wire::greeting b = some_greeting();
  a.sender = {1, 1};
  b.sender = {2, 2};
  a.wanted = b.wanted = {};
  CHECK(check_greetings(a, b));
  a.wanted = b.sender;
  CHECK(check_greetings(a, b));
  CHECK(check_greetings(b, a));
  a.wanted = {3, 3};
  CHECK(check_greetings(a, b).error().code() == errc::node_lost);
  CHECK(check_greetings(b, a).error().code() == errc::node_lost);
  a.wanted = {};
  b.cluster = {};
  CHECK(check_greetings(a, b));
  CHECK(check_greetings(b, a));
  a.cluster = {};
  CHECK(check_greetings(a, b).error().code() == errc::unsupported);
  a.cluster = {1, 2};
  b.cluster = {1, 3};
  CHECK(check_greetings(a, b).error().code() == errc::unsupported);
}

}  // namespace endpoint_test
