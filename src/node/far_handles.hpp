// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/job.hpp>
#include <manta/spec/parcel.hpp>

#include "base/id_hash.hpp"
#include "node/peers.hpp"
#include "node/workbench.hpp"
#include "own/references.hpp"

// Handles of actors, futures, arrays and shared things that go from node to node inside of values.
//
// Problem. What is behind them lives as long as anybody has a handle, in whichever node; and who
// reads a value with handles does so later than it came, if ever.
// Idea. own/references.hpp counts, at the node where that is, who has it from whom. A
// message that has handles says so in its request's id: the loop's thread looks into it as it comes
// and notes them, which is before anything that its sender says later. What came goes with the
// message to who reads it (far_reading); what nobody has read by then is given back.
//
//   sender: lend, send ~~~> loop: came --> letter --> far_reading: borrow_* takes it
//                                                 '-> not read: given back
//
// What one node says to another of references is said in its order: what there is no room for waits
// here for the next time something is said, or looked at.
//
// A node has one core for each actor of another that it has handles to (far_actors.hpp), one image
// for each future (far_futures.hpp), one view of each array (far_arrays.hpp) and what stands for a
// channel, a semaphore or a barrier (node_things.hpp): it counts as one holder, and so does each
// message that is not read.
//
// Threads: any, but where it is said. The mutex is not held while others' code runs, but for
// peers::send.

namespace manta::inline v0::node {

/// What came with one message, until it is read.
class far_arrivals {
 public:
  far_arrivals() = default;
  ~far_arrivals();
  far_arrivals(const far_arrivals&) = delete;
  far_arrivals& operator=(const far_arrivals&) = delete;

 private:
  friend class far_handles;
  friend class far_futures;
  friend class far_arrays;
  friend class far_pulls;
  friend class node_things;
  friend exec::actor_core* borrow_far_actor(const base::id& what, const exec::actor_ops* kind);
  friend exec::actor_core* borrow_far_weak(const spec::reference& what,
                                           const exec::actor_ops* kind);
  struct one {
    base::id id;
    std::uint64_t owner = 0;
    exec::actor_core* own = nullptr;   // of this node, with a handle
    exec::job* future = nullptr;       // the same, with a hold
    array_block* array = nullptr;      // likewise
    std::shared_ptr<void> thing = {};  // likewise: shared_thing::owner
    bool is_counted = false;           // among those of others that are not read
    bool is_left = true;               // nobody has taken it
  };
  /// Among those of the message that this thread reads; null: none such is left.
  static one* find(const base::id& what) noexcept;
  /// What this thread reads; null: nothing that has handles.
  static far_arrivals* reads_now() noexcept;
  /// The core for weak handles to that actor, with a pin: one for the message that this thread
  /// reads, which `make` makes with one.
  static exec::actor_core* weak(const base::id& what,
                                const std::function<exec::actor_core*()>& make);
  std::vector<one> all_;
  std::unordered_map<base::id, exec::actor_core*, base::id_hash> weak_;  // with a pin
  std::size_t next_ = 0;  // behind what was found last: they are mostly read in order
};

/// While it lives the calling thread reads a message with these; null: it had none.
class far_reading {
 public:
  explicit far_reading(far_arrivals* came) noexcept;
  ~far_reading();
  far_reading(const far_reading&) = delete;
  far_reading& operator=(const far_reading&) = delete;

 private:
  far_arrivals* outer_;
};

/// What all nodes call what has a handle, and which of them has it.
struct far_name {
  base::id id;
  std::uint64_t owner = 0;
};
/// The same of a core of this node whose handle goes to the member `to`. May wait until that one
/// can know it. `function`: who passes or returns it. Throws unsupported, actor_lost,
/// std::bad_alloc.
far_name name_of_actor(exec::actor_core* core, std::uint64_t to, const char* function);

/// The same of what a weak handle is to, which may have ended, and is not lent.
far_name name_of_weak(exec::actor_core* core, std::uint64_t to, const char* function);

/// The actor that came with the message which this thread reads, with a handle; null: none such
/// did. Throws std::bad_alloc.
exec::actor_core* borrow_far_actor(const base::id& what, const exec::actor_ops* kind);
/// As borrow_weak_actor, of one that has come from another node.
exec::actor_core* borrow_far_weak(const spec::reference& what, const exec::actor_ops* kind);

class far_handles {
 public:
  static far_handles& global();

  /// The member but `self` that has joined last of those that have what a message has handles to;
  /// 0: none.
  static std::uint64_t newest_owner_in(std::span<const std::byte> message, std::uint64_t self);

  // On the loop's thread.
  /// This process is a member from now on.
  void begin(peers& by);
  void joined(std::uint64_t node);
  /// It is no member any more; not: it can't be reached.
  void gone(std::uint64_t node);
  /// A message came that has handles.
  std::shared_ptr<far_arrivals> came(std::uint64_t from, std::span<const std::byte> message);
  void hear(std::uint64_t from, std::span<const std::byte> message);

  // Any thread.
  /// This process's member; 0: none.
  std::uint64_t self() const;
  /// Sends what was written for on.goes_to, and lends the handles in it. As peers::send,
  /// send_when_room and send_anyway.
  result<void> send(peers& by, base::id request, workbench& on, peers::when_full then);
  /// An actor that `maker` has made here; it has a handle.
  void lend_to_maker(const base::id& actor, std::uint64_t maker);
  /// It was not to be, and its maker was told so.
  void take_back_from_maker(const base::id& actor, std::uint64_t maker);
  /// The other side: this node has one, which lives in `owner`.
  void has_made(const base::id& actor, std::uint64_t owner);
  /// There is a core here for an actor elsewhere, an image of a future or a view of an array; or
  /// one less.
  void has_core(const base::id& thing);
  void lost_core(const base::id& thing) noexcept;
  /// The same of a view, which may outlive its runtime, whose ids come again in the next one: which
  /// runtime's it is, 0 being none, and nothing if that has ended.
  std::uint64_t has_view(const base::id& array);
  void lost_view(const base::id& array, std::uint64_t run) noexcept;
  /// Which runtime's this one is; 0: none's.
  std::uint64_t run() const;
  /// Whether others may have handles to what is, or was, here.
  bool is_lent(const base::id& thing) const;
  /// Which others may have that one of this node. Throws std::bad_alloc.
  std::vector<own::references::lending> lendings_of(const base::id& thing) const;
  /// How many things of this node others may have, and how many of theirs this one has. For tests.
  std::pair<std::size_t, std::size_t> lent_and_borrowed() const;
  /// Says what there was no room for.
  void say_again() noexcept;
  /// The runtime's end: nobody counts any more.
  void close() noexcept;

 private:
  friend class far_arrivals;
  friend class far_arrays;
  friend class far_futures;
  friend class node_things;
  friend exec::actor_core* borrow_far_actor(const base::id& what, const exec::actor_ops* kind);

  struct holders {
    std::uint32_t cores = 0;
    std::uint32_t unread = 0;
  };
  using notes = std::vector<own::reference_note>;

  far_handles() = default;

  void lend(std::span<const spec::reference> all, std::uint64_t to);
  void take_back(std::span<const spec::reference> all, std::uint64_t to);
  void read(const base::id& thing) noexcept;
  void let_go(const base::id& thing, std::uint32_t holders::*kind, std::uint64_t run = 0) noexcept;
  void drop_if_unheld(const base::id& thing);
  std::vector<base::id> say();
  static void after(std::vector<base::id> freed) noexcept;

  mutable std::mutex mutex_;
  peers* by_ = nullptr;
  std::unique_ptr<own::references> refs_;
  std::uint64_t run_ = 0;  // how often this process was a member
  std::unordered_map<base::id, holders, base::id_hash> others_;
  std::map<std::uint64_t, notes> unsaid_;  // by whom they are for
  std::uint64_t last_ = 0;
};

}  // namespace manta::inline v0::node
