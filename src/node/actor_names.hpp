// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/spec/parcel.hpp>

#include "base/id_hash.hpp"

// Which actor an id means in this process.
//
// Problem. A handle that travels is an id in a message; where it is read it has to become a handle
// to the same core as every other handle to that actor there, and the actor has to live as long as
// any of them does, wherever it is.
//
// Idea. The node counts, for each worker, how often it has sent an actor's id there and not had it
// back, and holds a handle for each time. A worker has one core for each id (a mailbox on the way
// to the node), which notes how often the id came; when the last handle to that core goes, it gives
// all of that back. What comes and is not read is given back at once, by who took it from the ring.
//
//   node: id -> core, handles lent       worker: id -> core, times it came
//         --- message with the id (+1) --->
//         <--- release of n (-n) ----------  when the last handle went
//
// Invariant: while an id is under way or known to a worker, the node holds a handle for it. Since
// messages of a worker keep their order, what it sends with an id arrives before its release.
//
// Threads: any. A lock of its own, under which nothing of others is called.

namespace manta::inline v0::node {

class actor_names {
 public:
  static actor_names& global();

  /// The id of a core, drawn for `process` when it has none yet; keeps the core's block.
  base::id name(exec::actor_core* core, std::uint64_t process);
  /// The same for one whose object may be in this process: forgotten when that has ended. Throws
  /// std::bad_alloc.
  base::id name_here(exec::actor_core* core);
  /// One that was given its id by set() is forgotten then, too. Throws std::bad_alloc.
  void watch_end(exec::actor_core* core);
  /// The same for one that the node has not heard of yet: not known() until it was told, since what
  /// names the actor must not come there first; but to this thread, which tells.
  base::id draw(exec::actor_core* core, std::uint64_t process);
  void told(exec::actor_core* core);
  /// The same for one whose name is asked for: known to no thread until draw and told.
  base::id reserve(exec::actor_core* core, std::uint64_t process);
  std::optional<base::id> known(const exec::actor_core* core);
  /// Gives a core an id that came from another process, which has `lent` of its handles already.
  void set(exec::actor_core* core, const base::id& id, std::uint32_t lent = 0);
  /// Its core, with a pin; null: nobody here knows it.
  exec::actor_core* find(const base::id& id);
  /// Handles that others have: n more, or fewer. A core that nobody else has, and that has ended,
  /// is forgotten.
  void lend(const base::id& id, std::uint32_t n);
  void give_back(const base::id& id, std::uint32_t n);
  /// The core has ended, or is a mailbox that goes.
  void forget(exec::actor_core* core);

  using counts = std::unordered_map<base::id, std::uint32_t, base::id_hash>;

 private:
  base::id name_it(exec::actor_core* core, std::uint64_t process);

  struct entry {
    exec::actor_core* core = nullptr;  // with a pin
    std::uint64_t lent = 0;
    bool is_over = false;
    bool is_told = true;
    std::thread::id teller{};  // until it is told
  };
  std::mutex mutex_;
  std::unordered_map<base::id, entry, base::id_hash> by_id_;
  std::unordered_map<const exec::actor_core*, base::id> by_core_;
  std::uint64_t last_ = 0;
};

/// Held while a handle that came becomes one of this process, and while a core's seat is taken
/// away: its note is counted in or is gone. Before the worker's own lock.
std::mutex& borrowing_actors() noexcept;

/// What a worker knows of a core that stands for an actor of another process; its seat. The flags
/// are under the worker's lock: see worker_monitors.hpp.
struct mirror_note {
  explicit mirror_note(const base::id& named) noexcept : id(named) {}
  base::id id;
  std::atomic<std::uint32_t> came{1};  ///< times the node has sent it, which it has back then
  bool is_heard = true;                ///< the node has been told of it
  bool is_watched = false;             ///< the node was asked how it ends
  bool is_left = false;                ///< the core's end waits for that answer
  bool is_over = false;                ///< which has come
};

/// The handles that came with a message, in this thread, until this ends: what nobody has read by
/// then goes back. In a worker.
class arrived_handles {
 public:
  /// `keeps`: the actor that lives here, whose handles go back at once, since it has its own core.
  arrived_handles(std::span<const spec::reference> came, const base::id& keeps,
                  void (*give_back)(void* to, const base::id& id), void* to);
  ~arrived_handles();
  arrived_handles(const arrived_handles&) = delete;
  arrived_handles& operator=(const arrived_handles&) = delete;

  /// One of those was read: it is the core's now. False: there is none.
  static bool take(const base::id& id) noexcept;

 private:
  std::vector<base::id> left_;
  std::size_t first_ = 0;  // those before it were taken
  void (*give_back_)(void* to, const base::id& id);
  void* to_;
  arrived_handles* outer_;
};

}  // namespace manta::inline v0::node
