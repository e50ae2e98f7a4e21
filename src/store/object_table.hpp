// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <manta/spec/error.hpp>

#include "store/allocator.hpp"
#include "store/spill_file.hpp"

// What lies in a node's object store, and what has to happen when there is no room.
//
// Problem. Processes make, read and drop objects at any time and die in the middle of it. Memory
// has a budget. What is read can't move; what is needed must not be lost; who waits for room must
// get it or an answer, and who waits for what is on the disk must not wait for ever on who waits
// for room.
//
// Idea. Every object is in one of these states, and its pins are counted for each holder, so that a
// holder's death takes back all that it had:
//
//     making --seal--> here --spill--> here, and on the disk --drop--> on the disk --+
//        |               ^ \--- cached: dropped                                      |
//     abandoned          +--------------------------- restore -----------------------+
//
// Requests (room for an object, room for a worker's segment, a set of objects to be here) stand in
// two lines. The first of each is served when it can be; otherwise room is made for it, cheapest
// first: empty segments are dropped, the workers' too, sparse ones moved together, objects that are
// only a cache evicted, those dropped that are on the disk as well, others spilled, each time the
// ones that were used least recently. While large objects make room for others, the next ones are
// spilled ahead: so a disk works while its readers and makers do. A set of objects whose members
// are all here never waits.
//
// Invariants. What is pinned stays where it is. An object that is needed is here or on the disk.
// Segments reserve at most `budget` bytes, ours and the workers'. Every request is answered once:
// granted, refused, or given up by its maker.
//
// Pure: an event in, a list of actions out, which take() gives. Who performs them tells the result
// by another event. Threads: one at a time. Cost of an event: logarithmic in the objects, but for
// holder_gone and errors, which look at all.

namespace manta::inline v0::store {

using object_id = std::uint64_t;
using request_id = std::uint64_t;
using segment_id = std::uint32_t;
/// Who makes and reads objects: 0 is the node itself, others are its workers.
using holder = std::uint32_t;

namespace act {

/// The request has what it asked: one place for a new object or a segment, or each object's.
struct granted {
  request_id request;
  std::vector<place> at;
};
struct refused {
  request_id request;
  error why;
};
/// Make this segment of ours. Answer: reserved().
struct reserve {
  segment_id segment;
  std::uint64_t bytes;
};
/// It is empty, ours or of a worker that is gone.
struct drop {
  segment_id segment;
};
/// Copy an object. Answer: moved().
struct move {
  object_id object;
  place from;
  place to;
};
/// Write an object to the disk; all that come together belong into one write. Answer: spilled().
struct spill {
  object_id object;
  place from;
};
/// Read an object from the disk. Answer: restored().
struct restore {
  object_id object;
  spilled from;
  place to;
};
/// Its room on the disk is free.
struct forget {
  spilled at;
};
/// Nothing lives there any more; the segment is this holder's.
struct freed {
  holder of;
  place at;
};
/// Workers should give empty segments back. Answer: segment_gone() of each, then asked_back().
struct ask_back {};
/// Nothing lives in a segment that its worker may use again. Answer, if it can't: segment_gone().
struct offer {
  segment_id segment;
  holder of;
};
/// A cached object made room for others.
struct evicted {
  object_id object;
};
/// A needed object can't be read from the disk.
struct lost {
  object_id object;
};

using any = std::variant<granted, refused, reserve, drop, move, spill, restore, forget, freed,
                         ask_back, offer, evicted, lost>;

}  // namespace act

class object_table {
 public:
  /// At least this is spilled in one write, when there is so much.
  static constexpr std::uint64_t spill_batch = std::uint64_t{8} << 20U;

  /// At least a MiB.
  explicit object_table(std::uint64_t budget);

  /// Room for a new object of the node itself. It is made by `who`, and gone with it until seal().
  void create(request_id asked, object_id id, std::uint64_t bytes, holder who);
  /// All of these here, pinned for `who` each time they are named.
  void pin(request_id asked, std::vector<object_id> objects, holder who);
  /// Room for a segment that a worker makes; its answer has a place of that many bytes.
  void create_segment(request_id asked, std::uint64_t bytes, holder worker);
  /// The maker waits no more. The error, with who holds what; nothing if it was answered already.
  std::optional<error> give_up(request_id asked);

  /// It is whole, and needed.
  void seal(object_id id);
  /// The same, and `who` reads it from then on.
  void seal_pinned(object_id id, holder who);
  /// A worker made it in its own segment. False: that segment is not the worker's.
  bool add(object_id id, const place& at, holder worker);
  /// The same, and the node itself reads it from then on.
  bool add_pinned(object_id id, const place& at, holder worker);
  /// One that somebody reads is read by `who`, too.
  void pin_also(object_id id, holder who);
  void unpin(object_id id, holder who);
  /// Not needed, but worth keeping while there is room.
  void keep_as_cache(object_id id);
  /// The other way round. False: it is not here any more.
  bool need(object_id id);
  /// Nobody will ask for it again. It goes with its last pin.
  void erase(object_id id);
  /// Its pins, requests and unfinished objects are gone. What it made stays.
  void holder_gone(holder who);
  /// A worker gave a segment of its own back.
  void segment_gone(segment_id number);
  /// It has no use for it now, and may have it again when nothing lives there.
  void segment_kept(segment_id number);
  /// All that workers could give back at once is.
  void asked_back();

  enum class reserved_as : std::uint8_t { made, no_memory, no_quota };
  void reserved(segment_id number, reserved_as how);
  void moved(object_id id);
  /// Nothing: it could not be written.
  void spilled_to(object_id id, const std::optional<spilled>& at, std::string why = {});
  /// Not right: `why`, for who asks for it.
  void restored(object_id id, bool is_right, std::string why = {});
  /// The disk or the machine may have room again.
  void retry();
  /// Nothing is urgent: empty segments are dropped, sparse ones moved together.
  void tidy();

  /// What is to be done now, in this order.
  std::vector<act::any> take() { return std::exchange(actions_, {}); }

  bool is_known(object_id id) const { return objects_.contains(id); }
  /// Whether a pin() of them would be granted at once.
  bool are_here(const std::vector<object_id>& all) const;
  /// Whether a worker has that segment.
  bool is_of(segment_id number, holder worker) const {
    const auto found = segments_.find(number);
    return found != segments_.end() && found->second.of == worker;
  }
  /// As asked; a place has whole units. Of an object that is known.
  std::uint64_t bytes_of(object_id id) const { return objects_.at(id).bytes; }
  /// Of one that is read. Of an object that is known.
  place place_of(object_id id) const { return objects_.at(id).at; }
  /// The allocator's, of the node's own segments.
  std::optional<place> cold(std::uint64_t ahead, std::uint64_t most) const {
    return ours_.cold(ahead, most);
  }
  void warmed(const place& now) { ours_.warmed(now); }
  std::uint64_t reserved_bytes() const noexcept {
    return ours_.reserved_bytes() + others_ + reserving_bytes_;
  }
  std::uint64_t live_bytes() const noexcept { return live_; }
  /// A segment is on its way.
  bool is_reserving() const noexcept { return reserving_ != 0; }
  std::size_t waiting() const noexcept { return makers_.size() + readers_.size(); }
  /// Checks what is stated above; for tests. Cost: linear.
  bool is_sound() const;

 private:
  static constexpr std::uint64_t page = 4096;

  enum class doing { nothing, making, moving, spilling, restoring };
  struct entry {
    std::uint64_t bytes = 0;
    doing is = doing::nothing;
    bool is_here = false;  // whole, and in memory
    bool is_needed = true;
    bool is_erased = false;
    bool is_idle = false;  // in one of the lines by use
    place at;              // has a segment unless it is on the disk alone
    place to;              // where it is moved
    std::optional<spilled> on_disk;
    holder made_by = 0;
    std::map<holder, std::uint32_t> pins;
    std::uint64_t used = 0;
    std::string lost;  // why it could not be read from the disk
  };
  // Of a worker.
  struct foreign {
    std::uint64_t bytes = 0;
    std::uint64_t live = 0;
    holder of = 0;
    bool is_orphan = false;
    bool is_kept = false;  // by the worker, which has nothing there
  };
  struct asking {
    request_id id = 0;
    holder who = 0;
    object_id object = 0;  // of create
    std::uint64_t bytes = 0;
    bool is_segment = false;
    std::vector<object_id> all;  // of pin
    std::size_t begun = 0;       // so many of those are pinned, and here or on their way
  };
  enum class outcome { served, progress, waiting, stuck };
  enum kind : std::uint8_t { in_shared, in_own, in_workers, kinds };
  enum value : std::uint8_t { cached, written, unwritten, values };
  using line = std::map<std::uint64_t, object_id>;  // by use

  void step();
  asking* first_reader();
  void answer_readers();
  bool is_readable(object_id id) const;
  outcome serve_maker();
  outcome serve_reader(asking& of);
  outcome make_room(std::uint64_t bytes);
  bool drop_longest_empty();
  outcome compact();
  static const line* oldest(const line (&of)[kinds], bool is_shared);
  bool evict(bool is_large);
  outcome spill_some(std::uint64_t bytes, bool is_large);
  bool drop_written(bool is_shared);
  bool spill_one(bool is_shared);
  void spill_ahead();
  error unknown(object_id id) const;
  void end_compaction();
  std::uint64_t room() const noexcept;
  outcome take_place(std::uint64_t bytes, object_id id, bool is_maker, place& at);
  void give_back(const place& at);
  bool add_foreign(object_id id, const place& at, holder worker);
  void drop_foreign(segment_id id);
  void keep(foreign& one, bool is_kept);
  void pin_one(entry& of, holder who);
  void unpin_one(object_id id, holder who);
  void value_is(object_id id, bool is_needed);
  void settle(object_id id, entry& of, std::uint64_t turn = 0);
  void disturb(entry& of);
  kind kind_of(const entry& of) const;
  static value value_of(const entry& of) noexcept;
  void drop_from_memory(entry& of);
  void end(object_id id);
  void leave(const asking& of);
  static std::string_view text_of(reserved_as how) noexcept;
  error full(const asking& of) const;

  const std::uint64_t budget_;
  std::uint64_t limit_;  // the budget, or what the machine had when it had no more
  allocator ours_;
  std::uint64_t others_ = 0;  // bytes of workers' segments
  std::uint64_t kept_ = 0;    // of those that they keep
  std::uint64_t live_ = 0;    // bytes of objects in memory
  segment_id next_segment_ = 1;
  // A segment on its way, one at a time.
  segment_id reserving_ = 0;
  std::uint64_t reserving_bytes_ = 0;
  std::uint64_t reserving_for_ = 0;  // bytes of the object
  bool is_reserving_for_maker_ = false;
  std::unordered_map<object_id, entry> objects_;
  std::map<segment_id, foreign> segments_;
  std::deque<asking> makers_;
  std::deque<asking> readers_;
  bool is_makers_turn_ = false;
  // Objects that could leave memory: what that costs, and where they are.
  line idle_[values][kinds];
  std::uint64_t written_ = 0;  // bytes of large ones that are on the disk as well
  std::uint64_t owed_ = 0;     // bytes that are to be written although there is room without them
  std::uint64_t turn_ = 0;
  segment_id closed_ = 0;                         // its objects are moved
  std::size_t moving_ = 0;                        // so many
  std::uint64_t compact_at_ = ~std::uint64_t{0};  // when so few bytes live, it is tried again
  std::uint64_t spilling_ = 0;                    // bytes under way
  bool is_disk_full_ = false;                     // nothing more is spilled until retry()
  // The last try; for messages.
  std::string spill_fault_;  // empty: it was right
  reserved_as reserve_end_ = reserved_as::made;
  bool has_asked_back_ = false;
  bool is_asking_back_ = false;
  std::vector<act::any> actions_;
};

}  // namespace manta::inline v0::store
