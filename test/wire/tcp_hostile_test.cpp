// SPDX-License-Identifier: Apache-2.0
// Who reaches a port and does not have the token.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include "wire/tcp_support.hpp"

namespace tcp_hostile_test {

namespace {

using namespace std::chrono_literals;
using manta_test::bytes;
using manta_test::dice;
using manta_test::guard;
using manta_test::happens;
using manta_test::link_ptr;
using manta_test::message;
using manta_test::raw_tcp;
using manta_test::receive;
using manta_test::send;
using manta_test::settings_of;
using manta_test::someone;
using manta_test::tcp_house;
using manta_test::token_of;
namespace wire = manta::wire;

constexpr std::size_t proof_bytes = sizeof(wire::mac);

wire::greeting_block block_of(const bytes& from) {
  wire::greeting_block out{};
  std::copy_n(from.begin(), std::min(from.size(), out.size()), out.begin());
  return out;
}

// A stranger who has the listener's greeting, and answers with what `answer` makes of both.
template <class Answer>
bytes intrude(const tcp_house& house, const Answer& answer) {
  const raw_tcp one(house.address());
  const wire::greeting_block mine = wire::to_bytes(someone(6));
  one.send(mine);
  const bytes theirs = one.receive(wire::greeting_bytes);
  if (theirs.size() != wire::greeting_bytes) return theirs;
  one.send(answer(mine, block_of(theirs)));
  one.finish();
  return one.rest();  // beyond its greeting
}

}  // namespace

TEST_CASE("proofs that are wrong, cut, reflected or of another connection open nothing",
          "[wire][tcp]") {
  tcp_house house(guard::proof);
  const auto right = *wire::trust::from(token_of(1), true);
  const auto other = *wire::trust::from(token_of(2), true);
  using wire::end_of_link;
  using block = wire::greeting_block;
  std::size_t tried = 0;
  const auto gets_nothing = [&](const auto& answer) {
    ++tried;
    CHECK(intrude(house, answer).empty());
  };
  gets_nothing([&](const block& a, const block& b) {  // of another token
    const wire::mac proof = other->proof_of(end_of_link::dialler, a, b);
    return bytes(proof.begin(), proof.end());
  });
  gets_nothing([&](const block& a, const block& b) {  // as the listener would prove it
    const wire::mac proof = right->proof_of(end_of_link::listener, a, b);
    return bytes(proof.begin(), proof.end());
  });
  gets_nothing([&](const block& a, const block& b) {  // the greetings in the other order
    const wire::mac proof = right->proof_of(end_of_link::dialler, b, a);
    return bytes(proof.begin(), proof.end());
  });
  gets_nothing([&](const block& a, block b) {  // of another connection: another nonce
    b.back() ^= std::byte{1};
    const wire::mac proof = right->proof_of(end_of_link::dialler, a, b);
    return bytes(proof.begin(), proof.end());
  });
  gets_nothing([&](const block& a, const block& b) {  // one byte too few
    const wire::mac proof = right->proof_of(end_of_link::dialler, a, b);
    return bytes(proof.begin(), proof.end() - 1);
  });
  gets_nothing([](const block&, const block& b) { return bytes(b.begin(), b.end()); });
  gets_nothing([](const block&, const block&) { return bytes(proof_bytes); });
  for (std::size_t at = 0; at < proof_bytes; ++at) {
    gets_nothing([&](const block& a, const block& b) {
      wire::mac proof = right->proof_of(end_of_link::dialler, a, b);
      proof[at] ^= std::byte{0x10};
      return bytes(proof.begin(), proof.end());
    });
  }
  CHECK(happens([&] { return house.counts().bad_greeting == tried; }));
  CHECK(house.counts().accepted == 0);
  // And the right one is answered with the listener's.
  const bytes answer = intrude(house, [&](const block& a, const block& b) {
    const wire::mac proof = right->proof_of(end_of_link::dialler, a, b);
    return bytes(proof.begin(), proof.end());
  });
  CHECK(answer.size() >= proof_bytes);
  CHECK(house.counts().accepted == 1);
}

TEST_CASE("what an honest dialler has said opens nothing a second time", "[wire][tcp]") {
  tcp_house house(guard::proof);
  // A man in the middle who hears everything.
  bytes said;
  {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    REQUIRE(bind(listener, reinterpret_cast<const sockaddr*>(&at), size) == 0);
    REQUIRE(listen(listener, 1) == 0);
    REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    const auto honest = wire::connect(
        house.loop(), {wire::socket_address(reinterpret_cast<const sockaddr*>(&at), size)},
        someone(2), settings_of(guard::proof));
    REQUIRE(honest);
    const int victim = accept(listener, nullptr, nullptr);
    const raw_tcp to_house(house.address());
    said.resize(wire::greeting_bytes + proof_bytes);
    REQUIRE(recv(victim, said.data(), wire::greeting_bytes, MSG_WAITALL) ==
            static_cast<ssize_t>(wire::greeting_bytes));
    to_house.send(std::span(said).first(wire::greeting_bytes));
    const bytes theirs = to_house.receive(wire::greeting_bytes);
    REQUIRE(::send(victim, theirs.data(), theirs.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(theirs.size()));
    REQUIRE(recv(victim, said.data() + wire::greeting_bytes, proof_bytes, MSG_WAITALL) ==
            static_cast<ssize_t>(proof_bytes));
    to_house.send(std::span(said).subspan(wire::greeting_bytes));
    CHECK(to_house.receive(proof_bytes).size() == proof_bytes);  // this once it was right
    close(victim);
    close(listener);
  }
  CHECK(happens([&] { return house.counts().accepted == 1; }));
  const raw_tcp again(house.address());
  again.send(said);
  again.finish();
  CHECK(again.rest().size() == wire::greeting_bytes);
  CHECK(happens([&] { return house.counts().bad_greeting == 1; }));
}

TEST_CASE("who says nothing, or not all, is closed in time", "[wire][tcp]") {
  for (const guard by : {guard::proof, guard::tls}) {
    wire::socket_settings how = settings_of(by);
    how.greeting_limit = 300ms;
    tcp_house house(how);
    const raw_tcp silent(house.address());
    const raw_tcp half(house.address());
    const wire::greeting_block hello = wire::to_bytes(someone(6));
    half.send(hello);
    const std::size_t greeting = by == guard::proof ? wire::greeting_bytes : 0;
    CHECK(silent.rest().size() == greeting);
    CHECK(half.rest().size() >= greeting);
    CHECK(happens([&] {
      const wire::listener_counts is = house.counts();
      return is.silent + is.bad_greeting == 2;
    }));
    CHECK(house.counts().accepted == 0);
  }
}

TEST_CASE("nonsense at a port costs its own connection only", "[wire][tcp]") {
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  dice roll(seed);
  for (const guard by : {guard::proof, guard::tls}) {
    tcp_house house(by);
    auto [a, b] = house.both();
    REQUIRE(b != nullptr);
    const int rounds = manta_test::repeats(2'000, 100'000);
    for (int i = 0; i < rounds; ++i) {
      const raw_tcp one(house.address());
      bytes some(1 + roll.below(400));
      for (std::byte& each : some) each = static_cast<std::byte>(roll.next());
      if (roll.one_in(2)) {
        const wire::greeting_block hello = wire::to_bytes(someone(6));
        std::copy_n(hello.begin(), std::min(hello.size(), some.size()), some.begin());
        some[roll.below(some.size())] ^= static_cast<std::byte>(1U << roll.below(8));
      }
      one.send(some);
      one.finish();
      one.rest();
    }
    CHECK(house.counts().accepted == 1);
    REQUIRE(send(*a, message(1)));
    CHECK(receive(*b).has_value());
  }
}

TEST_CASE("a crowd that says nothing keeps out neither members nor newcomers", "[wire][tcp]") {
  tcp_house house(guard::proof);
  auto [a, b] = house.both();
  REQUIRE(b != nullptr);
  std::vector<std::unique_ptr<raw_tcp>> crowd;
  for (int i = 0; i < manta_test::repeats(300, 900); ++i) {
    crowd.push_back(std::make_unique<raw_tcp>(house.address()));
  }
  REQUIRE(send(*a, message(1)));
  CHECK(receive(*b).has_value());
  const link_ptr honest = house.connect();
  CHECK(house.accept() != nullptr);
  CHECK(happens([&] { return house.counts().crowded_out + 65 >= crowd.size(); }));
}

}  // namespace tcp_hostile_test
