// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <string>

#include <catch2/catch.hpp>

#include "exec/support.hpp"
#include "spec/launch_support.hpp"

namespace launch_test {

namespace {

using manta_test::dice;

const char* const names[] = {"OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                             "PMIX_NAMESPACE",
                             "PMIX_RANK",
                             "PMI_RANK",
                             "PMI_SIZE",
                             "PMI_JOBID",
                             "MPI_LOCALNRANKS",
                             "SLURM_PROCID",
                             "SLURM_STEP_ID",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_STEP_NUM_NODES",
                             "SLURM_JOB_ID",
                             "SLURM_GTIDS",
                             "RANK",
                             "WORLD_SIZE",
                             "LOCAL_WORLD_SIZE",
                             "TORCHELASTIC_RUN_ID",
                             "JOB_COMPLETION_INDEX",
                             "HOME",
                             "MANTA_RANK",
                             "MANTA_WORLD_SIZE",
                             "MANTA_NODES",
                             "MANTA_ROLE",
                             "MANTA_ADDRESS",
                             "MANTA_LISTEN",
                             "MANTA_JOB",
                             "MANTA_TAKEN"};
const std::string values[] = {"0",
                              "1",
                              "2",
                              "4",
                              "65535",
                              "-1",
                              "",
                              "x",
                              "1,2",
                              "node",
                              "driver",
                              "head",
                              "observer",
                              "none",
                              "a:1",
                              "unix:/s",
                              "/h",
                              "1.1",
                              "7 1:node:1/2:x",
                              std::string(3000, 'z'),
                              "\n\x1b[31m"};

variables at_random(dice& roll) {
  variables out{{"HOME", "/home/me"}};
  for (std::size_t i = 1 + roll.below(8); i > 0; --i) {
    out[names[roll.below(std::size(names))]] = values[roll.below(std::size(values))];
  }
  return out;
}

// Who looks may look around on this machine.
bool is_found(const launch_plan& is) {
  return is.address.has_value() || !is.rendezvous.empty() || is.role == role_mode::observer;
}

bool is_whole(const launch_plan& is) {
  return is.rank >= 0 && is.rank < is.size &&
         (is.by == way::ranked || is.by == way::joins || is.rank == 0) &&
         (is.by != way::joins || is_found(is)) &&
         (is.by != way::ranked || is.size == 1 || is_found(is)) &&
         (is.role != role_mode::driver || is.rank == 0) && (!is.listen || is.hosts_head());
}

}  // namespace

// Whatever the variables are, there is one answer or one line, and what is said holds together.
TEST_CASE("any environment gives a plan that holds together, or one line", "[launch]") {
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  dice roll(seed);
  int planned = 0;
  for (int round = 0; round < 20'000; ++round) {
    const variables environment = at_random(roll);
    const auto found = plan(environment);
    if (!found) {
      const std::string& text = found.error().message();
      if (text.find('\n') != std::string::npos && text.find("launch: ") == 0) FAIL(text);
      continue;
    }
    ++planned;
    if (!is_whole(*found)) FAIL("a plan that does not hold together, " << environment.size());
  }
  CHECK(planned > 1000);
}

TEST_CASE("what a machine has is shared by ranks: all of it, nothing twice", "[launch]") {
  CHECK(share_of(5, 0, 3) == machine_share{0, 2});
  CHECK(share_of(5, 2, 3) == machine_share{4, 1});
  CHECK(share_of(1, 3, 4) == machine_share{1, 0});
  for (int all = 0; all < 20; ++all) {
    for (int size = 1; size < 9; ++size) {
      int next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const machine_share own = share_of(all, rank, size);
        CHECK(own.first == next);
        CHECK((own.count == all / size || own.count == all / size + 1));
        next += own.count;
      }
      CHECK(next == all);
    }
  }
}

TEST_CASE("ranks of one machine share what it grants, and count against one quota", "[launch]") {
  constexpr std::int64_t gib = std::int64_t{1} << 30U;
  const grants machine(6, 3, 20 * gib);
  const grants own = share_of(machine, 3, 4);
  CHECK(own.cores == 1);
  CHECK(own.gpus == 0);
  const auto settled = complete({}, {}, {}, own);
  REQUIRE(settled);
  CHECK(settled->memory_bytes == 5 * gib);
  CHECK(settled->store_bytes == 5 * gib / 100 * 30);
  // The arrays of all four, as each of them sees it.
  CHECK(settled->quota_bytes == 20 * gib / 100 * 30);
  CHECK(complete({}, {}, {}, machine)->quota_bytes == settled->quota_bytes);
}

}  // namespace launch_test
