// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include <manta/base/export.hpp>
#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>

// A job and its cell: what runs, and the place where its result appears, in one block.
//
// Problem. A task needs a function, arguments, a count of what it waits for, a result, a state, the
// list of who waits for it, a name, and a lifetime shared by futures and queues. Made apart these
// are five allocations; the whole task may cost as much as one.
//
// Idea. One block, 64 bytes for a small task. All that is shared is one 64-bit word:
//
//   63           32 31  12 11  7  6      5        4       3        2       1      0
//   | holders      |      |rare| | stale| waiters| locked| aliased| failed| ready| claimed |
//
//   block:  | ops | word | waiters | parent id | index, needs | slot: value or error | rest |
//           0     8      16        24          40             48                     ...
//
// rare, bits 7 to 11: cancel (stop was asked for), extra (call_extra.hpp lies before the job),
// unclean, settled, late; 13, 14, 17: named, unasked, recorded (named_jobs.hpp); 15, 16: escaped,
// stays (theft.hpp).
// A call with options is the same job with more in front of it:
//
//   block:  | call_extra, 128 bytes | mailbox link of a method call | job ... |
//
// States (c = claimed, r = ready, f = failed, a = aliased; who may leave the state)
//
//   name      c r f a  value slot         next
//   pending   0 0 0 0  empty              claimed: any thread, by try_claim, once needs is 0
//   claimed   1 0 0 0  being made         done, failed, aliased: the claimer
//   done      1 1 0 0  the value          (end) frozen; read by any holder
//   failed    1 1 1 0  the error          (end) frozen. Cancelled is failed with errc::cancelled.
//                                         With late: the error is in call_extra, and the slot is
//                                         still the runner's, who discards what it makes
//   aliased   1 0 0 1  target job         resolved: whoever completes the target
//   resolved  1 1 0 1  target job         (end) frozen; the target is done or failed
//   escaped   1 0 0 0  empty              done, failed: another node's answer; pending: it is lost
//
// Invariants
//   1. claimed is set once; who set it, and nobody else, fills the slot and makes the job ready.
//   2. ready is set once, with release; who reads it with acquire may read the slot.
//   3. the waiter list and an unresolved alias target are touched only under the locked bit.
//   4. a waiter is fired exactly once or removed by remove_waiter, never both.
//   5. the block is freed when the last holder leaves. Holders: each future, each argument that
//      waits for it, the queue entry (or whatever will put it into a queue), each alias to it.
//   6. stale is set when a waiter claims the job while its queue entry stays behind, until that
//      entry is dropped: such a hold reads nothing, so it is no user of the value (is_unique).
//   7. an alias's target is never itself unresolved-aliased: targets are followed when the alias is
//      made and moved on when the target becomes an alias (chains have length one).
//   8. a job that is withdrawn (cancelled before it ran) is ended at once, but it keeps its
//      arguments, marked unclean: dependencies may still point into them. Who drops the queue's
//      hold, which is after the last of them, drops them too.
//   9. who ends a job with extra sets settled first. Only its runner and its deadline compete; the
//      loser of that race touches neither value nor waiters.
//
// The lock is a bit, not a mutex: it is held for a few instructions and by at most a few threads.
// Source: the split into claim and completion is that of work-first futures; the state drawing
// follows design.md 4.

namespace manta::inline v0::exec {

class job;
class actor_core;
class job_ref;
struct alias_node;
struct call_extra;

/// Something to tell when a job is ready. Lives where its owner wants; the list only links it.
struct waiter {
  waiter* next = nullptr;
  /// Called once, on the completing thread, after the job is ready; must not throw, nor block but
  /// by executor::sleep. The waiter may be gone when it returns.
  void (*fire)(waiter* self) noexcept = nullptr;
};

/// An actor's call: the actor, and its caller's serial number.
struct call_origin {
  actor_core* actor = nullptr;
  std::uint64_t caller = 0;
};

/// Bits of a job's word.
struct job_bits {
  static constexpr std::uint64_t claimed = 1U << 0U;
  static constexpr std::uint64_t ready = 1U << 1U;
  static constexpr std::uint64_t failed = 1U << 2U;
  static constexpr std::uint64_t aliased = 1U << 3U;
  static constexpr std::uint64_t locked = 1U << 4U;
  static constexpr std::uint64_t waiters = 1U << 5U;
  static constexpr std::uint64_t stale = 1U << 6U;
  static constexpr std::uint64_t cancel = 1U << 7U;
  static constexpr std::uint64_t extra = 1U << 8U;
  static constexpr std::uint64_t unclean = 1U << 9U;
  static constexpr std::uint64_t settled = 1U << 10U;
  static constexpr std::uint64_t late = 1U << 11U;
  /// An answer of job_ops::run, never stored: it failed and is to run again.
  static constexpr std::uint64_t again = 1U << 12U;
  /// Other processes may know it by a name.
  static constexpr std::uint64_t named = 1U << 13U;
  /// Its value is elsewhere, and nobody has asked for it yet.
  static constexpr std::uint64_t unasked = 1U << 14U;
  /// Another node has it (theft.hpp); claimed, too.
  static constexpr std::uint64_t escaped = 1U << 15U;
  static constexpr std::uint64_t stays = 1U << 16U;  ///< It can't run on another node, as was seen.
  static constexpr std::uint64_t recorded = 1U << 17U;  ///< See named_jobs.hpp.
  static constexpr std::uint64_t holder = std::uint64_t{1} << 32U;
};

/// What differs from one kind of job to another; one static object per kind.
struct job_ops {
  /// Runs a job that was taken from a queue; the entry's hold goes with it.
  void (*execute)(job* self) noexcept;
  /// Runs a claimed job: fills the slot, drops the arguments, returns the bits to complete with
  /// (ready, ready|failed, again, or aliased with the target in the slot). 0: not finished, it is
  /// suspended and goes on later; who finishes it then has one hold to give up.
  std::uint64_t (*run)(job* self) noexcept;
  /// Everything it needs is there (needs went to 0): puts it where it will be run from.
  void (*ready)(job* self) noexcept;
  /// Ends a job that was taken from a queue without running it; the entry's hold goes with it.
  void (*cancel)(job* self, const error& reason) noexcept;
  /// Drops the arguments of a job that will never run.
  void (*drop_arguments)(job* self) noexcept;
  /// Destroys the value of a done job; null when nothing has to be done.
  void (*drop_value)(job* self) noexcept;
  /// A claimed job's alias node (see alias_node), or null when its function returns no future.
  alias_node* (*alias)(job* self) noexcept;
  /// Where an actor's call goes and whose it is; null for other jobs.
  call_origin (*origin)(job* self) noexcept;
  /// Size of the block, and how many of its bytes lie before the job.
  std::uint32_t size;
  std::uint32_t front;
  /// A waiter may run it on its own thread: it needs nothing but a thread.
  bool in_place;
  /// The compiler's spelling of the function, for messages.
  const char* function;
  /// hash_name(function): stands for the function in ids.
  std::uint64_t function_hash;
  /// How its values become bytes (node/carrier.hpp); null when it never leaves its process.
  const void* carrier = nullptr;
};

class MANTA_API job {
 public:
  job(const job_ops* kind, unsigned holders) noexcept
      : ops(kind), word_(holders * job_bits::holder) {}
  job(const job&) = delete;
  job& operator=(const job&) = delete;

  // State, any thread.
  std::uint64_t word() const noexcept { return word_.load(std::memory_order_acquire); }
  bool is_ready() const noexcept { return (word() & job_bits::ready) != 0; }
  bool is_claimed() const noexcept {
    return (word_.load(std::memory_order_relaxed) & job_bits::claimed) != 0;
  }
  /// True for exactly one caller. Requires needs == 0.
  bool try_claim() noexcept {
    // One bit-test-and-set. Acquire: the arguments were written before the job was published.
    return (word_.fetch_or(job_bits::claimed, std::memory_order_acq_rel) & job_bits::claimed) == 0;
  }

  /// try_claim for who has not looked at the job yet; tells whether it has an extra, too. A load of
  /// the word right after try_claim would wait for its locked write (4 of a queued task's 70 ns);
  /// before it, it would get the line from the submitter's core twice. So the step answers with
  /// what it found, and begins with a guess: the future's hold and the queue's.
  bool try_claim(bool& has_extra) noexcept {
    std::uint64_t old = 2 * job_bits::holder;
    while (!word_.compare_exchange_weak(old, old | job_bits::claimed, std::memory_order_acq_rel,
                                        std::memory_order_relaxed)) {
      if ((old & job_bits::claimed) != 0) return false;
    }
    has_extra = (old & job_bits::extra) != 0;
    return true;
  }

  /// try_claim for who leaves the job's queue entry where it is.
  bool try_claim_in_place() noexcept {
    // One step: who finds the entry of a claimed job has to find it marked.
    std::uint64_t old = word_.load(std::memory_order_relaxed);
    while ((old & job_bits::claimed) == 0) {
      if (word_.compare_exchange_weak(old, old | job_bits::claimed | job_bits::stale,
                                      std::memory_order_acq_rel, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  // Lifetime, any thread.
  void hold() noexcept { word_.fetch_add(job_bits::holder, std::memory_order_relaxed); }
  void drop() noexcept {
    // A sole holder needs no read-modify-write: nobody else can take a new hold, unless by a name.
    constexpr std::uint64_t asked = ~(job_bits::holder - 1) | job_bits::named;
    if ((word() & asked) == job_bits::holder ||
        word_.fetch_sub(job_bits::holder, std::memory_order_acq_rel) >> 32U == 1) {
      destroy();
    }
  }
  /// Drops the hold of a queue entry whose job was claimed elsewhere.
  void drop_entry() noexcept {
    std::uint64_t old = word_.load(std::memory_order_relaxed);
    if ((old & (job_bits::unclean | job_bits::extra)) != 0) [[unlikely]]
      clean_entry();
    while (!word_.compare_exchange_weak(old, (old & ~job_bits::stale) - job_bits::holder,
                                        std::memory_order_acq_rel, std::memory_order_relaxed)) {
    }
    if (old >> 32U == 1) destroy();
  }
  /// Whether the caller's hold is the only one that may use the value.
  bool is_unique() const noexcept {
    const std::uint64_t bits = word();
    return bits >> 32U == ((bits & job_bits::stale) != 0 ? 2U : 1U);
  }

  // Completion, by the claimer. `drops`: 1 when the caller's hold ends with it, else 0.
  void finish(std::uint64_t bits, unsigned drops) noexcept {
    std::uint64_t old = word_.load(std::memory_order_relaxed);
    constexpr std::uint64_t rare =
        job_bits::locked | job_bits::waiters | job_bits::extra | job_bits::failed;
    while (((old | bits) & rare) == 0) {
      const std::uint64_t next = (old | bits) - drops * job_bits::holder;
      if (word_.compare_exchange_weak(old, next, std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
        if (next >> 32U == 0) destroy();
        return;
      }
    }
    finish_slow(bits, drops);
  }
  /// Fails a claimed job that did not run; its arguments are dropped.
  void fail(error reason, unsigned drops) noexcept;
  /// Fails a job that nobody claimed yet and has not run (end of the runtime). Takes over one hold.
  void cancel_unclaimed(const error& reason) noexcept;
  /// Ends a job that nobody claimed yet, wherever it waits or is queued, and leaves its arguments
  /// to who drops the queue's hold. False: it is claimed. Any thread with a hold.
  bool withdraw(const error& reason) noexcept;
  /// Ends a claimed job that runs, or waits as an alias, because its time is over. Requires extra.
  /// False: it has ended. Any thread with a hold.
  bool end_late(error reason) noexcept;
  /// Asks a claimed job to stop, see cancellation.hpp. True for the first who asks.
  bool ask_to_stop() noexcept {
    return (word_.fetch_or(job_bits::cancel, std::memory_order_acq_rel) & job_bits::cancel) == 0;
  }
  /// A job that ran and failed may be claimed once more. By its claimer; then it is queued again.
  void unclaim() noexcept { word_.fetch_and(~job_bits::claimed, std::memory_order_acq_rel); }
  /// The same for one that another node had, or was to have. It is not the same attempt.
  void come_back(bool stays) noexcept {
    if (stays) set(job_bits::stays);
    word_.fetch_and(~(job_bits::claimed | job_bits::escaped), std::memory_order_acq_rel);
  }
  /// A hold for who has none, unless the block is about to go. Requires that it can't be gone.
  bool try_hold() noexcept;

  /// `needs` of an actor's call whose actor has come to it.
  static constexpr std::int32_t begun = std::numeric_limits<std::int32_t>::min();

  // What only calls with options have.
  static constexpr std::size_t extra_size = 128;
  call_extra* extra() const noexcept {
    if ((word_.load(std::memory_order_relaxed) & job_bits::extra) == 0) return nullptr;
    return reinterpret_cast<call_extra*>(extra_place());
  }
  /// Where the extra of a job lies that has one. For who makes it, and then says so.
  char* extra_place() const noexcept {
    auto* const self = reinterpret_cast<char*>(const_cast<job*>(this));
    return self - ops->front - extra_size;
  }
  void has_extra() noexcept;  // before others know the job

  // What named_jobs.hpp is about.
  void set(std::uint64_t bits) noexcept { word_.fetch_or(bits, std::memory_order_acq_rel); }
  /// Somebody looks whether it is ready, which it was not, and does not wait: what another process
  /// has may have come, or has to be asked for.
  bool look_again() { return (word() & job_bits::named) != 0 && look_elsewhere(); }

  // Waiters.
  /// False when the job is ready already: then nothing is registered. An aliased job that is not
  /// resolved takes waiters like any other.
  bool add_waiter(waiter* w) noexcept;
  /// True when `w` was still listed: then it will not fire. False: it fired or is firing.
  bool remove_waiter(waiter* w) noexcept;

  // Slot. The offsets are the same for every job whose value has the same type.
  static constexpr std::size_t slot_offset(std::size_t alignment) noexcept {
    return (sizeof_header + alignment - 1) / alignment * alignment;
  }
  void* slot(std::size_t alignment) noexcept {
    return reinterpret_cast<char*>(this) + slot_offset(alignment);
  }
  /// The error of a failed job. It sits at the header's end, whatever the value's alignment is.
  error& failure() noexcept {
    if ((word_.load(std::memory_order_relaxed) & job_bits::late) != 0) [[unlikely]]
      return late_failure();
    return *static_cast<error*>(slot(1));
  }
  job*& target() noexcept { return *static_cast<job**>(slot(1)); }
  /// The job that has the outcome: itself, or the target of a resolved alias. Requires is_ready().
  job* outcome() noexcept {
    const std::uint64_t bits = word_.load(std::memory_order_relaxed);
    return (bits & (job_bits::aliased | job_bits::late)) == job_bits::aliased ? target() : this;
  }
  /// The link of a job that can be in a mailbox: the word before the job, in its block's front.
  job*& link() noexcept { return *(reinterpret_cast<job**>(this) - 1); }
  /// While one lives, jobs that die on this thread wait for its end: for who holds a lock, under
  /// which no user's destructor may run.
  struct MANTA_API destroy_later {
    destroy_later() noexcept;
    ~destroy_later();
    bool was_destroying;
  };
  /// The job that has to run next for this one to become ready, with a hold for the caller.
  job* awaited() noexcept;

  // Made once, at submission.
  const job_ops* ops;

 private:
  static constexpr std::size_t sizeof_header = 48;

  friend struct alias_node;
  friend void make_alias(job* from) noexcept;
  friend void tell_delegations_to(job* to) noexcept;
  static job_ref link_alias(job* from) noexcept;

  void lock() noexcept;
  void unlock() noexcept { word_.fetch_and(~job_bits::locked, std::memory_order_release); }
  void finish_slow(std::uint64_t bits, unsigned drops) noexcept;
  void complete(std::uint64_t bits, unsigned drops) noexcept;
  void tell_failure(std::uint64_t bits) noexcept;
  bool settle() noexcept {
    return (word_.fetch_or(job_bits::settled, std::memory_order_acq_rel) & job_bits::settled) == 0;
  }
  void discard(std::uint64_t bits) noexcept;
  void clean_entry() noexcept;
  void ask() noexcept;
  bool look_elsewhere();
  error& late_failure() noexcept;
  void destroy() noexcept;
  void release_block() noexcept;

  std::atomic<std::uint64_t> word_;
  waiter* waiters_ = nullptr;

 public:
  base::id parent;
  std::uint32_t index = 0;
  /// How many things must happen before it may run; changed by whoever makes them happen.
  std::atomic<std::int32_t> needs{0};
};
static_assert(sizeof(job) == 48);

/// The name of a job, the same in each run of its parent that makes the same calls.
inline base::id id_of(const job& j) noexcept {
  return base::derive(j.parent, j.index, j.ops->function_hash);
}

/// The part of a delegating job that waits for its target.
struct alias_node : waiter {
  job* self = nullptr;
};

/// Turns the claimed job `from`, whose run returned `aliased`, into an alias of target(). Takes
/// over one hold of `from` for as long as it is unresolved. A cycle fails it with invalid_argument.
MANTA_API void make_alias(job* from) noexcept;

/// Owns one hold of a job.
class job_ref {
 public:
  job_ref() noexcept = default;
  /// Takes over a hold.
  explicit job_ref(job* j) noexcept : job_(j) {}
  job_ref(const job_ref& other) noexcept : job_(other.job_) {
    if (job_ != nullptr) job_->hold();
  }
  job_ref(job_ref&& other) noexcept : job_(std::exchange(other.job_, nullptr)) {}
  job_ref& operator=(job_ref other) noexcept {
    std::swap(job_, other.job_);
    return *this;
  }
  ~job_ref() {
    if (job_ != nullptr) job_->drop();
  }
  job* get() const noexcept { return job_; }
  job* operator->() const noexcept { return job_; }
  explicit operator bool() const noexcept { return job_ != nullptr; }
  job* release() noexcept { return std::exchange(job_, nullptr); }

 private:
  job* job_ = nullptr;
};

}  // namespace manta::inline v0::exec
