// SPDX-License-Identifier: Apache-2.0
//
// The bench harness: what a program declares, and how it is measured.
//
// A suite has rows (what is measured: "1 M empty tasks") and contestants (who does it: ours, a
// rival, a reference). Every contestant runs in a process of its own, so that nobody inherits
// another's heap, threads or warm caches, and so that an allocator can be preloaded:
//
//   parent --- pass 1: [A glibc] [B glibc] [A mimalloc] [B mimalloc] ...
//          \-- pass 2: [A glibc] [B glibc] ...                       (A and B interleaved)
//   child  --- start (untimed) -> cold round -> warm rounds -> samples back through a pipe
//
// The first round of each process is the cold one; the medians are taken over the warm rounds of
// all passes (over the cold ones where a row has no warm rounds, such as a memory row).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace bench {

inline constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

// The unit of a row's value. All are better when smaller, but `per_second`.
enum class unit { nanoseconds, microseconds, milliseconds, seconds, per_second, bytes, percent };

// What one round found: the value in the row's unit, and how many operations it covers (CPU time is
// divided by them). Latency rows add quantiles in the row's unit; memory rows bytes per operation.
struct reading {
  double value = 0;
  double operations = 1;
  double p50 = not_measured;
  double p99 = not_measured;
  double bytes = not_measured;
  double n = not_measured;  // how many actors or clients, where the row leaves it to the machine
};

// What a round is told: how long a time-bounded round lasts at least.
struct turn {
  bool cold = false;
  double min_seconds = 0;
};

// What a contestant is told before it starts.
struct plan {
  bool quick = false;
  int cpus = 1;  // the cpus this process may use

  // A count of operations: the full one, or a small share of it in a quick run.
  std::size_t count(std::size_t full) const { return quick ? (full + 99) / 100 : full; }
};

using body = std::function<reading(const turn&)>;

enum class side { ours, rival, reference };

struct contestant {
  std::string row = {};   // key of its row
  std::string name = {};  // as printed
  side who = side::rival;
  bool preload = false;                         // measured with the preloaded allocators, too
  std::function<body(const plan&)> start = {};  // makes pools and runtimes; not timed
};

struct row {
  std::string key = {};
  std::string title = {};
  unit in = unit::nanoseconds;
  std::string note = {};    // printed under the table
  int passes = 3;           // processes per contestant
  int warm_rounds = 3;      // per process, after the cold one
  double cold_seconds = 0;  // for time-bounded rounds
  double warm_seconds = 0;
  bool split_cores = false;  // main thread on one cpu, all others on the next, for everybody
  double ray = not_measured, ray_best = not_measured;  // Ray's own figures for the same row
};

// A number to reach. `limit` is absolute, or a factor on the best rival whose name begins with
// `against` (in `against_row`, or the same row), in whatever allocator it is fastest.
struct bar {
  std::string text;
  std::string row;
  std::string ours;  // contestant's name; measured without a preloaded allocator
  double limit = 0;
  std::string against = {};
  std::string against_row = {};
  bool of_bytes = false;  // the reading's bytes instead of its value
};

// One round as it came back from a child.
struct sample {
  bool cold = false;
  reading got;
  double wall_s = 0, user_s = 0, system_s = 0;
  double rss_peak = 0, rss_after = 0;
  int threads = 0;  // that used cpu time in the round and still lived at its end
};

// All samples of one contestant under one allocator.
struct result {
  const contestant* of = nullptr;
  const struct row* in = nullptr;
  std::string allocator;  // "" = the C library's
  std::vector<sample> samples;
  std::vector<int> pids;
  std::vector<double> line_us;  // cache-line round trip, one per process
  std::string failure;
};

struct absence {
  std::string who, why;
};

class suite {
 public:
  explicit suite(std::string name) : name_(std::move(name)) {}

  void add(row r) { rows_.push_back(std::move(r)); }
  void add(contestant c) { contestants_.push_back(std::move(c)); }
  void add(bar b) { bars_.push_back(std::move(b)); }
  // A rival that this build or machine lacks; said in the table instead of an error.
  void absent(std::string who, std::string why);

  // Measures what the command line asks for, prints the table, writes JSON. Returns main's code.
  int run(int argc, char** argv);

  const std::string& name() const { return name_; }
  const std::vector<row>& rows() const { return rows_; }
  const std::vector<bar>& bars() const { return bars_; }
  const std::vector<absence>& absences() const { return absences_; }

 private:
  const row* find_row(const std::string& key) const;

  std::string name_;
  std::vector<row> rows_;
  std::vector<contestant> contestants_;
  std::vector<bar> bars_;
  std::vector<absence> absences_;
};

}  // namespace bench
