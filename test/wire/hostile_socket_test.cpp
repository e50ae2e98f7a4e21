// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <filesystem>

#include "wire/link_support.hpp"

namespace {

using namespace std::chrono_literals;
using manta::errc;
using manta_test::bytes;
using manta_test::dice;
using manta_test::end_of;
using manta_test::happens;
using manta_test::link_ptr;
using manta_test::message;
using manta_test::raw_socket;
using manta_test::receive;
using manta_test::repeats;
using manta_test::run_seed;
using manta_test::send;
using manta_test::socket_house;
using manta_test::someone;
namespace wire = manta::wire;

// What an honest end sends after its greeting: its bootstrap and calls with some messages.
bytes recorded() {
  manta_test::folder place;
  const std::string path = (place.path() / "a").string();
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path, path.data(), path.size());
  REQUIRE(bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  REQUIRE(listen(listener, 1) == 0);
  const auto own = wire::loop::start({0ns});
  REQUIRE(own);
  const auto from = wire::connect(**own, path, someone(4));
  REQUIRE(from);
  for (std::uint64_t i = 0; i < 5; ++i) REQUIRE(send(**from, message(i, 40)));
  const int file = accept(listener, nullptr, nullptr);
  REQUIRE(file >= 0);
  const auto hello = wire::to_bytes(someone(5));
  REQUIRE(::send(file, hello.data(), hello.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(hello.size()));
  bytes all;
  std::byte some[4096];
  while (all.size() < wire::greeting_bytes + 200) {
    const ssize_t got = recv(file, some, sizeof some, 0);
    if (got <= 0) break;
    all.insert(all.end(), some, some + got);
  }
  close(file);
  close(listener);
  REQUIRE(all.size() >= wire::greeting_bytes + 200);
  return {all.begin() + wire::greeting_bytes, all.end()};
}

bytes random_frame(dice& roll, std::size_t most) {
  bytes out(roll.below(most));
  for (std::byte& one : out) one = static_cast<std::byte>(roll.next());
  return out;
}

// A table of segments that lies, with some words behind it.
bytes crafted(dice& roll) {
  static constexpr std::uint32_t odd[] = {0, 1, 2, 511, 2047, 2048, 0x7fffffff, 0xffffffff};
  std::vector<std::uint32_t> words(2 + roll.below(40));
  for (std::uint32_t& one : words) one = odd[roll.below(std::size(odd))];
  if (roll.one_in(2)) words[0] = static_cast<std::uint32_t>(roll.below(8));
  bytes out(words.size() * 4);
  std::memcpy(out.data(), words.data(), out.size());
  return out;
}

// Honest bytes, with some of them changed, taken out, or twice.
bytes spoiled(dice& roll, const bytes& honest) {
  bytes out = honest;
  for (std::size_t i = 1 + roll.below(6); i > 0; --i) {
    const std::size_t at = roll.below(out.size());
    switch (roll.below(4)) {
      case 0:
        out[at] ^= static_cast<std::byte>(1U << roll.below(8));
        break;
      case 1:
        out[at] = static_cast<std::byte>(roll.next());
        break;
      case 2: {
        const std::size_t from = at / 8 * 8;
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(from),
                  out.begin() + static_cast<std::ptrdiff_t>(std::min(from + 8, out.size())));
        break;
      }
      default:
        out.insert(out.end(), honest.begin(), honest.end());
    }
    if (out.empty()) break;
  }
  return out;
}

void say(const raw_socket& to, dice& roll, const bytes& honest) {
  const std::size_t kind = roll.below(8);
  if (kind == 0) {
    to.send(random_frame(roll, 200));
    return;
  }
  if (kind == 1) {
    auto hello = wire::to_bytes(someone(6));
    hello[roll.below(hello.size())] ^= static_cast<std::byte>(1U << roll.below(8));
    to.send(std::span(hello).first(1 + roll.below(hello.size())));
    return;
  }
  to.greet(someone(6));
  if (kind == 2) {
    to.send(random_frame(roll, 2000));
  } else if (kind == 3) {
    to.send(crafted(roll));
  } else {
    to.send(spoiled(roll, honest));
  }
}

}  // namespace

// What comes out of a socket may be anything: a table that lies, a message that points outside,
// calls that nobody makes. It may cost its own connection and nothing else.
TEST_CASE("nonsense at a socket ends its own connection only", "[wire][link]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  const bytes honest = recorded();
  socket_house house;
  auto [a, b] = house.both();
  REQUIRE(b != nullptr);
  dice roll(seed);
  std::vector<link_ptr> strangers;
  int typed = 0;
  const int rounds = repeats(10'000, 300'000);
  for (int i = 0; i < rounds; ++i) {
    {
      const raw_socket one(house.path());
      REQUIRE(one.is_connected());
      say(one, roll, honest);
      one.finish();  // or its words may be lost with it
      REQUIRE(one.is_closed());
    }
    if (i % 100 != 99) continue;
    REQUIRE(send(*a, message(static_cast<std::uint64_t>(i))));
    REQUIRE(receive(*b).has_value());
    // Every link that came of a greeting ends, with a reason.
    const auto expected = house.counts().accepted - 1;
    while (strangers.size() + static_cast<std::size_t>(typed) < expected) {
      strangers.push_back(house.accept());
    }
    for (const link_ptr& one : strangers) {
      const auto why = end_of(*one);
      REQUIRE((why == errc::node_lost || why == errc::decode_failed));
      typed += 1;
    }
    strangers.clear();
  }
  CHECK(typed > rounds / 3);
  const wire::listener_counts counts = house.counts();
  CHECK(counts.bad_greeting > 0);
}

TEST_CASE("a table that lies is told as such", "[wire][link]") {
  socket_house house;
  const std::uint32_t lies[][2] = {{0xffffffff, 1}, {0, 0x7fffffff}, {2047, 0xffffffff}};
  for (const auto& lie : lies) {
    const raw_socket one(house.path());
    one.greet(someone(6));
    bytes table(16 * 1024, std::byte{0xff});
    std::memcpy(table.data(), lie, sizeof lie);
    one.send(table);
    const link_ptr end = house.accept();
    REQUIRE(end != nullptr);
    CHECK(end_of(*end) == errc::decode_failed);
    CHECK(one.is_closed());
  }
}

TEST_CASE("who calls and never reads is dropped", "[wire][link]") {
  socket_house house;
  const bytes honest = recorded();
  const raw_socket one(house.path());
  one.greet(someone(6));
  const link_ptr end = house.accept();
  REQUIRE(end != nullptr);
  // The same calls again and again: a second bootstrap, calls that are never finished.
  happens([&] { return !one.send(honest); });
  CHECK(end_of(*end) == errc::decode_failed);
}
