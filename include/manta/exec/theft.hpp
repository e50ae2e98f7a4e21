// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <manta/base/export.hpp>
#include <manta/exec/deque.hpp>
#include <manta/exec/job.hpp>
#include <manta/spec/options.hpp>

// What another node may take from this one's queues.
//
// Problem. Tasks are queued without asking anybody, and when they are too many other nodes should
// have some of them; who submits, and the workers, must not pay for that.
// Idea. Who gives tasks away to others steals them from the queues as a worker does, on a thread of
// its own, and puts back what has to stay. While nothing is to be done it sleeps: the one place
// where a worker is woken, which costs a system call anyway, tells it that there is work again.
//
// A job that it gives away is claimed and marked (job_bits::escaped): who asks it to stop tells it.
//
// Threads: as said at each.

namespace manta::inline v0::exec {

/// Who gives jobs away. Installed while it lives.
class MANTA_API far_thief {
 public:
  /// There is work, which there was not. Any thread, which may hold locks: it must not block.
  virtual void woken() noexcept = 0;
  /// A job that it gave away is to stop. Any thread, with a hold of the job.
  virtual void stop(job* j, bool with_children) noexcept = 0;
  /// Callers were cancelled (is_cancelled_caller): of what it gave away their children are to stop.
  /// Any thread.
  virtual void stop_children() noexcept = 0;
  /// The reader of a generator that it gave away has taken so many items, and so many may be ahead
  /// of it (stream_core.hpp). Any thread.
  virtual void flow(job* /*generator*/, std::uint64_t /*taken*/,
                    std::uint32_t /*credits*/) noexcept {}
  /// The node that is to run a task with these options, which ask for `what`, since they name it;
  /// 0: this one, or the one that the desk finds. Throws infeasible, unsupported, std::bad_alloc.
  /// Any thread.
  virtual std::uint64_t place(const options& /*asked*/, const spec::demand& /*what*/) { return 0; }
  /// Takes over the queue's hold of such a job (resource_claim::elsewhere) whose needs are met. Any
  /// thread.
  virtual void take_placed(job* j) noexcept = 0;
  /// Takes over the queue's hold of a job whose needs are met, before it is queued; false: it
  /// stays. Any thread.
  virtual bool take_all(job* /*j*/) noexcept { return false; }

 protected:
  ~far_thief() = default;
};

/// The one that is installed; null for none.
extern MANTA_API constinit std::atomic<far_thief*> thief_from_afar;
/// The same, where it wants all jobs that have an extra and not only what waits.
extern MANTA_API constinit std::atomic<far_thief*> thief_of_all;

/// How much there is to do.
struct queued_work {
  std::uint64_t queued = 0;  ///< entries of all queues, the stale ones among them
  std::uint64_t ran = 0;     ///< jobs that workers have run so far
};
/// Any thread. Cost: a few loads for each thread that ever submitted.
MANTA_API queued_work measure_queues() noexcept;

/// Takes entries of the longest queue, of the calling thread's own where all others are empty, the
/// oldest first, at most deque::batch; answers how many. Each is the caller's to execute, to put
/// back (submit_again) or to drop. A thread that executor::require() made known.
MANTA_API std::size_t take_queued(deque::loot& into) noexcept;

/// Puts an entry that was taken into the calling thread's queue. The same threads. When there is no
/// memory for that, the job ends with out_of_memory.
MANTA_API void submit_again(job* j) noexcept;

}  // namespace manta::inline v0::exec
