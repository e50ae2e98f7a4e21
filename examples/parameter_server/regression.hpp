// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../common/random.hpp"

// Logistic regression with a quadratic penalty: the loss, its gradient, and the exact optimum by
// Newton's method. Nothing here knows of manta.
namespace ps {

using vector = std::vector<double>;

// Keeps the optimum unique: penalty / 2 |w|^2 is added to the mean loss.
constexpr double penalty = 0.01;

// Rows of features, each with a label 0 or 1.
struct samples {
  std::size_t features = 0;
  vector rows;
  vector labels;

  std::size_t count() const { return labels.size(); }
  std::span<const double> row(std::size_t i) const {
    return std::span<const double>(rows).subspan(i * features, features);
  }
};

inline double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline double probability(double z) {
  return z >= 0 ? 1 / (1 + std::exp(-z)) : std::exp(z) / (1 + std::exp(z));
}

// Normal features; labels drawn with the probability that hidden weights give.
inline samples draw_samples(std::uint64_t seed, std::size_t count, std::size_t features) {
  examples::random_stream random(seed);
  vector hidden(features);
  for (double& w : hidden) w = random.normal();
  samples out{.features = features, .rows = {}, .labels = {}};
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t f = 0; f < features; ++f) out.rows.push_back(random.normal());
    const double chance = probability(dot(out.row(i), hidden));
    out.labels.push_back(random.unit() < chance ? 1 : 0);
  }
  return out;
}

// Part `part` of `parts` of the samples.
inline samples slice(const samples& all, std::size_t part, std::size_t parts) {
  samples out{.features = all.features, .rows = {}, .labels = {}};
  for (std::size_t i = all.count() * part / parts; i < all.count() * (part + 1) / parts; ++i) {
    out.rows.insert(out.rows.end(), all.row(i).begin(), all.row(i).end());
    out.labels.push_back(all.labels[i]);
  }
  return out;
}

// The mean loss with its penalty.
inline double loss(const samples& all, const vector& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < all.count(); ++i) {
    const double z = dot(all.row(i), weights);
    // log(1 + e^z) - y z, without overflow.
    sum += std::log1p(std::exp(-std::fabs(z))) + (z > 0 ? z : 0) - all.labels[i] * z;
  }
  return sum / static_cast<double>(all.count()) + penalty / 2 * dot(weights, weights);
}

// The sum, not the mean, of the loss's gradient over these samples, without the penalty: parts of
// the samples add up.
inline vector gradient_sum(const samples& some, const vector& weights) {
  vector sum(some.features);
  for (std::size_t i = 0; i < some.count(); ++i) {
    const std::span<const double> row = some.row(i);
    const double miss = probability(dot(row, weights)) - some.labels[i];
    for (std::size_t f = 0; f < sum.size(); ++f) sum[f] += miss * row[f];
  }
  return sum;
}

// A step that can't overshoot: one over the largest curvature, of which normal features have about
// (1 + sqrt(features / count))^2 / 4 (Marchenko, Pastur 1967), and half as much again to be safe.
inline double safe_rate(std::size_t count, std::size_t features) {
  const double edge = 1 + std::sqrt(static_cast<double>(features) / static_cast<double>(count));
  return 1 / (1.5 * edge * edge / 4 + penalty);
}

// The length of the whole gradient: zero at the optimum.
inline double slope(const samples& all, const vector& weights) {
  vector g = gradient_sum(all, weights);
  for (std::size_t f = 0; f < g.size(); ++f) {
    g[f] = g[f] / static_cast<double>(all.count()) + penalty * weights[f];
  }
  return std::sqrt(dot(g, g));
}

// Solves a x = b for a symmetric positive definite a, row by row, by Gauss.
inline vector solve(vector a, vector b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / a[k * n + k];
      for (std::size_t j = k; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
      b[i] -= factor * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k * n + j] * b[j];
    b[k] /= a[k * n + k];
  }
  return b;
}

// The optimum: Newton's steps, halved while they would raise the loss.
inline vector newton(const samples& all) {
  const std::size_t n = all.features;
  const double count = static_cast<double>(all.count());
  vector weights(n);
  for (int step = 0; step < 100; ++step) {
    if (slope(all, weights) < 1e-12) return weights;
    vector g = gradient_sum(all, weights);
    vector hessian(n * n);
    for (std::size_t i = 0; i < all.count(); ++i) {
      const std::span<const double> row = all.row(i);
      const double p = probability(dot(row, weights));
      for (std::size_t j = 0; j < n * n; ++j) {
        hessian[j] += p * (1 - p) * row[j / n] * row[j % n] / count;
      }
    }
    for (std::size_t f = 0; f < n; ++f) {
      g[f] = g[f] / count + penalty * weights[f];
      hessian[f * n + f] += penalty;
    }
    const vector full = solve(std::move(hessian), std::move(g));
    const double before = loss(all, weights);
    for (double part = 1; part > 1e-6; part /= 2) {
      vector next = weights;
      for (std::size_t f = 0; f < n; ++f) next[f] -= part * full[f];
      if (loss(all, next) > before && part > 2e-6) continue;
      weights = std::move(next);
      break;
    }
  }
  if (slope(all, weights) < 1e-9) return weights;
  throw std::runtime_error("Newton's method found no optimum in 100 steps");
}

}  // namespace ps
