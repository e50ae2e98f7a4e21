// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <manta/exec/actor_core.hpp>
#include <manta/spec/error.hpp>

#include "control/claimed_names.hpp"
#include "node/peers.hpp"
#include "node/trip.hpp"
#include "node/workbench.hpp"
#include "wire/views.hpp"

// Actors' names, which any node takes and finds.
//
// Problem. At most one living actor of the cluster has a name, and it is found from the moment on
// that spawn returns, when its constructor's arguments may not be there; it is free as soon as the
// actor ends, wherever that is.
// Idea. The node with the object has the name, in its own table (exec/actor_life.cpp), which alone
// knows whether the actor lives. The head only knows which node that is (control/claimed_names.hpp)
// and is asked before a name is taken. Who spawns an actor in another node has its core made there
// first, without arguments, and with the name (resident_actors::reserve).
//
//   spawn:  maker --reserve--> owner --claim--> head      find:  asker --where--> head
//           maker <--granted-- owner <--------'                  asker --find---> owner: a handle
//
// What the head says may be late: who is sent to a node where nobody has the name by now says so,
// and asks again. While an owner waits for the head's word, who asks it for that name waits, too.
//
// A head of its own may be started again while the actors live: it keeps the claims in its store
// (control/kept_claims.hpp), and is asked as for keys and values (head_facts.hpp).
//
// Isolated workers ask their node (worker_pool_asks.cpp), where a worker asks the others. They
// can't have handles of other nodes' actors yet, and are told so.
//
// Threads: any, but where it is said. Nothing of others is called under the mutex.

namespace manta::inline v0::node {

/// What nodes ask each other of names.
enum class name_act : std::uint8_t {
  claim,    ///< of the head: the asker's, under that number
  release,  ///< the same: the claim (node, number) is over
  where,    ///< the same: who has it
  find,     ///< of who has it: a handle, if it is of that type
  type,     ///< the same: what it is
  lives,    ///< of its node: a handle to the actor (node, number), if it lives and is of that type
};
struct name_question {
  std::uint8_t act = 0;  // a name_act
  std::string name_space;
  std::string name;
  std::string type = {};  // the compiler's spelling
  std::uint64_t node = 0;
  std::uint64_t number = 0;
};
struct name_answer {
  std::uint64_t node = 0;
  std::uint64_t number = 0;
  std::string type = {};
};

class far_names {
 public:
  static far_names& global();

  /// Instead of a member: a head of its own.
  static constexpr std::uint64_t head_alone = UINT64_MAX;
  /// While a runtime runs; `head`: the member that knows who has which name, or this one.
  /// `is_driver`: with main's end this process ends, and all that lives here.
  void open(peers& by, std::uint64_t head, bool is_driver = false);
  bool is_open() const noexcept { return is_open_.load(); }
  /// Who waits for an answer ends with `ended_error`; others are answered on.
  void close() noexcept;
  /// After it: they are not, since the peers are about to go.
  void stop_answering() noexcept;

  /// Takes the name of a new actor, to which its options were applied; its object will be here or
  /// afar. Or answers the living one of that name, with a handle, where that will do. Waits for
  /// other nodes. Throws name_taken, invalid_argument, infeasible, node_lost, std::bad_alloc.
  exec::actor_core* take(exec::actor_core* made, const spawn_asked& asked,
                         const exec::actor_ops* kind);
  /// The same for one that an isolated worker of this node makes; another node's will not do.
  exec::actor_core* take_here(exec::actor_core* made, const control::claimed_name& name,
                              bool may_exist);
  /// What is looked for; null: only one of this node will do.
  struct wanted {
    const char* type = nullptr;
    const exec::actor_ops* kind = nullptr;
  };
  /// The living actor of that name, with a handle; null: there is none. Throws as take.
  exec::actor_core* find(const std::string& name, const std::string& name_space, const wanted& as);

  /// The living actor of that id, with a handle; null: it has ended, or its node has. Waits for
  /// that node. Throws node_lost, std::bad_alloc.
  exec::actor_core* upgrade(const exec::known_actor& of, const exec::actor_ops* kind);

  using key = control::claimed_name;
  using holder = control::name_holder;
  /// Nobody: it was taken. Else who has it.
  using told = std::function<void(const result<holder>& who)>;
  /// Takes a name for an actor of this node, to which it was applied; `then` is told later, or at
  /// once. Throws std::bad_alloc.
  void hold(exec::actor_core* core, const key& name, const told& then);
  /// Of an actor that is to be detached, before its name is taken: throws unsupported where there
  /// is no head of its own, or the driver's end would be the actor's.
  void check_outlives(const exec::actor_core& made) const;
  /// The same of one that is to live in this node.
  void check_outlives_here() const;
  /// An actor of this node that has taken its name lives on without handles, until it ends.
  void keep(exec::actor_core* core) noexcept;
  /// An actor has ended that may have one.
  void let_go(const exec::actor_core* core) noexcept;

  // The loop's thread.
  void on_question(peers& by, std::uint64_t from, std::uint64_t number,
                   const peers::kept_message& message);
  void on_gone(std::uint64_t node);
  // The looker's thread, while it reads what came with the message.
  void on_answer(std::uint64_t number, std::span<const std::byte> message) noexcept;

 private:
  using taker = std::function<void(const wire::result_view& answer)>;
  using writer = std::function<void(workbench& on, const base::id& request)>;
  struct asked_one {
    std::uint64_t of = 0;
    taker then;
  };
  struct claim {
    key name;
    std::uint64_t number = 0;
  };

  struct unanswered;

  far_names() = default;

  void ask(std::uint64_t node, const writer& write, taker then);
  void ask_head(const name_question& what, taker then);
  template <class Begin, class Read>
  auto wait_answer(const Begin& begin, Read read);
  template <class Read>
  auto ask_now(std::uint64_t node, const writer& write, Read read);
  static void drop_kept(exec::actor_core* core);
  bool drop_asked(std::uint64_t number) noexcept;
  bool is_head() const noexcept;
  name_answer answer_as_head(std::uint64_t from, const name_question& what);
  name_answer ask_head_now(const name_question& what);
  void settle(const key& name) noexcept;
  void when_settled(const key& name, std::function<void()> then);
  void wait_settled(const key& name);
  void claimed(exec::actor_core* core, const key& name, const holder& mine,
               const result<holder>& who, const told& then) noexcept;
  holder hold_now(exec::actor_core* core, const key& name);
  holder reserve(exec::actor_core* made, const spawn_asked& asked);
  exec::actor_core* living(const holder& at, const key& name, const wanted& as);
  template <class Claim>
  exec::actor_core* take_by(const Claim& claims, const key& name, bool may_exist, const wanted& as);
  std::string type_of_living(const holder& at, const key& name);
  template <class T, class Ask>
  T value_or_none(std::uint64_t of, const Ask& asks) const;
  void hear(peers& by, std::uint64_t from, std::uint64_t number,
            std::span<const std::byte> message) noexcept;
  void hear_question(peers& by, std::uint64_t from, std::uint64_t number,
                     const name_question& what);
  static exec::actor_core* living_here(const name_question& what);
  static void answer_living(peers& by, std::uint64_t to, std::uint64_t number,
                            const name_question& what) noexcept;

  std::atomic<peers*> by_{nullptr};
  std::atomic<bool> is_open_{false};
  std::atomic<std::uint64_t> head_{0};
  std::atomic<bool> is_driver_{false};
  std::atomic<std::uint64_t> last_{0};

  std::mutex mutex_;
  control::claimed_names known_;  // at the head
  std::unordered_map<std::uint64_t, asked_one> asked_;
  std::map<key, std::vector<std::function<void()>>> unsettled_;  // who waits for the head's word
  std::unordered_map<const exec::actor_core*, claim> claims_;    // of actors of this node
  std::unordered_set<exec::actor_core*> kept_;                   // of these, with a handle
};

}  // namespace manta::inline v0::node
