// SPDX-License-Identifier: Apache-2.0
#include "sched/resting_nodes.hpp"

#include <map>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace sched_resting_nodes_test {

namespace {

using manta::base::time_point;
using manta::sched::resting_nodes;
using std::chrono::milliseconds;

// What is true of them, looked up one by one.
using model = std::map<std::uint64_t, time_point>;

void agrees(const resting_nodes& is, const model& with, time_point now) {
  std::size_t rest = 0;
  for (std::uint64_t node = 1; node <= 30; ++node) {
    const auto at = with.find(node);
    const bool rests = at != with.end() && at->second > now;
    REQUIRE(is.is_resting(node, now) == rests);
    rest += rests ? 1 : 0;
  }
  REQUIRE(is.size() >= rest);
}

}  // namespace

TEST_CASE("nodes rest as their model says", "[sched]") {
  manta_test::dice random(manta_test::run_seed());
  resting_nodes is;
  model with;
  time_point now{milliseconds(1000)};
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t node = 1 + random.next() % 30;
    const time_point until = now + milliseconds(random.next() % 50);  // also sooner than before
    is.rest(node, until);
    with[node] = until;
    if (random.next() % 4 == 0) now += milliseconds(random.next() % 20);
    if (random.next() % 3 == 0) is.look(now);
    agrees(is, with, now);
  }
  is.look(now + milliseconds(50));
  CHECK(is.size() == 0);
}

TEST_CASE("a node that rests no more is forgotten, also when it has rested anew", "[sched]") {
  resting_nodes is;
  const time_point begin{};
  is.rest(1, begin + milliseconds(1));
  is.rest(2, begin + milliseconds(5));
  is.rest(1, begin + milliseconds(3));
  is.look(begin + milliseconds(1));
  CHECK(is.size() == 2);
  CHECK(is.is_resting(1, begin + milliseconds(2)));
  is.look(begin + milliseconds(3));
  CHECK(is.size() == 1);
  CHECK_FALSE(is.is_resting(1, begin + milliseconds(3)));
  is.clear();
  CHECK_FALSE(is.is_resting(2, begin));
  is.look(begin + milliseconds(9));
  CHECK(is.size() == 0);
}

}  // namespace sched_resting_nodes_test
