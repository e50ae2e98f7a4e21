// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/linked_list.hpp>

// A channel without its type: who may put an item, who may take one, and who waits for that.
//
// Problem. Several producers and consumers, threads and coroutines, share a bounded buffer; some of
// them wait for several channels at once and must get exactly one item (select); nobody may be
// forgotten and nobody overtaken.
//
// Idea. One mutex. A wish that can't be met now is listed with the place its item comes from or
// goes to, and whoever makes it possible serves it on the spot, under the mutex: the item is moved
// for the one who waits, who then only has to be told. So an item is never "about to be taken", a
// told waiter never has to try again, and order among waiters is the list's.
//
//            send                                          receive
//   full?  --no--> put in ----.                  .---- take out <--no-- empty?
//     |                        v                  v                        |
//    yes --> senders_     settle(): while there is an item and a     receivers_ <-- yes
//                         receiver, or room and a sender: serve
//
// A wish belongs to a group (one wish, or the cases of a select). Who serves a wish claims its
// group first, with one exchange; a wish whose group is claimed is passed over. So of all cases of
// a select, on whatever channels, one happens. The group is told once, by who claimed it.
//
// A send of another process that is one of several cases can't be claimed here: it wishes for room
// only, which is kept for it while its process is asked whether it is still wanted. Room that is
// kept counts as taken, and an item may yet come of it when the channel has been closed.
//
// Invariants, whenever the mutex is free
//   1. receivers are listed only while the channel is empty, and open or with room that is kept;
//      senders while it is full, with the room that is kept, and open.
//   2. a wish is served, or found closed, or taken back: one of these.
//   3. after `withdraw` nobody touches the wish; a group may go when its wishes were withdrawn.
//   4. room that was kept is filled or freed, once.
// Limits: a user's move constructor runs under the mutex, so it must not use the same channel.

namespace manta::inline v0::exec {

/// How a wish stands.
enum class wish_state : std::uint8_t {
  open,    ///< nothing happened yet
  met,     ///< the item was moved, or moving it threw (then wish::failure says what)
  closed,  ///< it can't happen any more
};

/// One or more wishes of which one is to be met.
struct wish_group {
  waiter* tell = nullptr;  ///< fired once: when a wish is met, or when all are closed
  std::atomic<bool> is_claimed{false};
  std::atomic<std::size_t> open{1};  ///< wishes not found closed

  /// True for exactly one caller.
  bool claim() noexcept { return !is_claimed.exchange(true, std::memory_order_acq_rel); }
};

/// To put one item into a channel, or to take one.
struct wish {
  /// Moves an item between the channel's buffer and `value`; may throw, and then moved nothing.
  /// Null, of a send: room for an item is kept instead.
  void (*move)(void* items, void* value) = nullptr;
  void* value = nullptr;
  bool is_send = false;
  wish_state state = wish_state::open;
  std::exception_ptr failure = nullptr;
  wish_group* group = nullptr;

  // Links of the channel's list.
  wish* previous = nullptr;
  wish* next = nullptr;
  bool is_listed = false;
};

/// A channel of another process, as a core of this one stands for it: each does what the core's
/// function of that name does, there. See src/node/shared_names.hpp.
class far_channel {
 public:
  virtual wish_state attempt(const wish& w) = 0;
  virtual bool enlist(wish& w) noexcept = 0;
  virtual bool withdraw(wish& w) noexcept = 0;
  virtual void restore(void* value) noexcept = 0;
  virtual bool close() = 0;
  /// Its items, and whether it is closed.
  virtual std::pair<std::size_t, bool> look() = 0;

 protected:
  ~far_channel() = default;
};

/// A bounded buffer of items it does not know. Any thread.
class MANTA_API channel_core {
 public:
  channel_core(std::size_t capacity, void* items) noexcept : items_(items), capacity_(capacity) {}
  channel_core(const channel_core&) = delete;
  channel_core& operator=(const channel_core&) = delete;

  /// It stands for that one. Before others know it.
  void stand_for(far_channel* there) noexcept { far_ = there; }
  far_channel* stands_for() const noexcept { return far_; }

  /// Meets the wish now if it can be. Throws what moving the item does. No group is needed.
  wish_state attempt(const wish& w);
  /// Meets the wish, waiting until the deadline; open: it was not met then. A worker that has to
  /// sleep lends its core. Throws what moving the item does. No group is needed.
  wish_state perform(wish& w, const base::deadline& deadline);
  /// Meets the wish now, finds it closed, or lists it. True when this call settled the group, which
  /// then is not told: the wish was met, or it was the group's last one that was open and is
  /// closed.
  bool enlist(wish& w) noexcept;
  /// Takes back a wish that was given to enlist; false when it was met or found closed.
  bool withdraw(wish& w) noexcept;
  /// Puts an item back that was taken and is not wanted: it is the oldest again, and there may be
  /// one more than the capacity for a while. `put_front` moves it, as wish::move does.
  void restore(void (*put_front)(void* items, void* value), void* value) noexcept;
  /// Puts an item into room that was kept for it; closing does not take that away. Throws what
  /// moving the item does: then that room is free, as by free_room.
  void fill_room(void (*move)(void* items, void* value), void* value);
  /// The room that was kept for an item is not needed.
  void free_room() noexcept;
  /// No more items: senders that wait and, once it is empty, receivers find it closed. False when
  /// it was closed already. This one, size and is_closed throw only of a channel elsewhere that
  /// can't be asked: node_lost, cancelled, std::bad_alloc.
  bool close();

  std::size_t size() const;
  std::size_t capacity() const noexcept { return capacity_; }
  bool is_closed() const;

 private:
  bool is_possible(const wish& w) const noexcept;
  void act(const wish& w);
  void serve(wish* w) noexcept;
  static bool find_closed(wish* w) noexcept;
  static wish* first_free(linked_list<wish>& list) noexcept;
  void settle() noexcept;
  void tell_closed(linked_list<wish>& list) noexcept;
  void give_up_room() noexcept;

  mutable std::mutex mutex_;
  void* const items_;
  const std::size_t capacity_;
  far_channel* far_ = nullptr;
  std::size_t size_ = 0;
  std::size_t kept_ = 0;  // room for items that may come
  bool is_closed_ = false;
  linked_list<wish> receivers_;
  linked_list<wish> senders_;
};

/// A wish and the channel it is for.
struct select_case {
  channel_core* on = nullptr;
  wish want;
};

/// Meets one of the wishes and gives its position; none when the deadline comes first. Throws
/// channel_closed when none of them can happen any more, and what moving the item does.
MANTA_API std::optional<std::size_t> select_one(select_case* cases, std::size_t n,
                                                const base::deadline& deadline);

/// What a call on a closed channel throws.
[[noreturn]] MANTA_API void raise_channel_closed(bool is_send);

}  // namespace manta::inline v0::exec
