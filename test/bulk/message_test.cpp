// SPDX-License-Identifier: Apache-2.0
#include "bulk/message.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace bulk_message_test {

namespace {

using namespace manta::bulk;
using manta_test::dice;
using manta_test::repeats;
using manta_test::run_seed;

}  // namespace

TEST_CASE("a request and an answer are read as they were written", "[bulk]") {
  const auto asked = read_request(write_request({{1, 2}, 3, 4}));
  REQUIRE(asked.has_value());
  CHECK(asked->object == manta::base::id{1, 2});
  CHECK(asked->at == 3);
  CHECK(asked->bytes == 4);
  const auto said = read_answer(write_answer({answer_status::here, 5, 6}));
  REQUIRE(said.has_value());
  CHECK(said->at == 5);
  CHECK(said->bytes == 6);
  CHECK(read_answer(write_answer({answer_status::not_here, 5, 0})).has_value());
  CHECK(read_answer(write_answer({answer_status::late, 5, 0})).has_value());
  const auto other = read_answer(write_answer({answer_status::elsewhere, 5, 0, 7}));
  REQUIRE(other.has_value());
  CHECK(other->whom == 7);
  const auto note = read_request(write_request({{1, 2}, 1, 0, 7}));
  REQUIRE(note.has_value());
  CHECK(note->is_note());
  CHECK(note->reader == 7);
  CHECK(read_sum(write_sum(0x1122334455667788U)) == 0x1122334455667788U);
}

TEST_CASE("a request lies byte by byte as its header says", "[bulk]") {
  const request_block one = write_request({{0x0102030405060708U, 9}, 0x0a0b, 0x0c, 0x0d0e});
  CHECK(one[0] == std::byte{'b'});
  CHECK(one[4] == std::byte{0x0c});
  CHECK(one[8] == std::byte{8});
  CHECK(one[15] == std::byte{1});
  CHECK(one[16] == std::byte{9});
  CHECK(one[24] == std::byte{0x0b});
  CHECK(one[25] == std::byte{0x0a});
  CHECK(one[32] == std::byte{0x0e});
  CHECK(one[33] == std::byte{0x0d});
}

TEST_CASE("what no process would ask for or answer is no message", "[bulk]") {
  CHECK_FALSE(read_request(write_request({{1, 2}, 0, 0})).has_value());
  CHECK_FALSE(read_request(write_request({{1, 2}, 0, most_chunk_bytes + 1})).has_value());
  constexpr std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  CHECK_FALSE(read_request(write_request({{1, 2}, last, 2})).has_value());
  CHECK_FALSE(read_answer(write_answer({answer_status::here, 0, 0})).has_value());
  CHECK_FALSE(read_answer(write_answer({answer_status::not_here, 0, 1})).has_value());
  CHECK_FALSE(read_answer(write_answer({static_cast<answer_status>(4), 0, 0})).has_value());
  CHECK_FALSE(read_answer(write_answer({answer_status::elsewhere, 0, 0})).has_value());
  CHECK_FALSE(read_answer(write_answer({answer_status::elsewhere, 0, 1, 7})).has_value());
  CHECK_FALSE(read_answer(write_answer({answer_status::not_here, 0, 0, 7})).has_value());
  CHECK_FALSE(read_answer(write_answer({answer_status::late, 0, 1})).has_value());
  CHECK_FALSE(read_request(write_request({{1, 2}, 2, 0, 7})).has_value());
  dice random(run_seed());
  for (int i = 0; i < repeats(10'000, 1'000'000); ++i) {
    request_block asked{};
    for (std::byte& one : asked) one = static_cast<std::byte>(random.next());
    const auto is = read_request(asked);
    if (!is.has_value()) continue;
    REQUIRE(is->bytes <= most_chunk_bytes);
    if (is->bytes == 0) REQUIRE((is->reader > 0 && is->at <= 1));
  }
}

TEST_CASE("the sum of pieces is that of the whole", "[bulk]") {
  std::vector<std::byte> all(100'000);
  dice random(run_seed());
  for (std::byte& one : all) one = static_cast<std::byte>(random.next());
  checksum whole;
  whole.add(all);
  checksum pieces;
  pieces.add({});
  pieces.add(std::span(all).first(77));
  pieces.add(std::span(all).subspan(77));
  CHECK(whole.value() == pieces.value());
  all[99'999] ^= std::byte{1};
  pieces.reset();
  pieces.add(all);
  CHECK(whole.value() != pieces.value());
}

}  // namespace bulk_message_test
