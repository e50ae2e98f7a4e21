// SPDX-License-Identifier: Apache-2.0
//
// A parameter server: the weights of a model live in shards, workers pull them and push gradients.
//
//     shard 0        shard 1        shard 2          actors; each owns a range of the weights
//     w[0..4]        w[5..9]        w[10..15]
//       | ^            | ^            | ^
//   pull| |push    pull| |push    pull| |push
//       v |            v |            v |
//    +--------------------------------------+
//    | worker 0    worker 1    worker 2 ... |        tasks; each has its part of the samples, an
//    +--------------------------------------+        object that was put once
//
// Synchronous: a step is one task for each worker, whose argument is a list of futures, the shards'
// weights, and one call for each shard, whose argument is the list of futures of the gradients. The
// driver writes 50 steps down ahead and waits for none of them. Calls of one caller to one actor
// run in order, so each step sees the one before: the result is a plain loop's, bit by bit.
//
// Asynchronous: a worker pulls what is there and never waits for others; fast ones do more. The
// driver waits for whoever is ready first and sends that worker on.
//
// The model is logistic regression, whose optimum is unique and can be had exactly, by Newton's
// method on the same samples. Both ways have to reach its loss.
#include <manta/manta.hpp>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <string>

#include "../common/command_line.hpp"
#include "regression.hpp"
#include "training.hpp"

namespace {

constexpr const char* help = R"(parameter_server: logistic regression on a sharded server of actors

usage: parameter_server [options]
  --samples N      samples to learn from, 1 to 10000000 (20000)
  --features N     weights of the model, 1 to 200 (16)
  --shards N       actors that share the weights, 1 to --features (4)
  --workers N      workers that share the samples, 1 to --samples and 1000 (4)
  --steps N        steps of each worker at most (20000)
  --tolerance X    distance to Newton's loss that is good enough, 1e-12 to 1 (1e-07)
  --seed N         decides all samples (1)
  --manta-...      the runtime's, such as --manta-workers=2
  --help           this text

Exit code: 0 both ways reached the optimum, 1 not, 2 bad option.
)";

// Trains, prints a line, and returns the distance to the best loss.
template <class Train>
double report(const char* way, const ps::samples& all, double best, ps::outcome& result,
              Train train) {
  const auto begin = std::chrono::steady_clock::now();
  result = train();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double found = ps::loss(all, result.weights);
  std::printf("%-12s loss %.12f  above Newton's %9.2e  slope %.1e  %8zu updates, %9.0f/s\n", way,
              found, found - best, ps::slope(all, result.weights), result.updates,
              static_cast<double>(result.updates) / took.count());
  return found - best;
}

int run(const ps::samples& all, const ps::request& asked, std::uint64_t seed, double tolerance) {
  const double best = ps::loss(all, ps::newton(all));
  std::printf("%-12s loss %.12f\n", "newton", best);
  ps::outcome plain;
  ps::outcome sync;
  ps::outcome async;
  report("plain loop", all, best, plain, [&] { return ps::train_plain(all, asked); });
  const double sync_gap =
      report("sync", all, best, sync, [&] { return ps::synchronous(all, asked).train(); });
  const double async_gap =
      report("async", all, best, async, [&] { return ps::asynchronous(all, asked).train(); });
  const bool is_same = sync.weights == plain.weights;
  const bool is_near = std::fabs(sync_gap) <= tolerance && std::fabs(async_gap) <= tolerance;
  std::printf(
      "parameter_server: seed %llu: sync and async %s within %.3g of Newton's optimum; sync "
      "%s the plain loop bit by bit\n",
      static_cast<unsigned long long>(seed), is_near ? "are" : "are NOT", tolerance,
      is_same ? "is" : "is NOT");
  return is_same && is_near ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  examples::command_line line("parameter_server", help, argc, argv);
  const auto count = line.whole("--samples", 20000, 1, 10'000'000);
  const auto features = line.whole("--features", 16, 1, 200);
  const auto seed = line.whole("--seed", 1, 0, std::numeric_limits<std::int64_t>::max());
  const double tolerance = line.real("--tolerance", 1e-7, 1e-12, 1);
  ps::request asked;
  asked.shards = static_cast<std::size_t>(
      line.whole("--shards", std::min<std::int64_t>(4, features), 1, features));
  asked.workers = static_cast<std::size_t>(line.whole("--workers", std::min<std::int64_t>(4, count),
                                                      1, std::min<std::int64_t>(count, 1000)));
  asked.steps = static_cast<std::size_t>(line.whole("--steps", 20000, 1, 1'000'000'000));
  asked.rate = ps::safe_rate(static_cast<std::size_t>(count), static_cast<std::size_t>(features));
  asked.small_enough = std::sqrt(tolerance * ps::penalty);
  line.finish();
  try {
    manta::runtime rt(argc, argv);
    const ps::samples all =
        ps::draw_samples(static_cast<std::uint64_t>(seed), static_cast<std::size_t>(count),
                         static_cast<std::size_t>(features));
    return run(all, asked, static_cast<std::uint64_t>(seed), tolerance);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "parameter_server: %s\n", error.what());
    return 1;
  }
}
