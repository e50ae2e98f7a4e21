// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/outside.hpp>
#include <manta/exec/parker.hpp>
#include <manta/spec/options.hpp>

#include "base/id_hash.hpp"
#include "node/far_handles.hpp"
#include "node/far_streams.hpp"
#include "node/peers.hpp"
#include "node/workbench.hpp"
#include "wire/views.hpp"

// Actors that live in other nodes and that this one has made, or has handles to.
//
// Problem. The calls of each caller run in their order; the object lives as long as there are
// handles here; and whatever becomes of its node, each call and the actor itself ends once.
// Idea. The core here is a mailbox on the way (exec/actor_elsewhere.cpp): who finds it idle writes
// its calls, in their order, and what one node says to another comes there in that order. The
// construction goes first, and nothing waits for its answer; the order to end goes last.
//
//   core here --spawn, calls, release--> peers ~~~> resident_actors.hpp: a line for each actor
//             <-- results, the end ----- [looker] <~~~~~~~~'
//
// Orders to stop (kill, cancel) overtake what waits in that line. What comes back is handled by
// trade's looker, as results of tasks are: not on the loop's thread, since values are the user's
// to read.
//
// Others' actors whose handles came here (far_handles.hpp) have such a core, too, one for each at a
// time; it knows of the object's end when somebody watches for it.
//
// A node that is lost takes its actors along: their calls fail with actor_lost.
//
// Threads: as said at each; the mutex is never held while others are called.

namespace manta::inline v0::node {

/// What calls fail with whose actor has ended.
error ended_there_error(const exec::actor_core& of) noexcept;

class far_actors final : public exec::actor_host {
 public:
  static far_actors& global();

  /// While a runtime runs, until call_back; `all`: for tests, those that don't say where they live
  /// go elsewhere, too. `workers`: how many this node has.
  void open(peers& with, std::uint32_t workers, bool all);
  /// Before the executor stops: they are to end, and nothing goes any more. What has not begun, and
  /// with `at_once` all, ends with `ended_error`.
  void call_back(bool at_once) noexcept;
  /// After it, while the looker looks: waits for the calls that have not.
  void close() noexcept;

  /// Where an actor that is asked for so is to live: that member, or 0 for this node. Throws
  /// infeasible, unsupported, std::bad_alloc. Any thread.
  std::uint64_t place(const actor_options* asked);
  /// Whether it has more groups of calls than a message about an actor.
  static bool has_too_many_groups(const actor_options& asked) noexcept;
  /// Throws unsupported for more groups of calls than a message about an actor has. Any thread.
  static void check_groups_elsewhere(const actor_options& asked);
  /// A new core, which nobody knows yet, is to live there. Throws std::bad_alloc.
  void send_there(exec::actor_core* made, std::uint64_t node, const actor_options* asked);

  // Any thread.
  void construct(exec::actor_core* of, exec::job* construction) noexcept override;
  bool must_not_wait(const exec::job* call) const noexcept override;
  void forward(exec::actor_core* to, exec::job* call, bool has_more) noexcept override;
  bool leave(exec::actor_core* of, exec::leaving how) noexcept override;
  void kill(exec::actor_core* of) noexcept override;
  void watch(exec::actor_core* of) override;
  void unnamed(const exec::actor_core* of) noexcept override;
  /// What all nodes call it; waits until `to` can know it. See name_of_actor. `may_be_over`: or
  /// called it, as long as it has not ended before this runtime began.
  far_name name_of(exec::actor_core* core, std::uint64_t to, const char* function,
                   bool may_be_over = false);
  /// What all nodes call one that is to be made, and where that will be. Throws actor_lost.
  far_name whereabouts(const exec::actor_core* of) const;
  /// In a group: what the node of one that is to be made knows its place by.
  std::optional<placement> place_there(const exec::actor_core* of) const;
  /// Its core was made there, and stays so if it `is` what was asked for.
  void reserved(const exec::actor_core* of, const far_name& at, bool is);
  /// The core here of an actor that lives in `owner`, with a handle; see borrow_far_actor.
  exec::actor_core* mirror_of(const base::id& actor, std::uint64_t owner,
                              const exec::actor_ops* kind);
  /// A core for weak handles to an actor that lives in `owner`, with a pin.
  exec::actor_core* weak_of(const base::id& actor, std::uint64_t owner,
                            const exec::actor_ops* kind);
  /// A handle for such a core, whose actor may live; see lock_actor.
  exec::actor_core* lock(const exec::actor_core* of, const exec::actor_ops* kind);
  /// For the next id of this process.
  static std::uint64_t next_number() noexcept;
  /// How many actors other nodes were told to make so far. For tests.
  std::uint64_t sent() const noexcept { return sent_.load(); }
  /// A call of one of them is to stop, if it is one.
  void stop(exec::job* call, bool with_children) noexcept;
  void stop_children() noexcept;
  // For far_rings.cpp.
  /// The node that has a call of this one, and its number; zeros: none.
  std::pair<std::uint64_t, std::uint64_t> where_is(const exec::job* call) const noexcept;
  /// Ends one of those with an error, whatever comes of it there.
  void end_call(std::uint64_t node, std::uint64_t number, const error& why) noexcept;

  /// The stream of a generator that has that number, in that node; empty: there is none.
  far_reader reader_of(std::uint64_t node, std::uint64_t number) const noexcept;

  // The loop's thread.
  /// An actor of this process, that one, is known where it lives.
  void on_known(std::uint64_t number) noexcept;
  /// That node is lost, and lose() comes soon.
  void on_gone(std::uint64_t node) noexcept;

  // The looker's thread.
  void on_message(std::uint64_t from, const base::id& request,
                  const peers::kept_message& message) noexcept;
  /// That node is lost, with all that lives there.
  void lose(std::uint64_t node, const std::string& why) noexcept;

 private:
  far_actors() = default;

  /// What is known of a core whose object is there; its seat.
  struct note {
    base::id id;
    std::uint64_t node = 0;
    spec::demand asked;
    placement where;                    // in a group: what its node knows that by
    std::shared_ptr<void> lease;        // of its node's amounts, in this one's line
    exec::actor_core* core = nullptr;   // with a pin
    exec::job* construction = nullptr;  // while it has no answer
    bool is_made_here = true;
    bool is_reserved = false;                 // its core is there already
    bool is_sent = false;                     // or about to be
    bool has_gone = false;                    // what is said to its node comes behind it
    bool is_known = false;                    // there: others' messages may name it
    bool has_begun = false;                   // its calls go
    std::optional<error> failure = {};        // of the construction, before that
    bool is_watched = false;                  // another one's: its end is asked for
    bool is_left = false;                     // the core's end waits for the object's
    bool is_kill_said = false;                // or about to be
    bool counts = true;                       // among who has handles here (far_handles.hpp)
    bool is_lost = false;                     // its node
    std::vector<exec::parker*> waiting = {};  // for it to be known
  };
  /// A call that was sent.
  struct call {
    exec::job* job = nullptr;          // with the mailbox's hold
    exec::actor_core* core = nullptr;  // with a pin
    std::uint64_t node = 0;
    std::uint64_t number = 0;
  };
  /// A core whose end is being said to its node, on the stack of who says it.
  struct farewell {
    base::id of;
    farewell* next = nullptr;
  };
  using calls = std::unordered_map<std::uint64_t, call>;  // by number
  using note_ptr = std::unique_ptr<note>;

  error lost_error(const exec::actor_core& of, std::uint64_t node,
                   std::string_view why) const noexcept;
  static bool may_stay_at_home(const spec::demand& what, const placement& where, bool asks);
  std::uint64_t named_node_that_gives(const spec::demand& what, const placement& where);
  std::optional<std::string> why_never_there(std::uint64_t node, const spec::demand& what) const;
  std::uint64_t node_in_group(const spec::demand& what, const placement& where) const;
  std::uint64_t node_that_gives(const spec::demand& what, const placement& where);
  std::uint64_t least_full_node(const std::vector<std::uint64_t>& among);
  void send_spawn(exec::actor_core* of, exec::job* construction);
  void give_up(exec::actor_core* of, exec::job* construction, error why) noexcept;
  void begin(exec::actor_core* of) noexcept;
  void write_checked(workbench& on, exec::job* call, const base::id& actor,
                     const base::id& request) const;
  void send_call(exec::actor_core* to, exec::job* call);
  result<void> send_noted(const base::id& request, workbench& on) noexcept;
  void stop_if_cancelled(exec::job* call) noexcept;
  void on_spawned(const wire::result_view& came) noexcept;
  void on_result(std::uint64_t from, std::uint64_t number, const wire::message_view* read) noexcept;
  void on_end(const wire::actor_end_view& said) noexcept;
  void finish(const call& of, const wire::result_view& came) noexcept;
  static void fail(const call& of, const error& why) noexcept;
  std::optional<call> take_call(std::uint64_t number, std::uint64_t node) noexcept;
  class naming;
  static void wake(note& of) noexcept;
  note_ptr take_note_of(const exec::actor_core* core) noexcept;
  note* made_here(const base::id& id) const noexcept;
  note_ptr unlist(const note* one) noexcept;
  note_ptr take_of(const base::id& id) noexcept;
  note_ptr take_in(std::uint64_t node) noexcept;
  void end(note_ptr one, const actor_end& how, const error& why) noexcept;
  void end_if_lost(exec::actor_core* mirror, std::uint64_t owner) noexcept;
  bool lives_nowhere(const base::id& actor, std::uint64_t owner, exec::actor_core* mirror);
  void part(const farewell& over) noexcept;
  enum class sight : std::uint8_t { none, lives, ends, leaves };
  sight look(const base::id& actor, exec::actor_core*& with_handle) const noexcept;
  exec::actor_core* known_here(const base::id& actor, bool& was_left);
  calls take_calls(std::uint64_t node) noexcept;
  void say_kill(std::uint64_t node, const base::id& actor) noexcept;
  void say_stop(const call& of, bool with_children) noexcept;
  void send_order(std::uint64_t node, std::uint64_t about, const wire::body_view& what) noexcept;

  std::atomic<peers*> peers_{nullptr};
  std::atomic<bool> is_open_{false};
  std::atomic<std::uint64_t> last_{0};
  std::atomic<std::uint64_t> sent_{0};
  std::uint32_t workers_ = 1;
  bool takes_all_ = false;
  std::atomic<std::size_t> turn_{0};

  mutable std::mutex mutex_;
  std::condition_variable is_home_;
  // Of one actor: at most one that counts, and those that are left.
  std::unordered_multimap<base::id, note_ptr, base::id_hash> notes_;
  farewell* farewells_ = nullptr;  // linked: what left the notes, and is not said yet
  std::mutex borrowing_;           // before mutex_: one core at a time for each
  std::unordered_map<std::uint64_t, std::uint32_t> living_;  // how many of them, by node
  calls calls_;
};

}  // namespace manta::inline v0::node
