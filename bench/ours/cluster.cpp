// SPDX-License-Identifier: Apache-2.0
//
// manta's side of bench_cluster. The nodes are this program once more, which main notices.
#include <manta/manta.hpp>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "harness/measure.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

manta::config job_of(int nodes) {
  manta::config out;
  out.workers = 1;
  out.nodes = nodes;
  return out;
}

enum class until { up, gone };

contestant starts(const char* row, int nodes, until when) {
  contestant c{row, "manta", side::ours};
  c.start = [=](const plan&) -> body {
    return [=](const turn&) {
      double up = 0;
      const double before = now_s();
      {
        const manta::runtime rt(job_of(nodes));
        up = now_s();
        check(rt.nodes().size() == static_cast<std::size_t>(nodes), "all nodes");
      }
      return reading{.value = ((when == until::up ? up : now_s()) - before) * 1e3};
    };
  };
  return c;
}

contestant deaths() {
  contestant c{cluster_death, "manta", side::ours};
  c.start = [](const plan& p) -> body {
    const std::size_t count = p.quick ? 2 : 10;
    return [=](const turn&) {
      std::vector<double> each;
      for (std::size_t i = 0; i < count; ++i) {
        const manta::runtime rt(job_of(4));
        const double before = now_s();
        kill(rt.nodes().back().pid, SIGKILL);
        while (rt.nodes().size() == 4) std::this_thread::yield();
        each.push_back((now_s() - before) * 1e3);
      }
      reading r{.value = quantile(each, 0.5), .operations = static_cast<double>(count)};
      r.p50 = r.value;
      r.p99 = quantile(each, 0.99);
      return r;
    };
  };
  return c;
}

}  // namespace

void be_a_node() {
  if (std::getenv("MANTA_RANK") == nullptr) return;
  manta::config with;
  with.workers = 1;
  const manta::runtime rt(with);  // does not return
}

void add_our_clusters(suite& s) {
  s.add(starts(cluster_life, 8, until::gone));
  s.add(starts(cluster_up, 8, until::up));
  s.add(starts(cluster_join, 2, until::up));
  s.add(deaths());
}

}  // namespace bench
