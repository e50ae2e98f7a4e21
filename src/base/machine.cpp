// SPDX-License-Identifier: Apache-2.0
#include <manta/base/machine.hpp>

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
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

std::int64_t read_bytes(const std::string& file_name) {
  std::ifstream file(file_name);
  std::int64_t bytes = 0;
  // "max" is no number, and v1 says "no limit" with one of more than any machine has.
  if (!(file >> bytes) || bytes <= 0 || bytes > (std::int64_t{1} << 56)) return 0;
  return bytes;
}

std::int64_t read_memory_v2(const std::string& folder) {
  return read_bytes(folder + "/memory.max");
}
std::int64_t read_memory_v1(const std::string& folder) {
  return read_bytes(folder + "/memory.limit_in_bytes");
}

// The number behind `name` in a text of lines like "name 12", or "name:   12 kB"; 0 when there is
// none.
std::int64_t number_of(std::istream& text, std::string_view name) {
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t at = line.find_first_of("0123456789", name.size());
    return at == std::string::npos ? 0 : std::atoll(line.c_str() + at);
  }
  return 0;
}

// What is left of a limit; 0 when there is none, and at least 1 when there is.
std::int64_t room_of(std::int64_t limit, std::int64_t used, const std::string& stat_file) {
  if (limit == 0) return 0;
  std::ifstream stat(stat_file);
  return std::max<std::int64_t>(1, limit - used + number_of(stat, "inactive_file"));
}
std::int64_t read_room_v2(const std::string& folder) {
  return room_of(read_memory_v2(folder), read_bytes(folder + "/memory.current"),
                 folder + "/memory.stat");
}
std::int64_t read_room_v1(const std::string& folder) {
  return room_of(read_memory_v1(folder), read_bytes(folder + "/memory.usage_in_bytes"),
                 folder + "/memory.stat");
}

// The smallest limit on the way from `path` up to the root: a parent's quota binds its children.
template <class Read>
auto smallest_on_path(const std::string& mount, std::string path, Read read) {
  decltype(read(mount)) smallest = 0;
  for (;;) {
    const auto found = read(mount + path);
    if (found > 0 && (smallest == 0 || found < smallest)) smallest = found;
    if (path.empty() || path == "/") return smallest;
    path.erase(path.find_last_of('/'));
  }
}

template <class T>
T smaller_limit(T a, T b) {
  if (a == 0) return b;
  if (b == 0) return a;
  return std::min(a, b);
}

bool lists(std::string_view controllers, std::string_view wanted) {
  std::string_view rest = controllers;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    if (rest.substr(0, comma) == wanted) return true;
    if (comma == std::string_view::npos) return false;
    rest.remove_prefix(comma + 1);
  }
  return false;
}

// The limit for a process whose /proc/self/cgroup text is `membership`, by the readers of v2 and
// v1; `controller` is v1's folder.
template <class Read>
auto limit_of(const std::string& root, const std::string& membership, const std::string& controller,
              Read v2, Read v1) {
  decltype(v2(root)) limit = 0;
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    // hierarchy:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      limit = smaller_limit(limit, smallest_on_path(root, path, v2));
    } else if (lists(controllers, controller)) {
      limit = smaller_limit(limit, smallest_on_path(root + "/" + controllers, path, v1));
      limit = smaller_limit(limit, smallest_on_path(root + "/" + controller, path, v1));
    }
  }
  return limit;
}

std::string text_of(const char* name) {
  std::ifstream file(name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string own_membership() { return text_of("/proc/self/cgroup"); }

bool is_device_file(std::string_view name) {
  constexpr std::string_view prefix = "nvidia";
  return name.size() > prefix.size() && name.starts_with(prefix) &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

}  // namespace

int quota_cores(const std::string& root, const std::string& membership) {
  return limit_of(root, membership, "cpu", read_v2, read_v1);
}

std::int64_t limit_memory(const std::string& root, const std::string& membership) {
  return limit_of(root, membership, "memory", read_memory_v2, read_memory_v1);
}

std::int64_t usable_memory() {
  const std::int64_t machine =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return smaller_limit(machine, limit_memory("/sys/fs/cgroup", own_membership()));
}

std::int64_t available_memory(const std::string& root, const std::string& membership,
                              const std::string& meminfo) {
  std::istringstream lines(meminfo);
  const std::int64_t machine = number_of(lines, "MemAvailable:") * 1024;
  return smaller_limit(machine, limit_of(root, membership, "memory", read_room_v2, read_room_v1));
}

std::int64_t available_memory() {
  return available_memory("/sys/fs/cgroup", own_membership(), text_of("/proc/meminfo"));
}

int count_gpus(const char* visible, const std::string& devices) {
  int count = 0;
  if (visible != nullptr) {
    for (std::string_view rest = visible;;) {
      const std::size_t comma = rest.find(',');
      const std::string_view entry = rest.substr(0, comma);
      if (entry.empty() || entry.front() == '-' || entry == "NoDevFiles") break;
      ++count;
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    return count;
  }
  std::error_code ignored;  // no folder: no devices
  for (const auto& entry : std::filesystem::directory_iterator(devices, ignored)) {
    if (is_device_file(entry.path().filename().string())) ++count;
  }
  return count;
}

int usable_gpus() { return count_gpus(std::getenv("CUDA_VISIBLE_DEVICES"), "/dev"); }

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = 1;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = std::max(1, CPU_COUNT(&set));
  const int quota = quota_cores("/sys/fs/cgroup", own_membership());
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

void welcome_large_pages(void* at, std::size_t bytes) noexcept {
  constexpr std::size_t least = std::size_t{32} << 20U;
  constexpr std::uintptr_t page = std::uintptr_t{2} << 20U;
  if (bytes < least) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + bytes) / page * page;
  // Where there are none it is memory as any.
  static_cast<void>(madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE));
}

}  // namespace manta::inline v0::base
