// SPDX-License-Identifier: Apache-2.0
//
// manta's side of bench_graphs: futures as arguments, the whole graph submitted by one thread while
// it runs.
#include <memory>
#include <utility>
#include <vector>

#include <manta/manta.hpp>

#include "graphs/graph.hpp"
#include "harness/measure.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

using value = std::uint64_t;
using future = manta::future<value>;
using futures = std::vector<future>;

value first(value rounds) { return point(0, rounds); }
value from_1(value a, value rounds) { return point(a, rounds); }
value from_2(value a, value b, value rounds) { return point(a + b, rounds); }
value from_3(value a, value b, value c, value rounds) { return point(a + b + c, rounds); }
value from_all(const std::vector<value>& all, value rounds) {
  value sum = 0;
  for (const value v : all) sum += v;
  return point(sum, rounds);
}

future task_of(const graph& g, std::size_t step, std::size_t column, const futures& last,
               value rounds) {
  if (step == 0) return manta::remote<first>(rounds);
  if (g.kind == shape::all_to_all) return manta::remote<from_all>(last, rounds);
  const future* inputs[3] = {};
  int count = 0;
  g.each_input(step, column, [&](std::size_t from) { inputs[count++] = &last[from]; });
  if (count == 1) return manta::remote<from_1>(*inputs[0], rounds);
  if (count == 2) return manta::remote<from_2>(*inputs[0], *inputs[1], rounds);
  return manta::remote<from_3>(*inputs[0], *inputs[1], *inputs[2], rounds);
}

value run_graph(graph g, value rounds) {
  futures last;
  futures next;
  for (std::size_t step = 0; step < g.steps; ++step) {
    next.clear();
    const std::size_t columns = g.columns(step);
    next.reserve(columns);
    for (std::size_t i = 0; i < columns; ++i) next.push_back(task_of(g, step, i, last, rounds));
    last.swap(next);
  }
  value sum = 0;
  for (const future& f : last) sum += f.get();
  return sum;
}

// A chain whose every task makes the next one and returns its future.
future hand_on(value sum, value left, value rounds) {
  const value mine = point(sum, rounds);
  if (left == 1) return manta::put(mine);
  return manta::remote<hand_on>(mine, left - 1, rounds);
}

make_runner with_runtime(value (*run)(graph, value)) {
  return [run](const plan&) -> runner {
    auto rt = std::make_shared<manta::runtime>();
    return [=](const graph& g, value rounds) -> prepared {
      return [=] {
        keep(rt);
        return run(g, rounds);
      };
    };
  };
}

value by_a_task(graph g, value rounds) { return manta::remote<run_graph>(g, rounds).get(); }

value by_delegation(graph g, value rounds) {
  return manta::remote<hand_on>(value{0}, static_cast<value>(g.steps), rounds).get();
}

}  // namespace

void add_our_graphs(suite& s) {
  add_runner(s, "manta", side::ours, with_runtime(run_graph));
  add_runner(s, "manta, submitted by a task", side::ours, with_runtime(by_a_task));
  add_runner(s, "manta, each task returns the next one's future", side::ours,
             with_runtime(by_delegation),
             [](const graph_row& r) { return r.of.kind == shape::chain; });
}

}  // namespace bench
