// SPDX-License-Identifier: Apache-2.0
//
// A matrix as a table of futures: products and Cholesky factors as dataflow over blocks.
//
// A distributed object needs no class of the library: it is a table of futures, and an operation on
// it is a loop that writes down which block needs which. Four rows of blocks, Cholesky:
//
//     F                F factor(a)               a_kk = l_kk l_kk^T
//     S  M             S solve(a, l)             l_ik = a_ik l_kk^-T    needs F of its column
//     S  M  M          M minus_product(c, a, b)  a_ij -= l_ik l_jk^T    needs two S of its step
//     S  M  M  M
//
//     F0 -+-> S10 -+-> M11 ----------> F1 --> ...        the loop runs through all steps at once;
//         +-> S20 -+-> M21 --> S21 -> ...                step 1 begins while step 0 is still at its
//         +-> S30 -+-> M31 --> ...                       last blocks: nobody waits for a step
//
// The block that an operation changes is moved from task to task (its future is given away), so a
// chain of updates works in place and copies nothing; blocks that are only read are shared.
//
// The same loops over plain blocks are the serial twin, whose result must be the same to the bit.
// What is right in itself is checked, too: both results are applied to a random vector.
#include <manta/manta.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>

#include "../common/command_line.hpp"
#include "checks.hpp"
#include "matrix.hpp"

namespace {

constexpr const char* help = R"(block_matrix: products and Cholesky factors of matrices of futures

usage: block_matrix [options]
  --blocks N       blocks in a row, 1 to 64 (8)
  --block N        numbers in a block's row, 1 to 1024 (96)
  --rounds N       times that each operation is timed, the best counts; 1 to 1000 (3)
  --diagonal X     added to the diagonal of the matrix that is factored, 0 to 1e9 (its rows)
  --seed N         decides all numbers (1)
  --manta-...      the runtime's, such as --manta-workers=2
  --help           this text

Exit code: 0 all results right, 1 not, 2 bad option.
)";

struct request {
  std::size_t blocks = 0;
  std::size_t size = 0;
  std::int64_t rounds = 0;
  blocks::recipe left;
  blocks::recipe right;
  blocks::recipe definite;

  std::size_t rows() const { return blocks * size; }
};

template <class Work>
double best_seconds(std::int64_t rounds, Work work) {
  double best = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

// One operation both ways; a line about it, and whether the results agree and are right.
template <class Serial, class Remote, class Residual>
bool compare(const request& asked, const char* name, double flops, bool is_lower, Serial serial,
             Remote remote, Residual residual) {
  blocks::matrix plain(0);
  blocks::remote_matrix futures(0);
  const double remote_seconds = best_seconds(asked.rounds, [&] {
    futures = remote();
    futures.wait();
  });
  const double plain_seconds = best_seconds(asked.rounds, [&] { plain = serial(); });
  const double off = residual(futures);
  const bool is_same = blocks::is_same(plain, futures, is_lower);
  std::printf("%-8s serial %6.2f GFLOP/s, tasks %6.2f GFLOP/s, speed-up %.2f; residual %.1e, %s\n",
              name, flops / plain_seconds / 1e9, flops / remote_seconds / 1e9,
              plain_seconds / remote_seconds, off, is_same ? "same bits" : "OTHER BITS");
  return is_same && off < 1e-14;
}

bool multiply(const request& asked) {
  const auto a = blocks::matrix::made(asked.left, asked.blocks, asked.size);
  const auto b = blocks::matrix::made(asked.right, asked.blocks, asked.size);
  const auto far_a = blocks::remote_matrix::made(asked.left, asked.blocks, asked.size);
  const auto far_b = blocks::remote_matrix::made(asked.right, asked.blocks, asked.size);
  const double n = static_cast<double>(asked.rows());
  return compare(
      asked, "product", 2 * n * n * n, false, [&] { return a * b; }, [&] { return far_a * far_b; },
      [&](const auto& c) {
        return blocks::product_residual(c, asked.left, asked.right, asked.size);
      });
}

bool factorise(const request& asked) {
  const auto a = blocks::matrix::made(asked.definite, asked.blocks, asked.size);
  const auto far_a = blocks::remote_matrix::made(asked.definite, asked.blocks, asked.size);
  const double n = static_cast<double>(asked.rows());
  return compare(
      asked, "cholesky", n * n * n / 3, true, [&] { return cholesky(a); },
      [&] { return cholesky(far_a); },
      [&](const auto& l) { return blocks::factor_residual(l, asked.definite, asked.size); });
}

int run(const request& asked) {
  const bool is_product_good = multiply(asked);
  const bool is_factor_good = factorise(asked);
  const bool is_good = is_product_good && is_factor_good;
  std::printf("block_matrix: n = %zu: product and factor %s, residuals %s 1e-14\n", asked.rows(),
              is_good ? "equal the serial ones bit by bit" : "are WRONG",
              is_good ? "below" : "or bits beyond");
  return is_good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  examples::command_line line("block_matrix", help, argc, argv);
  request asked;
  asked.blocks = static_cast<std::size_t>(line.whole("--blocks", 8, 1, 64));
  asked.size = static_cast<std::size_t>(line.whole("--block", 96, 1, 1024));
  asked.rounds = line.whole("--rounds", 3, 1, 1000);
  const auto seed = static_cast<std::uint64_t>(line.whole("--seed", 1, 0, 1'000'000'000));
  asked.left = {.seed = 3 * seed};
  asked.right = {.seed = 3 * seed + 1};
  asked.definite = {.seed = 3 * seed + 2,
                    .diagonal = line.real("--diagonal", static_cast<double>(asked.rows()), 0, 1e9)};
  line.finish();
  try {
    manta::runtime rt(argc, argv);
    return run(asked);
  } catch (const manta::task_error& error) {
    // A block's task threw; all that needed its result failed with the same error, down to the get.
    std::fprintf(stderr, "block_matrix: no factor: %s\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "block_matrix: %s\n", error.what());
    return 1;
  }
}
