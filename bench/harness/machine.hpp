// SPDX-License-Identifier: Apache-2.0
//
// What the harness reads from the machine and from its own process (Linux).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace bench {

struct machine {
  std::string cpu, kernel, compiler, build_type, flags, commit;
  int cpus = 0;
  std::vector<int> allowed;  // cpu set of the run, the same for reference and ours
};
machine describe_machine();

std::vector<int> allowed_cpus();
void pin_process(const std::vector<int>& cpus);  // threads made later inherit it
void pin_this_thread(int cpu);

// Main thread on the first allowed cpu, all other threads of the process on the second; nothing
// happens with one cpu.
void split_cores();

// One cache line handed to another core and back, microseconds (about 0.14 when two cores share a
// cache, 0.5 when they do not); 0 with one cpu.
double cache_line_round_trip_us();

double resident_bytes();
double peak_resident_bytes();  // since the last reset
void reset_peak();

double process_cpu_s();
void process_cpu_s(double& user, double& system);

// Cpu nanoseconds per thread id, of the threads alive now.
std::map<int, std::uint64_t> thread_cpu_ns();

}  // namespace bench
