// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model.hpp"

// Successive halving: all trials train a little, the worse half is out, the others train twice as
// long, and so on until one is left (Jamieson and Talwalkar 2016). Nothing here knows of manta.
namespace tuning {

struct request {
  std::size_t trials = 0;
  std::size_t points = 0;
  int epochs = 0;  // of the first rung; each next one has twice as many
  std::uint64_t seed = 0;
};

// How many are left after each rung: 13 -> 7 -> 4 -> 2 -> 1.
inline std::size_t kept_of(std::size_t trials) { return (trials + 1) / 2; }

inline std::size_t rungs_of(const request& asked) {
  std::size_t rungs = 1;
  for (std::size_t left = asked.trials; left > 1; left = kept_of(left)) ++rungs;
  return rungs;
}

inline int epochs_of(const request& asked, std::size_t rung) { return asked.epochs << rung; }

// A trial's loss at the end of a rung: the mean over its folds.
struct report {
  std::size_t trial = 0;
  std::size_t rung = 0;
  double loss = 0;
};

// Moves the better half to the front, the best one first; equal losses in the order of the trials.
inline std::size_t ranked(std::vector<report>& rung) {
  std::sort(rung.begin(), rung.end(), [](const report& a, const report& b) {
    return a.loss != b.loss ? a.loss < b.loss : a.trial < b.trial;
  });
  return kept_of(rung.size());
}

struct winner {
  std::size_t trial = 0;
  double loss = 0;
  std::int64_t epochs = 0;  // of all trials together, each fold counted
};

// One after the other: what the search on tasks must come to.
inline winner plain_search(const request& asked, const std::vector<point>& points) {
  winner out;
  std::vector<std::vector<fold>> state(asked.trials, std::vector<fold>(folds));
  std::vector<std::size_t> left(asked.trials);
  for (std::size_t t = 0; t < asked.trials; ++t) left[t] = t;
  for (std::size_t rung = 0; rung < rungs_of(asked); ++rung) {
    std::vector<report> reports;
    for (const std::size_t t : left) {
      double loss = 0;
      for (std::size_t k = 0; k < folds; ++k) {
        state[t][k].number = k;
        state[t][k] = trained(drawn(asked.seed, t), state[t][k], points, epochs_of(asked, rung),
                              [&] { ++out.epochs; });
        loss += state[t][k].loss / folds;
      }
      reports.push_back({.trial = t, .rung = rung, .loss = loss});
    }
    const std::size_t kept = ranked(reports);
    left.clear();
    for (std::size_t i = 0; i < kept; ++i) left.push_back(reports[i].trial);
    out.trial = reports.front().trial;
    out.loss = reports.front().loss;
  }
  return out;
}

}  // namespace tuning
