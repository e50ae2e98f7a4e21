// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "policy.hpp"
#include "random_stream.hpp"

namespace es {

// Replaces scores by their ranks, spread evenly over [-0.5, 0.5]: one lucky score cannot dominate,
// and any increasing change of the reward leaves the search as it was. Equal scores share the mean
// of their ranks, so that a draw between a candidate and its mirror image pulls nowhere. Requires
// that no score is NaN.
inline std::vector<double> centred_ranks(const std::vector<double>& scores) {
  const std::size_t count = scores.size();
  std::vector<double> ranks(count, 0.0);
  if (count < 2) return ranks;
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&scores](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  for (std::size_t first = 0, last = 0; first < count; first = last) {
    while (last < count && scores[order[last]] == scores[order[first]]) ++last;
    const double middle = 0.5 * static_cast<double>(first + last - 1);
    for (std::size_t i = first; i < last; ++i) {
      ranks[order[i]] = middle / static_cast<double>(count - 1) - 0.5;
    }
  }
  return ranks;
}

// One direction of noise and how much the update wants of it.
struct weighted_seed {
  std::uint64_t noise_seed = 0;
  double weight = 0.0;
};

// A leaf of the aggregation tree: sums the weighted noise of its part of the population. The noise
// is made again from its seeds, so nothing of a policy's size has travelled to it.
class noise_leaf {
 public:
  explicit noise_leaf(std::size_t dimension) : dimension_(dimension) {}

  parameters sum(const std::vector<weighted_seed>& part) {
    parameters total(dimension_, 0.0);
    for (const weighted_seed& w : part) {
      random_stream noise(w.noise_seed);
      for (double& t : total) t += w.weight * noise.normal();
    }
    return total;
  }

 private:
  std::size_t dimension_;
};

// The root: adds the leaves' sums, always in their order, since floating-point sums depend on it,
// and climbs by gradient ascent with momentum. It owns the policy and the momentum.
class trainer {
 public:
  trainer(parameters start, double learning_rate)
      : policy_(std::move(start)), learning_rate_(learning_rate), velocity_(policy_.size(), 0.0) {}

  parameters update(std::vector<parameters> parts) {
    for (std::size_t i = 0; i < policy_.size(); ++i) {
      double gradient = 0.0;
      for (const parameters& part : parts) gradient += part[i];
      velocity_[i] = momentum * velocity_[i] + (1.0 - momentum) * gradient;
      policy_[i] += learning_rate_ * velocity_[i];
    }
    return policy_;
  }

 private:
  static constexpr double momentum = 0.9;

  parameters policy_;
  double learning_rate_;
  parameters velocity_;
};

}  // namespace es
