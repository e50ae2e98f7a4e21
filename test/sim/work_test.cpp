// SPDX-License-Identifier: Apache-2.0
// Nodes that pass handles on, run each other's tasks and call each other's actors while some of
// them crash, stop and join: what the checker finds in their logs. MANTA_SEED=N runs that seed
// alone.
#include "sim/work.hpp"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "exec/support.hpp"
#include "sim/work_checker.hpp"

namespace sim::work {

namespace {

using told = entry::what;

std::uint64_t first_work_seed() {
  const char* const given = std::getenv("MANTA_SEED");
  return given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
}
std::uint64_t work_seeds(std::uint64_t usual) {
  if (std::getenv("MANTA_SEED") != nullptr) return 1;
  return static_cast<std::uint64_t>(manta_test::repeats(static_cast<int>(usual), 10000));
}

run_settings settings_of(std::uint64_t seed) {
  run_settings with{.seed = seed};
  with.nodes = 4 + seed % 2;
  with.has_bad_network = seed % 4 == 0;
  if (seed % 5 == 0) with.faults = 0;
  return with;
}

std::string told_of(const run_settings& with, const std::vector<std::string>& found) {
  std::string out = fmt::format("MANTA_SEED={} fails; breaches:", with.seed);
  for (const std::string& one : found) out += "\n  " + one;
  out += "\nits faults:";
  for (const fault& one : faults_of(with)) out += "\n  " + show(one);
  return out;
}

}  // namespace

TEST_CASE("what nodes have of each other is kept, comes back and ends once", "[sim][repeats]") {
  std::map<told, int> entries;
  asked_times asked;
  network::counts carried;
  const std::uint64_t n = work_seeds(20);
  for (std::uint64_t seed = first_work_seed(); seed < first_work_seed() + n; ++seed) {
    const run_settings with = settings_of(seed);
    const outcome one = run(with, faults_of(with));
    const std::vector<std::string> found = breaches(one, with, &asked);
    if (!found.empty()) FAIL(told_of(with, found));
    for (const entry& e : one.log) ++entries[e.is];
    carried.messages += one.carried.messages;
    carried.lost += one.carried.lost;
  }
  if (n == 1) return;
  // A run counts only if the load was carried and the faults did land.
  // Of few seeds, as with sanitizers, each kind at all.
  const auto least = [n](std::uint64_t usual) { return n < 20 ? 1 : static_cast<int>(usual); };
  CHECK(entries[told::called] >= least(150 * n));
  CHECK(asked.handled >= least(150 * n));
  CHECK(entries[told::asked] >= least(150 * n));
  CHECK(entries[told::declared] >= least(n));
  CHECK(carried.messages >= least(1500 * n));
  if (n >= 20) CHECK(carried.lost >= least(5 * n));
  CHECK(asked.freed >= least(15 * n));
  CHECK(asked.freed_in_doubt >= least(n));
  CHECK(asked.ran_again >= least(n));
  CHECK(asked.lost >= least(3 * n));
  CHECK(asked.cancelled >= least(10 * n));
  CHECK(asked.full >= least(20 * n));
  CHECK(asked.placed >= least(5 * n));
  CHECK(asked.turns >= least(5 * n));
  fmt::print(
      "sim: {} seeds, {} messages, {} things freed ({} in doubt), {} tasks, {} ran again, {} lost, "
      "{} cancelled, {} calls, {} times nothing left, {} turns, {} bundles elsewhere, {} deaths\n",
      n, carried.messages, asked.freed, asked.freed_in_doubt, entries[told::asked], asked.ran_again,
      asked.lost, asked.cancelled, asked.handled, asked.full, asked.turns, asked.placed,
      entries[told::declared]);
}

TEST_CASE("the checker of work catches every broken build", "[sim]") {
  for (int i = 1; i <= plants; ++i) {
    int caught_at = 0;
    for (int seed = 1; seed <= 100 && caught_at == 0; ++seed) {
      run_settings with = settings_of(static_cast<std::uint64_t>(seed));
      with.faults = 16;
      with.most_nodes = 6;
      with.broken = static_cast<plant>(i);
      if (!breaches(run(with, faults_of(with)), with).empty()) caught_at = seed;
    }
    CAPTURE(i);
    CHECK(caught_at > 0);
  }
}

TEST_CASE("the same seed gives the same work", "[sim]") {
  const run_settings with = settings_of(78);
  const outcome a = run(with, faults_of(with));
  const outcome b = run(with, faults_of(with));
  CHECK(a.events == b.events);
  REQUIRE(a.log.size() == b.log.size());
  bool is_same = true;
  for (std::size_t i = 0; i < a.log.size(); ++i) {
    is_same = is_same && a.log[i].at == b.log[i].at && a.log[i].is == b.log[i].is &&
              a.log[i].node == b.log[i].node && a.log[i].number == b.log[i].number &&
              a.log[i].thing == b.log[i].thing;
  }
  CHECK(is_same);
}

}  // namespace sim::work
