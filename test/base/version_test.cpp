// SPDX-License-Identifier: Apache-2.0
#include <manta/base/version.hpp>

#include <catch2/catch.hpp>

TEST_CASE("the version before 1.0 is a minor version that may break", "[base]") {
  STATIC_REQUIRE(MANTA_VERSION_MAJOR == 0);
  STATIC_REQUIRE(MANTA_VERSION_MINOR >= 1);
  STATIC_REQUIRE(MANTA_VERSION_PATCH >= 0);
}
