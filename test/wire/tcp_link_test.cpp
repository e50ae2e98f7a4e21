// SPDX-License-Identifier: Apache-2.0
// Links over TCP: with a proof of the token, and with TLS in front.
#include "wire/socket_link.hpp"

#include <chrono>
#include <numeric>
#include <thread>

#include <sys/syscall.h>
#include <unistd.h>

#include "wire/tcp_support.hpp"

namespace tcp_link_test {

namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using manta::errc;
using manta_test::bytes;
using manta_test::end_of;
using manta_test::guard;
using manta_test::happens;
using manta_test::link_ptr;
using manta_test::message;
using manta_test::number_of;
using manta_test::receive;
using manta_test::send;
using manta_test::settings_of;
using manta_test::someone;
using manta_test::tcp_house;
namespace wire = manta::wire;

constexpr guard guards[] = {guard::proof, guard::tls};

// The end of a link that nobody lets in.
std::string refusal_of(wire::link& of) {
  if (!end_of(of).has_value()) return "no end";
  return of.state().ended->message();
}

// What a path does that forgets its connections. Of this process's sockets the one that has dialled
// is meant.
void reset_dialler_of(const wire::socket_address& listener) {
  for (int file = 3; file < 1024; ++file) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (getpeername(file, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (size != listener.size() || std::memcmp(&peer, listener.get(), size) != 0) continue;
    const sockaddr nowhere{AF_UNSPEC, {}};
    // Past the thread checker, which would take it for a new connection that its owner races with.
    if (syscall(SYS_connect, file, &nowhere, sizeof nowhere) != 0) FAIL("not reset");
    return;
  }
  FAIL("nobody has dialled");
}

}  // namespace

TEST_CASE("a link says whether a reset has ended it", "[wire][tcp]") {
  for (const guard by : guards) {
    CAPTURE(static_cast<int>(by));
    tcp_house house(by);
    auto [a, b] = house.both();
    REQUIRE(b != nullptr);
    REQUIRE(send(*a, message(1, 100)));
    REQUIRE(receive(*b));
    CHECK_FALSE(b->state().was_reset);
    a.reset();
    CHECK(end_of(*b) == errc::node_lost);
    CHECK_FALSE(b->state().was_reset);
    auto [c, d] = house.both();
    REQUIRE(d != nullptr);
    REQUIRE(send(*c, message(1, 100)));
    REQUIRE(receive(*d));
    reset_dialler_of(house.address());
    CHECK(end_of(*d) == errc::node_lost);
    CHECK(d->state().was_reset);
  }
}

// The kernel closes a socket with something unread by a reset: what the closing end has said before
// counts.
TEST_CASE("a link that is closed with messages unread is no reset one", "[wire][tcp]") {
  for (const guard by : guards) {
    CAPTURE(static_cast<int>(by));
    tcp_house house(by);
    for (int round = 0; round < 20; ++round) {
      auto [a, b] = house.both();
      REQUIRE(b != nullptr);
      REQUIRE(send(*a, message(1, 100)));
      REQUIRE(receive(*b));
      REQUIRE(send(*b, message(2, 5'000'000)));
      a.reset();
      CHECK(end_of(*b) == errc::node_lost);
      CHECK_FALSE(b->state().was_reset);
    }
  }
}

TEST_CASE("messages of all sizes go both ways over TCP and TLS", "[wire][tcp]") {
  for (const guard by : guards) {
    CAPTURE(static_cast<int>(by));
    tcp_house house(by);
    auto [a, b] = house.both();
    REQUIRE(b != nullptr);
    for (const std::size_t size : {1UL, 15UL, 16UL, 1000UL, 65'536UL, 1'000'003UL, 5'000'000UL}) {
      REQUIRE(send(*a, message(size, size)));
      REQUIRE(send(*b, message(size + 1, size)));
      CHECK(receive(*b) == message(size, size));
      CHECK(receive(*a) == message(size + 1, size));
    }
    // In order, with many under way in both directions.
    const std::uint64_t count = 2000;
    for (std::uint64_t i = 0; i < count; ++i) {
      REQUIRE(send(*a, message(i, 16 + i % 300)));
      REQUIRE(send(*b, message(i, 16 + i % 300)));
    }
    bool is_in_order = true;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto there = receive(*b);
      const auto here = receive(*a);
      REQUIRE((there && here));
      is_in_order = is_in_order && number_of(*there) == i && number_of(*here) == i;
    }
    CHECK(is_in_order);
    a.reset();
    CHECK(end_of(*b) == errc::node_lost);
  }
}

TEST_CASE("who has another token is no peer over TCP", "[wire][tcp]") {
  for (const guard by : guards) {
    CAPTURE(static_cast<int>(by));
    tcp_house house(by);
    const link_ptr other = house.connect(someone(2), settings_of(by, 2));
    CHECK(end_of(*other) == errc::unsupported);
    CHECK_THAT(refusal_of(*other), Contains("give both"));
    CHECK(happens([&] { return house.counts().bad_greeting == 1; }));
    CHECK(house.waiting() == 0);
    auto [a, b] = house.both();  // who has it goes on
    REQUIRE(b != nullptr);
    REQUIRE(send(*a, message(1)));
    CHECK(receive(*b).has_value());
  }
}

TEST_CASE("one that encrypts and one that does not part with a reason", "[wire][tcp]") {
  {
    tcp_house house(guard::tls);
    const link_ptr plain = house.connect(someone(2), settings_of(guard::proof));
    CHECK_THAT(refusal_of(*plain), Contains("encrypt"));
  }
  {
    tcp_house house(guard::proof);
    const link_ptr encrypted = house.connect(someone(2), settings_of(guard::tls));
    CHECK_THAT(refusal_of(*encrypted), Contains("insecure-plaintext"));
    CHECK(house.waiting() == 0);
  }
}

TEST_CASE("a dialler that wants another process is told that it is not there", "[wire][tcp]") {
  tcp_house house(guard::proof);
  wire::greeting as = someone(2);
  as.wanted = someone(1).sender;
  const link_ptr right = house.connect(as, settings_of(guard::proof));
  REQUIRE(house.accept() != nullptr);
  as.wanted = someone(7).sender;
  const link_ptr wrong = house.connect(as, settings_of(guard::proof));
  CHECK(end_of(*wrong) == errc::node_lost);
  CHECK_THAT(refusal_of(*wrong), Contains("another one is"));
  CHECK(house.waiting() == 0);
}

TEST_CASE("a dialler that knows no cluster is taken in, two such are not", "[wire][tcp]") {
  tcp_house house(guard::proof);
  wire::greeting as = someone(2);
  as.cluster = {};
  const link_ptr open = house.connect(as, settings_of(guard::proof));
  const link_ptr there = house.accept();
  REQUIRE(there != nullptr);
  REQUIRE(send(*open, message(3)));
  CHECK(receive(*there).has_value());
  as.cluster = {9, 9};
  const link_ptr other = house.connect(as, settings_of(guard::proof));
  CHECK(end_of(*other) == errc::unsupported);
}

TEST_CASE("addresses are tried one after the other", "[wire][tcp]") {
  tcp_house house(guard::proof);
  const auto nobody = wire::resolve({.host = "127.0.0.1", .port = 1}, 1s);
  REQUIRE(nobody);
  const auto linked = wire::connect(house.loop(), std::vector{nobody->front(), house.address()},
                                    someone(2), settings_of(guard::proof));
  REQUIRE(linked);
  CHECK(house.accept() != nullptr);
  const auto lost = wire::connect(house.loop(), *nobody, someone(2), settings_of(guard::proof));
  REQUIRE(lost);
  CHECK_THAT(refusal_of(**lost), Contains("127.0.0.1:1") && Contains("refused"));
  CHECK(wire::connect(house.loop(), *nobody, someone(2)).error().code() ==
        errc::invalid_argument);  // without a token
  CHECK_FALSE(wire::connect(house.loop(), std::vector<wire::socket_address>(), someone(2),
                            settings_of(guard::proof)));
}

TEST_CASE("a listener over TCP needs a token and a place of its own", "[wire][tcp]") {
  tcp_house house(guard::proof);
  const auto ignore = [](link_ptr, const wire::greeting&) {};
  const auto open = [&](const wire::endpoint& at, const wire::socket_settings& how) {
    const auto made = wire::socket_listener::open(house.loop(), at, someone(3), ignore, how);
    return made ? errc{} : made.error().code();
  };
  const wire::socket_settings trusting = settings_of(guard::proof);
  CHECK(open({.host = "127.0.0.1"}, {}) == errc::invalid_argument);
  CHECK(open({.host = "127.0.0.1", .port = house.address().port()}, trusting) == errc::name_taken);
  CHECK(open({.host = "192.0.2.77"}, trusting) == errc::storage_failed);  // of nobody here
  CHECK(open({.host = "no.such.name.invalid"}, trusting) == errc::node_lost);
  CHECK(open({.host = "127.0.0.1"}, trusting) == errc{});
  CHECK(open({.host = "::1"}, trusting) == errc{});
}

}  // namespace tcp_link_test
