// SPDX-License-Identifier: Apache-2.0
#include "wire/frame.hpp"

#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace manta::inline v0::wire {

static_assert(std::endian::native == std::endian::little, "frames are read as they lie");

namespace {

std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t at) noexcept {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

error nonsense(std::string found) {
  return error(
      errc::decode_failed,
      fmt::format("wire: a frame was to be read, {}; it is dropped: end the connection and "
                  "compare the builds of both processes",
                  found));
}

result<std::size_t> segment_count(std::span<const std::byte> begin) {
  const std::uint64_t count = word_at(begin, 0) + 1;
  if (count <= limits::frame_segments) return static_cast<std::size_t>(count);
  return nonsense(fmt::format("its table says {} segments, allowed are 1 to {}", count,
                              limits::frame_segments));
}

}  // namespace

result<std::size_t> frame_length(std::span<const std::byte> begin, std::size_t limit) {
  if (begin.size() < 4) return std::size_t{0};
  const result<std::size_t> count = segment_count(begin);
  if (!count) return count.error();
  const std::size_t table = table_bytes(*count);
  if (begin.size() < table) return std::size_t{0};
  // At most 2048 sizes below 2^35 bytes: the sum has 46 bits.
  std::uint64_t total = table;
  for (std::size_t i = 0; i < *count; ++i) total += word_at(begin, 4 + 4 * i) * 8;
  if (total <= limit) return static_cast<std::size_t>(total);
  return nonsense(fmt::format("its table says {} bytes, allowed are {}", total, limit));
}

result<void> split_frame(std::span<const std::byte> frame, std::size_t limit,
                         std::vector<std::span<const std::byte>>& segments) {
  segments.clear();
  if (reinterpret_cast<std::uintptr_t>(frame.data()) % 8 != 0) {
    return error(errc::decode_failed,
                 "wire: a frame was to be read that does not begin at a multiple of 8; copy it to "
                 "one, better to a multiple of 64");
  }
  const result<std::size_t> length = frame_length(frame, limit);
  if (!length) return length.error();
  if (*length == 0) {
    return nonsense(fmt::format("it has {} bytes and ends within its table", frame.size()));
  }
  if (*length != frame.size()) {
    return nonsense(fmt::format("it has {} bytes, its table says {}", frame.size(), *length));
  }
  const auto count = static_cast<std::size_t>(word_at(frame, 0) + 1);
  std::size_t at = table_bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto bytes = static_cast<std::size_t>(word_at(frame, 4 + 4 * i) * 8);
    segments.push_back(frame.subspan(at, bytes));
    at += bytes;
  }
  return {};
}

}  // namespace manta::inline v0::wire
