// SPDX-License-Identifier: Apache-2.0
//
// A job of several processes on one machine: how long it takes to be there and to be gone, and
// until a death is seen.
#include <string>

#include "rivals/rows.hpp"

namespace bench {
namespace {

void add_rows(suite& s) {
  row r{cluster_life, "A job of 8 nodes: started, all joined, ended, all gone", unit::milliseconds};
  r.note = "mpirun: 8 times /bin/true, which joins nothing.";
  r.passes = 2;
  s.add(r);
  r = row{cluster_up, "The same, until all have joined", unit::milliseconds};
  r.passes = 2;
  s.add(r);
  r = row{cluster_join, "A job of 2 nodes, until both have joined", unit::milliseconds};
  r.passes = 2;
  s.add(r);
  r = row{cluster_death, "A node of 4 is killed: until the driver sees it", unit::milliseconds};
  r.passes = 2;
  r.warm_rounds = 1;
  s.add(r);
  const auto spread = [&](const char* key, int nodes) {
    r = row{key, "", unit::per_second};
    r.title =
        "Tasks that sleep 1 ms, all of one driver: nodes of 4 workers: " + std::to_string(nodes);
    r.passes = 2;
    s.add(r);
  };
  spread(cluster_spread_1, 1);
  spread(cluster_spread_2, 2);
  spread(cluster_spread_4, 4);
  spread(cluster_spread_8, 8);
}

void add_bars(suite& s) {
  s.add(bar{"8 nodes are up within 1 s", cluster_up, "manta", 1000});
  s.add(bar{"8 nodes are up and gone within 2 s", cluster_life, "manta", 2000});
  s.add(bar{"a node has joined within 150 ms", cluster_join, "manta", 150});
  s.add(bar{"a death is seen within 20 ms", cluster_death, "manta", 20});
  s.add(bar{"8 nodes run 0.9 of 8 times what one does", cluster_spread_8, "manta", 0.9 * 8, "manta",
            cluster_spread_1});
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
#ifdef BENCH_WITH_MANTA
  bench::be_a_node();
#endif
  bench::suite s("bench_cluster");
  bench::add_rows(s);
  bench::add_bars(s);
#ifdef BENCH_WITH_MANTA
  bench::add_our_clusters(s);
#else
  s.absent("manta", "this build has rivals only");
#endif
  bench::add_mpirun(s);
  return s.run(argc, argv);
}
