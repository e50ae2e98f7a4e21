// SPDX-License-Identifier: Apache-2.0
#include "sim/spread.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <catch2/catch.hpp>

#include <manta/base/sanitizers.hpp>

// How well work spreads over many nodes, in simulated time; the bars are of that time, too.

namespace spread_test {

namespace {

using manta_test::spread::outcome;
using manta_test::spread::settings;

void tell(const settings& with, const outcome& of) {
  std::printf(
      "spread: %d of %d nodes make tasks of %.1f ms: %.2f of the best time, busiest %.2f of the "
      "mean; given %.2f of all, sent back %.2f; %.2f us to decide for each given\n",
      with.makers, with.nodes, static_cast<double>(with.task_time.count()) / 1e6, of.efficiency(),
      of.busiest, static_cast<double>(of.given) / static_cast<double>(of.tasks),
      static_cast<double>(of.refused) / static_cast<double>(of.tasks),
      of.deciding_s * 1e6 / static_cast<double>(of.given > 0 ? of.given : 1));
}

outcome spread(const settings& with) {
  const outcome of = run(with);
  tell(with, of);
  return of;
}

}  // namespace

TEST_CASE("who has as much to do as all others gives little away", "[sim][spread]") {
  for (const int nodes : {2, 4, 8}) {
    const outcome of = spread({.nodes = nodes, .makers = nodes});
    CHECK(of.efficiency() > 0.85);
    CHECK(of.given < of.tasks / 2);
  }
}

TEST_CASE("the tasks of some nodes spread over all", "[sim][spread]") {
  for (const auto& [nodes, makers] : {std::pair{8, 4}, {8, 1}, {32, 16}, {100, 50}, {100, 10}}) {
    const outcome of =
        spread({.nodes = nodes, .makers = makers, .tasks_a_maker = 400 * nodes / makers});
    CHECK(of.efficiency() > 0.75);
    CHECK(of.busiest < 1.25);
    CHECK(of.given < of.tasks * 2);
  }
}

TEST_CASE("without giving the tasks of some nodes stay with them", "[sim][spread]") {
  const outcome of = spread({.nodes = 8, .makers = 2, .tasks_a_maker = 1600, .gives = false});
  CHECK(of.busiest > 3.5);
  CHECK(of.given == 0);
}

TEST_CASE("a thousand nodes share what they have", "[sim][spread][repeats]") {
  // A million tasks in all, in a full run.
  const int tasks = std::getenv("MANTA_TEST_FULL") != nullptr ? 1000 : 100;
  const int nodes = manta::base::is_sanitized ? 200 : 1000;
  for (const int makers : {nodes, nodes / 2, nodes / 10}) {
    const outcome of =
        spread({.nodes = nodes, .makers = makers, .tasks_a_maker = tasks * nodes / makers});
    // Of a burst that lasts for a few trips only, those are a part.
    CHECK(of.efficiency() > (tasks < 400 ? 0.45 : 0.75));
    CHECK(of.busiest < (tasks < 400 ? 2.2 : 1.5));
  }
}

// Decision 0049: what it would gain, were it allowed.
TEST_CASE("to send tasks on once more gains nothing in a large cluster, and costs messages",
          "[sim][spread]") {
  std::uint64_t given = 0;
  std::uint64_t given_on = 0;
  for (const int makers : {100, 50, 10}) {
    settings with{.nodes = 100, .makers = makers, .tasks_a_maker = 100 * 1000 / makers};
    const outcome once = spread(with);
    with.hops = 2;
    const outcome twice = spread(with);
    CHECK(once.sent_on == 0);
    CHECK(twice.sent_on > 0);
    CHECK(twice.efficiency() < once.efficiency() + 0.03);
    given += once.given;
    given_on += twice.given;
  }
  CHECK(4 * given_on > 5 * given);
}

TEST_CASE("the same seed spreads the same", "[sim][spread]") {
  const settings with{.nodes = 16, .makers = 4, .tasks_a_maker = 800, .seed = 7};
  const outcome once = run(with);
  const outcome again = run(with);
  CHECK(once.given == again.given);
  CHECK(once.refused == again.refused);
  CHECK(once.took_s == again.took_s);
}

}  // namespace spread_test
