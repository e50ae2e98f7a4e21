// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "../common/random.hpp"

// What is trained: a sum of random waves, fitted by gradient descent with momentum to points of a
// wavy surface. How well that goes hangs on its settings. Nothing here knows of manta.
namespace tuning {

// The settings to be found.
struct settings {
  double rate = 0;      // step of the gradient descent
  double momentum = 0;  // how much of the last step is kept
  double pitch = 0;     // how fast the waves go up and down
  std::size_t waves = 0;
};

// Settings number `trial`; rate and pitch spread over orders of magnitude.
inline settings drawn(std::uint64_t seed, std::size_t trial) {
  examples::random_stream random(examples::sub_seed(seed, trial));
  settings out;
  out.rate = 0.002 * std::pow(500.0, random.unit());
  out.momentum = 0.95 * random.unit();
  out.pitch = 0.1 * std::pow(100.0, random.unit());
  out.waves = 8 + random.below(57);
  return out;
}

struct point {
  double x = 0;
  double y = 0;
  double height = 0;
};

inline std::vector<point> drawn_points(std::uint64_t seed, std::size_t count) {
  examples::random_stream random(examples::sub_seed(seed, 1'000'003));
  std::vector<point> out(count);
  for (point& p : out) {
    p.x = 2 * random.unit() - 1;
    p.y = 2 * random.unit() - 1;
    p.height = std::sin(3 * p.x) * std::cos(2 * p.y) + 0.05 * random.normal();
  }
  return out;
}

// How far the training of one fold has come. A fold leaves out every folds-th point and is judged
// by these.
constexpr std::size_t folds = 3;
struct fold {
  std::size_t number = 0;
  std::vector<double> weights;
  std::vector<double> velocity;
  double loss = std::numeric_limits<double>::infinity();  // mean square on what was left out
};

// The waves at one point; the same ones in every fold and call.
inline std::vector<double> waves_at(const settings& with, const point& p) {
  examples::random_stream random(7);
  std::vector<double> out(with.waves);
  for (double& one : out) {
    const double along_x = with.pitch * random.normal();
    const double along_y = with.pitch * random.normal();
    one = std::cos(along_x * p.x + along_y * p.y + 6.2831853 * random.unit());
  }
  return out;
}

inline double miss_at(const fold& f, const std::vector<double>& waves, const point& p) {
  double height = 0;
  for (std::size_t i = 0; i < waves.size(); ++i) height += f.weights[i] * waves[i];
  return height - p.height;
}

// `epochs` more steps of one fold. `step` is called before each and may throw to end it.
template <class Step>
fold trained(const settings& with, fold f, const std::vector<point>& points, int epochs,
             Step step) {
  f.weights.resize(with.waves);
  f.velocity.resize(with.waves);
  std::vector<std::vector<double>> waves;
  for (const point& p : points) waves.push_back(waves_at(with, p));
  for (int epoch = 0; epoch < epochs; ++epoch) {
    step();
    std::vector<double> slope(with.waves);
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (i % folds == f.number) continue;
      const double miss = miss_at(f, waves[i], points[i]);
      for (std::size_t j = 0; j < slope.size(); ++j) slope[j] += miss * waves[i][j];
    }
    for (std::size_t j = 0; j < slope.size(); ++j) {
      const double share = 1.0 / static_cast<double>(points.size());
      f.velocity[j] = with.momentum * f.velocity[j] - with.rate * slope[j] * share;
      f.weights[j] += f.velocity[j];
    }
  }
  double squares = 0;
  std::size_t count = 0;
  for (std::size_t i = f.number; i < points.size(); i += folds, ++count) {
    const double miss = miss_at(f, waves[i], points[i]);
    squares += miss * miss;
  }
  f.loss = count == 0 ? 0 : squares / static_cast<double>(count);
  // Steps that are too long run away; that is as bad as can be.
  if (!std::isfinite(f.loss)) f.loss = std::numeric_limits<double>::max() / 8;
  return f;
}

}  // namespace tuning
