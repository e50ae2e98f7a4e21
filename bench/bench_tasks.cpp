// SPDX-License-Identifier: Apache-2.0
//
// Tasks and futures in one process: ours, the rivals, and the numbers to reach.
#include "rivals/rows.hpp"

namespace bench {
namespace {

void add_rows(suite& s) {
  const std::string many = "1 M empty tasks with typed futures from one thread, then all got; ";
  s.add(row{many_8, many + "8 bytes"});
  s.add(row{many_1, many + "1 byte"});
  s.add(row{many_64, many + "64 bytes"});
  s.add(row{many_text, many + "std::string of 40 characters"});
  s.add(row{two_submitters, "Two threads submit 500 k tasks each and get them; per task"});
  row r{fib, "fib(30); per call of fib"};
  r.note = "Ours makes a task and a future per call and gets it; oneTBB's forms make no futures.";
  s.add(r);
  s.add(row{one, "Submit + get, nothing else running", unit::microseconds});
  const std::string placed =
      "The calling thread on one cpu, all others on another, for everybody: a hand-over between "
      "cores, wherever the kernel would place the threads.";
  r = row{one_hot, "Submit + get, not run in place, worker awake", unit::microseconds, placed};
  r.split_cores = true;
  s.add(r);
  r = row{one_asleep, "Submit + get, not run in place, worker asleep (2 ms pause before)",
          unit::microseconds};
  r.split_cores = true;
  r.warm_rounds = 1;
  r.note = placed;
  s.add(r);
  r = row{held, "1 M queued tasks: threads held, then released, each got", unit::seconds};
  r.note = "Bytes: growth of the peak resident set per task, futures included, most of all rounds.";
  r.warm_rounds = 1;
  s.add(r);
  r = row{long_run, "100 M tasks in one run, 10,000 at a time", unit::seconds};
  r.note =
      "Bytes: growth of the resident set from the first tenth on, per task. 100 M tasks took 54 s "
      "on "
      "100 nodes in the Ray paper (OSDI 2018).";
  r.passes = 1;
  r.warm_rounds = 0;
  s.add(r);
  r = row{idle, "CPU use of the process from 5 s after the last call on", unit::percent};
  r.warm_rounds = 0;
  r.passes = 3;
  s.add(r);
}

void add_bars(suite& s) {
  s.add(bar{"1 M empty tasks with futures: at most 150 ns each", many_8, "manta", 150});
  s.add(bar{"the same: not slower than oneTBB's 2-thread task_group, any configuration", many_8,
            "manta", 1, "oneTBB task_group, 2 thr"});
  s.add(bar{"fib(30): at most 3 x oneTBB's per call", fib, "manta, both branches tasks", 3,
            "oneTBB"});
  s.add(bar{"submit + get, nothing else running: at most 0.3 us", one, "manta", 0.3});
  s.add(bar{"not in place, worker awake: at most 0.5 us", one_hot, "manta", 0.5});
  s.add(bar{"worker asleep: at most 1.25 x a futex round trip", one_asleep, "manta", 1.25,
            "futex round trip, 2 ms"});
  s.add(bar{"1 M queued tasks: 0.5 s", held, "manta", 0.5});
  bar bytes{"1 M queued tasks: at most 320 bytes each at the peak", held, "manta", 320};
  bytes.of_bytes = true;
  s.add(bytes);
  s.add(bar{"100 M tasks in one run: under 25 s", long_run, "manta", 25});
  bar flat{"100 M tasks: memory flat, at most 0.1 bytes a task", long_run, "manta", 0.1};
  flat.of_bytes = true;
  s.add(flat);
  s.add(bar{"idle: under 0.1 % CPU", idle, "manta", 0.1});
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::suite s("bench_tasks");
  bench::add_rows(s);
  bench::add_bars(s);
#if BENCH_WITH_MANTA
  bench::add_our_tasks(s);
#else
  s.absent("manta", "this build has rivals only");
#endif
  bench::add_minimal(s);
#if BENCH_WITH_TBB
  bench::add_tbb(s);
#else
  s.absent("oneTBB", "not found when bench was configured; install libtbb-dev");
#endif
  bench::add_std(s);
#if BENCH_WITH_ASIO
  bench::add_asio(s);
#else
  s.absent("asio", "not found when bench was configured; install libasio-dev");
#endif
  bench::add_futex(s, bench::one_asleep);
  return s.run(argc, argv);
}
