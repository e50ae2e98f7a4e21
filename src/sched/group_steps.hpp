// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/sched/ledger.hpp>
#include <manta/sched/line.hpp>

#include "sched/backoff.hpp"

// The steps of a node's placement groups whose bundles may lie in other nodes.
//
// Problem. What other nodes have free is known by their word only, which may be old; two groups may
// want the same; and nodes are lost while they are asked.
// Idea. A group that has found places has them in the ledger at once. Where some are other nodes',
// these are asked, all at the same time, each try under a number of its own. One no: all goes back.
//
//                  the line lets it through          all have said yes
//      in line ------------------------> asks ------------------------> has its place
//         ^                               |  ^                                |
//         |                         a no  |  | there are other places         | a node with
//         |  in line once more            v  |                                v bundles is lost
//         +------------------------------ rests <-----------------------------+
//            (what has its place but for some bundles looks for these by itself)
//
// Invariants
//   1. Nobody gets anything in a group before the last of its nodes has said yes.
//   2. What was asked for in a try that has failed is dropped at each of its nodes, also where the
//      answer has not come.
//   3. A group's own request goes on once, or is refused once.
//   4. Whoever waited for what comes free is looked at in the same event.
//
// Pure: events in, what follows out; letters are read and sent by who has the nodes' links, and how
// long a rest lasts is who has a clock's. Externally synchronised. Where there is no memory to ask
// with, a group rests; without memory to say so, a drop is not said.

namespace manta::inline v0::sched {

class group_steps {
 public:
  /// `others`: the nodes' numbers by their index in the ledger; 0: this one, or gone.
  group_steps(ledger& has, line& waits, const std::vector<std::uint64_t>& others) noexcept
      : has_(has), waits_(waits), others_(others) {}
  group_steps(const group_steps&) = delete;
  group_steps& operator=(const group_steps&) = delete;
  ~group_steps() = default;

  /// A group that may have, or want, bundles elsewhere.
  struct forming {
    request* by = nullptr;     ///< its own, while that is in no line: nodes are asked, or it rests
    std::uint64_t number = 0;  ///< of the try for which nodes are asked; 0: for none
    bool is_said = false;
    std::map<std::uint64_t, bool> asked = {};  ///< the nodes, and whether they have said yes
    bool rests = false;
    // Of who has a clock.
    std::optional<base::time_point> until = {};  ///< it rests; nothing: that has just begun
    backoff pause = {};
  };
  using forming_map = std::map<group_id, forming>;

  /// What follows from an event.
  struct outcome {
    request_list through;   ///< what goes on
    request_list hopeless;  ///< what can never be given: it is in no line
    void add(outcome more) noexcept;
  };

  // The events.

  /// It takes part from here on. Throws std::bad_alloc.
  void add(group_id id) { formings_.try_emplace(id); }
  /// It is gone, or about to be. Its own request, if that is in no line.
  request* remove(const group& g) noexcept;
  /// Of what the line has granted: whether it is a group that asks nodes now, and goes on later.
  bool asks(request& granted) noexcept;
  /// Those that don't.
  request_list let_through(const request_list& granted) noexcept;
  /// A node has answered what it was asked in that try.
  outcome answered(std::uint64_t node, group_id id, std::uint64_t number, bool is_yes) noexcept;
  /// What a node was asked may never be answered.
  outcome stop_asking(std::uint64_t node) noexcept;
  /// It is gone, with its bundles; its index is still known.
  void lose(std::uint64_t node) noexcept;
  /// Those that can never have a place (ledger::judge) wait no longer.
  outcome give_up_hopeless() noexcept;
  /// It has rested. Throws std::bad_alloc, with nothing done.
  outcome try_again(group_id id);

  /// See ledger::judge.
  void others_may_join(bool may) noexcept { may_grow_ = may; }

  // What is to be said.

  struct letter {
    std::uint64_t node = 0;
    group_id group = 0;
    std::uint64_t number = 0;
    std::vector<std::uint32_t> bundles = {};  ///< to be set aside; none: all of that try is dropped
  };
  /// All of it. Throws std::bad_alloc.
  std::vector<letter> letters() const;
  /// It is said.
  void said() noexcept;
  /// Whether there is any, or a rest has begun, since this was last asked.
  bool take_news() noexcept { return std::exchange(has_news_, false); }

  bool has(group_id id) const noexcept { return formings_.contains(id); }
  forming_map& all() noexcept { return formings_; }
  const forming_map& all() const noexcept { return formings_; }
  /// Takes one's own request that is in no line: for the end of everything. Null: there is none.
  request* take_first() noexcept;

 private:
  bool ask_nodes(group& g, request* by) noexcept;
  void rest(forming& f) noexcept;
  void say_drop(std::uint64_t node, std::uint64_t number) noexcept;
  void drop(const forming& f) noexcept;
  outcome opened(group& g, forming& f) noexcept;
  outcome refused_by(group& g, forming& f, node_id node) noexcept;
  void give_up_if_hopeless(group& g, forming& f, outcome& out) noexcept;
  void give_up(group& g, forming& f, outcome& out) noexcept;
  node_id index_of(std::uint64_t node) const noexcept;

  ledger& has_;
  line& waits_;
  const std::vector<std::uint64_t>& others_;
  forming_map formings_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> drops_;  // node, number; to be said
  std::uint64_t last_booking_ = 0;
  bool may_grow_ = false;
  bool has_news_ = false;
};

}  // namespace manta::inline v0::sched
