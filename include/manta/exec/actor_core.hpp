// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <manta/base/export.hpp>
#include <manta/exec/end_watcher.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/known_actor.hpp>
#include <manta/exec/parker.hpp>
#include <manta/spec/error.hpp>
#include <manta/spec/options.hpp>

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
//   closed     ended                                    fails the call       ends the life
//
//   life:  starting (inbox null: calls collect) -> alive -> over -> gone
//                 \______________ killed _________________/
//
// A call whose arguments are futures still being made waits in a held list and with it the later
// calls of the same caller; calls of other callers pass. It is released by its needs becoming -1,
// under the lock, by who found its arguments complete (and reads it last): needs 0 alone would let
// another thread send it, and it would be gone. A held call counts as a handle.
//
// The end. When the last handle goes, or the actor is retired and no call is held, the core itself
// is pushed as a mail behind all calls; the worker that finds it destroys the object. A method that
// made a handle meanwhile makes that mail void. kill and exit do not queue: they set stop_, close
// the inbox, and fail what waits. The worker sees stop_ before and after each call, and ends the
// life there; an idle actor is scheduled for it.
//   runner:  running_ = call; backlog_ = rest; light barrier; stop_?  ... run ...
//            running_ = null; light barrier; stop_? wait for the killer's lock; finish the call
//   killer:  lock; stop_ = true; heavy barrier; running_ not null? it and the rest are his
// An object in another process. Such a core's drain sends the calls on instead of running them, on
// the thread that found it idle; the end waits until the other process says that the object is
// gone, with the inbox left as if the actor ran. See actor_elsewhere.cpp.
// What few actors need (a name, a cap, lanes, held calls, monitors) lies behind one pointer, rare_;
// gate_ is not 0 when a sender has to look there. More than one call at a time: actor_lanes.cpp.
// Invariants
//   1. at most one thread runs the actor: it is the one that got the scheduled entry.
//   2. a call is pushed after every earlier call of its caller.
//   3. the block is freed when nobody has a pin any more: the life, the handles together, each weak
//      handle, the construction, and who refuses calls.

namespace manta::inline v0::exec {

class actor_host;
class resource_claim;
struct rare_state;
struct actor_lanes;
struct lane_step;
enum class lane_end : std::uint8_t;
enum class leaving : std::uint8_t;

/// What a core has to know of the object's type.
struct actor_ops {
  void (*destroy)(actor_core* self) noexcept;  ///< ends the object's lifetime
  std::uint32_t size;                          ///< of the block, core included
  const char* type;                            ///< the compiler's spelling of the type
  /// What the actor asked for, null when it asked for nothing; a null function says the same.
  resource_claim* (*claim)(actor_core* self) noexcept = nullptr;
  /// Gives back what it asked for, when there is no object that does; null: it asked for nothing.
  void (*release)(actor_core* self) noexcept = nullptr;
  /// Frees what `claim` answers, with the block: who kills the actor before it begins looks at it.
  void (*forget)(actor_core* self) noexcept = nullptr;
  /// Its construction is finished: begins. Takes over the hold that is left.
  void (*settle)(actor_core* self, job* construction) noexcept = nullptr;
};

/// Whether what actors ask for is granted by another process (outside::asks_elsewhere).
MANTA_API bool asks_elsewhere() noexcept;
/// A claimed construction whose core is elsewhere is made there; see outside.hpp.
MANTA_API void construct_elsewhere(actor_core* of, job* construction) noexcept;

class MANTA_API actor_core : public job {
 public:
  /// Starts with one handle and a pin for the construction. Registers itself so that the end of the
  /// runtime finds it.
  explicit actor_core(const actor_ops* kind);

  // Handles, any thread.
  void add_handle() noexcept { handles_.fetch_add(1, std::memory_order_relaxed); }
  void drop_handle() noexcept;
  /// A handle for who has none. False: the last one went, or the actor ended or is about to;
  /// `heeds_others`: or will, by what other nodes have said.
  bool try_add_handle(bool heeds_others = false) noexcept;
  /// Other nodes have one handle together: it is about to go, behind calls of theirs, or is not.
  void others_go(bool do_they) noexcept;
  void drop_others() noexcept;
  /// Whether another node has asked for an end that is to come.
  void note_unwanted(bool is) noexcept;
  /// A handle for one of its running methods, even when all others have gone: it lives on then.
  void add_handle_inside() noexcept;
  /// Keeps the block's memory, not the actor.
  void pin() noexcept { pins_.fetch_add(1, std::memory_order_relaxed); }
  void unpin() noexcept;

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

  /// Takes over what spawn was asked for beside the type. Before the construction starts and others
  /// know the actor. Throws std::bad_alloc.
  void apply(const actor_options& asked);
  /// Registers the actor under the name it was given, unless a living one of its namespace has it:
  /// that is answered, with a handle, when `may_exist`. Throws name_taken; invalid_argument when
  /// the living one is of another type; std::bad_alloc.
  actor_core* take_name(bool may_exist);
  /// The living actor of that name, with a handle for the caller; null when there is none. Throws
  /// invalid_argument when it is not of the type.
  static actor_core* find(const std::string& name, const std::string& space, const char* type);
  /// Its name is held where its object is, in another node: only who observes is told.
  void note_name() noexcept;
  /// Ends an actor whose construction will not be started; the caller has its one handle, and no
  /// longer has it then.
  void discard() noexcept;

  /// The construction is about to run. False: the actor was killed before; nothing must be made.
  bool claim_start() noexcept;
  /// The constructor has run (or failed, with `reason`): begins with the calls. The calling worker
  /// stays with the actor for a while. Gives up the construction's pin.
  void begin(const error* reason) noexcept;
  /// The construction is not to be: begin, for one that can't be run any more.
  void abandon_start(const error& reason) noexcept;
  /// The actor's turn is not to be: the calls that wait fail with `reason`.
  void abandon(const error& reason) noexcept;
  /// Runs the mails up to `call` on this thread, which has taken the scheduled entry, as the caller
  /// who waits for it; what comes later is left to a worker. False, and nothing done: `call` is not
  /// the newest mail.
  bool run_until(const job* call) noexcept;

  // The ends that are asked for. Any thread with a handle, or a method; harmless when it has ended.
  /// Throws std::bad_alloc, with nothing changed.
  void kill();
  void retire();
  void exit();
  /// Whether no end was asked for, nor came by a constructor that failed.
  bool takes_calls() const noexcept { return loss() == nullptr; }
  /// What calls fail with then; as long as the core is pinned. Null: none.
  const error* loss() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// Whether kill or exit was called: what runs should end soon.
  bool is_stopping() const noexcept { return stop_.load(std::memory_order_relaxed); }
  /// Whether it was kill; for who has the turn.
  bool is_killed() const noexcept { return is_stopping() && reason_ == end_reason::killed; }
  /// Adds a watcher; false: the actor ended, and `how` says how. Throws std::bad_alloc.
  bool watch(end_watcher* w, actor_end& how);
  /// Takes a watcher back. False: it was told, or is about to be. It may be gone by then.
  bool unwatch(const end_watcher* w) noexcept;
  bool is_watched() const noexcept;

  /// Whether `awaited` can't begin before `running`, one of this actor's methods, has ended.
  bool excludes(const job* running, job* awaited) const noexcept;
  /// Completes a call whose run was suspended (it answered 0), like job::finish with one hold, and
  /// lets the actor go on with what it kept back meanwhile. Any thread.
  static void complete(job* call, std::uint64_t bits) noexcept;

  /// job_ops::execute and cancel of methods' calls: an actor with lanes queues them like tasks.
  static void execute_call(job* call) noexcept;
  static void cancel_call(job* call, const error& reason) noexcept;

  /// The number of a concurrency group, the default group (0) when `name` is empty. Throws
  /// invalid_argument when there is no such group.
  std::uint16_t group_index(const std::string& name) const;
  /// A call's group travels in the upper bits of its caller's number.
  static constexpr unsigned group_shift = 48;
  /// The caller's number of what waits for all of an actor's groups.
  static constexpr std::uint64_t all_groups = std::uint64_t{0xffff} << group_shift;

  /// Whether a caller has to ask admit before it makes a call.
  bool is_capped() const noexcept {
    return (gate_.load(std::memory_order_relaxed) & gate_capped) != 0;
  }
  /// Takes a place in the mailbox of an actor with a cap; waits for it or throws mailbox_full, as
  /// the actor was asked to. Throws self_wait when a method of its own would have to wait,
  /// timed_out at the deadline, and cancelled when the task that calls is.
  void admit(const base::deadline& until);
  /// Gives the place of a call back that was not sent.
  void unadmit() noexcept;

  // An object in another process; see outside.hpp.
  /// Whether it is; at first, whether all are.
  bool is_elsewhere() const noexcept { return is_elsewhere_; }
  /// Says whether it is. Before others know the core.
  void lives_elsewhere(bool does) noexcept { is_elsewhere_ = does; }
  /// The object is in another node, whose host is actors_afar. Before others know the core.
  void lives_afar() noexcept { is_elsewhere_ = is_afar_ = true; }
  bool is_afar() const noexcept { return is_afar_; }
  /// Who has its object; null when that is here, or nobody is there any more.
  actor_host* host() const noexcept;
  /// The object is in this process, and calls from others are sent to it. Before others know it.
  void is_here() noexcept;
  /// The object has ended, as outside::leave asked for.
  void end_elsewhere() noexcept;
  /// The object has ended, and nobody here asked for it: it left, or its process died. Takes calls
  /// no more; those that were sent on are their sender's to fail.
  void lose_elsewhere(end_reason why, error told) noexcept;
  /// The same in two steps: its name is free after the first. False: who stopped it sees to the
  /// end, and there is no second.
  bool begin_loss(end_reason why, error told) noexcept { return lose(why, std::move(told)); }
  void finish_loss() noexcept;
  /// How it ended where its object was: who watches is told that, and no other reason. Before the
  /// end of this core.
  void note_end(const actor_end& how) noexcept;
  /// A call that was sent on has ended.
  void ended_elsewhere() noexcept;
  /// After leave(): others have handles again, and the object has not ended.
  void stay_elsewhere() noexcept;
  /// A place in the mailbox for a call from another process, whose caller does not wait: there is
  /// always one, unless the mailbox refuses calls when it is full. False: it refuses.
  bool admit_from_afar() noexcept;
  bool has_ended() const noexcept { return life_.load(std::memory_order_acquire) >= phase::over; }
  /// For who runs things elsewhere: what it knows of this actor. Written under its own lock.
  void* seat = nullptr;
  /// What all nodes call it, once they do, until the block goes; the first word counts. The former
  /// throws std::bad_alloc. Null: no other one knows it.
  void know_as(const known_actor& as);
  const known_actor* known_as() const noexcept;

  const actor_ops& kind() const noexcept { return *kind_; }
  /// What spawn was asked for.
  std::uint32_t restarts() const noexcept;
  std::uint32_t mailbox_cap() const noexcept;
  bool refuses_when_full() const noexcept;
  std::optional<isolation_mode> isolation() const noexcept;
  /// What its process may use beside what that had before; 0: no limit.
  std::int64_t memory_limit() const noexcept;
  /// Calls `see` with each group of calls, the default one first: its name and limit.
  void each_group(void (*see)(void* to, const std::string& name, int limit), void* to) const;
  /// What errors call it: its name, or its type.
  std::string shown_name() const;

  /// Tells who watches an actor that the runtime ends: workers may wait for that.
  static void tell_of_end() noexcept;
  /// Ends every actor: what is queued fails with `reason`. No worker may run.
  static void close_all(const error& reason) noexcept;
  /// Actors that exist, those among them whose objects are elsewhere. Cost: a lock.
  static std::size_t alive() noexcept;

  /// A runner's call has run and is about to be finished: nobody else may touch it from here on.
  void end_turn(std::atomic<job*>& shown) noexcept {
    shown.store(nullptr, std::memory_order_relaxed);
    light_barrier();  // pairs with the killer's heavy one
    if (stop_.load(std::memory_order_relaxed)) [[unlikely]]
      wait_for_killer();
  }

 protected:
  ~actor_core();

 private:
  struct registry;
  friend struct actor_lanes;
  friend void execute_actor(job* self) noexcept;
  enum class arrival : std::uint8_t { first, behind, refused };
  enum class phase : std::uint8_t { starting, alive, over, gone };
  enum class verdict : std::uint8_t { ended, goes_on };
  struct flushed {
    job* refused = nullptr;  // linked
    bool has_first = false;
  };

  // gate_: number of held calls, and why a sender has to look closer.
  static constexpr std::uint32_t gate_held = (1U << 24U) - 1;
  static constexpr std::uint32_t gate_refusing = 1U << 24U;  // retired, killed, left: lost_ says it
  static constexpr std::uint32_t gate_capped = 1U << 25U;
  static constexpr std::uint32_t gate_unwanted = 1U << 26U;
  // handles_: their number, whether the mail of the end is queued, and the others' one is to go.
  static constexpr std::uint32_t end_queued = 1U << 31U;
  static constexpr std::uint32_t others_going = 1U << 30U;
  // turn_: a suspended call, and who came first, its runner or its completion.
  static constexpr std::uint8_t turn_parked = 1;
  static constexpr std::uint8_t turn_completed = 2;

  // actor_core.cpp: the mailbox
  job*& link_of(job* mail) noexcept { return mail == this ? end_link_ : mail->link(); }
  job* in_order(job* newest) noexcept;
  bool push(job* mail) noexcept;
  arrival insert(job* mail) noexcept;
  void schedule() noexcept;
  void send_slowly(job* call, std::uint64_t caller) noexcept;
  void drain() noexcept;
  bool run_mails(job* list, int& budget) noexcept;
  job* take_new(int& polls) noexcept;
  job* take_paced(int& hurried) noexcept;
  enum class outcome : std::uint8_t { finished, suspended, stopped };
  outcome run_call(job* call, job* rest, bool is_last) noexcept;
  bool park_turn() noexcept;
  static void end_call(job* call, const error& reason) noexcept;
  const error& withdrawn_error() const noexcept;
  void hold_back(job* call, std::uint64_t caller) noexcept;
  flushed flush_held(std::uint64_t caller) noexcept;
  void refuse(job* list) noexcept;
  bool cancel_mails(job* list, const error& reason) noexcept;
  static void finish_suspended(job* call, std::uint64_t bits) noexcept;

  // actor_life.cpp: names, ends, monitors
  rare_state& make_rare();
  rare_state* rare() const noexcept { return rare_.load(std::memory_order_acquire); }
  void stop_now(end_reason why);
  void dropped(std::uint32_t old) noexcept;
  void leave_line() noexcept;
  bool lose(end_reason why, error told) noexcept;
  void construction_failed(const error& reason) noexcept;
  bool push_final() noexcept;
  verdict at_end_mail() noexcept;
  void rejoin(job* current) noexcept;
  void stopped(job* current) noexcept;
  void come_to_rest(leaving how) noexcept;
  bool claim_end() noexcept;
  void end_life() noexcept;
  void dispose() noexcept;
  void lose_name(const rare_state& of) noexcept;
  void fail_lost(job* list) noexcept;
  void fail_held() noexcept;
  actor_end how_it_ended() const;
  void wait_for_killer() noexcept;
  void close(const error& reason) noexcept;

  // actor_lanes.cpp: several calls at a time
  void drain_lanes() noexcept;
  void start_lanes(job* calls) noexcept;
  void run_lane(job* call) noexcept;
  bool run_in_lane(job* call, std::atomic<job*>& shown) noexcept;
  void go_on(const lane_step& then) noexcept;
  void come_to_end(lane_end how) noexcept;
  void complete_in_lane(job* call, std::uint64_t bits) noexcept;
  bool are_lanes_over(lane_end waits_as) noexcept;
  std::vector<job_ref> running_calls() noexcept;
  // actor_elsewhere.cpp: an object in another process
  job* take_forwarded() noexcept;
  void abandon_mails(const error& reason) noexcept;
  void drain_forwards() noexcept;
  void forward_mails() noexcept;
  void forward(job* call, bool has_more) noexcept;
  // actor_cap.cpp: full mailboxes
  void left_mailbox(std::uint32_t calls) noexcept;
  void open_places() noexcept;

  // One cache line with the header: only pushing and taking mails moves it between cores.
  std::atomic<job*> inbox_{nullptr};
  job* end_link_ = nullptr;  // link() of the core as a mail
  // Mostly read, by senders and by the worker.
  std::atomic<std::uint32_t> gate_{0};
  std::atomic<std::uint32_t> handles_{1};
  const actor_ops* const kind_;
  std::atomic<rare_state*> rare_{nullptr};
  std::atomic<const error*> lost_{nullptr};  // what calls fail with, once an end was asked for
  std::atomic<std::uint32_t> pins_{3};       // the life, the handles, the construction
  std::atomic<phase> life_{phase::starting};
  end_reason reason_ = end_reason::ended;
  bool has_object_ = false;
  bool has_lanes_ = false;
  bool is_elsewhere_;
  bool is_afar_ = false;            // in another node
  bool is_fed_here_ = false;        // its object is here, and its calls come from other processes
  bool is_handed_on_ = false;       // a worker is to go on forwarding, with a pin; the turn's
  actor_core* previous_ = nullptr;  // registry
  actor_core* next_ = nullptr;
  // Written at every call by the worker that runs the actor.
  std::atomic<job*> backlog_{nullptr};  // taken from the inbox, oldest first, not run yet
  std::atomic<job*> running_{nullptr};
  std::atomic<bool> stop_{false};
  std::atomic<std::uint8_t> turn_{0};
};

/// Stands for an actor of another process; has no object and needs no construction.
class MANTA_API mirror_core final : public actor_core {
 public:
  /// With one handle; `afar`: of another node's. Throws std::bad_alloc.
  static mirror_core* make(const actor_ops* kind, bool afar = false);

 private:
  explicit mirror_core(const actor_ops* kind) : actor_core(kind) {}
};

}  // namespace manta::inline v0::exec
