// SPDX-License-Identifier: Apache-2.0
//
// oneTBB's ways to run a graph: a flow graph of continue nodes, built anew or run again; tasks of a
// task_group with counters by hand; a parallel loop per step, with a barrier between steps.
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "graphs/by_hand.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

namespace tbb = oneapi::tbb;
namespace flow = oneapi::tbb::flow;

struct arena {
  explicit arena(int threads)
      : limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads)),
        place(threads) {}
  tbb::global_control limit;
  tbb::task_arena place;
};
using shared_arena = std::shared_ptr<arena>;

// In an arena of `threads`, the caller's among them.
using in_arena = std::function<prepared(const shared_arena&, const graph&, std::uint64_t)>;
make_runner with_threads(int threads, in_arena prepare) {
  return [=](const plan&) -> runner {
    auto a = std::make_shared<arena>(threads);
    return [=](const graph& g, std::uint64_t rounds) { return prepare(a, g, rounds); };
  };
}

class flow_graph {
 public:
  flow_graph(const graph& g, std::uint64_t rounds) : of_(g), rounds_(rounds), values_(g.tasks()) {
    for (std::size_t step = 0; step < g.steps; ++step) {
      for (std::size_t i = 0; i < g.columns(step); ++i) {
        nodes_.emplace_back(all_, [this, step, i](flow::continue_msg) { run(step, i); });
        g.each_input(step, i, [&](std::size_t from) {
          flow::make_edge(nodes_[g.index(step - 1, from)], nodes_.back());
        });
      }
    }
  }
  std::uint64_t run() {
    for (std::size_t i = 0; i < of_.columns(0); ++i) nodes_[i].try_put({});
    all_.wait_for_all();
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < of_.columns(of_.steps - 1); ++i) {
      sum += values_[of_.index(of_.steps - 1, i)];
    }
    return sum;
  }

 private:
  void run(std::size_t step, std::size_t column) {
    std::uint64_t sum = 0;
    of_.each_input(step, column,
                   [&](std::size_t from) { sum += values_[of_.index(step - 1, from)]; });
    values_[of_.index(step, column)] = point(sum, rounds_);
  }

  const graph of_;
  const std::uint64_t rounds_;
  std::vector<std::uint64_t> values_;
  flow::graph all_;
  std::deque<flow::continue_node<flow::continue_msg>> nodes_;
};

prepared built_anew(const shared_arena& a, const graph& g, std::uint64_t rounds) {
  return [=] {
    std::uint64_t sum = 0;
    a->place.execute([&] { sum = flow_graph(g, rounds).run(); });
    return sum;
  };
}

prepared built_before(const shared_arena& a, const graph& g, std::uint64_t rounds) {
  std::shared_ptr<flow_graph> built;
  a->place.execute([&] { built = std::make_shared<flow_graph>(g, rounds); });
  return [=] {
    std::uint64_t sum = 0;
    a->place.execute([&] { sum = built->run(); });
    return sum;
  };
}

struct grouped {
  tbb::task_group group;
  template <class F>
  void operator()(F f) {
    group.run(std::move(f));
  }
};

prepared counted(const shared_arena& a, const graph& g, std::uint64_t rounds) {
  return [=] {
    std::uint64_t sum = 0;
    a->place.execute([&] {
      grouped spawn;
      by_hand<grouped> run(g, rounds, spawn);
      run.start();
      spawn.group.wait();
      sum = run.sum();
    });
    return sum;
  };
}

std::uint64_t step_by_step(const graph& g, std::uint64_t rounds) {
  std::vector<std::uint64_t> last(g.columns(0));
  std::vector<std::uint64_t> next(g.columns(0));
  for (std::size_t step = 0; step < g.steps; ++step) {
    tbb::parallel_for(std::size_t{0}, g.columns(step), [&](std::size_t i) {
      std::uint64_t sum = 0;
      g.each_input(step, i, [&](std::size_t from) { sum += last[from]; });
      next[i] = point(sum, rounds);
    });
    last.swap(next);
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < g.columns(g.steps - 1); ++i) sum += last[i];
  return sum;
}

prepared with_barriers(const shared_arena& a, const graph& g, std::uint64_t rounds) {
  return [=] {
    std::uint64_t sum = 0;
    a->place.execute([&] { sum = step_by_step(g, rounds); });
    return sum;
  };
}

}  // namespace

void add_tbb_graphs(suite& s) {
  for (int threads : {1, 2}) {
    const std::string thr = ", " + std::to_string(threads) + " thr";
    const auto can = threads == 1 ? one_thread_will_do : nullptr;
    add_runner(s, "oneTBB flow graph, built before" + thr, side::rival,
               with_threads(threads, built_before), can);
    add_runner(s, "oneTBB task_group, counters by hand" + thr, side::rival,
               with_threads(threads, counted), can);
  }
  add_runner(s, "oneTBB flow graph, building included, 2 thr", side::rival,
             with_threads(2, built_anew));
  add_runner(s, "oneTBB parallel_for per step, 2 thr", side::rival, with_threads(2, with_barriers),
             [](const graph_row& r) { return r.of.kind != shape::chain; });
}

}  // namespace bench
