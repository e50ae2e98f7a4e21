// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include <manta/base/clock.hpp>

// How work spreads over a large cluster, in simulated time:
// node/trade_overflow.cpp's rules over the deciders of sched/overflow.hpp,
// which are the real ones.
//
// Idea. Each node has workers, a queue of its own tasks and one of others'.
// Once in a millisecond it looks at some others, as they were when their loads
// were last told (life/roll.hpp), and gives them what lies above the level; who
// has enough sends it back. What it costs a node to give a task, to run
// another's and to answer is what bench_cluster measures for tasks between two
// nodes. Where a task may be sent on (hops), its answer takes the same way
// back, and costs each node on it.
//
// Threads: one. The same settings give the same outcome.

namespace manta_test::spread {

/// What a node spends, as measured between real ones.
struct costs {
  manta::duration trip = std::chrono::microseconds(100);  // of a message
  manta::duration giving = std::chrono::microseconds(2);  // the looker's, for each task
  manta::duration guest = std::chrono::microseconds(2);   // a worker's, for each of another node
  manta::duration own = std::chrono::nanoseconds(200);    // likewise, for each
  manta::duration refusing = std::chrono::microseconds(1);
};

struct settings {
  int nodes = 100;
  int workers = 4;          // of each
  int makers = 100;         // nodes that make the tasks, each as many as the others
  int tasks_a_maker = 400;  // all there at the start
  manta::duration task_time = std::chrono::milliseconds(1);  // on average; exponential
  bool gives = true;                                         // false: all run where they are made
  int hops = 1;                                              // how often a task may be given
  costs cost = {};
  std::uint64_t seed = 1;
};

struct outcome {
  double took_s = 0;
  double best_s = 0;   // all workers busy until the end, and nothing costs anything
  double busiest = 0;  // the node that worked longest, by the mean
  std::uint64_t tasks = 0;
  std::uint64_t given = 0;    // those that were sent back, too
  std::uint64_t refused = 0;  // that were sent back
  std::uint64_t sent_on = 0;  // of those given: by a node that had not made them
  std::uint64_t looks = 0;
  double deciding_s = 0;  // of real time, in all looks

  double efficiency() const { return best_s / took_s; }
};

outcome run(const settings& with);

}  // namespace manta_test::spread
