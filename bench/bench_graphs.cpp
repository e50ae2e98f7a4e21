// SPDX-License-Identifier: Apache-2.0
//
// Task graphs over columns and steps in one process: ours, the rivals, and the numbers to reach.
// See graphs/graph.hpp.
#include "graphs/graph.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

void add_rows(suite& s) {
  for (const graph_row& g : graph_rows()) {
    if (!g.smallest) {
      s.add(row{g.key, std::string(g.title) + "; per task"});
      continue;
    }
    row r{g.key, std::string(g.title) + ": smallest task at 50 % efficiency", unit::microseconds};
    r.warm_rounds = 2;
    s.add(r);
  }
}

void add_bars(suite& s) {
  s.add(bar{"chain of 1 M dependent tasks: at most 120 ns each", "chain", "manta", 120});
  s.add(bar{"the same, by tail calls: at most 120 ns each", "chain",
            "manta, each task returns the next one's future", 120});
  s.add(bar{"stencil: 50 % efficiency with tasks of at most 3 us", "smallest_stencil", "manta", 3});
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::suite s("bench_graphs");
  bench::add_rows(s);
  bench::add_bars(s);
#if BENCH_WITH_MANTA
  bench::add_our_graphs(s);
#else
  s.absent("manta", "this build has rivals only");
#endif
  bench::add_plain_graphs(s);
#if BENCH_WITH_TBB
  bench::add_tbb_graphs(s);
#else
  s.absent("oneTBB", "not found when bench was configured; install libtbb-dev");
#endif
  s.absent("Taskflow", "no package in Debian 12");
  return s.run(argc, argv);
}
