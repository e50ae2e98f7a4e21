// SPDX-License-Identifier: Apache-2.0
//
// Graphs without a library: one thread in a loop, and the least that a pool can be.
#include <string>

#include "graphs/by_hand.hpp"
#include "rivals/minimal_pool.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

std::uint64_t one_after_another(const graph& g, std::uint64_t rounds) {
  std::vector<std::uint64_t> last(g.columns(0));
  std::vector<std::uint64_t> next(g.columns(0));
  for (std::size_t step = 0; step < g.steps; ++step) {
    for (std::size_t i = 0; i < g.columns(step); ++i) {
      std::uint64_t sum = 0;
      g.each_input(step, i, [&](std::size_t from) { sum += last[from]; });
      next[i] = point(sum, rounds);
    }
    last.swap(next);
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < g.columns(g.steps - 1); ++i) sum += last[i];
  return sum;
}

struct posting {
  minimal_pool* pool;
  template <class F>
  void operator()(F f) {
    pool->post(std::move(f));
  }
};

make_runner in_minimal_pool(int threads) {
  return [threads](const plan&) -> runner {
    auto pool = std::make_shared<minimal_pool>(threads);
    return [=](const graph& g, std::uint64_t rounds) -> prepared {
      return [=] {
        posting spawn{pool.get()};
        by_hand<posting> run(g, rounds, spawn);
        run.start();
        run.wait();
        return run.sum();
      };
    };
  };
}

}  // namespace

void add_plain_graphs(suite& s) {
  add_runner(s, "minimal pool, 1 thr, counters by hand", side::rival, in_minimal_pool(1),
             one_thread_will_do);
  add_runner(s, "minimal pool, 2 thr, counters by hand", side::rival, in_minimal_pool(2));
  const auto alone = [](const plan&) -> runner {
    return [](const graph& g, std::uint64_t rounds) -> prepared {
      return [=] { return one_after_another(g, rounds); };
    };
  };
  add_runner(s, "one thread, plain loop", side::reference, alone,
             [](const graph_row& r) { return !r.smallest; });
}

}  // namespace bench
