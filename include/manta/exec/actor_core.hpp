// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <manta/base/export.hpp>
#include <manta/base/pause.hpp>
#include <manta/exec/job.hpp>
#include <manta/spec/error.hpp>

// An actor without its type: mailbox, life and handles.
//
// Problem. Calls come from any thread; the methods run one at a time, each caller's in its order;
// an idle actor costs no thread and little memory.
//
// Idea. The mailbox is one atomic pointer: a stack of calls that the running worker takes whole and
// turns round. The same pointer says whether the actor is scheduled, so that the caller who finds
// it idle, and nobody else, queues it like any job.
//
//   inbox      meaning                                  push does            the worker does
//   idle       nothing to do, not scheduled             CAS to m; schedule   -
//   null       scheduled or running, nothing new        CAS to m             CAS to idle, leaves
//   m -> ...   scheduled or running, calls waiting      CAS to m'            exchange(null), runs
//   closed     ended with the runtime                   fails the call       -
//
//   life:  starting (inbox null: calls collect) -> alive -> ended
//                 \-> lost (the constructor failed): every call fails with actor_lost
//
// A call whose arguments are futures still being made waits in `held` and with it the later calls
// of the same caller; calls of other callers pass.
//
// The end: when the last handle goes, the core itself is pushed as a mail behind all calls; the
// worker that finds it destroys the object and frees the block. A held call counts as a handle.
//
// A held call is released by its needs becoming -1, under the lock, by who found its arguments
// complete (and reads it last): needs 0 alone would let another thread send it, and it would be
// gone.
//
// Invariants
//   1. at most one thread runs the actor: it is the one that got the scheduled entry.
//   2. a call is pushed after every earlier call of its caller.
//   3. the block is freed when the life has ended (by the end or by close) and the last handle has
//      been given up, by whoever comes second.

namespace manta::inline v0::exec {

class resource_claim;

/// What a core has to know of the object's type.
struct actor_ops {
  void (*destroy)(actor_core* self) noexcept;  ///< ends the object's lifetime
  std::uint32_t size;                          ///< of the block, core included
  const char* type;                            ///< the compiler's spelling of the type
  /// What the actor asked for, null when it asked for nothing; a null function says the same.
  resource_claim* (*claim)(actor_core* self) noexcept = nullptr;
};

class MANTA_API actor_core : public job {
 public:
  /// Starts with one handle. Registers itself so that the end of the runtime finds it.
  explicit actor_core(const actor_ops* kind);

  // Handles, any thread.
  void add_handle() noexcept { handles_.fetch_add(1, std::memory_order_relaxed); }
  void drop_handle() noexcept;

  /// Makes room for held calls. Call it before send_linked, and before the call's arguments are
  /// linked, since what follows can't fail. Throws std::bad_alloc.
  void prepare_held();
  /// Sends a call whose arguments are there; takes over one hold of it. Any thread with a handle.
  void send(job* call, std::uint64_t caller) noexcept;
  /// Sends a call whose arguments were linked, with one need more than they have and with a handle
  /// of its own, which is dropped by who finds the arguments complete. Takes over one hold of the
  /// call.
  void send_linked(job* call, std::uint64_t caller) noexcept;
  /// job_ops::ready of a linked call: from here on it may be sent, and be gone.
  void arguments_ready(job* call, std::uint64_t caller) noexcept;

  /// Shown in errors instead of the type. Before the construction starts; null for none.
  void set_name(std::unique_ptr<std::string> name) noexcept { name_ = std::move(name); }
  /// The constructor has run (or failed, with `reason`): begins with the calls. The calling worker
  /// stays with the actor for a while.
  void begin(const error* reason) noexcept;
  /// The actor's turn, or its construction, is not to be: the calls that wait fail with `reason`.
  void abandon(const error& reason) noexcept;
  /// Runs the mails up to `call` on this thread, which has taken the scheduled entry, as the caller
  /// who waits for it; what comes later is left to a worker. False, and nothing done: `call` is not
  /// the newest mail.
  bool run_until(const job* call) noexcept;
  /// What calls fail with; null while the actor lives. Read by the worker that runs it.
  const error* lost() const noexcept { return lost_; }
  const actor_ops& kind() const noexcept { return *kind_; }

  /// Ends every actor: what is queued fails with `reason`. No worker may run.
  static void close_all(const error& reason) noexcept;
  /// Actors that exist, for tests.
  static std::size_t alive() noexcept;

 protected:
  ~actor_core();

 private:
  struct held_calls;
  struct registry;
  enum class arrival : std::uint8_t { first, behind, refused };
  struct flushed {
    job* refused = nullptr;  // linked
    bool has_first = false;
  };
  friend void execute_actor(job* self) noexcept;

  job*& link_of(job* mail) noexcept { return mail == this ? end_link_ : mail->link(); }
  job* in_order(job* newest) noexcept;
  bool push(job* mail) noexcept;
  arrival insert(job* mail) noexcept;
  void drain() noexcept;
  bool run_mails(job* list, int& budget) noexcept;
  job* take_new() noexcept;
  void run_call(job* call, bool is_last) noexcept;
  static void drop_cancelled(job* call) noexcept;
  void hold_back(job* call, std::uint64_t caller) noexcept;
  flushed flush_held(std::uint64_t caller) noexcept;
  static void refuse(job* list) noexcept;
  void finish_life() noexcept;
  bool cancel_mails(job* list, const error& reason) noexcept;
  job* take_backlog() noexcept;
  void close(const error& reason) noexcept;
  void free_block_of_core() noexcept;

  // One cache line with the header: only pushing and taking mails moves it between cores.
  std::atomic<job*> inbox_{nullptr};
  job* end_link_ = nullptr;  // link() of the core as a mail
  // Mostly read, by senders and by the worker.
  std::atomic<std::uint32_t> held_count_{0};
  std::atomic<std::uint32_t> handles_{1};
  const actor_ops* const kind_;
  job* backlog_ = nullptr;  // taken from the inbox, oldest first, not run yet
  error* lost_ = nullptr;
  bool has_object_ = false;
  std::atomic<std::uint32_t> pins_{2};  // who still touches the block: its life, its last handle
  std::atomic<held_calls*> held_{nullptr};
  std::unique_ptr<std::string> name_;
  actor_core* previous_ = nullptr;  // registry
  actor_core* next_ = nullptr;
};

}  // namespace manta::inline v0::exec
