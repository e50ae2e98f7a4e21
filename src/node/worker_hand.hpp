// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include <unistd.h>

#include <manta/exec/actor_core.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/resource_gate.hpp>

#include "base/id_hash.hpp"
#include "node/actor_names.hpp"
#include "node/lent_arrays.hpp"
#include "node/worker_facts.hpp"
#include "node/worker_pool.hpp"
#include "node/worker_things.hpp"
#include "sched/actor_death.hpp"

// One isolated worker as its node has it, and the actor that lives there.

namespace manta::inline v0::node {

using exec::ended_error;

/// The runtime's end came first: what waits is cancelled, and who watches is told so.
inline void end_with_runtime(exec::actor_core* core) noexcept {
  core->lose_elsewhere(end_reason::runtime_ended, ended_error());
}

/// An actor whose object is in a worker. Under mutex_.
struct worker_pool::tenant {
  /// A call that was sent, null when it has ended.
  exec::job*& at(std::uint64_t number) noexcept { return calls[number - first]; }
  bool has(std::uint64_t number) const noexcept {
    return number >= first && number - first < calls.size() && calls[number - first] != nullptr;
  }

  void note_early_end(const wire::actor_end_view& said) noexcept {
    early_end.emplace().reason = said.reason;
    try {
      early_end->message = said.message;
    } catch (const std::bad_alloc&) {
      // The reason alone.
    }
  }

  exec::actor_core* core = nullptr;  // with a pin
  base::id id;
  exec::job* construction = nullptr;  // under way
  std::uint64_t construction_number = 0;
  std::deque<exec::job*> calls;  // by their numbers, from `first` on
  std::uint64_t first = 0;
  std::size_t under_way = 0;   // of these
  std::uint64_t encoding = 0;  // the call that is being encoded
  bool is_sent = false;        // its construction
  bool is_left = false;        // it was asked to end
  bool is_unneeded = false;    // since the last handle went
  std::uint32_t handles = 1;   // that are ours there
  // Its worker has died, or it has just been made anew: calls wait here for who sends them.
  bool is_restarting = false;
  std::uint64_t last_replayed = 0;  // of these, by who sends them
  std::uint64_t last_seen = 0;      // the last one there was, at the turn before
  bool is_crowded = false;          // of these there are so many that who makes more is to wait
  sched::calls_at_death had_calls;  // once its worker has died
  std::uint32_t restarts_left = 0;
  std::unique_ptr<kept_message>
      spawn_again;  // the message that makes it, while it may be made anew
  base::time_point kill_asked{};
  std::optional<actor_end> early_end;  // said before its construction had its answer
  std::vector<std::uint64_t> late;     // calls whose results come after its end
};

/// A task that a worker has.
struct worker_pool::flight {
  std::uint64_t number = 0;  // 0: the slot is free
  exec::job* job = nullptr;
  bool is_written = false;  // its message is in the ring, or kept for it
  bool is_lent = false;     // its cores are, since it waits
  bool has_begun = false;   // as its worker dies
  bool is_in_line = false;  // for who brings its arrays back, and has not come to it
  base::time_point stop_asked{};
  std::int64_t memory_limit = 0;  // of its own; 0: none
  std::int64_t had = 0;           // what the worker had then, once its task has left the stack
};

struct worker_pool::hand : std::enable_shared_from_this<hand> {
  hand(wire::worker_line memory, std::size_t place, std::uint64_t unique_number)
      : line(std::move(memory)),
        down(line.to_worker()),
        number(place),
        up(line.to_node()),
        unique(unique_number),
        arrays(unique_number, &line.page().shelf) {}
  hand(const hand&) = delete;
  hand& operator=(const hand&) = delete;
  ~hand() {
    if (socket >= 0) ::close(socket);
  }

  flight* find(std::uint64_t flight_number) noexcept {
    flight& f = flights[flight_number % flights.size()];
    if (flight_number != 0 && f.number == flight_number) return &f;
    const auto found = off_stack.find(flight_number);
    return found == off_stack.end() ? nullptr : &found->second;
  }
  /// Whether it is for an actor, and none of the roster's.
  bool is_house() const noexcept { return number == sched::roster::nobody; }
  bool has_message() const noexcept {
    return up.has_message() || has_orphans.load(std::memory_order_relaxed);
  }
  /// Whether its messages are about actors, too: calls keep their order, and what gives a handle
  /// back comes behind what gave it away.
  bool keeps_order() const noexcept {
    return is_house() || has_handles.load(std::memory_order_relaxed) ||
           line.page().makes_actors.load(std::memory_order_relaxed) != 0;
  }
  /// Whether something came that is not in the ring.
  bool has_changed() const noexcept {
    const wire::worker_page& page = line.page();
    return page.awaits.load(std::memory_order_acquire) !=
               seen_awaits.load(std::memory_order_relaxed) ||
           page.news.load(std::memory_order_acquire) != seen_news.load(std::memory_order_relaxed);
  }

  /// Its tasks, or its actor, wait, or have gone on: their cores are others' meanwhile. Under
  /// mutex_; what may begin now is added to `through`, to be started without it.
  void lend_cores(bool waits, exec::claim_list& through) noexcept {
    for (flight& f : flights) {
      if (f.number != 0 && f.is_written) lend_cores(f, waits, through);
    }
    if (lives_here == nullptr || has_lent == waits) return;
    const auto claim_of = lives_here->core->kind().claim;
    exec::resource_claim* const held = claim_of == nullptr ? nullptr : claim_of(lives_here->core);
    if (held == nullptr) return;
    has_lent = waits;
    waits ? held->lend(through) : held->take_back();
  }
  static void lend_cores(flight& f, bool waits, exec::claim_list& through) noexcept {
    if (f.is_lent == waits) return;  // first: the job is another cache line
    exec::resource_claim* const held = f.job->extra()->claim.get();
    if (held == nullptr) return;
    f.is_lent = waits;
    waits ? held->lend(through) : held->take_back();
  }

  /// A message that was taken from the ring and has not had its effect on the flights yet: who
  /// looks after a death waits for that.
  class handling {
   public:
    explicit handling(hand& of) noexcept : of_(&of) {}
    ~handling() { now(); }
    handling(const handling&) = delete;
    handling& operator=(const handling&) = delete;
    void now() noexcept {
      if (of_ != nullptr) of_->being_handled.fetch_sub(1);
      of_ = nullptr;
    }

   private:
    hand* of_;
  };
  std::atomic<int> being_handled{0};

  wire::worker_line line;
  wire::frame_sender down;   // under mutex_
  const std::size_t number;  // the roster's
  std::mutex up_mutex;
  wire::frame_receiver up;  // under up_mutex
  /// Messages that have their effects in their order, taken from the ring and not looked at yet,
  /// and whether a thread does that. Under up_mutex.
  std::deque<wire::frame_buffer> in_order;
  bool is_ordering = false;
  bool has_order = false;                // none is handled that was taken before there was an order
  std::atomic<bool> has_orphans{false};  // whether there are some, and no thread; written there
  std::atomic<bool> has_handles{false};  // it knows actors
  const std::uint64_t unique;            // the zygote's
  int socket = -1;                       // for orders to a worker that is busy
  std::atomic<std::uint64_t> seen_awaits{wire::worker_page::awaits_nothing};
  std::atomic<std::uint64_t> seen_news{0};
  std::shared_ptr<worker_output::source> prints;  // null: straight to where this process prints
  // Under mutex_.
  std::array<flight, wire::worker_page::slots> flights{};
  std::unordered_map<std::uint64_t, flight> off_stack;  // suspended, or alias; by number
  std::uint64_t last_number = 0;
  pid_t pid = 0;
  bool is_dead = false;
  bool is_let_go = false;
  base::time_point leave_asked{};  // let go in peace
  bool ends_coroutines = false;    // it was told to
  bool has_lent = false;           // its actor's cores are lent
  bool is_worn = false;            // it gets no more tasks, and goes when it has none
  bool ends_by_force = false;      // it is killed for a task that does not stop
  bool has_used_gpus = false;      // its actor has
  std::string why;                 // it is ended by us for that
  std::uint64_t results = 0;
  duration busy{0};  // what these took
  std::uint64_t results_at_tick = 0;
  std::uint64_t results_at_look = 0;              // when it was looked at as one that may go
  int quiet_looks = 0;                            // since it had results
  std::unordered_set<std::uint64_t> early_stops;  // of requests that have not come yet
  std::unordered_multimap<std::uint64_t, base::id> early_delegations;  // to such: who delegated
  std::unordered_map<std::uint64_t, exec::job*> asked;                 // by its request; no holds
  std::unique_ptr<tenant> lives_here;  // it has an actor, and gets no tasks
  actor_names::counts lent;            // handles of actors and futures, by id
  // Results that it has to send, of futures that it has named; each with the hold of who fills it.
  std::unordered_map<base::id, passed_job*, base::id_hash> owed;
  lent_arrays arrays;
  std::vector<lent_array> not_sent;       // what ends when nobody has the lock
  std::shared_ptr<worker_facts> facts;    // null: it has asked nothing yet
  std::shared_ptr<worker_things> things;  // likewise
  std::shared_ptr<worker_monitors> monitors;
  // Actors that have their name, and a construction that has not come; each with that one's pin.
  std::unordered_map<base::id, exec::actor_core*, base::id_hash> reserved;
};

}  // namespace manta::inline v0::node
