// SPDX-License-Identifier: Apache-2.0
#include "bulk/unreached.hpp"

#include <chrono>

#include <catch2/catch.hpp>

namespace bulk_unreached_test {

using namespace std::chrono_literals;
using manta::base::time_point;
using manta::bulk::unreached;

constexpr time_point start{1h};

TEST_CASE("a holder that was not reached is not asked for a minute", "[bulk]") {
  unreached u;
  CHECK_FALSE(u.has(7, start));
  u.note(7, start);
  CHECK(u.has(7, start));
  CHECK(u.has(7, start + 1min - 1ns));
  CHECK_FALSE(u.has(7, start + 1min));
  CHECK_FALSE(u.has(8, start));
}

TEST_CASE("a holder that is not reached again waits from then on", "[bulk]") {
  unreached u;
  u.note(7, start);
  u.note(7, start + 40s);
  u.note(8, start + 70s);  // ends what is over, not this
  CHECK(u.has(7, start + 99s));
  CHECK_FALSE(u.has(7, start + 100s));
  CHECK(u.has(8, start + 100s));
  u.clear();
  CHECK_FALSE(u.has(8, start + 100s));
}

}  // namespace bulk_unreached_test
