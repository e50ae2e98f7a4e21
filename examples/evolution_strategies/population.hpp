// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "evolution.hpp"
#include "random_stream.hpp"
#include "rollout.hpp"

namespace es {

// The sizes of the search; they fit both environments. 2 x 250 x 4 + 100 = 2,100 rollouts.
struct recipe {
  int pairs = 250;     // candidates come in pairs, mirrored at the policy
  int episodes = 4;    // each candidate plays these; all play the same ones
  int probes = 100;    // fresh episodes of the unmoved policy
  double sigma = 0.1;  // how far a candidate is from the policy
  double learning_rate = 1.0;
  int generations = 100;  // then the attempt is given up and the next starts afresh
  int leaves = 8;         // fixed, not the machine's cores: it decides the order of sums
};

// What a generation's outcomes say.
struct verdict {
  double population_mean = 0.0;
  double probe_mean = 0.0;
  std::size_t cut = 0;                             // rollouts that did not arrive
  std::vector<std::vector<weighted_seed>> slices;  // a share for each leaf
};

// One generation as a pure function of its seed: which rollouts to ask for, and what follows from
// their outcomes, in whatever order those come. A pair that lacks an outcome is left out of the
// update as a whole; when none is missing, the verdict depends on the seed and the policy alone.
//
//   trials:  | pair 0: + + + + - - - - | pair 1: + + + + - - - - | ... | probes |
class population {
 public:
  population(const recipe& r, std::uint64_t seed) : recipe_(r), seed_(seed) {
    trials_.reserve(static_cast<std::size_t>(2 * r.pairs * r.episodes + r.probes));
    for (int pair = 0; pair < r.pairs; ++pair) {
      for (double reach : {r.sigma, -r.sigma}) {
        for (int episode = 0; episode < r.episodes; ++episode) {
          add(reach, noise_seed(pair), part(2, episode));
        }
      }
    }
    for (int probe = 0; probe < r.probes; ++probe) add(0.0, 0, part(3, probe));
  }

  const std::vector<trial>& trials() const { return trials_; }

  verdict judge(const std::vector<outcome>& outcomes) const {
    std::vector<double> scores(trials_.size(), missing());
    for (const outcome& o : outcomes) scores[static_cast<std::size_t>(o.index)] = o.score;

    verdict v;
    v.cut = trials_.size() - outcomes.size();
    const std::size_t tested = trials_.size() - static_cast<std::size_t>(recipe_.probes);
    v.population_mean = mean(scores, 0, tested);
    v.probe_mean = mean(scores, tested, scores.size());
    v.slices = sliced(complete_pairs(scores));
    return v;
  }

 private:
  static double missing() { return std::numeric_limits<double>::quiet_NaN(); }

  // The mean of what is there, summed in the order of the trials.
  static double mean(const std::vector<double>& scores, std::size_t first, std::size_t last) {
    double sum = 0.0;
    int count = 0;
    for (std::size_t i = first; i < last; ++i) {
      if (std::isnan(scores[i])) continue;
      sum += scores[i];
      ++count;
    }
    return count == 0 ? missing() : sum / count;
  }

  std::vector<weighted_seed> complete_pairs(const std::vector<double>& scores) const {
    std::vector<weighted_seed> kept;
    std::vector<double> totals;  // of the kept: plus, minus, plus, minus, ...
    const auto episodes = static_cast<std::size_t>(recipe_.episodes);
    for (int pair = 0; pair < recipe_.pairs; ++pair) {
      const std::size_t first = static_cast<std::size_t>(pair) * 2 * episodes;
      double plus = 0.0;
      double minus = 0.0;
      for (std::size_t i = 0; i < episodes; ++i) {
        plus += scores[first + i];
        minus += scores[first + episodes + i];
      }
      if (std::isnan(plus + minus)) continue;
      kept.push_back({.noise_seed = noise_seed(pair), .weight = 0.0});
      totals.insert(totals.end(), {plus, minus});
    }
    const std::vector<double> ranks = centred_ranks(totals);
    const double scale = 1.0 / (2.0 * static_cast<double>(kept.size()) * recipe_.sigma);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      kept[i].weight = scale * (ranks[2 * i] - ranks[2 * i + 1]);
    }
    return kept;
  }

  std::vector<std::vector<weighted_seed>> sliced(const std::vector<weighted_seed>& all) const {
    const auto leaves = static_cast<std::size_t>(recipe_.leaves);
    std::vector<std::vector<weighted_seed>> slices(leaves);
    for (std::size_t i = 0; i < all.size(); ++i) slices[i * leaves / all.size()].push_back(all[i]);
    return slices;
  }

  void add(double reach, std::uint64_t noise, std::uint64_t episode) {
    trials_.push_back({.index = static_cast<int>(trials_.size()),
                       .reach = reach,
                       .noise_seed = noise,
                       .episode_seed = episode});
  }
  std::uint64_t noise_seed(int pair) const { return part(1, pair); }
  std::uint64_t part(std::uint64_t use, int number) const {
    return seed_of({seed_, use, static_cast<std::uint64_t>(number)});
  }

  recipe recipe_;
  std::uint64_t seed_;
  std::vector<trial> trials_;
};

}  // namespace es
