// SPDX-License-Identifier: Apache-2.0
#include "own/copy_limits.hpp"

#include <chrono>
#include <cstdint>

#include <catch2/catch.hpp>

namespace manta_test::copy_limits_test {

using limits = manta::own::copy_limits;
using namespace std::chrono_literals;

TEST_CASE("what a node is taken to have it has still, whoever is late", "[own]") {
  // It is used when it has come, and read in the half that is left.
  CHECK(limits::taken_to_be_kept_for > 0ms);
  CHECK(2 * limits::taken_to_be_kept_for <= limits::kept_for);
  CHECK(limits::kept_for < 1s);  // who lets go of an array expects its memory back by then
  CHECK(limits::kept_for < limits::kept_for_others);
}

TEST_CASE("copies for calls and for others leave most of a store", "[own]") {
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{1} << 30U, UINT64_MAX}) {
    CHECK(limits::most_bytes(bytes) <= bytes / 4);
  }
  CHECK(limits::most_bytes(std::uint64_t{8} << 20U) == std::uint64_t{1} << 20U);
  CHECK(limits::most_woken <= limits::most_for_others);
}

}  // namespace manta_test::copy_limits_test
