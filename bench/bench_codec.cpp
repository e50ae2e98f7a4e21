// SPDX-License-Identifier: Apache-2.0
//
// Values to bytes and back, and the messages that carry them: ours, cereal's binary archives and
// plain copies, and the numbers to reach.
#include "rivals/rows.hpp"

namespace bench {
namespace {

void add_rows(suite& s) {
  row r{coded_struct, "A struct of int64, double and a string of 16: out and in"};
  r.note = "Archives and buffers are used again, by everybody who can.";
  s.add(r);
  r = row{coded_doubles, "1 M doubles written to memory that was touched", unit::milliseconds};
  r.note = "Beside the bytes as a segment; memcpy is the limit.";
  s.add(r);
  r = row{read_doubles, "1 M doubles read into a new vector", unit::milliseconds};
  r.note = "Where they lie they are read without a copy. The limit is the copy of a vector.";
  s.add(r);
  r = row{coded_texts, "vector of 100,000 strings of 30: out and in", unit::milliseconds};
  r.note = "The limit is the copy: the allocations, which everybody makes.";
  s.add(r);
  r = row{task_message, "A task with 128 bytes of arguments as a message: built and read"};
  r.note = "Flattened in between; checked as if it came from anybody.";
  s.add(r);
  r = row{checked_tasks, "Empty tasks in the check-copy mode, submitted by one thread, all got",
          unit::per_second};
  r.note = "Arguments and result each: value, bytes, Cap'n Proto message, value.";
  s.add(r);
}

void add_bars(suite& s) {
  s.add(bar{"struct out and in: at most 100 ns", coded_struct, "manta", 100});
  s.add(bar{"1 M doubles out: at least 0.9 x memcpy", coded_doubles, "manta", 1 / 0.9, "memcpy"});
  s.add(bar{"vector of strings: at least 1.5 x cereal", coded_texts, "manta", 1 / 1.5, "cereal"});
  s.add(bar{"task message built and read: at most 250 ns", task_message, "manta", 250});
  s.add(bar{"check-copy mode: at least 0.6 M empty tasks/s", checked_tasks, "manta", 0.6e6});
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::suite s("bench_codec");
  bench::add_rows(s);
  bench::add_bars(s);
#if BENCH_WITH_MANTA
  bench::add_our_codec(s);
#else
  s.absent("manta", "this build has rivals only");
#endif
#if BENCH_WITH_WIRE
  bench::add_our_messages(s);
#else
  s.absent("manta's messages", "they are inside of libmanta; build bench as a part of manta");
#endif
  bench::add_plain_codec(s);
#if BENCH_WITH_CEREAL
  bench::add_cereal(s);
#else
  s.absent("cereal", "not found when bench was configured; install libcereal-dev");
#endif
  return s.run(argc, argv);
}
