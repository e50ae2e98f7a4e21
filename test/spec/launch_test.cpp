// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "spec/launch_support.hpp"
#include "spec/launchers.hpp"

namespace launch_test {

std::string refusal(const variables& environment, const config& given = {}) {
  const auto refused = plan(environment, given);
  if (refused) return "no refusal";
  CHECK(refused.error().code() == errc::invalid_config);
  CHECK(refused.error().message().find('\n') == std::string::npos);
  return refused.error().message();
}

const variables home = {{"HOME", "/home/u"}};

// What was seen in the ranks, without what says nothing here. Open MPI 4.1.4: mpirun -n 2.
const variables mpirun_1 =
    home + variables{{"OMPI_COMM_WORLD_RANK", "1"},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                     {"OMPI_UNIVERSE_SIZE", "2"},
                     {"OMPI_MCA_ess_base_jobid", "277544961"},
                     {"OMPI_MCA_ess_base_vpid", "1"},
                     {"OMPI_MCA_orte_precondition_transports", "bcaee80023d105ee-2b7e00ae951c7d91"},
                     {"PMIX_NAMESPACE", "277544961"},
                     {"PMIX_RANK", "1"},
                     {"PMIX_ID", "277544961.1"}};

// Slurm 22.05.8: sbatch -n 4, the script itself.
const variables sbatch = home + variables{{"SLURM_CLUSTER_NAME", "manta"},
                                          {"SLURM_JOB_ID", "1"},
                                          {"SLURM_JOBID", "1"},
                                          {"SLURM_GTIDS", "0"},
                                          {"SLURM_LOCALID", "0"},
                                          {"SLURM_NNODES", "1"},
                                          {"SLURM_NODEID", "0"},
                                          {"SLURM_NPROCS", "4"},
                                          {"SLURM_NTASKS", "4"},
                                          {"SLURM_PROCID", "0"},
                                          {"SLURM_TASK_PID", "32394"},
                                          {"SLURM_TASKS_PER_NODE", "4"}};

// The same: srun -n 2 in it.
const variables srun_1 =
    sbatch + variables{{"SLURM_GTIDS", "0,1"},        {"SLURM_LOCALID", "1"},
                       {"SLURM_NPROCS", "2"},         {"SLURM_NTASKS", "2"},
                       {"SLURM_PROCID", "1"},         {"SLURM_STEPID", "0"},
                       {"SLURM_STEP_ID", "0"},        {"SLURM_STEP_NUM_NODES", "1"},
                       {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "2"},
                       {"SLURM_STEP_NODELIST", "vm"}, {"SLURM_TASK_PID", "32413"}};

// The same with --mpi=pmi2 and --mpi=pmix.
const variables srun_pmi2_1 = srun_1 + variables{{"PMI_FD", "13"},
                                                 {"PMI_JOBID", "1.0"},
                                                 {"PMI_RANK", "1"},
                                                 {"PMI_SIZE", "2"},
                                                 {"SLURM_MPI_TYPE", "pmi2"}};
const variables srun_pmix_1 =
    srun_1 +
    variables{{"PMIX_NAMESPACE", "slurm.pmix.1.0"}, {"PMIX_RANK", "1"}, {"SLURM_MPI_TYPE", "pmix"}};

// A shell that salloc -n 3 has started: on this machine, or as a step of Slurm's own.
const variables salloc = home + variables{{"SLURM_JOB_ID", "2"},
                                          {"SLURM_NTASKS", "3"},
                                          {"SLURM_NPROCS", "3"},
                                          {"SLURM_NNODES", "1"}};
const variables salloc_step =
    salloc + variables{{"SLURM_PROCID", "0"},           {"SLURM_GTIDS", "0"},
                       {"SLURM_STEP_ID", "4294967290"}, {"SLURM_STEPID", "4294967290"},
                       {"SLURM_STEP_NUM_NODES", "1"},   {"SLURM_STEP_NUM_TASKS", "1"}};

// MPICH 4.0.2: mpiexec.hydra -n 2; it names no job.
const variables hydra_1 = home + variables{{"PMI_FD", "8"},
                                           {"PMI_RANK", "1"},
                                           {"PMI_SIZE", "2"},
                                           {"MPI_LOCALNRANKS", "2"},
                                           {"MPI_LOCALRANKID", "1"}};

// The same in a batch script: its proxies are a step of one task each machine.
const variables hydra_in_sbatch_1 = sbatch + hydra_1 +
                                    variables{{"SLURM_STEP_ID", "3"},
                                              {"SLURM_STEPID", "3"},
                                              {"SLURM_STEP_NUM_NODES", "1"},
                                              {"SLURM_STEP_NUM_TASKS", "1"}};

// torchrun --no-python, by its documentation.
const variables torchrun_5 = home + variables{{"RANK", "5"},
                                              {"WORLD_SIZE", "8"},
                                              {"LOCAL_RANK", "1"},
                                              {"LOCAL_WORLD_SIZE", "4"},
                                              {"GROUP_RANK", "1"},
                                              {"MASTER_ADDR", "node-a"},
                                              {"MASTER_PORT", "29500"},
                                              {"TORCHELASTIC_RUN_ID", "none"},
                                              {"TORCHELASTIC_RESTART_COUNT", "0"}};

TEST_CASE("without anything a process is alone", "[launch]") {
  CHECK(plan({}).value() == launch_plan{});
  CHECK(plan({{"MANTA_NODES", "1"}}).value() == launch_plan{});
  CHECK(plan({}).value().hosts_head());
}

TEST_CASE("each launcher's ranks are its ranks", "[launch]") {
  struct seen {
    const char* what;
    variables environment;
    const char* source;
    int rank;
    int size;
    bool is_one_machine;
    const char* job;
  };
  const seen table[] = {
      {"mpirun", mpirun_1, "Open MPI", 1, 2, true,
       "ompi-277544961-bcaee80023d105ee-2b7e00ae951c7d91"},
      {"mpirun of Open MPI 5",
       without(mpirun_1, "OMPI_MCA_orte_precondition_transports") +
           variables{{"PMIX_NAMESPACE", "prterun-vm-4711@1"}},
       "Open MPI", 1, 2, true, "ompi-prterun-vm-4711_401"},
      {"mpirun on two machines", mpirun_1 + variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}},
       "Open MPI", 1, 2, false, "ompi-277544961-bcaee80023d105ee-2b7e00ae951c7d91"},
      {"srun", srun_1, "Slurm", 1, 2, true, "slurm-manta-1.0"},
      {"srun on two machines",
       srun_1 + variables{{"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_GTIDS", "1"}}, "Slurm", 1, 2,
       false, "slurm-manta-1.0"},
      {"srun --mpi=pmi2", srun_pmi2_1, "Slurm", 1, 2, true, "slurm-manta-1.0"},
      {"srun --mpi=pmix", srun_pmix_1, "Slurm", 1, 2, true, "slurm-manta-1.0"},
      {"srun of a job that was queued again", srun_1 + variables{{"SLURM_RESTART_COUNT", "2"}},
       "Slurm", 1, 2, true, "slurm-manta-1.0-again-2"},
      {"mpiexec.hydra in sbatch", hydra_in_sbatch_1, "PMI", 1, 2, true, "pmi-slurm-manta-1.3"},
      {"torchrun", torchrun_5, "torchrun", 5, 8, false, "ranks-none-node-a-29500-0"},
      {"RANK and WORLD_SIZE",
       {{"HOME", "/h"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}},
       "RANK/WORLD_SIZE",
       1,
       2,
       false,
       "ranks-a"},
  };
  for (const seen& s : table) {
    CAPTURE(s.what);
    const auto found = plan(s.environment);
    REQUIRE(found);
    CHECK(found->by == way::ranked);
    CHECK(found->role == role_mode::node);
    CHECK(found->source == s.source);
    CHECK(found->rank == s.rank);
    CHECK(found->size == s.size);
    CHECK(found->is_one_machine == s.is_one_machine);
    CHECK(found->job == s.job);
    CHECK(found->rendezvous == s.environment.at("HOME") + "/.cache/manta/rendezvous");
    CHECK(found->member_name == "rank-" + std::to_string(s.rank));
    CHECK_FALSE(found->listen);
    CHECK_FALSE(found->hosts_head());
  }
}

TEST_CASE("who is one process for its launcher is alone", "[launch]") {
  const std::pair<const char*, variables> table[] = {
      {"by hand in a batch script", sbatch},
      {"by hand behind salloc", salloc},
      {"by hand in the step that salloc makes", salloc_step},
      {"in a step of Slurm's own with more tasks",
       srun_1 + variables{{"SLURM_STEP_ID", "4294967291"}, {"SLURM_STEPID", "4294967291"}}},
      {"srun -n 1",
       srun_1 +
           variables{{"SLURM_PROCID", "0"}, {"SLURM_GTIDS", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}},
      {"mpirun -n 1", mpirun_1 + variables{{"OMPI_COMM_WORLD_RANK", "0"},
                                           {"OMPI_COMM_WORLD_SIZE", "1"},
                                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}},
      {"a batch script that a step has submitted",
       srun_1 + variables{{"SLURM_JOB_ID", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_GTIDS", "0"}}},
      {"in a pod of an indexed job that says no size", {{"JOB_COMPLETION_INDEX", "3"}}},
      {"only one of RANK and WORLD_SIZE", {{"RANK", "colonel"}}},
      {"only the other", {{"WORLD_SIZE", "large"}}},
      {"with PMIX_RANK in a step of one",
       salloc_step + variables{{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "slurm.pmix.2.4294967290"}}},
  };
  for (const auto& [what, environment] : table) {
    CAPTURE(what);
    const auto found = plan(environment);
    REQUIRE(found);
    CHECK(*found == launch_plan{});
  }
}

// An outer launcher's variables are still there: read first, both ranks of mpirun would be Slurm's
// rank 0, or all that torchrun starts on a machine one rank of srun.
TEST_CASE("the launcher nearest to the process wins", "[launch]") {
  const variables daemon_step = {{"SLURM_STEP_ID", "0"},        {"SLURM_STEPID", "0"},
                                 {"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_STEP_NUM_NODES", "3"},
                                 {"SLURM_PROCID", "2"},         {"SLURM_GTIDS", "2"}};
  const std::tuple<const char*, variables, const char*, int, int> table[] = {
      {"mpirun in sbatch, the script's machine", sbatch + mpirun_1, "Open MPI", 1, 2},
      {"mpirun in sbatch, another machine", sbatch + mpirun_1 + daemon_step, "Open MPI", 1, 2},
      {"mpirun in a step of one task", srun_1 + mpirun_1, "Open MPI", 1, 2},
      {"hydra in a step of three", sbatch + hydra_1 + daemon_step, "PMI", 1, 2},
      {"torchrun in srun", srun_1 + torchrun_5, "torchrun", 5, 8},
      {"torchrun in mpirun", mpirun_1 + torchrun_5, "torchrun", 5, 8},
      {"RANK set by a script in srun", srun_1 + variables{{"RANK", "0"}, {"WORLD_SIZE", "9"}},
       "Slurm", 1, 2},
      {"what is said itself",
       sbatch + mpirun_1 + torchrun_5 +
           variables{{"MANTA_RANK", "3"}, {"MANTA_WORLD_SIZE", "4"}, {"MANTA_JOB", "x"}},
       "MANTA_RANK", 3, 4},
  };
  for (const auto& [what, environment, source, rank, size] : table) {
    CAPTURE(what);
    const auto found = plan(environment);
    REQUIRE(found);
    CHECK(found->by == way::ranked);
    CHECK(found->source == source);
    CHECK(found->rank == rank);
    CHECK(found->size == size);
  }
}

TEST_CASE("rank and world-size win over launchers, and world-size 1 is alone", "[launch]") {
  config given;
  given.rank = 2;
  given.world_size = 3;
  given.address = "unix:/run/u/socket";
  const launch_plan by_program = plan(srun_1, given).value();
  CHECK(by_program.source == "config");
  CHECK(by_program.rank == 2);
  CHECK(by_program.is_one_machine);
  CHECK(by_program.address == "unix:/run/u/socket");
  CHECK(by_program.job.empty());
  CHECK(by_program.rendezvous.empty());
  CHECK(plan(srun_1 + variables{{"MANTA_WORLD_SIZE", "1"}}).value() == launch_plan{});
  // One that agrees with the launcher changes nothing.
  CHECK(plan(srun_1 + variables{{"MANTA_WORLD_SIZE", "2"}, {"MANTA_NODES", "2"}}).value() ==
        plan(srun_1).value());
}

TEST_CASE("rank 0 is the driver and hosts the head, and listens when it has to", "[launch]") {
  const variables rank_0 = srun_1 + variables{{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};
  const launch_plan here = plan(rank_0).value();
  CHECK(here.role == role_mode::driver);
  CHECK(here.hosts_head());
  CHECK_FALSE(here.listen);
  const variables apart = rank_0 + variables{{"SLURM_STEP_NUM_NODES", "2"}};
  CHECK(plan(apart).value().listen == ":0");
  CHECK(plan(apart + variables{{"MANTA_LISTEN", "10.0.0.1:0"}}).value().listen == "10.0.0.1:0");
  const launch_plan at = plan(apart + variables{{"MANTA_ADDRESS", "node-a:7000"}}).value();
  CHECK(at.listen == "node-a:7000");
  CHECK(at.rendezvous.empty());
  CHECK(plan(rank_0 + variables{{"MANTA_LISTEN", ":0"}}).value().listen == ":0");
  CHECK_FALSE(plan(rank_0 + variables{{"MANTA_LISTEN", "none"}}).value().listen);
  // A rank that hosts nothing does not listen, whatever all were told.
  CHECK_FALSE(plan(srun_1 + variables{{"MANTA_LISTEN", ":0"}}).value().listen);
}

TEST_CASE("a numbered pod is a rank when it is told how many there are", "[launch]") {
  const variables pod = {{"JOB_COMPLETION_INDEX", "0"},
                         {"MANTA_WORLD_SIZE", "4"},
                         {"MANTA_ADDRESS", "app-0.app:7000"}};
  const launch_plan first = plan(pod).value();
  CHECK(first.by == way::ranked);
  CHECK(first.role == role_mode::driver);
  CHECK(first.source == "JOB_COMPLETION_INDEX");
  CHECK(first.size == 4);
  CHECK_FALSE(first.is_one_machine);
  CHECK(first.listen == "app-0.app:7000");
  const launch_plan last = plan(pod + variables{{"JOB_COMPLETION_INDEX", "3"}}).value();
  CHECK(last.role == role_mode::node);
  CHECK(last.rank == 3);
  const launch_plan pmix =
      plan(home +
           variables{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "p@1"}, {"MANTA_WORLD_SIZE", "2"}})
          .value();
  CHECK(pmix.rank == 1);
  CHECK(pmix.job == "pmix-p_401");
  // Of one pod, told its rank: it is the driver, not a guest at its own address.
  const launch_plan only =
      plan({{"MANTA_RANK", "0"}, {"MANTA_WORLD_SIZE", "1"}, {"MANTA_ADDRESS", "app-0.app:7000"}})
          .value();
  CHECK(only.by == way::ranked);
  CHECK(only.role == role_mode::driver);
}

TEST_CASE("nodes is how many processes this one starts around itself", "[launch]") {
  const launch_plan four = plan({{"MANTA_NODES", "4"}}).value();
  CHECK(four.by == way::spawns);
  CHECK(four.role == role_mode::driver);
  CHECK(four.size == 4);
  CHECK(four.is_one_machine);
  CHECK(four.source == "MANTA_NODES");
  CHECK(four.member_name == "rank-0");
  CHECK(four.hosts_head());
  CHECK(four.rendezvous.empty());
  config given;
  given.nodes = 3;
  CHECK(plan({}, given).value().source == "config");
  CHECK(plan(sbatch + variables{{"MANTA_NODES", "4"}}).value().by == way::spawns);
  CHECK(plan(salloc_step + variables{{"MANTA_NODES", "4"}}).value().by == way::spawns);
  // What it starts has a rank, and inherits the rest.
  const launch_plan started = plan({{"MANTA_NODES", "4"},
                                    {"MANTA_TAKEN", launch_mark(four, 7)},
                                    {"MANTA_RANK", "2"},
                                    {"MANTA_WORLD_SIZE", "4"},
                                    {"MANTA_ADDRESS", "unix:/run/u/socket"}})
                                  .value();
  CHECK(started.by == way::ranked);
  CHECK(started.rank == 2);
  CHECK(started.is_one_machine);
  CHECK_FALSE(started.listen);
}

TEST_CASE("what a driver's main says of itself is not said of the nodes that it starts",
          "[launch]") {
  config given;
  given.nodes = 3;
  given.role = role_mode::driver;
  given.member_name = "trainer";
  CHECK(plan({}, given).value().member_name == "trainer");
  const variables node = {
      {"MANTA_RANK", "2"}, {"MANTA_WORLD_SIZE", "3"}, {"MANTA_ADDRESS", "unix:/run/u/socket"}};
  const launch_plan started = plan(node, given).value();
  CHECK(started.role == role_mode::node);
  CHECK(started.member_name == "rank-2");
  // A launcher that starts as many may name each.
  const launch_plan named = plan(node + variables{{"MANTA_MEMBER_NAME", "b"}},
                                 [&] {
                                   config own = given;
                                   own.member_name = "b";
                                   return own;
                                 }())
                                .value();
  CHECK(named.member_name == "b");
}

TEST_CASE("an address or a job's name is where a process without a rank goes", "[launch]") {
  const launch_plan node = plan({{"MANTA_ADDRESS", "head:7000"}}).value();
  CHECK(node.by == way::joins);
  CHECK(node.role == role_mode::node);
  CHECK(node.source == "MANTA_ADDRESS");
  CHECK(node.member_name.empty());
  CHECK_FALSE(node.is_one_machine);
  CHECK_FALSE(node.listen);
  CHECK_FALSE(node.hosts_head());
  CHECK(plan({{"MANTA_ADDRESS", "unix:/run/u/socket"}}).value().is_one_machine);
  for (const char* const role : {"driver", "observer", "node"}) {
    CAPTURE(role);
    const launch_plan said =
        plan({{"MANTA_ADDRESS", "head:7000"}, {"MANTA_ROLE", role}, {"MANTA_MEMBER_NAME", "m"}})
            .value();
    CHECK(said.by == way::joins);
    CHECK(said.role == (*role == 'd'   ? role_mode::driver
                        : *role == 'o' ? role_mode::observer
                                       : role_mode::node));
    CHECK(said.member_name == "m");
  }
  const launch_plan named =
      plan(home + variables{{"MANTA_JOB", "night.run"}, {"MANTA_ROLE", "node"}}).value();
  CHECK(named.by == way::joins);
  CHECK(named.job == "job-night.run");
  CHECK(named.rendezvous == "/home/u/.cache/manta/rendezvous");
  // Nodes of a Slurm job that go to a head which is there already: rank 0, too.
  const variables guests = {{"MANTA_ADDRESS", "head:7000"}, {"MANTA_ROLE", "node"}};
  CHECK(plan(srun_1 + guests).value().role == role_mode::node);
  const launch_plan first = plan(srun_1 + guests + variables{{"SLURM_PROCID", "0"}}).value();
  CHECK(first.by == way::joins);
  CHECK(first.role == role_mode::node);
  CHECK_FALSE(first.listen);
}

TEST_CASE("a head is by itself, at its address", "[launch]") {
  const launch_plan at = plan({{"MANTA_ROLE", "head"}, {"MANTA_ADDRESS", "0.0.0.0:7000"}}).value();
  CHECK(at.by == way::alone);
  CHECK(at.role == role_mode::head);
  CHECK(at.hosts_head());
  CHECK(at.address == "0.0.0.0:7000");
  CHECK(at.listen == "0.0.0.0:7000");
  const launch_plan local =
      plan({{"MANTA_ROLE", "head"}, {"MANTA_ADDRESS", "unix:/run/u/socket"}}).value();
  CHECK(local.is_one_machine);
  CHECK_FALSE(local.listen);
  CHECK(plan(home + variables{{"MANTA_ROLE", "head"}, {"MANTA_JOB", "x"}}).value().rendezvous ==
        "/home/u/.cache/manta/rendezvous");
  CHECK(plan({{"MANTA_ROLE", "head"}, {"MANTA_LISTEN", ":0"}}).value().listen == ":0");
}

TEST_CASE("what a process of a job starts does not take its part once more", "[launch]") {
  const std::pair<const char*, variables> table[] = {
      {"a rank of mpirun", mpirun_1},
      {"a rank of srun", srun_1},
      {"a rank that was told so",
       home + variables{{"MANTA_RANK", "1"}, {"MANTA_WORLD_SIZE", "2"}, {"MANTA_JOB", "x"}}},
      {"one that starts nodes", {{"MANTA_NODES", "4"}}},
      {"one that was given an address", {{"MANTA_ADDRESS", "head:7000"}}},
      {"a head", {{"MANTA_ROLE", "head"}, {"MANTA_ADDRESS", "head:7000"}}},
      {"one that listens", {{"MANTA_LISTEN", ":7000"}}},
  };
  for (const auto& [what, environment] : table) {
    CAPTURE(what);
    const launch_plan taken = plan(environment, {}, 7).value();
    const variables marked = environment + variables{{"MANTA_TAKEN", launch_mark(taken, 7)}};
    // The process itself, with a second runtime.
    CHECK(plan(marked, {}, 7).value() == taken);
    launch_plan alone;
    alone.source = "MANTA_TAKEN";
    CHECK(plan(marked, {}, 8).value() == alone);
    // The mark of another job says nothing.
    CHECK(plan(environment + variables{{"MANTA_TAKEN", "7 1:node:1/2:other"}}, {}, 8).value() ==
          taken);
    for (const char* const odd : {"", "7", " ", "x y z"}) {
      CHECK(plan(environment + variables{{"MANTA_TAKEN", odd}}, {}, 8).value() == taken);
    }
  }
  CHECK(launch_mark(plan({}).value(), 7).empty());
  // Its launcher has started something new: another job.
  const variables marked =
      mpirun_1 + variables{{"MANTA_TAKEN", launch_mark(plan(mpirun_1).value(), 7)}};
  CHECK(plan(marked + variables{{"PMIX_NAMESPACE", "277544962"}}, {}, 8).value().rank == 1);
}

TEST_CASE("a child looks at the cluster, or starts nodes of its own, if it says so", "[launch]") {
  const variables environment =
      home +
      variables{{"MANTA_RANK", "1"}, {"MANTA_WORLD_SIZE", "2"}, {"MANTA_ADDRESS", "head:7000"}};
  const variables marked =
      environment + variables{{"MANTA_TAKEN", launch_mark(plan(environment).value(), 7)}};
  config tool;
  tool.role = role_mode::observer;
  const launch_plan looks = plan(marked, tool, 8).value();
  CHECK(looks.by == way::joins);
  CHECK(looks.role == role_mode::observer);
  CHECK(looks.address == "head:7000");
  CHECK(looks.member_name.empty());
  CHECK_FALSE(plan(environment, tool, 8));  // nobody has taken it: an observer with a rank
  // Without a word where, it looks around on this machine.
  const launch_plan around = plan({{"MANTA_ROLE", "observer"}}).value();
  CHECK(around.by == way::joins);
  CHECK(around.is_one_machine);
  const variables watch = {{"MANTA_ROLE", "observer"}, {"MANTA_ADDRESS", "head:7000"}};
  CHECK(plan(watch + variables{{"MANTA_TAKEN", launch_mark(plan(watch).value(), 7)}}, {}, 8)
            .value() == plan(watch).value());
  const variables nodes = {{"MANTA_NODES", "4"}, {"MANTA_TAKEN", "7 1:driver:0/3:"}};
  config three;
  three.nodes = 3;
  CHECK(plan(nodes, three, 8).value().by == way::spawns);
}

TEST_CASE("one node is not what a launcher has started two of", "[launch]") {
  CHECK(refusal(srun_1 + variables{{"MANTA_NODES", "1"}}) ==
        "launch: found nodes=1, and Slurm says 2 (SLURM_PROCID and SLURM_STEP_NUM_TASKS); leave "
        "nodes out, or start 1");
}

TEST_CASE("a launch that does not fit together is refused in one line", "[launch]") {
  const variables world = {{"MANTA_RANK", "1"}, {"MANTA_WORLD_SIZE", "2"}, {"MANTA_JOB", "x"}};
  const variables first = home + world + variables{{"MANTA_RANK", "0"}};
  const std::tuple<variables, const char*> table[] = {
      {{{"MANTA_RANK", "1"}}, "launch: found rank=1 and no world-size; set MANTA_WORLD_SIZE, too"},
      {{{"MANTA_RANK", "2"}, {"MANTA_WORLD_SIZE", "2"}},
       "launch: found rank=2 and world-size=2, but ranks are 0 to 1; mend MANTA_RANK"},
      {{{"MANTA_WORLD_SIZE", "2"}},
       "launch: found world-size=2, and nothing that says which of them this is; set MANTA_RANK"},
      {{{"MANTA_WORLD_SIZE", "2"}, {"JOB_COMPLETION_INDEX", "2"}},
       "launch: found JOB_COMPLETION_INDEX=2 and world-size=2, but ranks are 0 to 1; mend "
       "MANTA_WORLD_SIZE"},
      {srun_1 + variables{{"MANTA_WORLD_SIZE", "4"}},
       "launch: found world-size=4, and Slurm has started 2 (SLURM_PROCID and "
       "SLURM_STEP_NUM_TASKS); leave world-size out, or start 4"},
      {srun_1 + variables{{"MANTA_NODES", "4"}},
       "launch: found nodes=4, and Slurm says 2 (SLURM_PROCID and SLURM_STEP_NUM_TASKS); leave "
       "nodes out, or start 4"},
      {{{"MANTA_NODES", "4"}, {"MANTA_WORLD_SIZE", "1"}},
       "launch: found nodes=4 and world-size=1; leave one of them out"},
      {{{"MANTA_NODES", "4"}, {"MANTA_ROLE", "node"}},
       "launch: found nodes=4 and role=node, but who starts nodes is their driver; leave one of "
       "them out"},
      {{{"MANTA_NODES", "4"}, {"MANTA_ADDRESS", "head:7000"}},
       "launch: found nodes=4, which are started around a head of their own, and "
       "address=head:7000; leave one of them out"},
      {{{"MANTA_RANK", "1"}, {"MANTA_WORLD_SIZE", "2"}},
       "launch: found rank 1 of 2 (MANTA_RANK), and nothing that names the job; set MANTA_JOB to a "
       "name that only these ranks have, or MANTA_ADDRESS"},
      {hydra_1,
       "launch: found rank 1 of 2 (PMI), and nothing that names the job; set MANTA_JOB to a name "
       "that only these ranks have, or MANTA_ADDRESS"},
      {mpirun_1 + variables{{"MANTA_ROLE", "driver"}},
       "launch: found role=driver and rank 1 of 2 (Open MPI), but rank 0 is the driver; leave role "
       "out, or set spmd=yes for main to run in every rank"},
      {world + variables{{"MANTA_ROLE", "head"}},
       "launch: found role=head and rank 1 of 2 (MANTA_RANK); start it by itself, without a rank"},
      {srun_1 + variables{{"MANTA_ROLE", "observer"}},
       "launch: found role=observer and rank 1 of 2 (Slurm); start it by itself, without a rank"},
      {first + variables{{"MANTA_ROLE", "node"}},
       "launch: found role=node and rank 0 of 2 (MANTA_RANK), and no driver; leave role out, or "
       "set MANTA_ADDRESS to where there is a head"},
      {{{"MANTA_ROLE", "head"}},
       "launch: found role=head, and nothing by which others find it; set MANTA_ADDRESS or "
       "MANTA_JOB"},
      {{{"MANTA_ROLE", "head"}, {"MANTA_LISTEN", "none"}},
       "launch: found role=head, and nothing by which others find it; set MANTA_ADDRESS or "
       "MANTA_JOB"},
      {{{"MANTA_ROLE", "node"}},
       "launch: found role=node, and no head to go to; set MANTA_ADDRESS or MANTA_JOB"},
      {first + variables{{"MANTA_LISTEN", "none"}},
       "launch: found listen=none, and 2 ranks on several machines; leave listen out"},
      {first + variables{{"MANTA_LISTEN", "none"}, {"MANTA_ADDRESS", "a:1"}},
       "launch: found listen=none, and address=a:1; leave listen out"},
      {srun_1 + variables{{"SLURM_STEP_NUM_NODES", "2"}, {"MANTA_ADDRESS", "unix:/s"}},
       "launch: found address=unix:/s and 2 ranks, not all on this machine (Slurm); set "
       "MANTA_ADDRESS to host:port, or leave it out"},
      {without(srun_1, "HOME"),
       "launch: asked a folder where the ranks find each other, found HOME=\"\"; set "
       "MANTA_RENDEZVOUS"},
      {{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "prterun-vm-1@1"}},
       "launch: found PMIX_RANK=1, and nothing that says how many there are; set "
       "MANTA_WORLD_SIZE"},
  };
  for (const auto& [environment, expected] : table) {
    CHECK(refusal(environment) == expected);
  }
}

TEST_CASE("what a launcher can't have said is refused with its name and text", "[launch]") {
  const std::tuple<variables, const char*> table[] = {
      {mpirun_1 + variables{{"OMPI_COMM_WORLD_RANK", "one"}},
       "launch: asked OMPI_COMM_WORLD_RANK, found \"one\", allowed are whole numbers from 0 to "
       "65535; unset it, or set MANTA_RANK and MANTA_WORLD_SIZE"},
      {mpirun_1 + variables{{"OMPI_COMM_WORLD_RANK", "2"}},
       "launch: found OMPI_COMM_WORLD_RANK=2 and OMPI_COMM_WORLD_SIZE=2, but ranks are 0 to 1; "
       "start the job anew, or set MANTA_RANK and MANTA_WORLD_SIZE"},
      {without(mpirun_1, "OMPI_COMM_WORLD_SIZE"),
       "launch: asked OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE, found only "
       "OMPI_COMM_WORLD_RANK; unset it, or set the other"},
      {without(hydra_1, "PMI_RANK"),
       "launch: asked PMI_RANK and PMI_SIZE, found only PMI_SIZE; unset it, or set the other"},
      {without(torchrun_5, "RANK"),
       "launch: asked RANK and WORLD_SIZE, found only WORLD_SIZE; unset it, or set the other"},
      {srun_1 + variables{{"SLURM_STEP_NUM_TASKS", "0"}},
       "launch: asked SLURM_STEP_NUM_TASKS, found \"0\", allowed are whole numbers from 1 to "
       "65536; unset it, or set MANTA_RANK and MANTA_WORLD_SIZE"},
      {srun_1 + variables{{"SLURM_STEP_NUM_NODES", "\n"}},
       "launch: asked SLURM_STEP_NUM_NODES, found \"?\", allowed are whole numbers from 1 to "
       "65536; unset it, or set MANTA_RANK and MANTA_WORLD_SIZE"},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}},
       "launch: asked RANK, found \"-1\", allowed are whole numbers from 0 to 65535; unset it, or "
       "set MANTA_RANK and MANTA_WORLD_SIZE"},
  };
  for (const auto& [environment, expected] : table) {
    CHECK(refusal(environment) == expected);
    // Who says it himself does not need the launcher.
    CHECK(plan(home + environment +
               variables{{"MANTA_RANK", "0"}, {"MANTA_WORLD_SIZE", "2"}, {"MANTA_JOB", "x"}}));
  }
}

TEST_CASE("the name of a job is fit for a file, and another one for another job", "[launch]") {
  const auto job_of = [](const std::string& space) {
    return plan(mpirun_1 + variables{{"PMIX_NAMESPACE", space}}).value().job;
  };
  CHECK(plan(srun_1 + variables{{"MANTA_JOB", ".."}}).value().job == "job-..");
  CHECK(plan(without(srun_1, "SLURM_CLUSTER_NAME")).value().job == "slurm-1.0");
  CHECK(plan(srun_1 + variables{{"SLURM_STEP_ID", "1"}}).value().job == "slurm-manta-1.1");
  const std::string names[] = {"../../etc",
                               "a/b",
                               "a_2fb",
                               "a b",
                               "a\nb",
                               "",
                               ".",
                               std::string(5, '/'),
                               std::string(5000, 'x'),
                               std::string(5000, 'x') + "y"};
  std::vector<std::string> seen;
  for (const std::string& name : names) {
    const std::string job = job_of(name);
    CAPTURE(name.substr(0, 20), job);
    CHECK(job.size() <= 100);
    CHECK(job.starts_with("ompi-"));
    CHECK(std::all_of(job.begin(), job.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
    }));
    CHECK(std::find(seen.begin(), seen.end(), job) == seen.end());
    seen.push_back(job);
  }
}

}  // namespace launch_test
