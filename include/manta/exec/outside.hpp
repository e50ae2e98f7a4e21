// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/parker.hpp>

// Where jobs go that run in another process.
//
// Problem. The fast tier runs jobs on its own threads and must not know of processes; but a job
// that is to run elsewhere has to be kept from those threads, from who waits for it and would run
// it in place, and a thread that waits has to look after what comes in from outside.
//
// Idea. One object, which node/ puts here, is asked at three places that default runs never come
// to: when a call is made that has an extra (call_extra.hpp) whether the job is one of its own;
// when such a job has all it needs, to take it; and when a thread is about to sleep, to do that for
// it. A job that it took is claimed by it when it leaves, and not before, so that it can still be
// withdrawn.
//
// An actor has a core in each process that knows it, and its object in one. The core of another
// process is a mailbox on the way there: who finds it idle sends its calls on, in their order, on
// the same thread (actor_elsewhere.cpp), to the actor's host: an isolated worker's is the same
// object, another node's is one of its own.
//
// Threads: any, all at once.

namespace manta::inline v0::exec {

/// Why an actor's object elsewhere is to end.
enum class leaving : std::uint8_t {
  unneeded,  ///< the last handle went
  retired,   ///< after the calls made before
  stopped,   ///< it was killed; actor_host::kill was called
};

/// Who has the objects of actors whose cores are here.
class MANTA_API actor_host {
 public:
  /// Has the object made; settles the construction, which is claimed and needs nothing any more,
  /// and whose holds it takes over, by actor_ops::settle.
  virtual void construct(actor_core* of, job* construction) noexcept = 0;
  /// Whether the calling thread, which is about to forward the call, is not to wait for its
  /// arguments, and may have to: a worker forwards it then, unless they can be had at once.
  virtual bool must_not_wait(const job* /*call*/) const noexcept { return false; }
  /// Of such a call: has its arguments here, as who forwards it would. False: that takes time, and
  /// what was forwarded before is on its way meanwhile.
  virtual bool wakes_at_once(job* /*call*/) noexcept { return false; }
  /// The next call in its mailbox's order; takes over one hold. `has_more`: others follow at once.
  virtual void forward(actor_core* to, job* call, bool has_more) noexcept = 0;
  /// The object is to end. True: actor_core::end_elsewhere will be called when it is gone. False:
  /// it is gone.
  virtual bool leave(actor_core* of, leaving how) noexcept = 0;
  /// The actor was killed: what has not begun fails at once, what runs is asked to stop.
  virtual void kill(actor_core* of) noexcept = 0;
  /// Somebody watches for its end. Throws store_full: too many do.
  virtual void watch(actor_core* /*of*/) {}
  /// An actor of this process, with a name that others may know, has ended.
  virtual void unnamed(const actor_core* /*of*/) noexcept {}

 protected:
  ~actor_host() = default;
};

/// Who runs jobs elsewhere. Installed before a runtime's calls, or by the first call that needs it;
/// taken away when the runtime ends.
class MANTA_API outside : public actor_host {
 public:
  /// Takes over the queue's hold of a job whose needs are met.
  virtual void take(job* j) noexcept = 0;
  /// Sleeps until `p`, the calling thread's, is signalled (true) or the deadline. `awaited`: the
  /// job that is waited for, null when it is something else.
  virtual bool sleep(parker& p, const base::deadline& deadline, job* awaited) = 0;
  /// A claimed task of its own that was sent and has not begun ends with `reason`, and never
  /// begins. False: it is none, or may have begun.
  virtual bool take_back(job* /*j*/, const error& /*reason*/) noexcept { return false; }
  /// A claimed job of its own is to stop; it was asked to before this.
  virtual void stop(job* j) noexcept = 0;
  /// The same, and what runs it ends at once.
  virtual void end(job* j) noexcept = 0;

  /// An actor whose object is here, and whose calls come from elsewhere, has its turn. True: the
  /// thread that feeds it gives it that soon, by job_ops::execute.
  virtual bool gives_turn(actor_core* to) noexcept = 0;
  /// A call that came from elsewhere, with that call_extra::number, begins. Called on the
  /// thread that runs it.
  virtual void began(std::uint64_t /*number*/) noexcept {}

  // Generators elsewhere (stream_core.hpp).
  /// The reader has taken so many items, and so many may be ahead of it.
  virtual void flow(job* /*generator*/, std::uint64_t /*taken*/,
                    std::uint32_t /*credits*/) noexcept {}
  /// Nobody wants more items: it ends at its next one, or where it is suspended.
  virtual void abandon(job* /*generator*/) noexcept {}

  /// What jobs ask for is granted by who gets them next: they are taken before they ask.
  bool asks_elsewhere = false;
  /// Calls and actors that do not say where they run are its own. Not changed while installed.
  bool takes_all = false;

 protected:
  ~outside() = default;
};

/// The one that is installed; null for none.
extern MANTA_API constinit std::atomic<outside*> elsewhere;
/// The same, of actors that live in other nodes (actor_core::is_afar).
extern MANTA_API constinit std::atomic<actor_host*> actors_afar;

/// Whether calls and actors that do not say where they run go elsewhere.
inline bool sends_all() noexcept {
  const outside* const away = elsewhere.load(std::memory_order_acquire);
  return away != nullptr && away->takes_all;
}

}  // namespace manta::inline v0::exec
