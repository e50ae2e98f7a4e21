// SPDX-License-Identifier: Apache-2.0
//
// How many tasks a cluster of 1 to 1,000 nodes runs: simulated (test/sim/spread.hpp), with the real
// deciders of what goes to whom, and with what a task costs a node as it was measured between two
// real ones (RESULTS.md). It is the figure of the OSDI 2018 paper on Ray, drawn once more: there
// empty tasks, made by every node.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "harness/measure.hpp"
#include "harness/suite.hpp"
#include "sim/spread.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;
namespace spread = manta_test::spread;

// Inputs, all from RESULTS.md.
constexpr int workers = 4;
constexpr manta::duration one_at_home = 47ns;  // "1 M empty tasks with futures"
constexpr double far_per_second = 496e3;       // run X: "tasks async, each run by the other"
constexpr manta::duration one_far = 106us;     // run X: "one at a time", there and back
constexpr manta::duration sent_back = 1us;     // half of what a task costs to be given

spread::costs measured_costs() {
  const manta::duration each(static_cast<manta::duration::rep>(1e9 / far_per_second));
  return {.trip = one_far / 2,
          .giving = each,
          .guest = each,
          .own = workers * one_at_home,  // that was one for the whole process
          .refusing = sent_back};
}

struct kind {
  const char* key;
  const char* title;
  manta::duration task_time;
  int makers;  // one node in so many; 0: one alone
};
constexpr kind kinds[] = {
    {"scale_empty", "Empty tasks, made by every node", 1ns, 1},
    {"scale_all", "Tasks of 1 ms, made by every node", 1ms, 1},
    {"scale_half", "Tasks of 1 ms, made by every other node", 1ms, 2},
    {"scale_tenth", "Tasks of 1 ms, made by one node in ten", 1ms, 10},
    {"scale_one", "Tasks of 1 ms, made by one node", 1ms, 0},
};
constexpr int sizes[] = {1, 10, 100, 1000};
constexpr int largest = 1000;
constexpr const char* deciding = "scale_deciding";
constexpr const char* busiest = "scale_busiest";

std::string nodes_named(int nodes) {
  return nodes == 1 ? "1 node" : std::to_string(nodes) + " nodes";
}

// A thousand tasks for each node: a million of the largest.
spread::outcome simulate(const plan& how, const kind& of, int nodes, std::uint64_t seed) {
  const int makers = of.makers == 0 ? 1 : std::max(1, nodes / of.makers);
  const int all = 1000 * nodes / (how.quick ? 100 : 1);
  spread::settings with;
  with.nodes = nodes;
  with.workers = workers;
  with.makers = makers;
  with.tasks_a_maker = std::max(1, all / makers);
  with.task_time = of.task_time;
  with.cost = measured_costs();
  with.seed = seed;
  const spread::outcome out = spread::run(with);
  check(out.tasks >= static_cast<std::uint64_t>(with.tasks_a_maker), "tasks");
  return out;
}

void add_kind(suite& s, const kind& of) {
  row r{of.key, of.title, unit::per_second};
  r.passes = 1;
  r.warm_rounds = 1;
  r.note =
      "Simulated time; nodes of 4 workers, a burst of 1,000 tasks for each node. Another seed\n"
      "in each round. The quantiles and cpu columns are the simulator's own.";
  s.add(r);
  for (const int nodes : sizes) {
    s.add(contestant{of.key, nodes_named(nodes), side::ours, false, [&of, nodes](const plan& how) {
                       std::uint64_t seed = 0;
                       return [&of, nodes, how, seed](const turn&) mutable {
                         const spread::outcome got = simulate(how, of, nodes, ++seed);
                         const auto tasks = static_cast<double>(got.tasks);
                         return reading{.value = tasks / got.took_s, .operations = tasks};
                       };
                     }});
  }
}

// Of a million tasks on the largest, by who makes them.
template <class Value>
void add_largest(suite& s, const row& of, Value&& value) {
  s.add(of);
  for (const kind& one : kinds) {
    if (one.task_time < 1ms || one.makers == 0) continue;
    s.add(contestant{of.key, one.key, side::ours, false, [&one, value](const plan& how) {
                       return [&one, value, how](const turn&) {
                         const int nodes = how.quick ? largest / 10 : largest;
                         return reading{.value = value(simulate(how, one, nodes, 1))};
                       };
                     }});
  }
}

void add_rows(suite& s) {
  for (const kind& one : kinds) add_kind(s, one);
  row r{deciding, "A million tasks of 1 ms on 1,000 nodes: to decide, for each that is given",
        unit::microseconds};
  r.passes = 1;
  r.warm_rounds = 1;
  r.note = "Processor time of the deciders, really spent; a task that is sent back is given again.";
  add_largest(s, r, [](const spread::outcome& of) {
    return of.given == 0 ? 0 : of.deciding_s * 1e6 / static_cast<double>(of.given);
  });
  r = row{busiest, "The same: the busiest node, of the mean", unit::percent};
  r.passes = 1;
  r.warm_rounds = 0;
  r.note = "Of the time that its workers work; from the first task on.";
  add_largest(s, r, [](const spread::outcome& of) { return 100 * of.busiest; });
}

void add_bars(suite& s) {
  for (const kind& one : kinds) {
    if (one.makers == 0) continue;
    s.add(bar{std::string(one.key) + ": 1,000 nodes run 0.8 of 1,000 times what one does", one.key,
              nodes_named(largest), 0.8 * largest, nodes_named(1)});
    if (one.task_time < 1ms) continue;
    s.add(bar{std::string(one.key) + ": at most 2 us to decide", deciding, one.key, 2});
    s.add(bar{std::string(one.key) + ": the busiest node at most 1.5 x the mean", busiest, one.key,
              150});
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::suite s("bench_scale");
  bench::add_rows(s);
  bench::add_bars(s);
  return s.run(argc, argv);
}
