// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "random_stream.hpp"

namespace es {

// All weights and biases of a policy, flat; a gradient has the same shape.
using parameters = std::vector<double>;

// A multi-layer perceptron with one hidden layer of rectified units and one output. Rectified and
// not squashed: ES needs no smooth derivative, and a step takes a fifth of the time it takes
// with tanh. Laid out as one row per hidden unit (its weights, its bias, its
// weight in the output), then the output's bias. It views its parameters; they must outlive it.
template <std::size_t Inputs, std::size_t Hidden = 16>
class perceptron {
 public:
  static constexpr std::size_t row = Inputs + 2;
  static constexpr std::size_t size = row * Hidden + 1;

  explicit perceptron(std::span<const double, size> values) : values_(values) {}

  double signal(const std::array<double, Inputs>& observation) const {
    double output = values_[size - 1];
    for (std::size_t unit = 0; unit < Hidden; ++unit) {
      const double* weights = values_.data() + unit * row;
      double sum = weights[Inputs];
      for (std::size_t i = 0; i < Inputs; ++i) sum += weights[i] * observation[i];
      if (sum > 0.0) output += weights[Inputs + 1] * sum;
    }
    return output;
  }

  // Random weights from the inputs, scaled to their number; all else zero, so that the search
  // begins from a policy that does nothing; more seeds pass at the first attempt than with random
  // output weights.
  static parameters fresh(std::uint64_t seed) {
    random_stream random(seed);
    parameters values(size, 0.0);
    for (std::size_t unit = 0; unit < Hidden; ++unit) {
      double* weights = values.data() + unit * row;
      for (std::size_t i = 0; i < Inputs; ++i) {
        weights[i] = random.normal() / std::sqrt(static_cast<double>(Inputs));
      }
    }
    return values;
  }

 private:
  std::span<const double, size> values_;
};

}  // namespace es
