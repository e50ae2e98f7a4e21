// SPDX-License-Identifier: Apache-2.0
//
// A graph by hand, for pools that know tasks but no dependencies: a counter and a value per point;
// a task that was somebody's last input spawns it. What one writes when there are no futures.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "graphs/graph.hpp"
#include "harness/measure.hpp"

namespace bench {

// `Spawn`: spawn(f) runs f() at some time on some thread.
template <class Spawn>
class by_hand {
 public:
  by_hand(const graph& g, std::uint64_t rounds, Spawn& spawn)
      : of_(g),
        rounds_(rounds),
        spawn_(spawn),
        values_(g.tasks()),
        missing_(new std::atomic<int>[g.tasks()]),
        left_(g.columns(g.steps - 1)) {
    check(g.kind != shape::all_to_all || g.width <= most_outputs, "width of a graph by hand");
    for (std::size_t step = 0; step < g.steps; ++step) {
      for (std::size_t i = 0; i < g.columns(step); ++i) {
        int inputs = 0;
        g.each_input(step, i, [&](std::size_t) { ++inputs; });
        missing_[g.index(step, i)].store(inputs, std::memory_order_relaxed);
      }
    }
  }

  void start() {
    for (std::size_t i = 0; i < of_.columns(0); ++i) {
      spawn_([this, i] { run(0, i); });
    }
  }
  // For pools that cannot wait for all tasks themselves.
  void wait() {
    for (std::size_t seen = left_.load(); seen != 0; seen = left_.load()) left_.wait(seen);
    while (leaving_.load() != 0) {
    }
  }
  std::uint64_t sum() const {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < of_.columns(of_.steps - 1); ++i) {
      all += values_[of_.index(of_.steps - 1, i)];
    }
    return all;
  }

 private:
  void run(std::size_t step, std::size_t column) {
    std::uint64_t sum = 0;
    of_.each_input(step, column,
                   [&](std::size_t from) { sum += values_[of_.index(step - 1, from)]; });
    values_[of_.index(step, column)] = point(sum, rounds_);
    if (step + 1 == of_.steps) {
      leaving_.fetch_add(1);
      if (left_.fetch_sub(1) == 1) left_.notify_all();
      leaving_.fetch_sub(1);
      return;
    }
    // The graph, and this with it, may be over as soon as the last one is told, so that nothing of
    // it is read after that.
    const graph g = of_;
    std::atomic<int>* const missing = missing_.get();
    std::size_t ready[most_outputs];
    std::size_t count = 0;
    g.each_output(step, column, [&](std::size_t to) {
      if (missing[g.index(step + 1, to)].fetch_sub(1, std::memory_order_acq_rel) == 1) {
        ready[count++] = to;
      }
    });
    for (std::size_t i = 0; i < count; ++i) {
      spawn_([this, step, to = ready[i]] { run(step + 1, to); });
    }
  }

  static constexpr std::size_t most_outputs = 16;

  const graph of_;
  const std::uint64_t rounds_;
  Spawn& spawn_;
  std::vector<std::uint64_t> values_;
  std::unique_ptr<std::atomic<int>[]> missing_;
  std::atomic<std::size_t> left_;
  std::atomic<int> leaving_{0};
};

}  // namespace bench
