// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <manta/exec/actor_core.hpp>
#include <manta/exec/executor.hpp>

// An actor's own parts, shared by its files: actor_core.cpp (mailbox), actor_life.cpp (ends, names,
// monitors), actor_lanes.cpp (several calls at a time), actor_cap.cpp (full mailboxes).

namespace manta::inline v0::exec {

// Marks of the inbox; never dereferenced.
alignas(job) inline char inbox_marks[2];
inline job* idle_mark() noexcept { return reinterpret_cast<job*>(&inbox_marks[0]); }
inline job* closed_mark() noexcept { return reinterpret_cast<job*>(&inbox_marks[1]); }

/// job::needs of a held call that may be sent.
inline constexpr std::int32_t released = -1;
/// Calls an actor, or one of its lanes, runs before it lets the worker's other jobs go first.
inline constexpr int calls_per_turn = 256;

/// A lock that is held for a few instructions; nothing is allocated, woken or destroyed under it.
class MANTA_API short_lock {
 public:
  void lock() noexcept;
  void unlock() noexcept { is_locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> is_locked_{false};
};

/// What the end of an actor with lanes waits as, until the last lane has left.
enum class lane_end : std::uint8_t {
  none,
  mail,     ///< the mail of its end was found; more calls may come meanwhile
  stopped,  ///< it was killed, or left
};

/// What a lane does after a call.
struct lane_step {
  job* next = nullptr;
  lane_end end = lane_end::none;  // what waited for this lane, the last; then the actor is pinned
};

/// What only actors have that run several calls at a time. See actor_lanes.cpp.
struct actor_lanes {
  /// A worker that runs calls of a group, one after the other.
  struct lane {
    std::atomic<job*> running{nullptr};
    lane* next = nullptr;
    bool is_completed = false;  // the call that was suspended has been completed already
  };
  /// Calls, oldest first.
  struct list {
    job* first = nullptr;
    job* last = nullptr;
    void add(job* call) noexcept;
    job* pop() noexcept;
  };
  struct group {
    std::string name;
    int limit = 1;
    int active = 0;  // lanes, suspended calls included
    list waiting;
    list fresh;  // the drainer's, while it sorts what it took
  };
  using step = lane_step;

  short_lock mutex;
  std::vector<group> groups;  // the default group first
  lane* lanes = nullptr;
  job* suspended = nullptr;  // linked
  int busy = 0;              // lanes, suspended ones included
  lane_end waits = lane_end::none;

  static std::size_t group_of(job* call) noexcept;
  /// Starts what the limits allow of what the drainer sorted; the calls are queued by the caller.
  job* admit_fresh() noexcept;
  step leave_lane(actor_core& a, std::size_t of) noexcept;
  void remove(lane* which) noexcept;
  bool remove_suspended(job* call) noexcept;
  job* take_waiting() noexcept;
};

/// What few actors have.
struct rare_state {
  struct list {
    job* first = nullptr;
    job* last = nullptr;
    job* next_to_fail = nullptr;  // who fails them all goes on there (fail_held)
  };
  /// A caller that waits for a place in a full mailbox.
  struct place_waiter : thread_waiter {
    place_waiter* after = nullptr;
  };

  // Held calls, linked through their own links, so that holding a call back needs no memory.
  // Callers share a list when their numbers meet; each one's order is kept within it.
  std::mutex held_mutex;
  std::array<list, 8> held;
  list& held_of(std::uint64_t caller) { return held[caller % held.size()]; }

  // Written before others know the actor.
  std::string name;
  std::string name_space;
  bool is_named = false;
  full_policy on_full = full_policy::wait;
  std::uint32_t cap = 0;
  std::unique_ptr<actor_lanes> lanes;

  std::uint32_t restarts = 0;
  std::optional<isolation_mode> isolation;
  std::int64_t memory_limit = 0;
  std::atomic<std::uint32_t> sent_on{0};  // calls to an object elsewhere that have not ended
  std::atomic<const known_actor*> known_as{nullptr};  // owned

  rare_state() = default;
  rare_state(const rare_state&) = delete;
  rare_state& operator=(const rare_state&) = delete;
  ~rare_state() { delete known_as.load(std::memory_order_relaxed); }

  // The mailbox's places that are taken, and who waits for one. See actor_cap.cpp.
  std::atomic<std::uint32_t> taken{0};
  std::atomic<std::uint32_t> place_waiters{0};
  std::mutex places_mutex;
  place_waiter* first_waiter = nullptr;
  place_waiter* last_waiter = nullptr;
  bool is_open = false;  // the actor ended: nobody waits any more

  // How it ends; the mutex is what a runner waits for when it finds stop_ set.
  std::mutex life_mutex;
  std::optional<error> retired;
  std::optional<error> stopped;
  bool final_pushed = false;
  bool is_told = false;
  std::optional<actor_end> ended_there;  // how, of one whose object was in another process
  end_watcher* watchers = nullptr;
  std::size_t watcher_count = 0;
  std::size_t prune_at = 16;
};

/// Fails what is left of a list, from its next_to_fail on. Takes held_mutex for each call.
void fail_rest(rare_state& r, rare_state::list& list, const error& lost) noexcept;

/// Tells each of a list.
void tell_all(end_watcher* watchers, const actor_end& how) noexcept;

/// Every actor that exists, and their names.
struct actor_core::registry {
  std::mutex mutex;
  actor_core* first = nullptr;
  std::size_t count = 0;

  static registry& global();
  void add(actor_core* a);
  void remove(actor_core* a);
  void unlink(actor_core* a);
};

}  // namespace manta::inline v0::exec
