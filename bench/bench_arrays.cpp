// SPDX-License-Identifier: Apache-2.0
//
// Large plain values: put into the store, given to tasks in other processes, made there; beside a
// plain copy of as many bytes.
#include "rivals/rows.hpp"

int main(int argc, char** argv) {
  bench::suite s("bench_arrays");
  for (const bench::array_size& one : bench::array_sizes) {
    bench::row r{one.row, one.title, bench::unit::microseconds};
    r.note = "One at a time, each given back before the next.";
    s.add(r);
  }
#if BENCH_WITH_MANTA
  bench::add_our_arrays(s);
#else
  s.absent("manta", "this build has rivals only");
#endif
  return s.run(argc, argv);
}
