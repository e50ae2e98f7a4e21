// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "wire/parts.hpp"

namespace manta_test::parts_test {
namespace {

using manta::base::id;
using manta::wire::frame_buffer;
using manta::wire::part_bytes;
using manta::wire::parts;
using got = parts::got;
using bytes = std::vector<std::byte>;

bytes bytes_of(std::size_t size, unsigned seed) {
  bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(seed + i * 7 + i / 251);
  return out;
}

// The requests of a message that lies in pieces of that size.
std::vector<bytes> cut_up(const id& about, const bytes& message, std::size_t piece) {
  std::vector<parts::piece> pieces{parts::piece()};
  for (std::size_t at = 0; at < message.size(); at += piece) {
    pieces.push_back(parts::piece(message).subspan(at, std::min(piece, message.size() - at)));
  }
  std::vector<bytes> out;
  for (std::size_t at = 0; at < message.size();) {
    const auto head = parts::head_of(about, message.size(), at);
    std::vector<parts::piece> some{head};
    at += parts::cut(pieces, at, some);
    bytes& one = out.emplace_back();
    for (const parts::piece of : some) one.insert(one.end(), of.begin(), of.end());
  }
  return out;
}

bool is_that(const frame_buffer& got_one, const bytes& message) {
  return std::ranges::equal(got_one.bytes(), message);
}

}  // namespace

TEST_CASE("a message that went in parts is there with its last one", "[wire]") {
  for (const std::size_t size :
       {std::size_t{1}, part_bytes - 1, part_bytes, part_bytes + 1, 2 * part_bytes + 77}) {
    for (const std::size_t piece : {std::size_t{1'000'003}, part_bytes, 3 * part_bytes}) {
      CAPTURE(size, piece);
      const bytes message = bytes_of(size, static_cast<unsigned>(size));
      const std::vector<bytes> all = cut_up({7, 9}, message, piece);
      CHECK(all.size() == (size + part_bytes - 1) / part_bytes);
      parts in;
      id about;
      frame_buffer to;
      for (std::size_t i = 0; i + 1 < all.size(); ++i) {
        REQUIRE(in.add(5, all[i], about, to) == got::more);
      }
      REQUIRE(in.add(5, all.back(), about, to) == got::whole);
      CHECK(about == id{7, 9});
      CHECK(is_that(to, message));
      CHECK(in.open() == 0);
    }
  }
}

TEST_CASE("parts of several messages come mixed", "[wire]") {
  const bytes one = bytes_of(2 * part_bytes + 5, 1);
  const bytes two = bytes_of(part_bytes + 1, 2);
  const std::vector<bytes> ones = cut_up({1, 1}, one, 4096);
  const std::vector<bytes> twos = cut_up({2, 2}, two, 4096);
  parts in;
  id about;
  frame_buffer to;
  CHECK(in.add(1, ones[0], about, to) == got::more);
  CHECK(in.add(2, twos[0], about, to) == got::more);
  CHECK(in.add(1, ones[1], about, to) == got::more);
  CHECK(in.open() == 2);
  CHECK(in.add(2, twos[1], about, to) == got::whole);
  CHECK((about == id{2, 2} && is_that(to, two)));
  CHECK(in.add(1, ones[2], about, to) == got::whole);
  CHECK((about == id{1, 1} && is_that(to, one)));
}

TEST_CASE("what is no part of a message is told", "[wire]") {
  const std::vector<bytes> all = cut_up({1, 1}, bytes_of(2 * part_bytes + 5, 1), 4096);
  const auto after_first = [&](std::uint64_t number, bytes part) {
    parts in;
    id about;
    frame_buffer to;
    REQUIRE(in.add(1, all[0], about, to) == got::more);
    return in.add(number, part, about, to);
  };
  CHECK(after_first(1, all[1]) == got::more);
  CHECK(after_first(1, all[2]) == got::nonsense);  // one is missing
  CHECK(after_first(1, all[0]) == got::nonsense);  // again
  CHECK(after_first(2, all[1]) == got::nonsense);  // of another one, which has no begin
  CHECK(after_first(1, {}) == got::nonsense);
  bytes part = all[1];
  part.pop_back();
  CHECK(after_first(1, part) == got::nonsense);
  part.resize(all[1].size() + 1);
  CHECK(after_first(1, part) == got::nonsense);
  part = all[1];
  part[16] ^= std::byte{1};  // another size than at first
  CHECK(after_first(1, part) == got::nonsense);

  id about;
  frame_buffer to;
  CHECK(parts(2 * part_bytes + 4).add(1, all[0], about, to) == got::nonsense);  // too long
  parts in(2 * part_bytes + 5);
  CHECK(in.add(1, all[0], about, to) == got::more);
  const auto nothing = parts::head_of({1, 1}, 0, 0);
  CHECK(in.add(2, nothing, about, to) == got::nonsense);
}

TEST_CASE("a sender has so many long messages on their way at most", "[wire]") {
  const std::vector<bytes> all = cut_up({1, 1}, bytes_of(part_bytes + 1, 1), 4096);
  parts in(2 * part_bytes, 3);
  id about;
  frame_buffer to;
  for (std::uint64_t i = 0; i < 3; ++i) CHECK(in.add(i, all[0], about, to) == got::more);
  CHECK(in.add(3, all[0], about, to) == got::nonsense);
  CHECK(in.add(1, all[1], about, to) == got::whole);
  CHECK(in.add(3, all[0], about, to) == got::more);
  CHECK(in.open() == 3);
}

}  // namespace manta_test::parts_test
