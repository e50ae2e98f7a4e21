// SPDX-License-Identifier: Apache-2.0
#include "sched/looked_time.hpp"

#include <catch2/catch.hpp>

namespace looked_time_test {

using namespace std::chrono_literals;
using manta::base::time_point;
using manta::sched::looked_time;

constexpr time_point start{1h};
constexpr auto most_between = 50ms;

TEST_CASE("while somebody looks time passes as it does", "[sched]") {
  looked_time t(most_between);
  const time_point asked = t.at(start);
  for (auto passed = 0ms; passed <= 2s; passed += 1ms) t.look(start + passed);
  CHECK(t.at(start + 2s) - asked == 2s);
}

TEST_CASE("nobody is late for what stood still", "[sched]") {
  looked_time t(most_between);
  t.look(start);
  const time_point asked = t.at(start + 1ms);
  t.look(start + 10s);
  CHECK(t.at(start + 10s) - asked <= most_between);
  // Looks that are far from each other still come to an end.
  for (int i = 1; i <= 20; ++i) t.look(start + 10s + i * 200ms);
  CHECK(t.at(start + 14s) - asked >= 900ms);
}

}  // namespace looked_time_test
