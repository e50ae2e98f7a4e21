// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/exec/parker.hpp>
#include <manta/node/array_block.hpp>
#include <manta/spec/error.hpp>
#include <manta/spec/parcel.hpp>

#include "base/id_hash.hpp"
#include "bulk/station.hpp"
#include "bulk/unreached.hpp"
#include "node/array_home.hpp"
#include "node/array_names.hpp"
#include "node/far_handles.hpp"
#include "node/late_parts.hpp"
#include "node/peers.hpp"
#include "node/pull_room.hpp"
#include "own/room_limits.hpp"
#include "sched/link_paces.hpp"

// Arrays of results that stay in the node that made them until somebody reads them elsewhere.
//
// Problem. Where nodes can't map each other's memory a large array in a result would be copied to
// whoever asked for the task, who may only hand it on, and often to where it comes from.
// Idea. It goes as a handle, counted as those that are mapped (far_arrays.hpp), of a block without
// bytes. Who wants to read the value asks first (node/rest.hpp): then the bytes are fetched, once
// for all who wait, straight into this node's store, and the maker is told that it may let go.
//
//   maker: stored_block <-- lent {id} ~~~ result ~~~> distant_block :reader
//                                                         | fetch
//   question {id, at, bytes} <~~~~~~~~~~~~~~~~~~~~~~~~~~~~~+   some at a time
//        '-- part ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~> room -- the last --> a block of this store
//
// A distant block has one way: away, then here. What is in a message to the maker goes as its name
// while it is away, and so does what goes into a cell elsewhere, whose readers fetch it themselves.
//
// Who fetches waits for the loop's thread, and for room as who makes an array does: what has none
// in the store lies beside it, as far as own/room_limits.hpp lets it; more is store_full, in time.
// Where the maker is lost it goes on from another node that has all of it (far_copies.hpp,
// decisions/0055), with what has come so far. If none has, or the maker has let go, the wait ends
// with an error, and so it does by this runtime's end; the next reader asks again, and may find one
// by then.
//
// Who waits no longer since its time is over finds it further on when it asks again: what was asked
// for comes. When all who wait are cancelled it is given up. Which of the two ends a fetch, that or
// its last byte, the mutex decides: from is_landing on it is here.
//
// Who is about to leave in order asks those that have arrays of its to fetch them, again and again
// until they have (node/parting.hpp), also what their readers stand in line for room for: then two
// look for room for one fetch, and whoever has it first begins. So does who has lent more than half
// of its store, until it is less: then others have room there, and who makes more waits for it.
// Each takes what has room in its own store, and where nothing can go to the disk half of that at
// most: the rest is for what is read. What comes so before anybody reads it rests, and may go to
// the disk:
//
//   away --read--> here            away --taken--> rests in this store --read--> here
//
// So come the arrays of one reader that wants several, and are pinned all together: two that had a
// part each could wait for each other. Those that have no room in the store lie beside it together,
// or not at all.
//
// The bytes come over connections of bulk/, where both ends have them (bulk_way.hpp). To a maker
// that has none, or none that can be reached, go questions, over the path of the messages:
//
//   maker: stored_block <-- far_arrays <-- bulk station <~~~ chunks ~~~> station :reader
//
// There a reader gives on what it has, be it a part (decisions/0052): its station what is being
// fetched, this what was, while a value or copy_cache has it.
//
// Who asks for more than that is answered when the path to it has room, so that nobody fills this
// node's memory with answers.
//
// Limits: part_bytes, and most_parts of them at a time from each node; most_waiting questions of
// each node that wait here.
//
// Threads: any, but as said. The mutex is taken before far_handles', never with it held.

namespace manta::inline v0::node {

class resting_array;

/// What question::array_bytes asks for; the answer has such bytes as its segment, and `at` as its
/// head.
struct pull_question {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
};

/// An array that has stayed in another node.
class distant_block final : public placed_block {
 public:
  struct source {
    base::id id = {};
    std::uint64_t owner = 0;
    std::uint64_t bytes = 0;
    std::uint64_t contents = 0;  // what its owner calls them
    std::uint64_t run = 0;       // whose nodes count it; 0: its owner was lost before it came
    std::uint64_t since = 0;     // the runtime in which it came, counted as far_handles does
  };
  explicit distant_block(const source& from) noexcept
      : placed_block(
            {static_cast<const std::byte*>(nullptr), static_cast<std::size_t>(from.bytes)}),
        from_(from) {}

  const source& from() const noexcept { return from_; }
  /// Null while nobody can read it here; else what it is here, without a hold.
  array_block* here() const noexcept { return here_.load(std::memory_order_acquire); }
  /// Its bytes, where they came before anybody read it, without a hold; else null.
  resting_array* taken() const noexcept { return taken_.load(std::memory_order_acquire); }
  /// The other node that has its bytes; 0: they are in this one.
  std::uint64_t lies_in() const noexcept {
    return here() == nullptr && taken() == nullptr ? from_.owner : 0;
  }
  /// Once. Takes a hold over.
  void arrives(array_block* as) noexcept;
  /// The same of one that nobody reads so far: it rests, if it can.
  void arrives_unread(array_block* as) noexcept;
  /// It is read from now on, pinned as this. Takes a hold over.
  void wakes(array_block* as) noexcept;

  void name(spec::reference& to) override { placed().name(to); }
  spec::array_place place() const noexcept override { return placed().place(); }
  int file() const noexcept override { return placed().file(); }
  stored_object object() const noexcept override { return placed().object(); }
  bool is_copied() const noexcept override;
  bool is_read_in(std::uint64_t node) const noexcept override;
  bool may_stay(std::uint64_t node) const noexcept override;
  bool is_away(std::uint64_t reader) const noexcept override;
  array_block* at_rest() noexcept override;

 private:
  void end() noexcept override;
  // Of one that is here and not copied.
  placed_block& placed() const noexcept { return static_cast<placed_block&>(*here()); }
  bool counts() const noexcept;
  void keep_copy(array_block& is) const noexcept;

  friend class far_pulls;
  const source from_;
  base::time_point came_{};  // under far_pulls' mutex
  bool is_let_go_ = false;   // by its maker, as far as this block goes; under far_pulls' mutex
  // Release: who finds it finds the bytes.
  std::atomic<array_block*> here_{nullptr};
  std::atomic<resting_array*> taken_{nullptr};  // with a hold, until this ends
};

/// Of an array whose maker has let go.
error let_go_error() noexcept;
/// Of one that was taken unread, to a thread that does not wait for it.
[[noreturn]] void raise_on_disk();

struct copy_question;

class far_pulls {
 public:
  /// Why others are to fetch what has stayed here.
  enum class plea : std::uint64_t { leaves = 1, has_no_room = 2 };

  static far_pulls& global();
  static constexpr std::uint64_t part_bytes = std::uint64_t{2} << 20U;
  static constexpr std::uint32_t most_parts = 6;
  static constexpr std::size_t most_waiting = 64;

  // The loop's thread.
  /// A runtime's nodes are known from now on.
  void begin(peers& by);
  void on_question(peers& by, std::uint64_t from, std::uint64_t number,
                   std::span<const std::byte> message);
  void on_part(std::uint64_t from, std::uint64_t number,
               std::span<const std::byte> message) noexcept;
  /// Answers what has waited for room. Whether more does.
  bool answer_waiting(peers& by) noexcept;
  /// While more than half of the store is lent, asks those who have it to take it. When again, if
  /// ever.
  base::deadline relieve(peers& by, base::time_point now) noexcept;
  /// It is lost, or can't be reached.
  void gone(std::uint64_t node, const std::string& why) noexcept;

  // What far_copies says of a fetch whose maker is lost; any thread.
  /// That node has a copy. False: it is not to be had there.
  bool fetch_of(std::uint64_t number, std::uint64_t holder) noexcept;
  void no_copy(std::uint64_t number) noexcept;
  /// Nobody gives it: what it was to come to is free again. What it is; nothing: it has ended.
  std::optional<copy_question> let_room_go(std::uint64_t number) noexcept;
  /// This node has one itself. Takes its hold over.
  void is_here(std::uint64_t number, array_block* copy) noexcept;

  // Any thread.
  /// That one is to fetch all that has stayed here. Throws std::bad_alloc.
  static void ask_to_take(peers& by, std::uint64_t node, plea why);
  /// The block of an array that came with a message, with a hold. Throws cancelled, std::bad_alloc.
  distant_block* view_of(const spec::reference& came, const far_arrivals::one& from);
  /// A message is about to name it as its maker's, which keeps it until far_arrays::named is told.
  /// False: it is this node's by now.
  bool begin_naming(const distant_block& of);
  /// As fetch_arrays, and throws store_full; not the loop's thread.
  /// Throws cancelled as soon as it is to stop; what nobody else waits for is given up then.
  bool fetch(std::span<array_block* const> all, const base::deadline& until,
             const std::stop_token& stop = {});
  /// Pins those of them that were taken and nobody has read. False: it would take time, and it does
  /// not wait. Throws store_full, object_lost, std::bad_alloc.
  static bool wake_taken(std::span<array_block* const> all, bool waits);
  /// Whether the calling thread may wait for that.
  bool may_wait() const noexcept;
  /// Bytes come by that station from now on, until close_way. Whether others can ask it.
  void open_way(bulk::station& by, bool is_reached);
  void close_way(const bulk::station& by) noexcept;
  /// The runtime's end: what is fetched, or will be, ends with its error.
  void close() noexcept;
  /// After it, when no message is written any more: nobody reads what is away, so its makers need
  /// not keep it.
  void let_all_go() noexcept;
  /// Whether there are such arrays here that are away.
  bool has_any() const noexcept { return away_.load(std::memory_order_relaxed) > 0; }
  /// One of another node that is here, with a hold; null: it is not. Throws nothing.
  array_block* copy_of(const base::id& id) noexcept;
  /// Bytes that others were given by the station there is; 0: there is none.
  std::uint64_t sent_bytes() const noexcept;
  /// Bytes that came so far, in this process.
  std::uint64_t fetched_bytes() const noexcept { return fetched_bytes_.load(); }

 private:
  friend class distant_block;
  /// Who waits for an array.
  struct waiter {
    exec::parker nap;
    std::optional<error> why;  // before the signal
  };
  using waiter_ptr = std::shared_ptr<waiter>;
  /// One that is fetched.
  struct pull {
    ~pull() {
      if (block != nullptr) block->drop();
    }
    distant_block* block = nullptr;  // with a hold
    std::shared_ptr<pull_room> room;
    bool is_in_bulk = false;          // as is_landing: under the mutex
    std::uint64_t order = 0;          // the number of what the station fetches, or fetched last
    bool is_begun = false;            // it has had its room, or ends for want of it
    bool is_landing = false;          // its bytes are here, and it ends by that
    bool is_sought = false;           // its maker is lost: it comes from who has a copy, if at all
    bool is_timed = false;            // what comes is measured (link_times.hpp)
    bool may_be_asked_again = false;  // by who waits no longer for now: it comes anyway
    bool is_taken = false;            // so it does if nobody waits: its maker wants it to
    bool is_of_many = false;          // its reader wants others, too, and wakes all together
    std::string why_lost;
    bulk::chunks_here here;             // of `former`, or of `room` if there is none
    std::shared_ptr<pull_room> former;  // what it came to before, which others read
    std::uint64_t asked = 0;            // bytes, so far; under the mutex
    std::uint64_t came = 0;             // the loop's thread
    std::vector<waiter_ptr> waiting;
  };
  using pull_ptr = std::shared_ptr<pull>;

  far_pulls() = default;
  using wait = std::pair<distant_block*, waiter_ptr>;
  struct waits;
  /// How one is asked for.
  struct asking {
    std::optional<plea> takes;  // why nobody waits; else it comes to `room`
    bool is_of_many = false;
    read_room room;
  };
  struct asked {
    waiter_ptr who;
    bool is_refused = false;  // it has ended, for want of room or memory
  };
  bool fetch_now(std::span<array_block* const> all, const base::deadline& until,
                 const std::stop_token& stop, const own::room_wait& line);
  asked ask(distant_block& of, const asking& how);
  static std::shared_ptr<pull_room> room_for(std::uint64_t bytes, const asking& how);
  bool refuse(std::uint64_t number, pull& of, const error& why) noexcept;
  void stop_waiting(std::span<const wait> all, bool are_cancelled) noexcept;
  void start(std::uint64_t number, const pull_ptr& of, std::shared_ptr<pull_room> room) noexcept;
  bool is_unread(const pull& of) const noexcept;
  std::uint64_t ask_more(std::uint64_t node) noexcept;
  void end_unasked(std::uint64_t number) noexcept;
  static std::uint64_t parts_under_way(const pull& of) noexcept;
  void expect_late(std::uint64_t number, const pull& of) noexcept;
  void came_late(std::uint64_t number, std::uint64_t node) noexcept;
  bool ask_part(std::uint64_t number, pull& of);
  const std::vector<bulk::place_of_holder>& places_of_node(std::uint64_t node, std::string text);
  bool begin_bulk(std::uint64_t number, pull& of);
  bulk::order order_of(std::uint64_t number, pull& of, bulk::holder from);
  bulk::holder reader_at(std::uint64_t node);
  void note_unreached(std::uint64_t reader) noexcept;
  void end_bulk(std::uint64_t number, const error* why) noexcept;
  void fail_bulk(std::uint64_t number, const error& why);
  bool was_of_copy(std::uint64_t number) noexcept;
  void land(std::uint64_t number, pull& of);
  void drop_bulk(const pull& of) noexcept;
  void begin_timing(pull& of);
  void begin_timing_of(std::uint64_t number) noexcept;
  void end_timing(pull& of) noexcept;
  void note_came(std::uint64_t maker, std::uint64_t bytes) noexcept;
  void note_time(std::uint64_t maker, const std::optional<sched::transfer>& what) noexcept;
  bool ask_instead(std::uint64_t number);
  void seek(std::uint64_t number, const std::string& why) noexcept;
  bulk::chunks_here come_so_far(const pull& of) const;
  void note_left(std::uint64_t number, bulk::chunks_here here) noexcept;
  pull_ptr find(std::uint64_t number, std::uint64_t node) const noexcept;
  void end(std::uint64_t number, const error* why) noexcept;
  void fill(std::uint64_t number, pull& of, const spec::parcel_view& part);
  void left(const distant_block& block) noexcept;
  void let_go(distant_block& of) noexcept;
  struct drop_distant {
    void operator()(distant_block* of) const noexcept { of->drop(); }
  };
  using distant_hold = std::unique_ptr<distant_block, drop_distant>;
  std::vector<distant_hold> kept_by(std::uint64_t node, bool also_fetched) const;
  bool is_settled(const distant_block& of) const noexcept;
  void take_soon(std::uint64_t node, plea why);
  bool has_asked_to_leave(std::uint64_t node) noexcept;
  /// A part that a node has asked for, under that number.
  struct asked_part {
    std::uint64_t number = 0;
    pull_question what;
  };
  static void answer_part(peers& by, std::uint64_t to, const asked_part& asked);
  void take_from(std::uint64_t node, plea why) noexcept;
  bool has_room_for_taken(std::uint64_t bytes) const noexcept;

  std::atomic<std::uint64_t> fetched_bytes_{0};
  std::atomic<std::uint64_t> away_{0};  // distant blocks
  mutable std::mutex mutex_;
  peers* by_ = nullptr;
  std::uint64_t last_order_ = 0;
  bulk::station* way_ = nullptr;
  bool is_way_reached_ = false;
  // By bulk: nodes that have made arrays, of which each place was tried, and those that were to
  // give others' on.
  bulk::unreached unreached_;
  bulk::unreached unreached_readers_;
  struct read_places {
    std::string text;
    std::vector<bulk::place_of_holder> at;
  };
  std::map<std::uint64_t, read_places> places_;  // by node: what its introduction says, read once
  std::uint64_t unread_bytes_ = 0;               // of what was taken and rests
  std::uint64_t taken_bytes_ = 0;                // of pulls_ that are taken
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, pull_ptr> pulls_;  // those that came first are asked for first
  late_parts late_;
  std::unordered_map<const distant_block*, std::uint64_t> numbers_;    // of pulls_
  std::unordered_map<base::id, distant_block*, base::id_hash> views_;  // no holds
  std::map<std::uint64_t, std::deque<asked_part>> unanswered_;  // by node; the loop's thread only
  base::time_point next_plea_{};                                // the loop's thread
  // Nodes that have asked, and it is not done yet; whether one has said meanwhile that it leaves.
  std::unordered_map<std::uint64_t, bool> taking_;
};

}  // namespace manta::inline v0::node
