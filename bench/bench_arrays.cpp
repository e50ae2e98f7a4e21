// SPDX-License-Identifier: Apache-2.0
//
// Large plain values: put into the store, given to tasks in other processes, made there; beside a
// plain copy of as many bytes.
#include <string>

#include "rivals/rows.hpp"

namespace bench {
namespace {

void add_get_rows(suite& s) {
  for (const bool is_large : {false, true}) {
    row r{is_large ? "array_get_1g" : "array_get_1m",
          is_large ? "Get of 1 GiB alone" : "Get of 1 MiB alone", unit::microseconds};
    r.note = "In a worker: inside of a task that was given the object, not its value; the middle.";
    s.add(r);
  }
  row r{"array_put_839", "Put of 838.9 MB, into memory that was written before",
        unit::milliseconds};
  s.add(r);
  r = row{"array_100_tasks", "100 tasks in processes, one after the other", unit::milliseconds};
  r.note = "All of them together read the array once; beside tasks of a number, and a pass here.";
  s.add(r);
}

void add_bars(suite& s) {
  const char* const in_node = "manta, in the node";
  const char* const in_worker = "manta, in a worker, first";
  s.add(bar{"put of 838.9 MB: at least 0.9 x the faster copy", "array_put_839", "manta, put",
            1 / 0.9, "copy"});
  s.add(bar{"small puts inside a worker: 1 M/s", "array_in_worker_1k",
            "manta, put and get in a worker", 1});
  for (const char* const one : {"array_get_1m", "array_get_1g"}) {
    const std::string which = one;
    s.add(bar{which + ": at most 1 us in the node", one, in_node, 1});
    s.add(bar{which + ": at most 5 us in a worker", one, in_worker, 5});
  }
  s.add(bar{"get of 1 GiB: at most 2 x one of 1 MiB, in the node", "array_get_1g", in_node, 2,
            in_node, "array_get_1m"});
  s.add(bar{"get of 1 GiB: at most 2 x one of 1 MiB, in a worker", "array_get_1g", in_worker, 2,
            in_worker, "array_get_1m"});
  s.add(bar{"1 GiB as an argument: at most 1.1 x a number, and one pass", "array_100_tasks",
            "manta, 1 GiB each, a pass by all", 1.1, "manta, 8 bytes each, and a pass"});
  s.add(bar{"made in a process, 1 MiB: at most 3 x in the node", "array_1m",
            "manta, made in a process", 3, "manta, make_array of a range"});
  s.add(bar{"put in a worker, 256 KiB: at most 3 x in the node", "array_in_worker_256k",
            "manta, put and get in a worker", 3, "manta, put and get in the node"});
  s.add(bar{"a vector of 64 MiB to a process: at most 3 x memcpy", "array_64m",
            "manta, a vector to a process", 3, "memcpy"});
  s.add(bar{"spill: at least 0.5 x the disk's speed", "spill_out", "manta, put", 2,
            "write(2), fdatasync"});
  s.add(
      bar{"restore: at least 0.5 x the disk's speed", "spill_in", "manta, to tasks", 2, "read(2)"});
  s.add(bar{"restore for processes: the same", "spill_in", "manta, to tasks in processes", 2,
            "read(2)"});
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::suite s("bench_arrays");
  for (const bench::array_size& one : bench::array_sizes) {
    bench::row r{one.row, one.title, bench::unit::microseconds};
    r.note = "One at a time, each given back before the next.";
    s.add(r);
  }
  for (const int threads : bench::array_threads) {
    bench::row r{"array_by_" + std::to_string(threads),
                 "1 MiB by " + std::to_string(threads) + " threads", bench::unit::microseconds};
    r.note = "All of them together: what one MiB takes of the time.";
    s.add(r);
  }
  bench::row first{"array_first", "64 MiB, the first after the start", bench::unit::microseconds};
  first.warm_rounds = 0;
  s.add(first);
  for (const int size : {1, 16, 256}) {
    s.add(bench::row{"array_in_worker_" + std::to_string(size) + "k",
                     std::to_string(size) + " KiB, put and get", bench::unit::microseconds});
  }
  for (const bool is_out : {true, false}) {
    bench::row r{is_out ? "spill_out" : "spill_in",
                 is_out ? "4 GiB through a store of 1 GiB" : "the same 4 GiB, read again",
                 bench::unit::milliseconds};
    r.note =
        "64 MiB in quick runs. What is written goes to the disk's cache, and is read from there.";
    r.passes = 1;
    s.add(r);
  }
  bench::add_get_rows(s);
  bench::add_bars(s);
#if BENCH_WITH_MANTA
  bench::add_our_arrays(s);
  bench::add_our_array_gets(s);
  bench::add_our_spills(s);
#else
  s.absent("manta", "this build has rivals only");
#endif
  return s.run(argc, argv);
}
