// SPDX-License-Identifier: Apache-2.0
//
// Task graphs over columns and steps, and the smallest task that still pays.
//
// A point of the grid is a task: it adds up the values of its inputs, which are points of the step
// before, and turns the sum over in a calibrated loop. Who runs a graph gives the sum of its last
// step, which is checked: the loop is an affine map, so the right answer costs next to nothing.
//
//   chain     stencil           fft (butterfly)     all to all       tree
//   o         o   o   o   o     o   o   o   o       o   o   o        o o o o
//   |         | X | X | X |      \ /     \ /        | X   X |         \/ \/
//   o         o   o   o   o     o   o   o   o       o   o   o          o o
//
// Smallest task at 50 % efficiency: efficiency is the work (tasks x time of the loop alone) over
// what the cores could have done in the time that it took. Task times are doubled, from 1/16 us on,
// until half is reached; between the last two points it is interpolated. Each graph has one column
// or several per core, as its row says. The measure, and most of the shapes, are those of Slaughter
// et al., Task Bench, SC 2020.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/suite.hpp"

namespace bench {

enum class shape { chain, tree, stencil, fft, all_to_all };

// Points (step, column). The widths of `fft` and `tree` are powers of two; a tree halves its width
// with each step, all others keep it.
struct graph {
  shape kind = shape::chain;
  std::size_t width = 1;
  std::size_t steps = 1;

  std::size_t columns(std::size_t step) const {
    return kind == shape::tree ? width >> step : width;
  }
  std::size_t tasks() const { return kind == shape::tree ? 2 * width - 1 : width * steps; }
  // The place of a point among all of them, step by step.
  std::size_t index(std::size_t step, std::size_t column) const {
    return kind == shape::tree ? 2 * (width - (width >> step)) + column : step * width + column;
  }
  std::size_t bit(std::size_t step) const;  // of a column, that a butterfly flips

  // Calls f(column) for each input of a point, in the step before; nothing for step 0.
  template <class F>
  void each_input(std::size_t step, std::size_t column, F&& f) const {
    if (step == 0) return;
    switch (kind) {
      case shape::chain:
        return f(column);
      case shape::tree:
        f(2 * column);
        return f(2 * column + 1);
      case shape::stencil:
        if (column > 0) f(column - 1);
        f(column);
        if (column + 1 < width) f(column + 1);
        return;
      case shape::fft:
        f(column);
        if (width > 1) f(column ^ bit(step));
        return;
      case shape::all_to_all:
        for (std::size_t i = 0; i < width; ++i) f(i);
        return;
    }
  }
  // Calls f(column) for each point of the next step that has this one as input.
  template <class F>
  void each_output(std::size_t step, std::size_t column, F&& f) const {
    if (step + 1 >= steps) return;
    if (kind == shape::tree) return f(column / 2);
    each_input(step + 1, column, f);  // the other shapes are their own mirror image
  }
};

// A graph of the kind with at least `tasks` tasks, or the next size below.
graph make_graph(shape kind, std::size_t width, std::size_t tasks);

// The loop: `rounds` dependent multiplications.
inline std::uint64_t turn_over(std::uint64_t x, std::uint64_t rounds) {
  for (std::uint64_t i = 0; i < rounds; ++i) {
    x = x * 6364136223846793005U + 1442695040888963407U;
    asm volatile("" : "+r"(x));  // not several at a time
  }
  return x + 1;
}

// One point by the sum of its inputs.
inline std::uint64_t point(std::uint64_t sum_of_inputs, std::uint64_t rounds) {
  return turn_over(sum_of_inputs, rounds);
}

// What a run has to give: the sum over the last step.
std::uint64_t expected(const graph& g, std::uint64_t rounds);

// Prepares a run, not timed (a rival may build its graph there), and gives what is timed.
using prepared = std::function<std::uint64_t()>;
using runner = std::function<prepared(const graph&, std::uint64_t rounds)>;
using make_runner = std::function<runner(const plan&)>;

// The rows of a shape; a contestant is in all that its runner can do.
struct graph_row {
  const char* key;
  const char* title;
  graph of;       // of the row for empty tasks
  bool smallest;  // the row for the smallest task, whatever the number of steps
};
const std::vector<graph_row>& graph_rows();

// Rows in which one thread may be the best: no efficiency of several cores is asked.
inline bool one_thread_will_do(const graph_row& r) { return !r.smallest || r.of.width == 1; }

// Adds a contestant to every row whose shape `can` accepts.
void add_runner(suite& s, const std::string& name, side who, make_runner make,
                bool (*can)(const graph_row&) = nullptr);

}  // namespace bench
