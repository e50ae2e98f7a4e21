// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <manta/spec/config.hpp>

// Which part a process has in its job.
//
// Problem. The same program is started by hand, by srun, by mpirun, in a pod, or by itself; each of
// these says in variables of its own how many there are and which one this is, and who looks in the
// wrong place has four drivers instead of one job of four.
//
// Idea. What the user says goes first, then what the launcher says that is nearest to the process:
// launchers start each other, and what the outer one has set is still there (launchers.hpp). The
// answer is a plan, made before anything is started or connected, so that a wrong launch is one
// line at once. Variables are inherited, too, by what a rank starts itself; so a process that has
// taken its part leaves a mark, and who finds the part taken by another is alone.
//
//   rank, world-size            those            ranked
//   world-size = 1              this             alone, or joins
//   a launcher with size > 1    that             ranked, but role=node of rank 0 with address joins
//   nodes > 1                   this machine     spawns
//   role=head                   by itself        alone
//   address, or role and job    a head           joins
//   role=observer               this machine     joins the one job there
//   nothing                     -                alone
//
// Limits. A launcher started by a rank of another launcher of a kind that is looked at before it
// (srun within a rank of mpirun) is not seen; rank and world-size say it then.
//
// Threads: any; values.

namespace manta::inline v0::spec {

/// What a variable of the environment is, or none.
using environment_lookup = std::function<std::optional<std::string>(const char*)>;

/// A process's part in its job.
struct launch_plan {
  enum class way : std::uint8_t {
    alone,   ///< there are no others, or they come by themselves
    spawns,  ///< this process starts `size` - 1 more on this machine
    ranked,  ///< `size` processes were started, and this is number `rank`
    joins,   ///< there is a head, and this process goes to it
  };
  way by = way::alone;
  role_mode role = role_mode::driver;
  int rank = 0;
  int size = 1;
  /// All ranks are on this machine, as far as the launcher says: nothing needs TCP.
  bool is_one_machine = true;
  /// What all ranks of the job call it and no other job does; fit for a file's name. Empty: nobody
  /// says, and it is not needed.
  std::string job = {};
  /// Where the head is or, for who hosts it, is to be. None: it is found by `job`, or starts these.
  std::optional<std::string> address = {};
  /// Where who hosts the head waits for other machines. None: no TCP.
  std::optional<std::string> listen = {};
  /// The folder in which rank 0 is looked up by `job`, from / on. Empty: it is not needed.
  std::string rendezvous = {};
  /// Its name as a member. Empty: none was said, and it has no rank.
  std::string member_name = {};
  /// Who says all this: "MANTA_RANK", "Slurm", "Open MPI", "PMI", "torchrun", "RANK/WORLD_SIZE",
  /// "config", "MANTA_TAKEN" for who found its part taken; for messages. Empty: nobody.
  std::string source = {};

  /// Whether the head of the cluster is in this process, if there is to be one.
  bool hosts_head() const noexcept { return by != way::joins && rank == 0; }

  friend bool operator==(const launch_plan&, const launch_plan&) = default;
};

/// The part of a process with these settings, which `complete` has settled, and this environment.
/// `own_pid` tells its own mark (see below) from that of who started it. Errors: invalid_config,
/// where what is said does not fit together or is not enough.
result<launch_plan> plan_launch(const config& settled, const environment_lookup& environment,
                                std::int64_t own_pid = 0);

/// Of `all` things of a machine, in a line, those of one of the job's ranks on it: each has as
/// many, the first ranks one more where that does not come out even. Nothing is in two shares.
struct machine_share {
  int first = 0;
  int count = 0;
  friend bool operator==(const machine_share&, const machine_share&) = default;
};
machine_share share_of(int all, int rank, int size) noexcept;

/// What one of the job's ranks on a machine is granted of it. The quota's base stays whole, since
/// all of them count against it together.
grants share_of(const grants& machine, int rank, int size) noexcept;

/// The variable of the mark.
inline constexpr const char* launch_mark_variable = "MANTA_TAKEN";

/// What a process that has taken its part puts there, so that the programs which it starts do not
/// take the same once more. Empty: there is nothing to take.
std::string launch_mark(const launch_plan& taken, std::int64_t own_pid);

}  // namespace manta::inline v0::spec
