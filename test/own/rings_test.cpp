// SPDX-License-Identifier: Apache-2.0
#include "own/rings.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

// Jobs in nodes that come to stand for each other one after the other, in any order, while probes
// are under way for any time. What is in a ring is found by looking at all of it.

namespace manta_test::rings_test {
namespace {

using manta::own::edge;
using manta::own::follow_ring;
using manta::own::most_ring_steps;
using manta::own::ring_probe;
using manta::own::ring_step;
using manta_test::dice;
using manta_test::repeats;
using manta_test::run_seed;

// What a node may do wrong.
enum class plant : std::uint8_t {
  none,
  no_probe,
  passes_on_none,
  closes_all,
  forgets_first,
  count
};

struct house {
  struct job {
    std::uint64_t node = 0;
    std::optional<std::size_t> stands_for;  // each at most once
    bool is_ended = false;                  // its edge was
  };
  struct letter {
    ring_probe of;
    std::size_t about = 0;
  };

  // Out of a job's node, when what it stands for is elsewhere.
  std::optional<edge> edge_of(std::size_t j) const {
    const auto to = jobs[j].stands_for;
    if (!to || jobs[j].is_ended || jobs[*to].node == jobs[j].node) return std::nullopt;
    return edge{jobs[j].node, 0, j};
  }
  // The last one of its part here: what stands for nothing, has ended, or leads out.
  std::size_t end_here(std::size_t j) const {
    while (jobs[j].stands_for && !jobs[j].is_ended && !edge_of(j)) j = *jobs[j].stands_for;
    return j;
  }
  // Within a node a ring is seen as it is made.
  bool closes_here(std::size_t from, std::size_t to) const { return end_here(to) == from; }

  void link(std::size_t from, std::size_t to) {
    if (jobs[from].node == jobs[to].node && closes_here(from, to)) return;
    jobs[from].stands_for = to;
    made.emplace_back(from, to);
    const std::size_t end = end_here(from);
    const auto out = edge_of(end);
    if (!out || broken == plant::no_probe) return;
    letters.push_back({{*out, 0}, *jobs[end].stands_for});
  }

  void deliver(std::size_t which) {
    letter one = letters[which];
    letters.erase(letters.begin() + static_cast<std::ptrdiff_t>(which));
    const std::size_t end = end_here(one.about);
    const auto out = edge_of(end);
    ring_step is = follow_ring(one.of, out);
    if (broken == plant::passes_on_none && is == ring_step::passes_on) is = ring_step::ends;
    if (broken == plant::closes_all && is == ring_step::passes_on) is = ring_step::closes;
    if (broken == plant::forgets_first && is == ring_step::passes_on) one.of.first.node = 0;
    switch (is) {
      case ring_step::ends:
        return;
      case ring_step::passes_on:
        return letters.push_back({one.of, *jobs[end].stands_for});
      case ring_step::closes:
        ended.push_back(end);
        jobs[end].is_ended = true;
        return;
    }
  }

  // Whether a ring goes through it, of all links that were ever made.
  bool is_in_ring(std::size_t j) const {
    std::size_t at = j;
    for (std::size_t i = 0; i <= jobs.size(); ++i) {
      if (!jobs[at].stands_for) return false;
      at = *jobs[at].stands_for;
      if (at == j) return true;
    }
    return false;
  }
  // Whether one is left that waits for itself.
  bool waits_for_itself(std::size_t j) const {
    std::size_t at = j;
    for (std::size_t i = 0; i <= jobs.size(); ++i) {
      if (!jobs[at].stands_for || jobs[at].is_ended) return false;
      at = *jobs[at].stands_for;
      if (at == j) return true;
    }
    return false;
  }

  plant broken = plant::none;
  std::vector<job> jobs;
  std::vector<letter> letters;
  std::vector<std::pair<std::size_t, std::size_t>> made;
  std::vector<std::size_t> ended;
};

// Empty: all is as it has to be.
std::string run(std::uint64_t seed, plant broken, std::size_t& rings) {
  dice roll(seed);
  house all;
  all.broken = broken;
  const std::size_t nodes = 2 + roll.below(4);
  const std::size_t count = 2 + roll.below(14);
  for (std::size_t i = 0; i < count; ++i) all.jobs.push_back({1 + roll.below(nodes), {}, false});
  std::vector<std::size_t> free(count);
  for (std::size_t i = 0; i < count; ++i) free[i] = i;
  while (!free.empty() || !all.letters.empty()) {
    const bool links = !free.empty() && (all.letters.empty() || roll.below(3) == 0);
    if (!links) {
      all.deliver(roll.below(all.letters.size()));
      continue;
    }
    const std::size_t at = roll.below(free.size());
    const std::size_t from = std::exchange(free[at], free.back());
    free.pop_back();
    const std::size_t to = roll.below(count);
    if (to != from && roll.below(8) != 0) all.link(from, to);
  }
  for (const std::size_t one : all.ended) {
    if (!all.is_in_ring(one)) return "one was ended that is in no ring";
    ++rings;
  }
  for (std::size_t j = 0; j < count; ++j) {
    if (all.waits_for_itself(j)) return "one waits for itself";
  }
  return {};
}

}  // namespace

TEST_CASE("each ring of delegations through several nodes is found, and nothing else", "[own]") {
  std::size_t rings = 0;
  const auto runs = static_cast<std::uint64_t>(repeats(20'000, 400'000));
  for (std::uint64_t i = 0; i < runs; ++i) {
    const std::uint64_t seed = run_seed() + i;
    const std::string wrong = run(seed, plant::none, rings);
    if (wrong.empty()) continue;
    CAPTURE(seed);
    FAIL(wrong);
  }
  CHECK(rings > runs / 20);
}

TEST_CASE("a node that follows delegations wrongly is caught", "[own]") {
  for (std::uint8_t p = 1; p < static_cast<std::uint8_t>(plant::count); ++p) {
    CAPTURE(static_cast<int>(p));
    bool is_caught = false;
    std::size_t rings = 0;
    for (std::uint64_t seed = 1; seed < 2000 && !is_caught; ++seed) {
      is_caught = !run(seed, static_cast<plant>(p), rings).empty();
    }
    CHECK(is_caught);
  }
}

TEST_CASE("a probe in a ring that it does not belong to comes to its end", "[own]") {
  ring_probe lost{{1, 0, 1}, 0};
  const edge other{2, 0, 7};
  std::uint32_t steps = 0;
  while (follow_ring(lost, other) == ring_step::passes_on) ++steps;
  CHECK(steps == most_ring_steps);
}

}  // namespace manta_test::rings_test
