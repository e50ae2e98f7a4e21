// SPDX-License-Identifier: Apache-2.0
// What could break: arithmetic on sizes that a peer wrote. It would show as a read outside of the
// frame (the asan preset sees it) or as a frame that is accepted.
#include "wire/frame.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

namespace {

using Catch::Matchers::Contains;
namespace wire = manta::wire;
using bytes_view = std::span<const std::byte>;

// A frame as words of 32 bits, in memory that begins at a multiple of 8.
class words {
 public:
  explicit words(const std::vector<std::uint32_t>& list) : memory_(list.size() / 2 + 1) {
    if (!list.empty()) std::memcpy(memory_.data(), list.data(), list.size() * 4);
    size_ = list.size() * 4;
  }
  bytes_view bytes() const { return std::as_bytes(std::span(memory_)).first(size_); }

 private:
  std::vector<std::uint64_t> memory_;
  std::size_t size_ = 0;
};

std::string refused(const std::vector<std::uint32_t>& list, std::size_t limit = 4096) {
  std::vector<bytes_view> segments;
  const words frame(list);
  const auto out = wire::split_frame(frame.bytes(), limit, segments);
  if (out) return "accepted";
  CHECK(out.error().code() == manta::errc::decode_failed);
  return out.error().message();
}

}  // namespace

TEST_CASE("a frame is split into its segments, down to empty ones", "[wire]") {
  std::vector<bytes_view> segments;
  const words frame({2, 1, 0, 2, 11, 12, 21, 22, 23, 24});
  REQUIRE(wire::split_frame(frame.bytes(), 40, segments));
  REQUIRE(segments.size() == 3);
  CHECK(segments[0].data() == frame.bytes().data() + 16);
  CHECK(segments[0].size() == 8);
  CHECK(segments[1].empty());
  CHECK(segments[2].data() == frame.bytes().data() + 24);
  CHECK(segments[2].size() == 16);
}

TEST_CASE("the length of a frame is told as soon as its table is there", "[wire]") {
  const words frame({2, 1, 0, 2, 11, 12, 21, 22, 23, 24});
  for (std::size_t n = 0; n < 16; ++n) {
    CAPTURE(n);
    CHECK(*wire::frame_length(frame.bytes().first(n), 40) == 0);
  }
  CHECK(*wire::frame_length(frame.bytes().first(16), 40) == 40);
  CHECK(*wire::frame_length(frame.bytes(), 40) == 40);
}

TEST_CASE("a count of segments outside its range is refused before the table is read", "[wire]") {
  // 0xffffffff is the count 2^32, which 32 bits see as 0.
  CHECK_THAT(refused({0xffffffffU, 0}),
             Contains("its table says 4294967296 segments, allowed are 1 "
                      "to 2048") &&
                 Contains("end the connection"));
  CHECK_THAT(refused({0xfffffffeU, 0}), Contains("4294967295 segments"));
  CHECK_THAT(refused({2048, 0}), Contains("2049 segments"));
  CHECK_THAT(refused({2047, 0}), Contains("it has 8 bytes and ends within its table"));
  std::vector<std::uint32_t> most(2050, 0);
  most[0] = 2047;
  CHECK(refused(most, 8200) == "accepted");
}

TEST_CASE("sizes that overflow, or pass the limit, are refused", "[wire]") {
  CHECK_THAT(refused({0, 0xffffffffU}),
             Contains("its table says 34359738368 bytes, allowed are 4096"));
  CHECK_THAT(refused({1, 0xffffffffU, 0xffffffffU, 0}), Contains("68719476736 bytes"));
  CHECK_THAT(refused({1, 0x80000000U, 0x80000000U, 0}), Contains("34359738384 bytes"));
  CHECK_THAT(refused({0, 2, 0, 0, 0, 0}, 23), Contains("says 24 bytes, allowed are 23"));
  CHECK(refused({0, 2, 0, 0, 0, 0}, 24) == "accepted");
}

TEST_CASE("a frame that is shorter or longer than its table says is refused", "[wire]") {
  CHECK_THAT(refused({}), Contains("it has 0 bytes and ends within its table"));
  CHECK_THAT(refused({0}), Contains("it has 4 bytes and ends within its table"));
  CHECK_THAT(refused({0, 2, 0, 0}), Contains("it has 16 bytes, its table says 24"));
  CHECK_THAT(refused({0, 1, 0, 0, 0, 0}), Contains("it has 24 bytes, its table says 16"));
}

TEST_CASE("a frame that does not begin at a multiple of 8 is refused", "[wire]") {
  const words frame({0, 0, 1, 0, 0, 0});
  std::vector<bytes_view> segments;
  const auto out = wire::split_frame(frame.bytes().subspan(4), 4096, segments);
  REQUIRE_FALSE(out);
  CHECK_THAT(out.error().message(), Contains("does not begin at a multiple of 8; copy it"));
}
