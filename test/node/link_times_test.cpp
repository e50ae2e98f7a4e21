// SPDX-License-Identifier: Apache-2.0
#include "node/link_times.hpp"

#include <cstdint>

#include <catch2/catch.hpp>

namespace link_times_test {

using manta::node::link_times;
using manta::node::transfer_note;
using manta::sched::byte_pace;

constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
constexpr std::uint64_t second_ns = 1'000'000'000;

TEST_CASE("what a node tells of its fetches counts, unless it is nonsense", "[node]") {
  link_times& all = link_times::global();
  all.clear();
  constexpr transfer_note nonsense[] = {{0, 0},
                                        {UINT64_MAX, UINT64_MAX},
                                        {64 * mib, UINT64_MAX},
                                        {64 * mib, std::uint64_t{1} << 63U},
                                        {64 * mib, 0},
                                        {UINT64_MAX, 1},
                                        {1000, second_ns}};
  for (const transfer_note& one : nonsense) all.hear(7, one);
  CHECK_FALSE(all.has_any());
  CHECK(all.of(0, 7) == byte_pace{});
  all.hear(7, {64 * mib, 64 * second_ns});
  CHECK(all.has_any());
  CHECK(all.of(0, 7).ns > 10);
  CHECK(all.of(7, 0).ns > 10);
  CHECK(all.of(8, 7).ns > 10);
  CHECK(all.of(0, 0) == byte_pace{});
  CHECK(all.of(0, 8) == byte_pace{});
  all.lost(7);
  CHECK_FALSE(all.has_any());
  CHECK(all.of(0, 7) == byte_pace{});
}

TEST_CASE("a long message is measured when it has come", "[node]") {
  link_times& all = link_times::global();
  all.clear();
  all.sends(7, 1, mib - 1);  // too short
  all.has_come(7, 1);
  all.has_come(7, 2);  // nobody has sent it
  all.sends(7, 3, 8 * mib);
  all.unsent(7, 3);
  all.has_come(7, 3);
  CHECK_FALSE(all.has_any());
  all.sends(7, 4, 8 * mib);
  all.sends(7, 4, 8 * mib);  // the same
  all.has_come(8, 4);        // another one's
  CHECK_FALSE(all.has_any());
  all.has_come(7, 4);
  CHECK(all.has_any());
  all.clear();
  all.sends(7, 5, 8 * mib);
  all.lost(7);
  all.has_come(7, 5);
  CHECK_FALSE(all.has_any());
}

TEST_CASE("what is fetched is measured for its maker", "[node]") {
  link_times& all = link_times::global();
  all.clear();
  all.begins(7);
  CHECK_FALSE(all.came(8, 8 * mib).has_value());
  all.came(7, 8 * mib);
  all.ends(7);
  CHECK(all.has_any());
  all.clear();
  CHECK_FALSE(all.ends(7).has_value());
  CHECK_FALSE(all.has_any());
}

}  // namespace link_times_test
