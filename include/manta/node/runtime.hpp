// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <manta/base/export.hpp>
#include <manta/spec/config.hpp>
#include <manta/spec/node_info.hpp>
#include <manta/spec/resources.hpp>

// The hall: what starts the engine in this process, and ends it.

namespace manta::inline v0 {

/// One worker's part in what happened.
struct worker_stats {
  std::uint64_t tasks_run = 0;  ///< tasks, actor calls and constructors
  double busy_seconds = 0;      ///< between finding work and looking for more
  double utilisation = 0;       ///< busy_seconds / uptime, 0 to 1
  int process = 0;              ///< its process when it is an isolated worker; 0: a thread
};

/// What a runtime did since it started. Counters of different threads are read one after the other,
/// so that sums may be off by what happens meanwhile.
struct runtime_stats {
  std::uint64_t tasks_submitted = 0;   ///< queue entries made: tasks, and turns of actors
  std::uint64_t tasks_run = 0;         ///< tasks, actor calls and constructors run
  std::uint64_t run_in_place = 0;      ///< of these, run by the thread that waited for them
  std::uint64_t stolen = 0;            ///< queue entries a worker took from another thread's queue
  std::uint64_t actor_calls = 0;       ///< of tasks_run, calls of actors' methods
  std::uint64_t run_isolated = 0;      ///< of tasks_run, run by isolated workers
  std::uint64_t isolated_workers = 0;  ///< processes made for these
  std::uint64_t wakes = 0;             ///< sleeping workers that had to be woken
  std::uint64_t threads_lent = 0;      ///< threads started to stand in for blocked ones
  double uptime_seconds = 0;           ///< since the runtime started
  /// Each worker that is there, isolated ones behind threads, and threads that stood in for blocked
  /// ones and ran something. What a task calls and waits for is in the busy_seconds of both.
  std::vector<worker_stats> workers;
};

/// What lies in the store for arrays.
struct store_report {
  std::uint64_t limit_bytes = 0;     ///< what it may take: config::store_bytes
  std::uint64_t reserved_bytes = 0;  ///< what it has taken from the machine
  std::uint64_t used_bytes = 0;      ///< of these, what arrays take
  std::uint64_t spilled_bytes = 0;   ///< what lies in config::spill_folder
};

/// The engine of this process: the workers start in its constructor and end in its destructor. One
/// at a time in a process; any number after each other.
///
/// The destructor lets running tasks finish, ends what has not begun with manta::cancelled,
/// destroys the actors that are left, and joins the workers. Futures outlive it. Construct and
/// destroy it on the same thread, and not inside a task.
class MANTA_API runtime {
 public:
  /// In a process of several it returns when all nodes of the job are there (config: nodes, rank,
  /// address). In one that is no driver it does not return: that serves the job until its end, and
  /// leaves the process then, with exit code 0 when all went well; config::spmd changes that.
  ///
  /// Settings from `--manta-KEY=VALUE` arguments, then MANTA_* variables, then defaults
  /// (config.hpp). A bad one ends the program with exit code 2 and one line on stderr that says key
  /// and allowed range; so do a `control` folder that can't be used, and a cluster that this
  /// process can't be a member of.
  runtime(int argc, char** argv);
  /// Settings from the environment and defaults; a bad one ends the program as above.
  runtime();
  /// Fields that are set win over the environment. Throws invalid_config for bad ones,
  /// storage_failed for a `control` folder that can't be used; and, where it is to be a member of a
  /// cluster, timed_out, node_lost, worker_lost (of a node that it started), name_taken (another
  /// process listens there), unsupported, storage_failed, store_full or invalid_argument, which say
  /// why it is none.
  explicit runtime(const config& settings);
  ~runtime();
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  /// The number of workers it keeps busy.
  int workers() const noexcept;
  /// Counts so far. Any thread.
  runtime_stats stats() const;
  /// What this node has, and what of it is free now; nodes() says what others have. Any thread;
  /// takes the lock of the accounts.
  resource_report resources() const;
  /// What waits for resources in this node now: one entry for each kind of demand, with how many
  /// wait and for how long the first of them has. What other nodes' tasks wait for is in theirs.
  /// Empty when nothing waits. Any thread; cost linear in what waits, under the lock of the
  /// accounts, so ask seldom.
  std::vector<demand_report> unmet_demand() const;
  /// What arrays take now. Any thread.
  store_report store() const;
  /// The nodes of this job that live, by their names; this process alone where there are no others.
  /// Any thread.
  std::vector<node_info> nodes() const;
  /// Which of the job's processes this is, from 0. Any thread.
  int rank() const noexcept;
  /// How many processes the job was started with. Any thread.
  int size() const noexcept;

 private:
  struct part;
  void start(const part& with);
  void start_engine(const part& with);
};

}  // namespace manta::inline v0
