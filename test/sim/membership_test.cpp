// SPDX-License-Identifier: Apache-2.0
// Clusters whose members crash, stop, are cut off and come back while messages are lost: what the
// checker finds in their logs. MANTA_SEED=N runs that seed alone.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "exec/support.hpp"
#include "sim/checker.hpp"
#include "sim/cluster.hpp"

namespace sim {

namespace {

using namespace std::chrono_literals;
using what = entry::what;

std::vector<std::string> failures(const run_settings& with, const std::vector<fault>& faults) {
  return breaches(run(with, faults), with);
}

/// The fewest of the faults with which it still fails, as far as leaving out one after the other
/// finds them.
std::vector<fault> fewest(const run_settings& with, std::vector<fault> faults) {
  for (std::size_t i = faults.size(); i-- > 0;) {
    std::vector<fault> fewer = faults;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (!failures(with, fewer).empty()) faults = std::move(fewer);
  }
  return faults;
}

std::string told(const run_settings& with, const std::vector<std::string>& found) {
  std::string out = fmt::format("MANTA_SEED={} fails; breaches:", with.seed);
  for (const std::string& one : found) out += "\n  " + one;
  out += "\nwith these of its faults:";
  const std::vector<fault> few = fewest(with, faults_of(with));
  for (const fault& one : few) out += "\n  " + show(one);
  for (const std::string& one : failures(with, few)) out += "\nwhich breach\n  " + one;
  return out;
}

struct landed {
  std::map<what, int> entries;
  network::counts carried;
  std::uint64_t events = 0;
  asked_times asked;

  void add(const outcome& one) {
    for (const entry& e : one.log) ++entries[e.is];
    carried.messages += one.carried.messages;
    carried.lost += one.carried.lost;
    carried.repeated += one.carried.repeated;
    carried.delayed += one.carried.delayed;
    carried.resets += one.carried.resets;
    events += one.events;
  }
};

std::uint64_t first_seed() {
  const char* const given = std::getenv("MANTA_SEED");
  return given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
}
std::uint64_t seeds(std::uint64_t usual) {
  if (std::getenv("MANTA_SEED") != nullptr) return 1;
  return static_cast<std::uint64_t>(manta_test::repeats(static_cast<int>(usual), 20000));
}

}  // namespace

TEST_CASE("members agree on who is one, whatever happens to them", "[sim][repeats]") {
  landed all;
  const std::uint64_t n = seeds(120);
  for (std::uint64_t seed = first_seed(); seed < first_seed() + n; ++seed) {
    run_settings with{.seed = seed};
    with.has_bad_network = seed % 3 != 0;
    with.has_resets = seed % 4 != 0;
    const outcome one = run(with, faults_of(with));
    const std::vector<std::string> found = breaches(one, with, &all.asked);
    if (!found.empty()) FAIL(told(with, found));
    all.add(one);
  }
  if (n == 1) return;
  // A run counts only if the load was carried and the faults did land.
  const int runs = static_cast<int>(n);
  // Of few seeds, as with sanitizers, each kind at all.
  const auto least = [runs](int usual) { return runs < 100 ? 1 : usual; };
  CHECK(all.entries[what::joined] >= least(5 * runs));
  CHECK(all.entries[what::accepted] >= least(500 * runs));
  CHECK(all.entries[what::crashed] >= least(runs / 2));
  CHECK(all.entries[what::ended] >= least(runs / 4));
  CHECK(all.entries[what::left] >= least(runs / 2));
  CHECK(all.entries[what::head_began] >= least(2 * runs));
  CHECK(all.carried.lost >= least(10 * runs));
  CHECK(all.carried.repeated >= least(10 * runs));
  CHECK(all.carried.delayed >= least(10 * runs));
  CHECK(all.carried.resets >= least(runs / 2));
  CHECK(all.entries[what::disk_bad] >= least(runs / 2));
  CHECK(all.asked.closed >= least(runs / 10));
  CHECK(all.asked.silent >= least(runs / 10));
  CHECK(all.asked.heard >= least(runs / 10));
  std::printf(
      "sim: %llu seeds, %d messages, %llu events; asked whether %d ends were seen at once, %d "
      "in time, and %d times heard of\n",
      static_cast<unsigned long long>(n), all.carried.messages,
      static_cast<unsigned long long>(all.events), all.asked.closed, all.asked.silent,
      all.asked.heard);
}

namespace {

// Every third one.
void check_broken_builds(int first) {
  for (int i = first; i <= plants; i += 3) {
    int caught_at = 0;
    for (int seed = 1; seed <= 150 && caught_at == 0; ++seed) {
      run_settings with{.seed = static_cast<std::uint64_t>(seed)};
      with.broken = static_cast<plant>(i);
      if (!failures(with, faults_of(with)).empty()) caught_at = seed;
    }
    CAPTURE(i);
    CHECK(caught_at > 0);
  }
}

}  // namespace

// Three cases, since one would take longer under a sanitizer than a case may.
TEST_CASE("the checker catches every broken build", "[sim]") { check_broken_builds(1); }
TEST_CASE("the checker catches every broken build, the second third", "[sim]") {
  check_broken_builds(2);
}
TEST_CASE("the checker catches every broken build, the last third", "[sim]") {
  check_broken_builds(3);
}

// The head's end of each connection is found to have ended when it goes on, and the new ones are
// made while a member that is late would be ended: a message takes longer than closed_grace here.
TEST_CASE("a head that was stopped ends nobody whose connection ended meanwhile", "[sim]") {
  const auto ends = [](std::uint64_t seed, duration lasts, plant broken) {
    run_settings with{.seed = seed};
    with.has_bad_network = false;
    with.most_latency = 8ms;
    with.has_resets = false;
    with.storm = 10s;
    with.calm = 4s;
    with.broken = broken;
    std::vector<fault> faults = {{.at = 3s, .is = fault::what::head_stop, .lasts = lasts}};
    for (std::size_t i = 0; i < with.nodes; ++i) {
      faults.push_back({.at = 3s + lasts / 2, .is = fault::what::reset, .whom = i});
    }
    const outcome one = run(with, faults);
    CHECK(one.views.size() == with.nodes);
    return std::ranges::count(one.log, what::ended, &entry::is);
  };
  std::ptrdiff_t of_broken = 0;
  for (std::uint64_t seed = 2; seed < 26; seed += 4) {
    for (const duration lasts : {duration(400ms), duration(2500ms), duration(6s)}) {
      CAPTURE(seed, lasts / 1ms);
      CHECK(ends(seed, lasts, plant::none) == 0);
      of_broken += ends(seed, lasts, plant::stop_not_noticed);
    }
  }
  CHECK(of_broken > 10);
}

// A message takes longer than closed_grace here, too.
TEST_CASE("a connection that is reset costs no member", "[sim]") {
  const auto ends = [](std::uint64_t seed, plant broken) {
    run_settings with{.seed = seed};
    with.has_bad_network = false;
    with.most_latency = 8ms;
    with.storm = 6s;
    with.calm = 2s;
    with.broken = broken;
    std::vector<fault> faults;
    for (std::size_t i = 0; i < with.nodes; ++i) {
      const duration at = 2s + 100ms * static_cast<int>(i);
      faults.push_back({.at = at, .is = fault::what::reset, .whom = i});
    }
    return std::ranges::count(run(with, faults).log, what::ended, &entry::is);
  };
  std::ptrdiff_t of_broken = 0;
  for (std::uint64_t seed = 1; seed < 11; ++seed) {
    CAPTURE(seed);
    CHECK(ends(seed, plant::none) == 0);
    of_broken += ends(seed, plant::resets_kill);
  }
  CHECK(of_broken > 10);
}

TEST_CASE("the same seed gives the same run", "[sim]") {
  const run_settings with{.seed = 77};
  const outcome a = run(with, faults_of(with));
  const outcome b = run(with, faults_of(with));
  CHECK(a.events == b.events);
  REQUIRE(a.log.size() == b.log.size());
  for (std::size_t i = 0; i < a.log.size(); ++i) {
    CHECK((a.log[i].at == b.log[i].at && a.log[i].is == b.log[i].is &&
           a.log[i].process == b.log[i].process && a.log[i].number == b.log[i].number));
  }
}

TEST_CASE("without faults everybody joins at once and nobody ends", "[sim]") {
  run_settings with{.seed = 5, .nodes = 20};
  with.has_bad_network = false;
  with.storm = 10s;
  const outcome one = run(with, {});
  CHECK(breaches(one, with).empty());
  std::map<std::uint64_t, time_point> began;
  int joined = 0;
  for (const entry& e : one.log) {
    if (e.is == what::began) began[e.process] = e.at;
    if (e.is != what::joined) continue;
    ++joined;
    CHECK(e.at - began[e.process] < 150ms);
  }
  CHECK(joined == 20);
}

// Where there are many, news are bulletins of many: who joins, dies and comes back at once must not
// cost the head the square of its members in messages.
TEST_CASE("a large cluster agrees soon after many have come, gone and lost their head",
          "[sim][repeats]") {
  run_settings with{.seed = first_seed()};
  with.nodes =
      static_cast<std::size_t>(manta_test::repeats(std::max(manta_test::scaled(150), 20), 1000));
  with.has_bad_network = false;
  with.works = false;
  with.storm = 12s;
  with.calm = 8s;
  std::vector<fault> faults;
  for (std::size_t i = 0; i < with.nodes / 10; ++i) {
    faults.push_back({.at = 4s, .is = fault::what::crash, .whom = i * 10});
  }
  faults.push_back({.at = 8s, .is = fault::what::head_crash, .lasts = 500ms});
  const auto start = std::chrono::steady_clock::now();
  const outcome one = run(with, faults);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  for (const std::string& breach : breaches(one, with)) UNSCOPED_INFO(breach);
  CHECK(breaches(one, with).empty());
  CHECK(one.views.size() == with.nodes);
  for (const auto& [process, view] : one.views) {
    if (view.size() != with.nodes) FAIL(process << " sees " << view.size());
  }
  // Of each member a heartbeat and its answer 4 times a second, and as much again for news.
  const double seconds = std::chrono::duration<double>(with.storm + with.calm).count();
  const double each = one.carried.messages / static_cast<double>(with.nodes) / seconds;
  CHECK(each < 16);
  std::printf("sim: %zu nodes, %.0f s, %d messages (%.1f a second and node), %.1f s\n", with.nodes,
              seconds, one.carried.messages, each, took.count());
}

}  // namespace sim
