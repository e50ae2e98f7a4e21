// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../common/random.hpp"
#include "block.hpp"
#include "matrix.hpp"

// Checks that share no loop with what they check: a matrix is applied to a vector of -1 and 1,
// which takes n^2 steps instead of n^3 (Freivalds 1977), element by element.
namespace blocks {

using vector = std::vector<double>;

inline vector signs(std::uint64_t seed, std::size_t n) {
  examples::random_stream random(seed);
  vector x(n);
  for (double& one : x) one = (random.bits() & 1) != 0 ? 1 : -1;
  return x;
}

// The sum over j of at(i, j) x_j for every i.
template <class At>
vector applied(std::size_t n, const vector& x, At at) {
  vector y(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) y[i] += at(i, j) * x[j];
  }
  return y;
}

// How far apart two vectors are, in units of n times the longer one's greatest element.
inline double distance(const vector& a, const vector& b) {
  double most = 0;
  double off = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max({most, std::fabs(a[i]), std::fabs(b[i])});
    off = std::max(off, std::fabs(a[i] - b[i]));
  }
  return off / (most * static_cast<double>(a.size()));
}

// One number of a matrix of blocks of `size`.
inline double number(const remote_matrix& m, std::size_t size, std::size_t i, std::size_t j) {
  return m.at(i / size, j / size).get().row(i % size)[j % size];
}

inline double product_residual(const remote_matrix& c, recipe a, recipe b, std::size_t size) {
  const std::size_t n = c.blocks() * size;
  const vector x = signs(a.seed + 99, n);
  const vector bx = applied(n, x, [&](auto i, auto j) { return element(b, i, j); });
  const vector abx = applied(n, bx, [&](auto i, auto j) { return element(a, i, j); });
  return distance(applied(n, x, [&](auto i, auto j) { return number(c, size, i, j); }), abx);
}

inline double factor_residual(const remote_matrix& l, recipe a, std::size_t size) {
  const std::size_t n = l.blocks() * size;
  const auto lower = [&](std::size_t i, std::size_t j) {
    return j <= i ? number(l, size, i, j) : 0.0;
  };
  const vector x = signs(a.seed + 98, n);
  const vector up = applied(n, x, [&](auto i, auto j) { return lower(j, i); });
  return distance(applied(n, up, lower),
                  applied(n, x, [&](auto i, auto j) { return element(a, i, j); }));
}

// Whether the blocks on and below the diagonal (or all) are the same, bit by bit.
inline bool is_same(const matrix& a, const remote_matrix& b, bool is_lower) {
  for (std::size_t i = 0; i < a.blocks(); ++i) {
    for (std::size_t j = 0; j < (is_lower ? i + 1 : a.blocks()); ++j) {
      if (!(a.at(i, j) == b.at(i, j).get())) return false;
    }
  }
  return true;
}

}  // namespace blocks
