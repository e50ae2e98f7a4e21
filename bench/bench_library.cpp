// SPDX-License-Identifier: Apache-2.0
//
// What lies on top of tasks and futures: ours, the rivals where they have such a thing, and the
// numbers to reach.
#include "rivals/rows.hpp"

namespace bench {
namespace {

void add_rows(suite& s) {
  row r{completed, "as_completed over 1 M futures; per future"};
  r.note =
      "Ended before: only the walk is timed. Under way: the walk begins when the last task was "
      "submitted. Submitting included: the time from the first call on.";
  s.add(r);
  s.add(
      row{callbacks, "on_ready of 1 M futures that had ended; per callback, submitting included"});
  s.add(row{parts, "split of a vector of 100,000 numbers, each part got; per part"});
  r = row{awaited, "A coroutine submits a task and awaits it, 1 M times; per task"};
  r.note =
      "In a coroutine the task's result resumes the frame, the next task being submitted there; "
      "plain "
      "calls run in place in get.";
  s.add(r);
  r = row{resumed, "Coroutines that await one future: from its value to the end of all; each"};
  r.note =
      "1,000 coroutines fit into a core's cache, 100,000 do not. Each is resumed, adds the value, "
      "returns, and its future is got.";
  s.add(r);
  r = row{streamed, "A generator of 1 M numbers, taken one by one; per item"};
  r.note =
      "By hand: a C++20 generator of twenty lines that nothing can cancel, resumed by its reader "
      "on one thread.";
  s.add(r);
  r = row{cancelled, "cancel of 1 M queued tasks, threads held", unit::seconds};
  r.warm_rounds = 1;
  s.add(r);
  r = row{reduced, "Sum of 1e8 doubles, reduced in parallel", unit::milliseconds};
  r.note = "Called by the main thread.";
  s.add(r);
  s.add(row{channel_alone, "Channel, nobody else there: an item sent and received"});
  s.add(row{channel_pair, "Channel of 1,024 between two threads; per item"});
}

void add_bars(suite& s) {
  const std::string name = "as_completed over 1 M futures: at most 150 ns each";
  s.add(bar{name, completed, "manta, under way", 150});
  s.add(bar{name + ", submitting included", completed, "manta, submitting included", 150});
  s.add(bar{"co_await resume: at most 100 ns", resumed, "manta, 1,000 coroutines", 100});
  s.add(bar{"stream item: at most 200 ns", streamed, "manta", 200});
  s.add(bar{"cancel of 1 M queued tasks: 0.3 s", cancelled, "manta", 0.3});
  s.add(
      bar{"parallel_reduce: at least 0.95 x oneTBB's rate", reduced, "manta", 1 / 0.95, "oneTBB"});
  s.add(bar{"channel item, uncontended: at most 100 ns", channel_alone, "manta", 100});
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::suite s("bench_library");
  bench::add_rows(s);
  bench::add_bars(s);
#if BENCH_WITH_MANTA
  bench::add_our_library(s);
#else
  s.absent("manta", "this build has rivals only");
#endif
  bench::add_plain_library(s);
#if BENCH_WITH_TBB
  bench::add_tbb_library(s);
#else
  s.absent("oneTBB", "not found when bench was configured; install libtbb-dev");
#endif
  return s.run(argc, argv);
}
