// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/node/shared_thing.hpp>
#include <manta/spec/error.hpp>

#include "base/id_hash.hpp"
#include "node/facts_line.hpp"
#include "node/far_handles.hpp"
#include "node/peers.hpp"
#include "node/worker_things.hpp"

// Channels, semaphores and barriers that several nodes use.
//
// Problem. As in shared_names.hpp: a thing's items, and who waits for them, are in the memory of
// the process that made it; a handle elsewhere has to mean that one, who waits there must hold no
// thread here, and nobody may be forgotten when either node is lost.
//
// Idea. The same one, between nodes. The thing stays where it was made, its home. What goes is a
// name; far_handles.hpp counts who has it, as with actors and futures, and the home keeps the thing
// meanwhile. Elsewhere a core stands for it (far_things.hpp), each of whose operations is a
// question to the home (worker_things.hpp), answered when it has happened. A node that has a handle
// passes it on to a third one by that name; who gets it asks the home itself.
//
//   there: send --question--> peers ~~~> [loop] --> line --> [the things' thread]: attempt, else
//          enlist; met by whoever makes it possible --> line --> answer
//          goes on <-- [looker] <~~~~~~~~~~~~~~~~~~~~~~ peers <------'
//
// Items are read and written by the things' thread here and the looker there, never by the loop's:
// they are the user's. The things' thread waits for no other node's answer, and not for room: an
// answer for which there is none in what goes to its node waits on a thread of that one's.
//
// Order. What one node asks comes in the order in which it was sent, and is asked in that order.
// Permits are given back by the loop, at once: they are there when the result of the task that held
// them is.
//
// Names. An id is half by chance: who asks about a thing has been given it, by whomever.
//
// Losses. The home is lost: what waits there ends with node_lost, and so does what is asked from
// then on. Who waits is lost: its wishes and arrivals are withdrawn, its permits go back, and an
// item that was taken for it and could not be sent is the oldest again, several in their order; one
// that was sent is lost with it. Room that was kept for what its select may send is free. A node
// that can't be reached counts as lost on either side; handles that come when it is back are new
// ones. What was answered to one that has given this one up, and lives on, stays taken until it
// asks again, or ends.
//
// Costs, of an operation elsewhere: two messages, a wake of the home's loop, of the things' thread
// there, of the loop and of the looker here, and who waits; release and what is put back: one
// message, no wait. A wait that is late or cancelled is taken back by one more round, so it ends
// that much later. Nothing at home, and nothing for tasks without such handles.
//
// Limits. worker_things::most_open wishes of a node, and most_open_bytes of what it has asked, be
// it handled or not; an honest one keeps its senders' items before that: far_thing.hpp. Items that
// can't travel keep their channel's handle in its node. A user's function that the things' thread
// or the looker calls can't use what is elsewhere: it would wait for itself. What stands for
// another node's thing goes to this one's isolated workers, which ask it by thing_relay.hpp. A
// runtime's end ends its things for all others.
//
// Threads: any, but as said. The mutex comes before that of far_handles; no user's code is called
// under it.

namespace manta::inline v0::node {

class node_things {
 public:
  static node_things& global();

  /// While a runtime runs, until close.
  void open(peers& with) noexcept;
  /// What this node has asked for, and asks for from now on, ends with `ended_error`.
  void end_asking() noexcept;
  /// What others wait for here ends with that, too; nobody has anything of this node.
  void close() noexcept;
  /// Others are not answered any more, since their peers are about to go.
  void stop_answering() noexcept;

  // Any thread.
  /// What all nodes call a thing whose handle goes away; see id_tray.hpp for `on`. Throws
  /// node_lost: it was of a node or a runtime that is over; std::bad_alloc.
  far_name name(workbench& on, const shared_thing& of, const char* function);
  /// It has been said, or never will be.
  void named(const base::id& id) noexcept;
  /// No other node has it by now.
  void freed(const base::id& id) noexcept;
  /// The owner of one of this node; null: nobody has that.
  std::shared_ptr<void> owner_of(const base::id& id) noexcept;
  /// What came with the message that this thread reads; see borrow_thing.
  std::shared_ptr<void> borrow(const spec::reference& came, const item_ops* items,
                               std::uint64_t size, make_mirror make);
  /// By a thread that may wait for room in what goes to that node. Throws as facts_line::add.
  void do_aside(std::uint64_t node, std::function<void()> what);
  /// While it lives, what this thread tells is small, and goes also where there is no room.
  class in_haste {
   public:
    in_haste() noexcept;
    ~in_haste();
    in_haste(const in_haste&) = delete;
    in_haste& operator=(const in_haste&) = delete;

   private:
    const bool was_so_;
  };
  /// Lets go of it where a user's destructor may run.
  static void drop_soon(std::shared_ptr<void> owner) noexcept;

  // On the loop's thread.
  void on_question(std::uint64_t from, const peers::kept_message& message,
                   std::shared_ptr<far_arrivals> came);
  void on_gone(std::uint64_t node);
  // The looker's thread.
  void on_answer(std::uint64_t from, const peers::kept_message& message) noexcept;
  /// That node is lost, with all that lives there.
  void lose(std::uint64_t node, const std::string& why) noexcept;

 private:
  node_things() = default;

  struct own {
    shared_thing thing;
    std::uint32_t naming = 0;  // messages that are being written with it
  };
  struct asker;
  using asker_ptr = std::shared_ptr<asker>;

  std::shared_ptr<void> take(far_arrivals::one& came, const spec::reference& as,
                             const item_ops* items, std::uint64_t size, make_mirror make);
  asker_ptr asker_of(std::uint64_t node);
  std::optional<shared_thing> find(const base::id& id) noexcept;
  std::shared_ptr<worker_things> things_of(std::uint64_t node, std::uint64_t life);
  void give_up(asker& of, const error& why) noexcept;
  void end_homes() noexcept;
  void end_homes_in_line() noexcept;
  void hear(std::uint64_t from, const peers::kept_message& message, far_arrivals* came,
            const std::shared_ptr<const void>& kept) noexcept;
  struct listener {
    std::uint64_t node = 0;
    std::uint64_t home = 0;  // its serial
  };
  worker_things::told tell(const listener& to, std::uint64_t number,
                           const worker_things::writer& write, bool may_wait) noexcept;
  facts_line& slow_line(std::uint64_t node);
  std::vector<facts_line*> slow_lines();
  void close_lines() noexcept;
  void let_go(const base::id& id) noexcept;
  void refuse(std::uint64_t to, std::uint64_t number, const error& why) noexcept;
  void end_in_line(const listener& to);
  void end_home_of(std::uint64_t node, std::uint64_t serial = 0) noexcept;

  std::atomic<peers*> peers_{nullptr};
  // asking --end_asking--> answering --close--> over; open begins it anew. Who is asked after that
  // says so, until stop_answering takes the peers away.
  enum class stage : std::uint8_t { over, answering, asking };
  std::atomic<stage> stage_{stage::over};
  std::atomic<bool> was_asked_{false};  // anything, by others, in this runtime
  std::atomic<std::uint64_t> last_{0};
  // With the bytes of what of that is kept here. The loop's.
  std::map<std::uint64_t, std::shared_ptr<std::atomic<std::size_t>>> have_asked_;

  std::mutex mutex_;
  std::unordered_map<base::id, own, base::id_hash> own_;
  std::unordered_map<const void*, base::id> own_ids_;  // by core
  std::unordered_map<std::uint64_t, asker_ptr> askers_;
  /// What one node has here.
  struct home {
    std::shared_ptr<worker_things> things;
    std::uint64_t life = 0;  // see worker_questions::life_of; 0: not known yet
    std::uint64_t serial = 0;
  };
  std::unordered_map<std::uint64_t, home> homes_;  // by who asks
  std::uint64_t homes_made_ = 0;
  std::atomic<std::uint64_t> lives_{0};
  std::map<std::uint64_t, std::unique_ptr<facts_line>> slow_;  // by who takes slowly
};

}  // namespace manta::inline v0::node
