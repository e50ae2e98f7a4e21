// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <manta/base/export.hpp>
#include <manta/spec/error.hpp>
#include <manta/spec/isolation.hpp>
#include <manta/spec/resources.hpp>

// The settings of a runtime. Where one comes from, strongest first: a field of `config` that is
// set, `--manta-KEY=VALUE` on the command line, the variable MANTA_KEY (in capitals, with _ for -),
// the default. The comment of each field begins with its key.

namespace manta::inline v0 {

/// What a runtime looks at beside running the program.
enum class check_mode : std::uint8_t {
  none,  ///< nothing
  copy,  ///< every call, result and put goes through bytes, as between processes
  slow,  ///< the same with random delays, which shake out assumptions about order
  far,   ///< every task and actor that may go to another node does so, where nodes share their work
  far_tasks,  ///< tasks alone
};

/// Which events the control store keeps of tasks, actors' calls and constructors.
enum class event_mode : std::uint8_t {
  none,  ///< none
  rare,  ///< failures and retries
  all,   ///< starts and ends, too: about 0.2 us a task
};

/// Where what isolated workers print goes.
enum class output_mode : std::uint8_t {
  prefixed,  ///< to this process's standard output and error, line by line, with who printed it
  plain,     ///< straight to those, as it is
};

/// What SIGINT (Ctrl-C) does to a program with a runtime.
enum class interrupt_mode : std::uint8_t {
  /// What runs is asked to stop, what has not begun is cancelled, main's waits throw
  /// manta::cancelled, and the program's exit code is 130; a second SIGINT ends it at once, and so
  /// do 5 s. Unless the signal is ignored or has a handler already when the runtime is made.
  end,
  leave,  ///< what it did before
};

/// What a process is in the cluster of its job.
enum class role_mode : std::uint8_t {
  driver,    ///< runs main, and tasks
  node,      ///< runs tasks until the job ends; main does not go on there
  head,      ///< keeps the cluster together and its records, runs nothing, outlives drivers
  observer,  ///< looks
};

/// Settings of a manta::runtime. A field left at -1 or empty is taken from the next weaker source.
struct config {
  /// workers: threads kept busy. 1 to 1024. Default: the cores that affinity and cgroup quota
  /// allow.
  int workers = -1;
  /// spin-us: how long an idle worker or a waiting thread looks for work before it sleeps,
  /// microseconds. 0 to 10000, default 50. More answers faster after a pause and costs CPU time in
  /// each pause.
  int spin_us = -1;
  /// extra-threads: threads beyond `workers` that may stand in for blocked ones before growth
  /// slows down and a warning is printed. 0 to 100000, default 256. Never a hard limit: that could
  /// deadlock.
  int extra_threads = -1;
  /// gpus: GPUs that tasks may ask for; a task is told which by this_task::gpus(), as indices from
  /// 0. 0 to 1024. Default: those that CUDA_VISIBLE_DEVICES lists when it is set (index 0 is its
  /// first entry), else the number of /dev/nvidia0, /dev/nvidia1, ...; of several nodes that are
  /// all on one machine each has its share of these, as of workers and memory, and no two the same.
  int gpus = -1;
  /// memory: bytes that tasks may ask for; text may say 8GiB, 512MiB. 0 to 2^53 - 1. Default: what
  /// the cgroup or else the machine grants. It is accounted, not enforced.
  std::int64_t memory_bytes = -1;
  /// resources: amounts under names of your own, which tasks may ask for. As text:
  /// license:3,disk:0.5. Default: none.
  std::optional<resource_list> resources = std::nullopt;
  /// check: none, copy, slow, far or far-tasks, see check_mode; for tests. Default: none.
  std::optional<check_mode> check = std::nullopt;
  /// labels: what this node is, for with_labels. As text: zone=a,kind=big. Default: none.
  std::optional<label_list> labels = std::nullopt;
  /// control: where manta::kv and the records of jobs, functions, named actors and events are kept:
  /// memory, gone with the runtime; or a folder, in which a later runtime finds them. One runtime
  /// at a time. Default: memory.
  std::optional<std::string> control = std::nullopt;
  /// events: none, rare or all, see event_mode. Default: rare.
  std::optional<event_mode> events = std::nullopt;
  /// isolation: threads or processes, see isolation_mode: where calls and actors run that do not
  /// say so in their options. `workers` is the number of either. Default: threads.
  std::optional<isolation_mode> isolation = std::nullopt;
  /// zygote: late or early, see zygote_mode. Early, isolated workers are copies of the process as
  /// it was when the runtime was made; late, main has not begun in them, so they have nothing that
  /// it set up. Early is for files that can't be started again. With isolation = processes it is
  /// early, but where the program has threads before its runtime. Default: late.
  std::optional<zygote_mode> zygote = std::nullopt;
  /// worker-output: prefixed or plain, see output_mode; for isolation = processes. Prefixed lines
  /// look like `(rollout, worker 3, pid 1234) text`; what other workers print, too, within five
  /// seconds is shown once, with `[repeated 12x]`. Default: prefixed.
  std::optional<output_mode> worker_output = std::nullopt;
  /// store-bytes: memory for arrays (manta::array); text may say 8GiB, 512MiB. 1 MiB to 2^53 - 1.
  /// Default: 30 % of what the cgroup or else the machine grants, and nodes of one machine share
  /// that. None of it is taken before the first array is made.
  std::int64_t store_bytes = -1;
  /// store-wait-ms: how long make_array waits for room before store_full, milliseconds, and who
  /// reads an array that has to be fetched from another node. 0 to 3600000, default 10000.
  int store_wait_ms = -1;
  /// spill-folder: where arrays go that nobody reads when there is no room in memory: none, or the
  /// path of a folder. They lie in files without a name, which end with the program. Default: none.
  std::optional<std::string> spill_folder = std::nullopt;
  /// spill-bytes: the most that lies there; text may say 100GiB. 0 to 2^53 - 1. Default: 1 TiB.
  std::int64_t spill_bytes = -1;
  /// quota-bytes: memory for the arrays of all of this user's programs on this machine together, as
  /// this one sees it; text may say 8GiB. 0 to 2^53 - 1; 0: nothing is shared. Default: 30 % of
  /// what the cgroup or else the machine grants, or store-bytes if that is more.
  std::int64_t quota_bytes = -1;
  /// quota-folder: where these programs find each other, a folder that only the user may enter; it
  /// is made. Default: manta in XDG_RUNTIME_DIR, else /tmp/manta-UID; where neither can be used
  /// nothing is shared.
  std::optional<std::string> quota_folder = std::nullopt;
  /// worker-tasks: tasks that one isolated worker is given before a new one takes its place; what
  /// these wait for may run there, too. 0 to 1000000000. Default: 0, as many as come.
  int worker_tasks = -1;
  /// worker-recycle: resident bytes past which an isolated worker gets no more tasks, and a new one
  /// takes its place when it has ended those it has; text may say 2GiB. Not for actors. Looked at
  /// four times a second. 0 to 2^53 - 1. Default: 0, never.
  std::int64_t worker_recycle_bytes = -1;
  /// worker-memory: resident bytes past which an isolated worker is ended, with worker_lost or
  /// actor_lost for what runs there, which says who uses most; what was sent ahead spends no run.
  /// Looked at four times a second. 0 to 2^53 - 1. Default: 0, no limit.
  std::int64_t worker_memory_bytes = -1;
  /// interrupt: end or leave, see interrupt_mode. Default: end.
  std::optional<interrupt_mode> interrupt = std::nullopt;
  /// nodes: processes of this job on this machine, this one among them, which starts the others.
  /// 1 to 1024. Where a launcher has started the job it may be left out, and must be the launcher's
  /// number otherwise. Default: the launcher's, else 1.
  int nodes = -1;
  /// rank: which of a job's processes this is, from 0; with world-size. 0 to 65535. Default: what
  /// the launcher says (Slurm, Open MPI, MPICH, torchrun, RANK).
  int rank = -1;
  /// world-size: how many processes the job has. 1 to 65536; 1: this process is alone, whatever a
  /// launcher says. Without rank, that comes from the launcher, or from JOB_COMPLETION_INDEX.
  /// Default: the launcher's number.
  int world_size = -1;
  /// role: driver, node, head or observer, see role_mode. Default: driver for rank 0 and for a
  /// process that is alone, node for other ranks and for one that was given an address only.
  std::optional<role_mode> role = std::nullopt;
  /// address: host:port, [address]:port or unix:/path: where the head of the cluster is; for rank 0
  /// and for a head, where it is to be. Default: none; ranks find rank 0 by `rendezvous`.
  std::optional<std::string> address = std::nullopt;
  /// listen: none, or host:port, [address]:port or :port, where the head of this job waits for
  /// other machines. Port 0: any that is free; no host: all of this machine's. Default: none when
  /// all ranks are on this machine, else `address`, else :0.
  std::optional<std::string> listen = std::nullopt;
  /// token-file: a file with the secret that all processes of a cluster share, which only the user
  /// may read. Default: one in the user's configuration, made when it is first needed.
  std::optional<std::string> token_file = std::nullopt;
  /// insecure-plaintext: yes or no: whether what goes to other machines may go unencrypted; anybody
  /// in the network can read and change it then. Default: no.
  std::optional<bool> insecure_plaintext = std::nullopt;
  /// spmd: yes or no: whether the runtime's constructor returns in every rank, not in rank 0 only.
  /// Default: no.
  std::optional<bool> spmd = std::nullopt;
  /// share: yes or no: whether tasks that wait in this process may run in other nodes of its
  /// cluster, where they wait less, and actors live where `where` in their options says. Tasks
  /// whose values have channels inside stay; one whose node is lost runs here again, so one with
  /// max_retries = 0 stays, too. Default: yes.
  std::optional<bool> share = std::nullopt;
  /// share-resources: yes or no: whether tasks and actors that ask for amounts or labels, and name
  /// no node, run in whichever node of those that share their work has them; with no, here alone.
  /// Default: yes.
  std::optional<bool> share_resources = std::nullopt;
  /// map-arrays: yes or no: whether nodes on one machine read each other's arrays where they lie,
  /// without a copy. An array that another node reads stays in its node's memory, which can't spill
  /// it; of half of store_bytes, what is more is copied. Both have to be of one user. Default: yes.
  std::optional<bool> map_arrays = std::nullopt;
  /// rendezvous: a folder that all machines of a job share, where rank 0 says at which address it
  /// is. A path from / on. Default: .cache/manta/rendezvous in HOME.
  std::optional<std::string> rendezvous = std::nullopt;
  /// job: a name that the ranks of one job share and those of others don't. 1 to 64 letters,
  /// digits, '.', '_' and '-'. Default: made from what the launcher says.
  std::optional<std::string> job = std::nullopt;
  /// member-name: this process's name in the cluster, which no other has. 1 to 64 bytes without
  /// control characters, but for local. Default: rank-N.
  std::optional<std::string> member_name = std::nullopt;
  /// join-ms: how long a process tries to become a member, and rank 0 waits for the others,
  /// milliseconds. 100 to 3600000, default 15000.
  int join_ms = -1;
  /// dead-after-ms: silence after which a member counts as dead, milliseconds. 500 to 3600000,
  /// default 3000. Less finds out sooner, and takes a machine that was merely slow for dead.
  int dead_after_ms = -1;
  /// drain-ms: how long a node that is asked to leave (SIGTERM) ends what it has, and waits until
  /// others have fetched what has stayed with it, milliseconds. 0 to 3600000, default 30000.
  int drain_ms = -1;
};

namespace spec {

/// A setting as it arrived, for messages: where it was found and its text.
struct setting {
  std::string key;     ///< "workers"
  std::string value;   ///< "2"
  std::string origin;  ///< "--manta-workers" or "MANTA_WORKERS"
};

/// The `--manta-KEY=VALUE` arguments, in order; what comes after "--" is the program's own.
MANTA_API std::vector<setting> settings_from_arguments(int argc, const char* const* argv);

/// The MANTA_* variables of the environment that name a known key.
MANTA_API std::vector<setting> settings_from_environment();

/// What the machine grants: the defaults of a config.
struct grants {
  grants(int usable_cores, int visible_gpus = 0, std::int64_t usable_memory = 0) noexcept
      : cores(usable_cores),
        gpus(visible_gpus),
        memory_bytes(usable_memory),
        quota_base_bytes(usable_memory) {}
  int cores;
  int gpus;
  std::int64_t memory_bytes;
  std::int64_t quota_base_bytes;  ///< what all programs on the machine share, so never a part of it
};

/// `base` with the settings filled in where it has none and then with the defaults, `machine` being
/// those for workers, gpus, memory and quota. Errors: invalid_config with key, value and what is
/// allowed.
MANTA_API result<config> complete(config base, const std::vector<setting>& arguments,
                                  const std::vector<setting>& environment, const grants& machine);

}  // namespace spec
}  // namespace manta::inline v0
