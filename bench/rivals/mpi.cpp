// SPDX-License-Identifier: Apache-2.0
//
// Open MPI: messages between ranks of this machine, by shared memory, which is its best here, and
// by TCP, which is what it does between machines. Its ranks wait by looking, a core each; nine of
// them give way to each other instead.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "rivals/can_run.hpp"
#include "rivals/line_process.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

struct way {
  const char* name;
  std::vector<std::string> options;
};
const std::vector<way>& ways() {
  static const std::vector<way> all{
      {"Open MPI", {}},
      {"Open MPI, TCP",
       {"--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"}}};
  return all;
}

std::shared_ptr<line_process> ranks(const way& how, std::size_t count, const char* work,
                                    std::size_t bytes) {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  std::vector<std::string> command{"mpirun", "--oversubscribe", "-n", std::to_string(count)};
  const bool has_cores = count <= 2;
  const std::vector<std::string> placed =
      has_cores
          ? std::vector<std::string>{"--bind-to", "core"}
          : std::vector<std::string>{"--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"};
  for (const auto* const more : {&placed, &how.options}) {
    command.insert(command.end(), more->begin(), more->end());
  }
  command.insert(command.end(), {BENCH_MPI_PROGRAM, work, std::to_string(bytes)});
  return std::make_shared<line_process>(command);
}

constexpr std::size_t message_bytes = 128;  // as raw TCP sends

contestant one_at_a_time(const way& how) {
  contestant c{cluster_call_one, how.name, side::rival};
  c.start = [&how](const plan& p) -> body {
    const std::size_t count = p.quick ? 100 : 10'000;
    const auto other = ranks(how, 2, "one", message_bytes);
    return [=](const turn&) {
      const auto n = static_cast<double>(count);
      return reading{.value = other->seconds(count) / n * 1e6, .operations = n};
    };
  };
  return c;
}

contestant under_way(const way& how) {
  contestant c{cluster_calls, how.name, side::rival};
  c.start = [&how](const plan& p) -> body {
    const std::size_t count = p.quick ? 1000 : 200'000;
    const auto other = ranks(how, 2, "many", 1);
    return [=](const turn&) {
      const auto n = static_cast<double>(count);
      return reading{.value = n / other->seconds(count), .operations = n};
    };
  };
  return c;
}

contestant large(const char* row, const way& how, std::size_t count, const char* work) {
  contestant c{row, how.name, side::rival};
  c.start = [=, &how](const plan& p) -> body {
    const int rounds = p.quick ? 1 : 10;
    const auto all = ranks(how, count, work, bulk_bytes(p));
    return [=](const turn&) { return median_ms(rounds, [&] { return all->seconds(1); }); };
  };
  return c;
}

}  // namespace

void add_mpi(suite& s) {
  // Two ranks that have nothing to do: what keeps those from their messages is no fault of ours.
  constexpr const char* probe =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 30 mpirun --oversubscribe "
      "-n 2 " BENCH_MPI_PROGRAM " one 1 </dev/null >/dev/null 2>&1";
  if (!can_run("BENCH_HAS_MPI_RANKS", probe)) {
    s.absent("Open MPI's messages", "two ranks did not run here; see mpirun (openmpi-bin)");
    return;
  }
  for (const way& how : ways()) {
    s.add(under_way(how));
    s.add(one_at_a_time(how));
    s.add(large(cluster_array, how, 2, "array"));
    s.add(large(cluster_broadcast, how, broadcast_nodes + 1, "broadcast"));
  }
}

}  // namespace bench
