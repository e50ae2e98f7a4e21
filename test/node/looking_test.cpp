// SPDX-License-Identifier: Apache-2.0
#include "node/looking.hpp"

#include <chrono>
#include <stdexcept>

#include <catch2/catch.hpp>

namespace manta_test::looking_test {

using manta::node::look_until;
using namespace std::chrono_literals;

TEST_CASE("what nobody tells of is looked for until it is so, and no more often than it may",
          "[node]") {
  int looked = 0;
  const auto is_tenth = [&] { return ++looked == 10; };
  look_until({.between = 1us}, is_tenth);
  CHECK(looked == 10);
  looked = 0;
  look_until({.between = 1us, .most = 3}, is_tenth);
  CHECK(looked == 4);  // once, and three times more
  looked = 9;
  look_until({.between = 1h, .most = 0}, is_tenth);
  CHECK(looked == 10);
  look_until({.between = 1h, .most = 0}, is_tenth);
  CHECK(looked == 11);
}

TEST_CASE("what a look throws ends the looking", "[node]") {
  CHECK_THROWS_AS(look_until({}, []() -> bool { throw std::runtime_error("over"); }),
                  std::runtime_error);
}

}  // namespace manta_test::looking_test
