// SPDX-License-Identifier: Apache-2.0
#include "harness/machine.hpp"

#include <dirent.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "harness/measure.hpp"

#ifndef BENCH_BUILD_TYPE
#define BENCH_BUILD_TYPE "unknown"
#endif
#ifndef BENCH_FLAGS
#define BENCH_FLAGS ""
#endif

namespace bench {
namespace {

// The value after the colon of the first line of `path` that begins with `key`; empty without one.
std::string field(const char* path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

double kibibytes(const char* key) {
  return std::atof(field("/proc/self/status", key).c_str()) * 1024;
}

cpu_set_t to_set(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  return set;
}

double seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

}  // namespace

machine describe_machine() {
  machine m;
  m.cpu = field("/proc/cpuinfo", "model name");
  utsname u{};
  if (uname(&u) == 0) m.kernel = std::string(u.sysname) + " " + u.release;
#if defined(__clang__)
  m.compiler = "Clang " __clang_version__;
#else
  m.compiler = "GCC " __VERSION__;
#endif
  m.build_type = BENCH_BUILD_TYPE;
  m.flags = BENCH_FLAGS;
  const char* commit = std::getenv("MANTA_BENCH_COMMIT");
  m.commit = commit != nullptr ? commit : "unknown";
  m.cpus = static_cast<int>(std::thread::hardware_concurrency());
  m.allowed = allowed_cpus();
  return m;
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void pin_process(const std::vector<int>& cpus) {
  const cpu_set_t set = to_set(cpus);
  if (sched_setaffinity(0, sizeof set, &set) != 0) std::perror("bench: sched_setaffinity");
}

void pin_this_thread(int cpu) {
  const cpu_set_t set = to_set({cpu});
  sched_setaffinity(0, sizeof set, &set);
}

void split_cores() {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) return;
  const cpu_set_t first = to_set({cpus[0]});
  const cpu_set_t second = to_set({cpus[1]});
  for (const auto& [tid, ns] : thread_cpu_ns()) {
    const bool is_main = tid == getpid();
    sched_setaffinity(tid, sizeof(cpu_set_t), is_main ? &first : &second);
  }
}

// Median of many short batches: whoever else uses the machine then disturbs few of them.
double cache_line_round_trip_us() {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) return 0;
  constexpr std::uint32_t batches = 40;
  constexpr std::uint32_t batch = 250;
  struct alignas(128) line {
    std::atomic<std::uint32_t> value{0};
  } there, back;
  std::vector<double> took;
  std::thread echo([&] {
    pin_this_thread(cpus[1]);
    for (std::uint32_t i = 1; i <= batches * batch; ++i) {
      while (there.value.load(std::memory_order_acquire) != i) {
      }
      back.value.store(i, std::memory_order_release);
    }
  });
  std::thread caller([&] {
    pin_this_thread(cpus[0]);
    double before = now_s();
    for (std::uint32_t i = 1; i <= batches * batch; ++i) {
      there.value.store(i, std::memory_order_release);
      while (back.value.load(std::memory_order_acquire) != i) {
      }
      if (i % batch != 0) continue;
      const double after = now_s();
      took.push_back((after - before) * 1e6 / batch);
      before = after;
    }
  });
  caller.join();
  echo.join();
  return quantile(took, 0.5);
}

double resident_bytes() { return kibibytes("VmRSS"); }
double peak_resident_bytes() { return kibibytes("VmHWM"); }
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

void process_cpu_s(double& user, double& system) {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  user = seconds(u.ru_utime);
  system = seconds(u.ru_stime);
}

double process_cpu_s() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

std::map<int, std::uint64_t> thread_cpu_ns() {
  std::map<int, std::uint64_t> found;
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return found;
  while (const dirent* entry = readdir(tasks)) {
    const int tid = std::atoi(entry->d_name);
    if (tid == 0) continue;
    std::ifstream in("/proc/self/task/" + std::to_string(tid) + "/schedstat");
    std::uint64_t ns = 0;
    in >> ns;
    found[tid] = ns;
  }
  closedir(tasks);
  return found;
}

}  // namespace bench
