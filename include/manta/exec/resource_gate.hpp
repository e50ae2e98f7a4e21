// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/exec/job.hpp>
#include <manta/spec/resources.hpp>

// Where jobs that asked for resources wait for them.
//
// Problem. Few tasks say what they need; those that do must run only while it is there, and all
// others must not know of it. Who keeps the accounts lives in another room (sched/), which may have
// no locks and knows no jobs.
//
// Idea. A job that asked for something has a claim. When all else that it needs is there, it passes
// this gate: the claim asks the desk, which node/ puts here; the desk grants it or lets it wait, in
// which case the job has one need more and is told like one whose argument became ready. The gate
// is the lock around the desk, and starts the jobs that an event lets through when it is unlocked.
//
//   stage    idle --ask--> held --sleeps in a wait--> lent --wakes--> held --job ends--> idle
//              \--ask--> queued --granted--> held
//                            \-- withdrawn, refused --> idle
//
// What is granted may be another node's: the job goes there then (resource_claim::elsewhere), asks
// once more there, and what was granted here is what keeps others from being sent after it.
//
// Invariants
//   1. asking comes last: a job that waits for another one keeps nothing from it.
//   2. while a job sleeps in a wait its cores are lent; it takes them back without waiting.
//   3. a job in the gate is let through, refused, or withdrawn: each once.

namespace manta::inline v0::exec {

class actor_core;
class resource_claim;

/// Claims that an event let through, or refused (their refusal is set), in order.
struct claim_list {
  resource_claim* first = nullptr;
  resource_claim* last = nullptr;
  /// Adds one that waited in the line. Under the gate's lock.
  MANTA_API void append(resource_claim& c) noexcept;
  /// Adds those of another list, which has none then.
  MANTA_API void append(claim_list&& others) noexcept;
  /// Takes those out that were refused, in their order.
  MANTA_API claim_list take_refused() noexcept;

 private:
  void link(resource_claim& c) noexcept;  // as it is
};

/// Who keeps the accounts; node/ implements it. All calls come under the gate's lock.
class MANTA_API resource_desk {
 public:
  enum class answer : std::uint8_t { granted, waits, refused };

  /// A claim for `asked`, of the caller of that number. `is_for_life`: an actor's. Throws
  /// infeasible, group_removed, invalid_argument (no such bundle), std::bad_alloc.
  virtual std::unique_ptr<resource_claim> prepare(const spec::demand& asked, const placement& where,
                                                  std::uint64_t caller, bool is_for_life) = 0;
  /// The same for what another node is to give: nothing is asked for here. Throws std::bad_alloc.
  virtual std::unique_ptr<resource_claim> note(const spec::demand& asked) = 0;
  /// A claim of either kind, which holds nothing, is to ask again, `here`: of this node only.
  /// Throws infeasible, std::bad_alloc, with nothing done.
  virtual void ask_again(resource_claim& c, std::uint64_t caller, bool here) = 0;
  /// Refused: the claim's refusal is set. Throws std::bad_alloc.
  virtual answer ask(resource_claim& c) = 0;
  /// What it holds comes back, or it leaves the line.
  virtual claim_list leave(resource_claim& c) noexcept = 0;
  virtual claim_list lend(resource_claim& c) noexcept = 0;
  virtual void take_back(resource_claim& c) noexcept = 0;
  /// Takes one that waits off the line; null when none does.
  virtual resource_claim* take_waiting() noexcept = 0;

 protected:
  ~resource_desk() = default;
};

/// What one job, or one actor, asked for. Belongs to it; any thread, by the gate's lock.
class MANTA_API resource_claim {
 public:
  resource_claim(const resource_claim&) = delete;
  resource_claim& operator=(const resource_claim&) = delete;
  virtual ~resource_claim();

  /// Asks for `j`, which needs nothing else any more: true when it may go on, because all it asked
  /// for is its own now or because it was ended meanwhile. Otherwise it has one more need, or was
  /// refused and ended, and may be gone on return. Any thread; once.
  bool request(job* j) noexcept;
  /// Whether there is nothing to ask for any more. The job's thread.
  bool is_settled() const noexcept { return is_given_.load() || stage_.load() == stage::held; }
  /// Whether it stands in the line.
  bool is_waiting() const noexcept;
  /// What another node was to give is asked for once more; `here`: of this one only. What it holds
  /// comes back. By who has claimed its job. Throws infeasible, std::bad_alloc.
  void ask_again(bool here);
  /// The job it was asked for, once that was.
  job* asked_by() const noexcept { return job_; }
  /// Leaves the line. True: it waited, so that the job's entry is now the caller's to drop.
  bool withdraw() noexcept;
  /// Frees the cores while the holder sleeps in a wait, and the way back. Calls may nest: an actor
  /// may have several methods that sleep.
  void lend() noexcept;
  void take_back() noexcept;
  /// As lend(), for who holds a lock: what may go on is added to `through`, for start() later.
  void lend(claim_list& through) noexcept;
  /// Gives everything back; lets others through. Harmless when nothing is held.
  void release() noexcept;
  /// The indices of the gpus held. The holder's threads, while it holds them.
  virtual const std::vector<int>& gpus() const noexcept = 0;

  /// Ends the jobs that wait in the gate.
  static void cancel_waiting(const error& reason) noexcept;

  /// Which other node is to run its task, and give it what it asks for; 0: none. `is_soft`: others
  /// may, too. Set before the job is known, by who has claimed it, and by the desk that grants it.
  struct other_node {
    std::uint64_t node = 0;
    bool is_soft = false;
    bool is_granted = false;  ///< by this node's desk, which holds the amounts for it
  };
  other_node elsewhere = {};

  /// The actor that holds it all its life; null for a task's. Set before it asks.
  actor_core* holder = nullptr;

  // The gate's and the desk's, under the lock.
  std::optional<error> refusal;
  base::time_point since{};  ///< when it began to wait

 protected:
  resource_claim() = default;
  struct given {};
  /// Of what another process keeps the account of.
  explicit resource_claim(given /*mark*/) noexcept : is_given_(true) {}

 private:
  friend class resource_gate;
  friend struct claim_list;
  enum class stage : std::uint8_t { idle, queued, held };

  job* job_ = nullptr;
  resource_claim* next_ = nullptr;
  std::uint32_t sleepers_ = 0;
  std::atomic<bool> is_given_{false};
  std::atomic<stage> stage_{stage::idle};  // changed under the lock
};

/// What a job, or an actor, that came from another process was given there: nothing is asked for
/// here, nor given back.
class MANTA_API given_claim final : public resource_claim {
 public:
  explicit given_claim(std::vector<int> gpus) : resource_claim(given{}), gpus_(std::move(gpus)) {}
  const std::vector<int>& gpus() const noexcept override { return gpus_; }

 private:
  std::vector<int> gpus_;
};

struct context;

/// What a caller holds: its task's claim, or its actor's.
MANTA_API resource_claim* claim_of(const context& caller) noexcept;
/// What the running task or actor holds; null outside of them and when they asked for nothing.
MANTA_API resource_claim* current_claim() noexcept;

/// The lock, and the desk behind it.
class MANTA_API resource_gate {
 public:
  static resource_gate& global();

  /// The desk of the runtime that starts now; null for one without resources.
  void open(resource_desk* desk);
  /// A claim made by the desk, null for an empty demand that wants to be anywhere. Throws what
  /// prepare throws; infeasible when there is no desk.
  static std::unique_ptr<resource_claim> claim(const spec::demand& asked, const placement& where,
                                               bool is_for_life);
  /// Of a task that another node is to run: see resource_claim::elsewhere. Throws infeasible,
  /// std::bad_alloc.
  static std::unique_ptr<resource_claim> claim_elsewhere(const spec::demand& asked,
                                                         resource_claim::other_node where);
  /// Calls step() under the lock; then starts what is in the list that it answers.
  template <class Step>
  void change(Step&& step) {
    claim_list through;
    {
      const std::lock_guard lock(mutex_);
      through = std::forward<Step>(step)();
    }
    start(through);
  }
  /// Calls look() under the lock and answers what it does.
  template <class Look>
  decltype(auto) look(Look&& look) {
    const std::lock_guard lock(mutex_);
    return std::forward<Look>(look)();
  }
  /// Lets claims go on that the desk granted or refused. Not under the lock.
  static void start(claim_list through) noexcept;

 private:
  friend class resource_claim;

  std::mutex mutex_;
  resource_desk* desk_ = nullptr;
};

}  // namespace manta::inline v0::exec
