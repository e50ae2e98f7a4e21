// SPDX-License-Identifier: Apache-2.0
//
// The control store: ours on a disk and in memory, RocksDB without it, a Redis beside it, and the
// numbers to reach. The folders are in TMPDIR: name one on the disk that is meant.
#include <cstring>

#include "rivals/control_rows.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

void add_write_rows(suite& s) {
  row r{batch_rows[0].key, "Changes with a value of 100 bytes, in batches of 1, buffered",
        unit::per_second};
  r.note =
      "Keys: 100,000, at random. 8192 changes are in flight; RocksDB's caller writes batch after "
      "batch, with the same options. Redis takes them by its pipeline, SET or MSET.";
  s.add(r);
  r.note = {};
  r.key = batch_rows[1].key;
  r.title = "The same in batches of 16";
  s.add(r);
  r.key = batch_rows[2].key;
  r.title = "The same in batches of 256";
  s.add(r);
  r.key = packed;
  r.title = "Task records of 100 bytes, 256 packed into one value, buffered";
  r.note = "Added to the owner's table, written, and released when half a million came after.";
  s.add(r);
  r.note = {};
  r.key = packed_durable;
  r.title = "The same, durable, as many in flight";
  s.add(r);
}

void add_other_rows(suite& s) {
  row r{durable_alone, "One durable write of 100 bytes, nothing else", unit::microseconds};
  r.note = "The reference appends as much to a file of the same folder.";
  s.add(r);
  r = row{durable_extra, "A durable write less the fsync of a file before it", unit::microseconds};
  s.add(r);
  r = row{read_rows[0].key, "One of 100,000 records is read", unit::nanoseconds};
  r.note = "From tables of the same files, with the same options.";
  s.add(r);
  r.key = read_rows[1].key;
  r.title = "One of 4,000,000 records is read";
  s.add(r);
  r = row{watched, "Changes committed by one thread and taken by a watcher", unit::per_second};
  s.add(r);
  r = row{long_store, "50 M task records, the last million live: bytes of the folder at the end",
          unit::bytes};
  r.note =
      "Bytes per op: what resident memory grew by at most. n: records per second. More than 120 s "
      "is "
      "a failure.";
  r.passes = 1;
  r.warm_rounds = 0;
  s.add(r);
  r = row{reopened, "Open after kill -9, 100,000 records in the log", unit::milliseconds};
  s.add(r);
  r = row{events_cost, "What events=all adds to a task of 20 us, CPU time of all threads",
          unit::percent};
  r.note =
      "Runtimes with and without events in turns, 60,000 tasks on 2 workers each; medians of 15.";
  r.warm_rounds = 1;
  s.add(r);
}

void add_bars(suite& s) {
  for (const auto& [key, changes] : batch_rows) {
    const std::string of = std::to_string(changes);
    s.add(bar{"batches of " + of + ": at least 0.8 x RocksDB's", key, "manta", 0.8, "RocksDB"});
  }
  s.add(bar{"packed task records: at least 1 M/s", packed, "manta", 1e6});
  s.add(bar{"packed and durable: at least 300 k/s", packed_durable, "manta", 300e3});
  s.add(bar{"a durable write: at most an fsync and 0.5 ms", durable_extra, "manta", 500});
  for (const read_row& of : read_rows) {
    const std::string from = std::to_string(of.records);
    s.add(
        bar{"get of " + from + ": at least 0.8 x RocksDB's", of.key, "manta", 1 / 0.8, "RocksDB"});
  }
  s.add(bar{"watch: at least 200 k changes/s", watched, "manta", 200e3});
  s.add(bar{"50 M records: the folder at most 1 GB", long_store, "manta", 1e9});
  bar memory{"the same: resident memory grows by less than 256 MB", long_store, "manta", 256e6};
  memory.of_bytes = true;
  s.add(memory);
  s.add(bar{"open after kill -9: under 0.5 s", reopened, "manta", 500});
  for (const char* const where : {"manta, in memory", "manta, on a disk"}) {
    s.add(bar{"events of a 20 us task: at most 2 %", events_cost, where, 2});
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], bench::fill_option) == 0) {
    return bench::fill_and_die(argv[2]);
  }
  bench::suite s("bench_control");
  bench::add_write_rows(s);
  bench::add_other_rows(s);
  bench::add_bars(s);
  bench::add_our_control(s);
  bench::add_our_control_times(s);
  bench::add_our_control_events(s);
  bench::add_raw_rocksdb(s);
  bench::add_redis(s);
  return s.run(argc, argv);
}
