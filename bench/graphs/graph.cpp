// SPDX-License-Identifier: Apache-2.0
#include "graphs/graph.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/measure.hpp"

namespace bench {
namespace {

// turn_over as one map x -> a x + c.
struct affine {
  std::uint64_t a = 1, c = 0;
  affine then(const affine& next) const { return {next.a * a, next.a * c + next.c}; }
};

affine loop(std::uint64_t rounds) {
  affine all;
  affine power{6364136223846793005U, 1442695040888963407U};
  for (; rounds != 0; rounds >>= 1U) {
    if ((rounds & 1U) != 0) all = all.then(power);
    power = power.then(power);
  }
  return all.then({1, 1});
}

// Nanoseconds per round of the loop: the best of several, as nothing makes it faster than it is.
double round_ns() {
  static const double measured = [] {
    constexpr std::uint64_t rounds = 200000;
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 25; ++i) {
      const double start = now_s();
      keep(turn_over(static_cast<std::uint64_t>(i), rounds));
      best = std::min(best, now_s() - start);
    }
    return best * 1e9 / static_cast<double>(rounds);
  }();
  return measured;
}

constexpr double most_us = 128;
constexpr double least_us = 0.0625;
constexpr int tries = 3;

// Work over what the cores could have done in the same time. The best of several runs: whoever else
// has a core for a moment makes it worse, and nothing makes it better.
double efficiency(const runner& run, const graph_row& row, double task_us, const plan& how) {
  const auto cores = std::min<std::size_t>(static_cast<std::size_t>(how.cpus), row.of.width);
  const double enough = (how.quick ? 200 : 8000) * static_cast<double>(cores);  // us of work
  const auto wanted = static_cast<std::size_t>(
      std::clamp(enough / task_us, 16.0 * static_cast<double>(cores), how.quick ? 500.0 : 30000.0));
  const graph g = make_graph(row.of.kind, row.of.width, wanted);
  const auto rounds = static_cast<std::uint64_t>(std::lround(task_us * 1e3 / round_ns()));
  const double work_s = static_cast<double>(g.tasks() * rounds) * round_ns() * 1e-9;
  const std::uint64_t right = expected(g, rounds);
  double best = 0;
  for (int i = 0; i < (how.quick ? 1 : tries); ++i) {
    const prepared timed = run(g, rounds);
    const double start = now_s();
    const std::uint64_t got = timed();
    const double took = now_s() - start;
    check(got == right, "sum over the last step of a graph");
    best = std::max(best, work_s / (static_cast<double>(cores) * took));
  }
  return best;
}

double smallest_task_us(const runner& run, const graph_row& row, const plan& how) {
  double shorter = efficiency(run, row, least_us, how);
  if (shorter >= 0.5) return least_us;
  for (double us = 2 * least_us; us <= most_us; us *= 2) {
    const double longer = efficiency(run, row, us, how);
    // Between the two, on a logarithmic scale, is the time at which half is left.
    if (longer >= 0.5) return us / 2 * std::exp2((0.5 - shorter) / (longer - shorter));
    shorter = longer;
  }
  return not_measured;  // not even the longest tasks keep half of the cores busy
}

}  // namespace

std::size_t graph::bit(std::size_t step) const {
  std::size_t bits = 0;
  while ((width >> (bits + 1)) != 0) ++bits;
  return bits == 0 ? 0 : std::size_t{1} << ((step - 1) % bits);
}

graph make_graph(shape kind, std::size_t width, std::size_t tasks) {
  if (kind != shape::tree) return {kind, width, std::max<std::size_t>(2, tasks / width)};
  graph g{kind, 1, 1};
  while (4 * g.width - 1 <= tasks) {
    g.width *= 2;
    ++g.steps;
  }
  return g;
}

std::uint64_t expected(const graph& g, std::uint64_t rounds) {
  const affine each = loop(rounds);
  std::vector<std::uint64_t> last;
  std::vector<std::uint64_t> next;
  for (std::size_t step = 0; step < g.steps; ++step) {
    next.assign(g.columns(step), 0);
    for (std::size_t i = 0; i < next.size(); ++i) {
      std::uint64_t sum = 0;
      g.each_input(step, i, [&](std::size_t from) { sum += last[from]; });
      next[i] = each.a * sum + each.c;
    }
    last.swap(next);
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t v : last) sum += v;
  return sum;
}

const std::vector<graph_row>& graph_rows() {
  constexpr std::size_t w = 16;
  static const std::vector<graph_row> rows{
      {"chain", "Chain of 1 M dependent empty tasks", {shape::chain, 1, 1000000}, false},
      {"tree", "Tree, 2^18 leaves, empty tasks", make_graph(shape::tree, 0, 524287), false},
      {"stencil", "Stencil, 16 columns, 20,000 steps", {shape::stencil, w, 20000}, false},
      {"fft", "Butterfly, 16 columns, 20,000 steps", {shape::fft, w, 20000}, false},
      {"all", "All to all, 16 columns, 4,000 steps", {shape::all_to_all, w, 4000}, false},
      {"smallest_chain", "Chain", {shape::chain, 1, 0}, true},
      {"smallest_tree", "Tree", {shape::tree, w, 0}, true},  // as wide as its tasks make it
      {"smallest_stencil", "Stencil, 16 columns", {shape::stencil, w, 0}, true},
      {"smallest_stencil_2", "Stencil, 2 columns", {shape::stencil, 2, 0}, true},
      {"smallest_fft", "Butterfly, 16 columns", {shape::fft, w, 0}, true},
      {"smallest_all", "All to all, 16 columns", {shape::all_to_all, w, 0}, true},
  };
  return rows;
}

void add_runner(suite& s, const std::string& name, side who, make_runner make,
                bool (*can)(const graph_row&)) {
  for (const graph_row& row : graph_rows()) {
    if (can != nullptr && !can(row)) continue;
    contestant c{row.key, name, who};
    c.start = [=](const plan& how) -> body {
      const runner run = make(how);
      if (row.smallest) {
        return [=](const turn&) { return reading{.value = smallest_task_us(run, row, how)}; };
      }
      graph g = row.of;
      if (how.quick) g = make_graph(g.kind, g.width, how.count(g.tasks()));
      const std::uint64_t right = expected(g, 0);
      return [=](const turn&) {
        const prepared timed = run(g, 0);
        return time_per_operation(unit::nanoseconds, g.tasks(), [&] {
          check(timed() == right, "sum over the last step of a graph");
        });
      };
    };
    s.add(c);
  }
}

}  // namespace bench
