// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../common/random.hpp"

// A square block of numbers, row by row, and what is computed with one, two or three of them. The
// block that changes comes in by value and goes out as the result: when it is the last of its kind
// it is moved, and the work is done in place. Nothing here knows of manta.
namespace blocks {

struct block {
  std::size_t size = 0;
  std::vector<double> values;

  explicit block(std::size_t rows = 0) : size(rows), values(rows * rows) {}
  double* row(std::size_t i) { return values.data() + i * size; }
  const double* row(std::size_t i) const { return values.data() + i * size; }
  bool operator==(const block&) const = default;

  // How a block goes to another process: it has a constructor, so its fields can't be seen.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(size, values);
  }
};

// What a matrix is made of: element (i, j) and (j, i) are the same number between -1 and 1, plus
// `diagonal` where i = j.
struct recipe {
  std::uint64_t seed = 1;
  double diagonal = 0;
};

inline double element(const recipe& of, std::size_t i, std::size_t j) {
  if (i < j) std::swap(i, j);
  examples::random_stream random(examples::sub_seed(examples::sub_seed(of.seed, i), j));
  return 2 * random.unit() - 1 + (i == j ? of.diagonal : 0.0);
}

// Block (row, column) of the matrix.
inline block make(recipe of, std::size_t row, std::size_t column, std::size_t size) {
  block out(size);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) {
      out.row(i)[j] = element(of, row * size + i, column * size + j);
    }
  }
  return out;
}

inline block transposed(const block& a) {
  block out(a.size);
  for (std::size_t i = 0; i < a.size; ++i) {
    for (std::size_t j = 0; j < a.size; ++j) out.row(j)[i] = a.row(i)[j];
  }
  return out;
}

// c + sign a b. Four rows of b at a time, so that a row of c is read and written less often.
inline void multiply_into(block& c, double sign, const block& a, const block& b) {
  const std::size_t n = c.size;
  for (std::size_t i = 0; i < n; ++i) {
    double* const to = c.row(i);
    std::size_t k = 0;
    for (; k + 4 <= n; k += 4) {
      const double x0 = sign * a.row(i)[k];
      const double x1 = sign * a.row(i)[k + 1];
      const double x2 = sign * a.row(i)[k + 2];
      const double x3 = sign * a.row(i)[k + 3];
      const double* const b0 = b.row(k);
      const double* const b1 = b.row(k + 1);
      const double* const b2 = b.row(k + 2);
      const double* const b3 = b.row(k + 3);
      for (std::size_t j = 0; j < n; ++j) {
        to[j] += x0 * b0[j] + x1 * b1[j] + x2 * b2[j] + x3 * b3[j];
      }
    }
    for (; k < n; ++k) {
      const double x = sign * a.row(i)[k];
      for (std::size_t j = 0; j < n; ++j) to[j] += x * b.row(k)[j];
    }
  }
}

inline block product(const block& a, const block& b) {
  block c(a.size);
  multiply_into(c, 1, a, b);
  return c;
}

inline block plus_product(block c, const block& a, const block& b) {
  multiply_into(c, 1, a, b);
  return c;
}

// c - a b^T.
inline block minus_product(block c, const block& a, const block& b) {
  multiply_into(c, -1, a, transposed(b));
  return c;
}

// The lower triangular l with l l^T = a.
inline block factor(block a) {
  const std::size_t n = a.size;
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t j = 0; j < k; ++j) a.row(k)[k] -= a.row(k)[j] * a.row(k)[j];
    if (!(a.row(k)[k] > 0)) throw std::domain_error("the matrix is not positive definite");
    const double root = std::sqrt(a.row(k)[k]);
    a.row(k)[k] = root;
    for (std::size_t i = k + 1; i < n; ++i) {
      double sum = a.row(i)[k];
      for (std::size_t j = 0; j < k; ++j) sum -= a.row(i)[j] * a.row(k)[j];
      a.row(i)[k] = sum / root;
    }
    for (std::size_t j = k + 1; j < n; ++j) a.row(k)[j] = 0;
  }
  return a;
}

// The x with x l^T = a.
inline block solve(block a, const block& l) {
  const std::size_t n = a.size;
  const block u = transposed(l);
  for (std::size_t i = 0; i < n; ++i) {
    double* const x = a.row(i);
    for (std::size_t k = 0; k < n; ++k) {
      x[k] /= u.row(k)[k];
      for (std::size_t j = k + 1; j < n; ++j) x[j] -= x[k] * u.row(k)[j];
    }
  }
  return a;
}

}  // namespace blocks
