// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
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
#include "node/peers.hpp"
#include "node/stop_note.hpp"
#include "node/workbench.hpp"
#include "wire/views.hpp"

// Actors of other nodes that live here: the other side of far_actors.hpp.
//
// Problem. Messages come on the loop's thread, which must not read users' values; but an actor's
// have an order, which several workers that take one each would lose.
// Idea. The loop puts each into a line, which its request's id names, and whoever finds a line
// without a worker queues an errand for it (node/errand.hpp): one worker at a time reads a line's
// messages, makes a job of each call and puts it into the actor's mailbox. Orders to stop come
// past it, to a thread of their own, since workers may all be at what is to be stopped.
//
//   loop --> line --> errand: read, make_call --> mailbox --> worker --> result --> peers
//        --> order ------------------------------> kill, cancel
//
// An actor has one handle that is its maker's; when that node is lost it is killed.
// Threads: as said at each; the mutex is never held while others are called.

namespace manta::inline v0::node {

class resident_actors {
 public:
  static resident_actors& global();

  /// With a runtime.
  void open() noexcept { is_leaving_.store(false); }
  /// This node is about to leave: what its actors end with from now on is told as its loss.
  void close_door() noexcept { is_leaving_.store(true); }
  /// Whether calls have come that are not answered.
  bool has_calls() const noexcept { return open_calls_.load() > 0; }

  // On the loop's thread.
  void on_message(peers& by, std::uint64_t from, const base::id& request,
                  const peers::kept_message& message);
  void on_gone(peers& by, std::uint64_t node) noexcept;

 private:
  using key = std::pair<std::uint64_t, std::uint64_t>;  // node, and a number of its
  struct key_hash {
    std::size_t operator()(const key& of) const noexcept {
      return base::id_hash{}({of.first, of.second});
    }
  };
  struct letter {
    base::id request;
    peers::kept_message message;
  };
  struct line {
    std::deque<letter> letters;
    bool has_reader = false;
  };
  struct resident;
  using resident_ptr = std::shared_ptr<resident>;
  /// A call that has come.
  struct visit {
    exec::job* job = nullptr;  // with a hold; null: it is in line, or being read
    bool is_in_line = true;
    bool is_stopped = false;  // meanwhile
  };
  struct late_answer;

  resident_actors() = default;

  void put_in_line(peers& by, const key& line, letter one);
  void read_line(peers& by, const key& of, bool runs) noexcept;
  bool take_letter(const key& of, letter& into) noexcept;
  void read(peers& by, std::uint64_t from, const letter& one) noexcept;
  void turn_away(peers& by, std::uint64_t from, const letter& one) noexcept;
  void spawn(peers& by, std::uint64_t from, const wire::spawn_view& asked) noexcept;
  resident_ptr make(peers& by, std::uint64_t from, const wire::spawn_view& asked,
                    exec::job*& construction);
  void call(peers& by, const key& who, const wire::message_view* read) noexcept;
  bool sits_down(const key& who, exec::job* job) noexcept;
  void release(const base::id& actor) noexcept;
  void retire(const base::id& actor) noexcept;
  void obey(peers& by, std::uint64_t from, const peers::kept_message& message);
  void kill_soon(const base::id& actor);
  void kill(resident& one) noexcept;
  void stop_soon(peers& by, const key& who, bool with_children);
  bool comes_in(const key& who) noexcept;
  resident_ptr find(const base::id& actor) const noexcept;
  void answer_call(peers& by, const key& who, exec::job* ended, duration ran) noexcept;
  void answer_spawn(peers& by, std::uint64_t to, const base::id& actor,
                    const error* failure) noexcept;
  void refuse_call(peers& by, const key& who, const error& why) noexcept;
  void refuse_spawn(peers& by, std::uint64_t to, const base::id& actor, const error& why) noexcept;
  void leaves(const key& who) noexcept;
  void on_end(resident* of, const actor_end& how) noexcept;
  void say_end(peers& by, std::uint64_t to, const wire::actor_end_view& said) noexcept;

  std::atomic<bool> is_leaving_{false};
  std::atomic<std::uint64_t> open_calls_{0};
  std::atomic<std::uint64_t> last_{0};

  mutable std::mutex mutex_;
  std::unordered_map<key, line, key_hash> lines_;  // that have letters, or a reader
  std::unordered_map<base::id, resident_ptr, base::id_hash> residents_;
  std::unordered_map<key, visit, key_hash> visits_;
  std::unordered_map<base::id, bool, base::id_hash> coming_;  // still in line; whether killed
};

}  // namespace manta::inline v0::node
