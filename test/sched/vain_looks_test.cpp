// SPDX-License-Identifier: Apache-2.0
#include "sched/vain_looks.hpp"

#include <algorithm>
#include <chrono>

#include <catch2/catch.hpp>

#include <manta/base/clock.hpp>

#include "base/chance.hpp"

namespace vain_looks_test {

using manta::sched::vain_looks;
using namespace std::chrono_literals;

constexpr manta::base::time_point start{1h};

TEST_CASE("a turn ends when many in a row stay for what they read", "[sched]") {
  vain_looks looks;
  looks.begin();
  for (int turns = 0; turns < 3; ++turns) {
    looks.turn();
    for (std::uint32_t i = 1; i < vain_looks::most_in_a_row; ++i) {
      CHECK_FALSE(looks.stays_for_data());
    }
    if (turns == 0) looks.stays();  // for another reason: those behind it may be others
    if (turns == 1) looks.gave();
    CHECK(looks.stays_for_data() == (turns == 2));
  }
}

TEST_CASE("the next looks come later while whole ones are in vain, and at once else", "[sched]") {
  manta::base::chance chance(7);
  vain_looks looks;
  auto now = start;
  const auto look = [&](bool is_in_vain, bool gives) {
    looks.begin();
    looks.turn();
    if (gives) looks.gave();
    if (is_in_vain) looks.stays_for_data();
    looks.stays();
    looks.end(now, chance);
  };
  CHECK(looks.is_time(now));
  look(false, false);  // nothing is there
  CHECK(looks.is_time(now));
  look(true, true);
  CHECK(looks.is_time(now));
  manta::duration longest{0};
  for (int i = 0; i < 20; ++i) {
    look(true, false);
    CHECK_FALSE(looks.is_time(now + 999us));
    const auto since = now;
    while (!looks.is_time(now)) now += 100us;
    longest = std::max<manta::duration>(longest, now - since);
  }
  CHECK((longest > vain_looks::longest / 2 && longest <= vain_looks::longest * 3 / 2 + 100us));
  // One that goes ends that.
  look(true, true);
  CHECK(looks.is_time(now));
  look(true, false);
  CHECK(looks.is_time(now + 3ms));
}

}  // namespace vain_looks_test
