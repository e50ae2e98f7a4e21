// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/manta.hpp>

#include <cstddef>
#include <utility>
#include <vector>

#include "block.hpp"

// Two matrices of blocks that can do the same; read them side by side. `matrix` holds blocks,
// `remote_matrix` holds futures of blocks: a distributed object is a table of handles.
namespace blocks {

template <class Block>
class table {
 public:
  explicit table(std::size_t blocks) : blocks_(blocks), at_(blocks * blocks) {}

  std::size_t blocks() const { return blocks_; }
  Block& at(std::size_t i, std::size_t j) { return at_[i * blocks_ + j]; }
  const Block& at(std::size_t i, std::size_t j) const { return at_[i * blocks_ + j]; }

 private:
  std::size_t blocks_;
  std::vector<Block> at_;
};

class matrix : public table<block> {
 public:
  using table::table;

  static matrix made(recipe of, std::size_t blocks, std::size_t size) {
    matrix out(blocks);
    for (std::size_t i = 0; i < blocks; ++i) {
      for (std::size_t j = 0; j < blocks; ++j) out.at(i, j) = make(of, i, j, size);
    }
    return out;
  }

  friend matrix operator*(const matrix& a, const matrix& b) {
    matrix c(a.blocks());
    for (std::size_t i = 0; i < a.blocks(); ++i) {
      for (std::size_t j = 0; j < a.blocks(); ++j) {
        c.at(i, j) = product(a.at(i, 0), b.at(0, j));
        for (std::size_t k = 1; k < a.blocks(); ++k) {
          c.at(i, j) = plus_product(std::move(c.at(i, j)), a.at(i, k), b.at(k, j));
        }
      }
    }
    return c;
  }

  // The lower triangular l with l l^T = a; what is above the diagonal is left as it was.
  friend matrix cholesky(matrix a) {
    const std::size_t n = a.blocks();
    for (std::size_t k = 0; k < n; ++k) {
      a.at(k, k) = factor(std::move(a.at(k, k)));
      for (std::size_t i = k + 1; i < n; ++i) a.at(i, k) = solve(std::move(a.at(i, k)), a.at(k, k));
      for (std::size_t i = k + 1; i < n; ++i) {
        for (std::size_t j = k + 1; j <= i; ++j) {
          a.at(i, j) = minus_product(std::move(a.at(i, j)), a.at(i, k), a.at(j, k));
        }
      }
    }
    return a;
  }
};

// Each operation below only writes down who needs what and returns at once. There is no barrier
// between steps: a block of step k + 1 begins as soon as its own inputs are there.
class remote_matrix : public table<manta::future<block>> {
 public:
  using table::table;

  static remote_matrix made(recipe of, std::size_t blocks, std::size_t size) {
    remote_matrix out(blocks);
    for (std::size_t i = 0; i < blocks; ++i) {
      for (std::size_t j = 0; j < blocks; ++j) {
        out.at(i, j) = manta::remote<make>(of, i, j, size);
      }
    }
    return out;
  }

  friend remote_matrix operator*(const remote_matrix& a, const remote_matrix& b) {
    remote_matrix c(a.blocks());
    for (std::size_t i = 0; i < a.blocks(); ++i) {
      for (std::size_t j = 0; j < a.blocks(); ++j) {
        c.at(i, j) = manta::remote<product>(a.at(i, 0), b.at(0, j));
        for (std::size_t k = 1; k < a.blocks(); ++k) {
          // Moved: the task holds the only handle to the sum so far, so it adds to it in place.
          c.at(i, j) = manta::remote<plus_product>(std::move(c.at(i, j)), a.at(i, k), b.at(k, j));
        }
      }
    }
    return c;
  }

  friend remote_matrix cholesky(remote_matrix a) {
    const std::size_t n = a.blocks();
    for (std::size_t k = 0; k < n; ++k) {
      a.at(k, k) = manta::remote<factor>(std::move(a.at(k, k)));
      for (std::size_t i = k + 1; i < n; ++i) {
        a.at(i, k) = manta::remote<solve>(std::move(a.at(i, k)), a.at(k, k));
      }
      for (std::size_t i = k + 1; i < n; ++i) {
        for (std::size_t j = k + 1; j <= i; ++j) {
          a.at(i, j) = manta::remote<minus_product>(std::move(a.at(i, j)), a.at(i, k), a.at(j, k));
        }
      }
    }
    return a;
  }

  // Waits for all blocks; throws the error of the first one that failed. Copies nothing.
  void wait() const {
    for (std::size_t i = 0; i < blocks(); ++i) {
      for (std::size_t j = 0; j < blocks(); ++j) at(i, j).get();
    }
  }
};

}  // namespace blocks
