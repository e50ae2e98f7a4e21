// SPDX-License-Identifier: Apache-2.0
// Large copies are exact, wherever they begin and end.
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <catch2/catch.hpp>

#include "store/copy.hpp"

using namespace manta::store;

TEST_CASE("copies of any size and place are exact, and touch nothing beside", "[store][copy]") {
  constexpr std::size_t most = (std::size_t{17} << 20U) + 777;
  constexpr std::size_t edge = 128;
  std::vector<std::byte> from(most + edge);
  for (std::size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<std::byte>((i * 2654435761U) >> 13U);
  }
  std::vector<std::byte> to(most + 2 * edge);
  const std::size_t sizes[] = {
      1, 63, 64, 65, 4095, stream_from - 1, stream_from, stream_from + 1, 2 * copy_piece + 13,
      // What the threads' shares, in whole lines, leave.
      2 * copy_piece + 1, 2 * copy_piece + 129, 3 * copy_piece + 2, 4 * copy_piece + 3, most};
  for (const std::size_t size : sizes) {
    for (const std::size_t shift : {0U, 1U, 8U, 63U}) {
      std::fill(to.begin(), to.end(), std::byte{0xaa});
      const std::span<std::byte> into(to.data() + edge / 2 + shift, size);
      if (size < 4096) {
        copy_streaming(into, from.data() + shift / 2);
      } else {
        copy_large(into, from.data() + shift / 2);
      }
      REQUIRE(std::memcmp(into.data(), from.data() + shift / 2, size) == 0);
      REQUIRE(into.data()[-1] == std::byte{0xaa});
      REQUIRE(into.data()[size] == std::byte{0xaa});
    }
  }
}
