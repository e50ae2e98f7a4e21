// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/job.hpp>

#include "base/id_hash.hpp"
#include "control/claimed_names.hpp"
#include "node/far_handles.hpp"
#include "node/peers.hpp"
#include "node/reading_stop.hpp"
#include "node/stop_note.hpp"
#include "node/workbench.hpp"
#include "wire/views.hpp"

// Actors of this node that others may have handles to: those that others have made here, and those
// of this node's own whose handles went away. The other side of far_actors.hpp.
//
// Problem. Messages come on the loop's thread, which must not read users' values; but an actor's
// have an order, which several workers that take one each would lose.
// Idea. The loop puts each into a line, which its request's id names, and whoever finds a line
// without a worker queues an errand for it (node/errand.hpp): one worker at a time reads a line's
// messages, makes a job of each call and puts it into the actor's mailbox. An actor's core is made
// as its message comes, so that who is told of it next finds it; its constructor's arguments are
// read in line. Orders to stop come past the lines, to a thread of their own, since workers may all
// be at what is to be stopped. A call that is stopped while it is read, or whose actor is killed,
// waits no longer for arrays that its message names (reading_stop.hpp), nor do those behind it: who
// reads it says so, and nobody else, until it has a job.
//
//   loop --> line --> errand: read, make_call --> mailbox --> worker --> result --> peers
//        --> order ------------------------------> kill, cancel
//
// While other nodes have handles (far_handles.hpp) the actor has one for all of them; when the last
// of those has gone it goes, too, behind the calls that have come before.
// Threads: as said at each; the mutex is never held while others are called.

namespace manta::inline v0::node {

class resident_actors {
 public:
  static resident_actors& global();

  /// With a runtime.
  void open(peers& with) noexcept {
    by_.store(&with);
    is_leaving_.store(false);
  }
  /// This node is about to leave: what its actors end with from now on is told as its loss.
  void close_door() noexcept { is_leaving_.store(true); }
  /// Whether calls have come that are not answered.
  bool has_calls() const noexcept { return open_calls_.load() > 0; }

  // On the loop's thread. `came`: the handles that came with it; null: none.
  void on_message(peers& by, std::uint64_t from, const base::id& request,
                  const peers::kept_message& message, std::shared_ptr<far_arrivals> came);
  void on_gone(peers& by, std::uint64_t node) noexcept;

  // Any thread.
  /// What others know an actor of this node by, which it gets if need be. Throws std::bad_alloc.
  base::id name(exec::actor_core* core);
  /// It has a handle for them from now on, while it is lent.
  void hold(const base::id& actor);
  /// The actor of that name, with a handle; null: it has ended.
  exec::actor_core* handle_of(const base::id& actor) noexcept;
  /// The same for who has a weak handle; null also: its end is to come, or nobody has handles any
  /// more by what has come from other nodes.
  exec::actor_core* try_handle_of(const base::id& actor);
  /// That actor's core, with a pin; null: it has ended.
  exec::actor_core* core_of(const base::id& actor) const noexcept;
  /// How it has ended, as far as anybody may still ask. Throws std::bad_alloc.
  actor_end how_ended(const base::id& actor) const;
  /// No other node has handles to it by now.
  void freed(const base::id& actor) noexcept;
  // For far_rings.cpp.
  /// Whether a job here is another node's call.
  bool has_call(const exec::job* j) const noexcept;
  /// That node's, of that number, with a hold; null: it is not here, or not read yet.
  exec::job* call_of(std::uint64_t from, std::uint64_t number) const noexcept;
  /// Makes the core of an actor of that member's whose name is to be taken, with it; its message
  /// comes later. `then` is told who has the name; see far_names.hpp. Throws as spawn.
  void reserve(peers& by, std::uint64_t from, const wire::spawn_view& asked,
               const std::function<void(const result<control::name_holder>& who)>& then);

 private:
  using key = std::pair<std::uint64_t, std::uint64_t>;  // node, and a number of its
  struct key_hash {
    std::size_t operator()(const key& of) const noexcept {
      return base::id_hash{}({of.first, of.second});
    }
  };
  struct resident;
  using resident_ptr = std::shared_ptr<resident>;
  struct letter {
    base::id request;
    peers::kept_message message;
    std::shared_ptr<far_arrivals> came;
    resident_ptr settled;         // of a construction
    std::shared_ptr<void> freed;  // the last that is read of it gives the others' handle back
  };
  struct line {
    std::deque<letter> letters;
    bool has_reader = false;
  };
  /// A call that has come.
  struct visit {
    exec::job* job = nullptr;  // with a hold; null: it is in line, or being read
    bool is_in_line = true;
    bool is_stopped = false;          // meanwhile
    base::id actor;                   // while it is read, and
    reading_stop* reading = nullptr;  // what ends its waits then
  };
  struct late_answer;

  resident_actors() = default;

  void put_in_line(peers& by, const key& line, letter one);
  void read_line(peers& by, const key& of, bool runs) noexcept;
  bool take_letter(const key& of, letter& into) noexcept;
  void read(peers& by, std::uint64_t from, const letter& one) noexcept;
  void turn_away(peers& by, std::uint64_t from, const letter& one) noexcept;
  resident_ptr settle_in(peers& by, std::uint64_t from, const peers::kept_message& message);
  resident_ptr take_reserved(std::uint64_t from, const peers::kept_message& message) noexcept;
  void give_up_reserved(resident& one, const error& why, bool was_told) noexcept;
  void lose_reserved(std::uint64_t maker);
  void unlist(const resident& one) noexcept;
  resident_ptr make(peers& by, std::uint64_t from, const wire::spawn_view& asked);
  resident_ptr note(peers& by, exec::actor_core* core, const base::id& id, std::uint64_t from);
  void construct(peers& by, std::uint64_t from, const wire::spawn_view& asked,
                 const resident_ptr& one) noexcept;
  void call(peers& by, const key& who, const wire::message_view* read) noexcept;
  bool sits_down(const key& who, exec::job* job) noexcept;
  error stopped_error(const resident& of) const noexcept;
  void hear_question(peers& by, std::uint64_t from, const wire::ask_view& asked) noexcept;
  void watch(peers& by, std::uint64_t from, const base::id& actor) noexcept;
  void note_unwanted(const peers::kept_message& message) const;
  void end_asked(const wire::actor_end_view& said) noexcept;
  void obey(peers& by, std::uint64_t from, const peers::kept_message& message);
  void kill_soon(const base::id& actor);
  void kill(resident& one) noexcept;
  void stop_soon(peers& by, const key& who, bool with_children);
  bool comes_in(const key& who, const base::id& actor = {}, reading_stop* how = nullptr) noexcept;
  void show_reading(resident& of, reading_stop* how) noexcept;
  void stop_readings(const resident& of) noexcept;
  static void cancel_call(const key& who, exec::job* j, bool with_children) noexcept;
  resident_ptr find(const base::id& actor) const noexcept;
  void answer_call(peers& by, const key& who, exec::job* ended, duration ran) noexcept;
  void answer_spawn(peers& by, std::uint64_t to, const base::id& actor,
                    const error* failure) noexcept;
  void refuse_call(peers& by, const key& who, const error& why) noexcept;
  void refuse_spawn_soon(peers& by, std::uint64_t to, const base::id& actor, const error& why);
  void leaves(const key& who) noexcept;
  void on_end(resident* of, const actor_end& how) noexcept;
  void note_end(const base::id& actor, const actor_end& how) noexcept;
  void forget_end(const base::id& actor) noexcept;
  error end_error(const base::id& actor) const noexcept;
  void say_end(peers& by, std::uint64_t to, const wire::actor_end_view& said) noexcept;

  std::atomic<peers*> by_{nullptr};
  std::atomic<bool> is_leaving_{false};
  std::atomic<std::uint64_t> open_calls_{0};
  std::atomic<std::uint64_t> last_{0};

  mutable std::mutex mutex_;
  std::unordered_map<key, line, key_hash> lines_;  // that have letters, or a reader
  std::unordered_map<base::id, resident_ptr, base::id_hash> residents_;
  std::unordered_map<key, visit, key_hash> visits_;
  std::size_t being_read_ = 0;                                   // of these
  std::unordered_map<const exec::actor_core*, base::id> names_;  // of the same
  // Those that have ended while others have handles.
  std::unordered_map<base::id, actor_end, base::id_hash> ended_;
};

}  // namespace manta::inline v0::node
