// SPDX-License-Identifier: Apache-2.0
#include <manta/base/machine.hpp>

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

#include "folder.hpp"

namespace {

using manta::base::count_gpus;
using manta::base::limit_memory;
using manta::base::quota_cores;

// A folder that looks like /sys/fs/cgroup.
class cgroup_tree {
 public:
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = root_ + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  int cores(const std::string& membership) const { return quota_cores(root_, membership); }
  std::int64_t memory(const std::string& membership) const {
    return limit_memory(root_, membership);
  }
  const std::string& root() const { return root_; }
  int gpus(const char* visible) const { return count_gpus(visible, root_); }

 private:
  manta_test::folder where_;
  std::string root_ = where_.path().string();
};

}  // namespace

TEST_CASE("without cgroup files there is no quota", "[machine]") {
  const cgroup_tree tree;
  CHECK(tree.cores("") == 0);
  CHECK(tree.cores("0::/\n") == 0);
  CHECK(tree.cores("0::/user/app\n5:cpu,cpuacct:/x\n") == 0);
  CHECK(tree.cores("nonsense\n:\n::\n") == 0);
}

TEST_CASE("a v2 quota is rounded up to whole cores", "[machine]") {
  const cgroup_tree tree;
  tree.write("/cpu.max", "150000 100000");
  CHECK(tree.cores("0::/\n") == 2);
  tree.write("/cpu.max", "200000 100000");
  CHECK(tree.cores("0::/\n") == 2);
  tree.write("/cpu.max", "200001 100000");
  CHECK(tree.cores("0::/\n") == 3);
  tree.write("/cpu.max", "1000 100000");
  CHECK(tree.cores("0::/\n") == 1);
  tree.write("/cpu.max", "50000 10000");
  CHECK(tree.cores("0::/\n") == 5);
}

TEST_CASE("a v2 group without limit has none", "[machine]") {
  const cgroup_tree tree;
  tree.write("/app/cpu.max", "max 100000");
  CHECK(tree.cores("0::/app\n") == 0);
}

TEST_CASE("the smallest quota on the way up binds a v2 group", "[machine]") {
  const cgroup_tree tree;
  tree.write("/a/cpu.max", "300000 100000");
  tree.write("/a/b/cpu.max", "800000 100000");
  tree.write("/a/b/c/cpu.max", "max 100000");
  CHECK(tree.cores("0::/a/b/c\n") == 3);
  CHECK(tree.cores("0::/a/b\n") == 3);
  CHECK(tree.cores("0::/a\n") == 3);
  CHECK(tree.cores("0::/other\n") == 0);
  tree.write("/a/b/c/cpu.max", "100000 100000");
  CHECK(tree.cores("0::/a/b/c\n") == 1);
}

TEST_CASE("a v1 quota counts under either name of the controller's folder", "[machine]") {
  for (const char* folder : {"/cpu,cpuacct", "/cpu"}) {
    CAPTURE(folder);
    const cgroup_tree tree;
    tree.write(std::string(folder) + "/app/cpu.cfs_quota_us", "250000");
    tree.write(std::string(folder) + "/app/cpu.cfs_period_us", "100000");
    CHECK(tree.cores("12:memory:/app\n4:cpu,cpuacct:/app\n") == 3);
    CHECK(tree.cores("4:cpuacct,cpu:/app\n") == (std::string(folder) == "/cpu" ? 3 : 0));
    CHECK(tree.cores("4:cpuset:/app\n") == 0);
  }
}

TEST_CASE("a v1 group without limit says -1", "[machine]") {
  const cgroup_tree tree;
  tree.write("/cpu/app/cpu.cfs_quota_us", "-1");
  tree.write("/cpu/app/cpu.cfs_period_us", "100000");
  CHECK(tree.cores("4:cpu:/app\n") == 0);
  tree.write("/cpu/cpu.cfs_quota_us", "400000");
  tree.write("/cpu/cpu.cfs_period_us", "100000");
  CHECK(tree.cores("4:cpu:/app\n") == 4);
}

TEST_CASE("the smaller of the limits of both versions binds", "[machine]") {
  const cgroup_tree tree;
  tree.write("/cpu.max", "400000 100000");
  tree.write("/cpu/cpu.cfs_quota_us", "200000");
  tree.write("/cpu/cpu.cfs_period_us", "100000");
  CHECK(tree.cores("4:cpu:/\n0::/\n") == 2);
  tree.write("/cpu.max", "100000 100000");
  CHECK(tree.cores("4:cpu:/\n0::/\n") == 1);
}

TEST_CASE("broken quota files are no quota", "[machine]") {
  for (const char* text : {"", "max", "100000", "x y", "100000 0", "-5 100000", "0 100000"}) {
    CAPTURE(text);
    const cgroup_tree tree;
    tree.write("/cpu.max", text);
    CHECK(tree.cores("0::/\n") == 0);
  }
}

TEST_CASE("the process may use at least one core and at most those of its mask", "[machine]") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
  CHECK(manta::base::usable_cores() >= 1);
  CHECK(manta::base::usable_cores() <= CPU_COUNT(&before));

  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  CHECK(manta::base::usable_cores() == 1);
  REQUIRE(sched_setaffinity(0, sizeof(before), &before) == 0);
}

TEST_CASE("the stack's floor lies below this frame", "[machine]") {
  const char here = 0;
  const char* const floor = manta::base::stack_floor();
  REQUIRE(floor != nullptr);
  CHECK(floor < &here);
}

TEST_CASE("the smallest memory limit on the way up binds, of v2 and v1", "[machine]") {
  const cgroup_tree tree;
  CHECK(tree.memory("0::/user/app\n") == 0);
  tree.write("/memory.max", "max");
  tree.write("/user/memory.max", "2000");
  tree.write("/user/app/memory.max", "3000");
  CHECK(tree.memory("0::/user/app\n") == 2000);
  tree.write("/memory/x/memory.limit_in_bytes", "9223372036854771712");
  CHECK(tree.memory("5:memory:/x\n") == 0);
  tree.write("/memory/x/memory.limit_in_bytes", "1000");
  CHECK(tree.memory("5:memory:/x\n") == 1000);
  CHECK(tree.memory("5:memory:/x\n0::/user/app\n") == 1000);
}

TEST_CASE("what is left of the smallest limit can be taken", "[machine]") {
  const cgroup_tree tree;
  const std::string machine = "MemTotal:  99 kB\nMemAvailable:    8 kB\nBuffers: 7 kB\n";
  const auto left = [&](const std::string& membership) {
    return manta::base::available_memory(tree.root(), membership, machine);
  };
  CHECK(left("0::/app\n") == 8192);
  CHECK(manta::base::available_memory(tree.root(), "0::/app\n", "") == 0);  // nobody knows
  tree.write("/app/memory.max", "5000");
  tree.write("/app/memory.current", "4000");
  CHECK(left("0::/app\n") == 1000);
  tree.write("/app/memory.stat", "anon 1\ninactive_file 500\nactive_file 300");
  CHECK(left("0::/app\n") == 1500);
  tree.write("/memory.max", "9000");
  tree.write("/memory.current", "8900");
  CHECK(left("0::/app\n") == 100);
  tree.write("/memory.current", "9001");
  CHECK(left("0::/app\n") == 1);  // not "no limit"
  tree.write("/memory/x/memory.limit_in_bytes", "700");
  tree.write("/memory/x/memory.usage_in_bytes", "600");
  CHECK(left("5:memory:/x\n") == 100);
  CHECK(manta::base::available_memory() > 1 << 20);
}

TEST_CASE("the machine has memory", "[machine]") { CHECK(manta::base::usable_memory() > 1 << 20); }

TEST_CASE("gpus are what the variable lists, or else the device files", "[machine]") {
  const cgroup_tree tree;
  CHECK(tree.gpus(nullptr) == 0);
  for (const char* file : {"/nvidia0", "/nvidia1", "/nvidia12", "/nvidiactl", "/nvidia-uvm", "/sda",
                           "/nvidia", "/nvidia2x"}) {
    tree.write(file, "");
  }
  CHECK(tree.gpus(nullptr) == 3);
  CHECK(tree.gpus("") == 0);
  CHECK(tree.gpus("0") == 1);
  CHECK(tree.gpus("3,GPU-8932f937,1") == 3);
  CHECK(tree.gpus("0,-1,1") == 1);
  CHECK(tree.gpus("0,,1") == 1);
  CHECK(tree.gpus("NoDevFiles") == 0);
  CHECK(count_gpus(nullptr, "/no/such/folder") == 0);
}

namespace {

// Whether the mapping that an address is in is marked for large pages.
bool welcomes_large_pages(const void* at) {
  const auto looked_for = reinterpret_cast<std::uintptr_t>(at);
  std::ifstream maps("/proc/self/smaps");
  bool is_in = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0;
    std::uintptr_t last = 0;
    char dash = 0;
    std::istringstream head(line);
    if (head >> std::hex >> first >> dash >> last && dash == '-') {
      is_in = first <= looked_for && looked_for < last;
    } else if (is_in && line.rfind("VmFlags:", 0) == 0) {
      return (line + ' ').find(" hg ") != std::string::npos;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("large memory welcomes large pages, and small does not", "[machine]") {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage/enabled")) {
    WARN("this kernel has no large pages");
    return;
  }
  for (const std::size_t mib : {1U, 31U, 32U, 64U}) {
    const std::size_t bytes = std::size_t{mib} << 20U;
    void* const made =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(made != MAP_FAILED);
    manta::base::welcome_large_pages(made, bytes);
    CAPTURE(mib);
    CHECK(welcomes_large_pages(static_cast<char*>(made) + bytes / 2) == (mib >= 32));
    munmap(made, bytes);
  }
}
