// SPDX-License-Identifier: Apache-2.0
#include <manta/base/machine.hpp>

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

namespace manta::inline v0::base {

namespace {

// Whole cores, rounded up, for `quota` microseconds in each `period`; 0 when there is no limit.
int cores_of(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::max(1LL, (quota + period - 1) / period));
}

int read_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  long long period = 0;
  if (!(file >> quota >> period) || quota == "max") return 0;
  return cores_of(std::atoll(quota.c_str()), period);
}

int read_v1(const std::string& folder) {
  long long quota = 0;
  long long period = 0;
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  if (!(quota_file >> quota) || !(period_file >> period)) return 0;
  return cores_of(quota, period);
}

// The smallest limit on the way from `path` up to the root: a parent's quota binds its children.
template <class Read>
int smallest_on_path(const std::string& mount, std::string path, Read read) {
  int smallest = 0;
  for (;;) {
    const int found = read(mount + path);
    if (found > 0 && (smallest == 0 || found < smallest)) smallest = found;
    if (path.empty() || path == "/") return smallest;
    path.erase(path.find_last_of('/'));
  }
}

int smaller_limit(int a, int b) {
  if (a == 0) return b;
  if (b == 0) return a;
  return std::min(a, b);
}

bool lists_cpu(std::string_view controllers) {
  std::string_view rest = controllers;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    if (rest.substr(0, comma) == "cpu") return true;
    if (comma == std::string_view::npos) return false;
    rest.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

int quota_cores(const std::string& root, const std::string& membership) {
  int limit = 0;
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    // hierarchy:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      limit = smaller_limit(limit, smallest_on_path(root, path, read_v2));
    } else if (lists_cpu(controllers)) {
      limit = smaller_limit(limit, smallest_on_path(root + "/" + controllers, path, read_v1));
      limit = smaller_limit(limit, smallest_on_path(root + "/cpu", path, read_v1));
    }
  }
  return limit;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = 1;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = std::max(1, CPU_COUNT(&set));
  std::ifstream file("/proc/self/cgroup");
  std::ostringstream membership;
  membership << file.rdbuf();
  const int quota = quota_cores("/sys/fs/cgroup", membership.str());
  return quota > 0 ? std::min(cores, quota) : cores;
}

const char* stack_floor() noexcept {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return nullptr;
  void* low = nullptr;
  std::size_t size = 0;
  const int status = pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  return status == 0 ? static_cast<const char*>(low) : nullptr;
}

}  // namespace manta::inline v0::base
