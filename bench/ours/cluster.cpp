// SPDX-License-Identifier: Apache-2.0
//
// manta's side of bench_cluster. The nodes are this program once more, which main notices.
#include <manta/manta.hpp>

#include <chrono>
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

// The work of the row's tasks.
void sleeps() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// All tasks are the driver's; who runs them is found out by the nodes.
contestant spreads(const char* row, int nodes) {
  contestant c{row, "manta", side::ours};
  c.start = [=](const plan& p) -> body {
    const std::size_t each = p.quick ? 100 : 4000;
    const std::size_t count = each * static_cast<std::size_t>(nodes);
    setenv("BENCH_SHARES", "4", 1);  // for the nodes, see below
    manta::config with = job_of(nodes);
    with.workers = 4;
    with.share = true;
    const auto rt = std::make_shared<manta::runtime>(with);
    return [=](const turn&) {
      const double before = now_s();
      std::vector<manta::future<void>> all;
      all.reserve(count);
      for (std::size_t i = 0; i < count; ++i) all.push_back(manta::remote<sleeps>());
      // Not by get of each, which would run some on this thread, too.
      static_cast<void>(manta::wait(all, {.count = count}));
      check(rt->nodes().size() == static_cast<std::size_t>(nodes), "all nodes");
      const auto n = static_cast<double>(count);
      return reading{.value = n / (now_s() - before), .operations = n};
    };
  };
  return c;
}

}  // namespace

void be_a_node() {
  if (std::getenv("MANTA_RANK") == nullptr) return;
  manta::config with;
  with.workers = 1;
  if (const char* const shares = std::getenv("BENCH_SHARES"); shares != nullptr) {
    with.workers = std::atoi(shares);
    with.share = true;
  }
  const manta::runtime rt(with);  // does not return
}

void add_our_clusters(suite& s) {
  s.add(starts(cluster_life, 8, until::gone));
  s.add(starts(cluster_up, 8, until::up));
  s.add(starts(cluster_join, 2, until::up));
  s.add(deaths());
  s.add(spreads(cluster_spread_1, 1));
  s.add(spreads(cluster_spread_2, 2));
  s.add(spreads(cluster_spread_4, 4));
  s.add(spreads(cluster_spread_8, 8));
}

}  // namespace bench
