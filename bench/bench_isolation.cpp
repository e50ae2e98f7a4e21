// SPDX-License-Identifier: Apache-2.0
//
// Tasks in isolated workers: how many a second, how long one takes, what a death costs; beside bare
// rings between two processes, futex round trips, and the same tasks on threads.
#include "rivals/rows.hpp"

namespace bench {
namespace {

void add_rows(suite& s) {
  row r{isolated_many, "Empty tasks on 2 isolated workers, submitted by one thread, all got",
        unit::per_second};
  r.note =
      "100,000 at a time. Rings: 128 bytes there and back, 100 under way, one process each side.";
  s.add(r);
  r = row{isolated_large, "The same, each with a vector of 1,000 doubles there and back",
          unit::per_second};
  s.add(r);
  s.add({isolated_calls, "Calls of one actor in an isolated worker, by one thread, all got",
         unit::per_second});
  r = row{isolated_awake, "One empty task at a time, its worker awake", unit::microseconds};
  r.note = "Rings: both sides look without a pause.";
  r.split_cores = true;
  s.add(r);
  r = row{isolated_asleep, "One empty task at a time after 2 ms of rest", unit::microseconds};
  r.note = "Everybody has gone to sleep. One core for the main thread, another for the rest.";
  r.split_cores = true;
  s.add(r);
  r = row{isolated_nested, "Tasks that tasks call: fib(15), each call a task", unit::microseconds};
  r.note = "Each of 1,973 calls goes to the node and from there to a worker.";
  s.add(r);
  r = row{isolated_death, "A worker is killed: until its task has run again", unit::milliseconds};
  s.add(r);
  r = row{isolated_kills, "Tasks of 50 us, with and without a kill every 500 ms",
          unit::microseconds};
  r.note =
      "Each, a million; two workers. Every result is checked, and that 50 kills or more landed.";
  r.passes = 2;
  r.warm_rounds = 1;
  s.add(r);
}

void add_bars(suite& s) {
  s.add(bar{"2 isolated workers: at least 1.5 M empty tasks/s", isolated_many, "manta", 1.5e6});
  s.add(bar{"an actor in a worker: at least 1.2 M calls/s", isolated_calls, "manta", 1.2e6});
  s.add(bar{"worker awake: at most 3 us", isolated_awake, "manta", 3});
  s.add(bar{"worker asleep: at most 1.5 x a futex round trip", isolated_asleep, "manta", 1.5,
            "futex round trip, 2 ms pause"});
  s.add(bar{"killed: its task runs again within 50 ms", isolated_death, "manta", 50});
  s.add(bar{"kills cost at most 1.15 x", isolated_kills, "manta, kills", 1.15, "manta, no kills"});
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::suite s("bench_isolation");
  bench::add_rows(s);
  bench::add_bars(s);
#if BENCH_WITH_MANTA
  bench::add_our_isolation(s);
#else
  s.absent("manta", "this build has rivals only");
#endif
#if BENCH_WITH_WIRE
  bench::add_our_rings(s);
#else
  s.absent("bare rings", "they are inside of libmanta; build bench as a part of manta");
#endif
  bench::add_futex(s, bench::isolated_asleep);
  return s.run(argc, argv);
}
