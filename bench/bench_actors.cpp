// SPDX-License-Identifier: Apache-2.0
//
// Actors in one process: ours, CAF, and the numbers to reach.
#include "rivals/rows.hpp"

namespace bench {
namespace {

void add_rows(suite& s) {
  const std::string calls = "Actor calls with typed results, 1 caller, 1 actor; in flight: ";
  for (const auto& [key, title] :
       {std::pair{window_1, "1"}, std::pair{window_10, "10"}, std::pair{window_1000, "1,000"},
        std::pair{window_10000, "10,000"}}) {
    row r{key, calls + title, unit::per_second};
    s.add(r);
  }
  s.add(row{one_way, "Actor calls, one way (nobody waits for a result)", unit::per_second});
  const std::string placed =
      "The calling thread on one cpu, all others on another, for everybody: a hand-over between "
      "cores, wherever the kernel would place the threads.";
  row r{actor_sync, "Actor call + get, one at a time, worker awake", unit::microseconds, placed};
  r.split_cores = true;
  s.add(r);
  r = row{actor_asleep, "Actor call + get, worker asleep (2 ms pause before)", unit::microseconds};
  r.split_cores = true;
  r.warm_rounds = 1;
  r.note = placed;
  s.add(r);
  s.add(row{actor_crowd, "10,000 actors made, called once, ended", unit::milliseconds});
  r = row{actor_bytes, "Bytes of an idle actor (growth of the resident set over 100,000)",
          unit::bytes};
  r.warm_rounds = 0;
  r.passes = 3;
  s.add(r);
}

void add_bars(suite& s) {
  s.add(bar{"1:1 async: at least 5 M/s", window_1000, "manta", 5e6});
  s.add(bar{"1:1 async, 10,000 in flight: no fall (at least 5 M/s)", window_10000, "manta", 5e6});
  const std::string shared = "max_concurrency 16: at least 0.8 x plain";
  s.add(bar{shared + ", called by the main thread", window_1000, "manta, max_concurrency 16", 0.8,
            "manta"});
  s.add(bar{shared + ", called by a task", window_1000,
            "manta, max_concurrency 16, called by a task", 0.8, "manta, called by a task"});
  s.add(bar{"sync hot: at most 0.5 us", actor_sync, "manta", 0.5});
  s.add(bar{"sync hot, not run in place: at most 0.5 us", actor_sync, "manta, not in place", 0.5});
  s.add(bar{"sync asleep: at most 1.25 x a futex round trip", actor_asleep, "manta, not in place",
            1.25, "futex round trip, 2 ms"});
  s.add(bar{"10,000 actors made, called once, ended: 20 ms", actor_crowd, "manta", 20});
  s.add(bar{"an idle actor: at most 384 bytes", actor_bytes, "manta", 384});
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::suite s("bench_actors");
  bench::add_rows(s);
  bench::add_bars(s);
#if BENCH_WITH_MANTA
  bench::add_our_actors(s);
#else
  s.absent("manta", "this build has rivals only");
#endif
#if BENCH_WITH_CAF
  bench::add_caf_actors(s);
#else
  s.absent("CAF", "not found when bench was configured; install libcaf-dev");
#endif
  bench::add_futex(s, bench::actor_asleep);
  return s.run(argc, argv);
}
