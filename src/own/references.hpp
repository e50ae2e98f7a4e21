// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <manta/base/id.hpp>

#include "base/id_hash.hpp"

// Who still needs what: the references that went to other nodes, counted by who owns what they
// name.
//
// Problem. A handle may be sent on from anybody to anybody. Its owner must not free what it names
// while a node has it, or a message with it is under way; and has to free it soon after the last
// one is gone, whoever dies meanwhile. Nobody asks the owner before it sends a handle on.
//
// Idea. The owner has a count for each pair of a node that borrows and the one that lent to it.
// Who sends a handle on tells the owner so, and sends its own release later over the same ordered
// connection, if at all; so the owner hears of the loan while it still counts the lender's own. Who
// gives back says from whom it had it. What is told in another order makes a count negative for a
// while, and any count that is not zero keeps the thing.
//
//      owner A            B                     C
//        | --- thing ---> |                     |        counts at A: B from A 1
//        |                | ------ thing -----> |
//        | <-- lent to C--|                     |        C from B 1
//        | <-- released --|                     |        B from A 0
//        | <------------------- released -------|        C from B 0: free
//
// Deaths. What a dead node had is let go. But it may have sent some of that on without having told:
// so what it had is in doubt, and kept, until each node that lives has said what it has from the
// dead one, which it does when nothing from that can come any more. Their word replaces the counts.
// A node that died earlier may have stood between the two, so all the dead are asked about that
// have not been yet; one that dies meanwhile, too. In a quiet cluster nobody is asked.
//
// Preconditions: notes of one node come in their order; those of a dead one are not heard after
// gone was called for it, nor is anything it sent taken in. Who joins later has a larger number. A
// new node is told first who lives (joined), then of all that join and die, in the order in which
// every other one hears it; a death is heard after the joining of those that the dead one knew.
// Costs: a count is found by looking through those of its thing; a death looks at all things.
// Pure. Threads: externally synchronised.

namespace manta::inline v0::own {

/// A member of the cluster, by its epoch.
using node_number = std::uint64_t;

/// What one node says to another of references. The last three are of a dead node.
enum class saying : std::uint8_t {
  lent,      ///< to the owner: the sender has given the peer handles; fewer when count < 0
  released,  ///< to the owner: the sender has none of those any more that it had from the peer
  asks,      ///< by an owner: what is there that came from the peer?
  holds,     ///< to the owner: so many handles that came from the peer
  settled    ///< to the owner: all holds of the peer are said
};

struct reference_note {
  saying what = saying::lent;
  base::id thing = {};  ///< not of asks and settled
  node_number peer = 0;
  std::int64_t count = 0;  ///< of lent, released and holds
  friend bool operator==(const reference_note&, const reference_note&) = default;
};

/// The references of one node: those to what it owns, and those that it has to others' things.
class references {
 public:
  explicit references(node_number self) noexcept : self_(self) {}
  node_number self() const noexcept { return self_; }

  // What happens to handles here.
  /// One is about to be sent. Until what is of this node is freed, the caller keeps it; of what is
  /// another's it keeps its own handle at least until it has called this.
  void lend(const base::id& thing, node_number owner, node_number to);
  /// The message was not sent after all.
  void take_back(const base::id& thing, node_number owner, node_number to);
  /// One came with a message of `from`. False: the owner is dead; this is not counted.
  bool came(const base::id& thing, node_number owner, node_number from);
  /// Nobody here has it any more, and nothing that came is still to be read.
  void drop(const base::id& thing);

  // The others.
  void joined(node_number who);
  void gone(node_number who);
  void hear(node_number from, const reference_note& said);

  /// What is to be done, in this order; each is said once.
  struct work {
    std::vector<std::pair<node_number, reference_note>> notes;  ///< to be sent, whom first
    std::vector<base::id> freed;  ///< of this node: no other one needs it by now
    std::vector<base::id> lost;   ///< another's, which has died
    bool empty() const noexcept { return notes.empty() && freed.empty() && lost.empty(); }
  };
  work take();

  /// Things of this node that others may have, and others' that it has.
  std::size_t lent() const noexcept { return mine_.size(); }
  std::size_t borrowed() const noexcept { return others_.size(); }
  bool is_lent(const base::id& thing) const { return mine_.contains(thing); }
  /// Who may have that thing of this node, and from whom.
  struct lending {
    node_number borrower = 0;
    node_number lender = 0;
    bool operator==(const lending&) const = default;
  };
  /// One that is lent and has none is in doubt.
  std::vector<lending> lendings_of(const base::id& thing) const;
  /// Whether it waits to hear what came from somebody who has died.
  bool is_in_doubt() const noexcept { return !doubts_.empty(); }

 private:
  /// Of one thing of this node: what one node has from another.
  struct loan {
    node_number borrower = 0;
    node_number lender = 0;
    std::int64_t count = 0;
    bool is_said = false;  // by the borrower, after the lender had died
  };
  using loans = std::vector<loan>;  // none is zero
  /// A thing of another node.
  struct borrowed_thing {
    node_number owner = 0;
    std::map<node_number, std::int64_t> came;  // from whom, how many
  };

  bool is_dead(node_number who) const;
  void say(node_number to, const reference_note& what);
  void say_lent(const base::id& thing, node_number owner, node_number to, std::int64_t count);
  void add(const base::id& thing, node_number borrower, node_number lender, std::int64_t count);
  void replace(const base::id& thing, const loan& by);
  void answer(node_number owner, node_number dead);
  bool forget_loans(node_number of);
  void doubt(const base::id& thing);
  void ask_of_the_dead();
  void finish_asking();
  void end_asking(node_number dead);
  void free_if_unneeded(const base::id& thing);

  const node_number self_;
  std::unordered_map<base::id, loans, base::id_hash> mine_;  // empty: it is in doubt
  std::unordered_map<base::id, borrowed_thing, base::id_hash> others_;
  std::set<node_number> living_;  // but this one
  std::set<node_number> dead_;
  std::set<node_number> unasked_;                        // of the dead
  std::map<node_number, std::set<node_number>> asking_;  // of the dead: who has not answered
  std::unordered_set<base::id, base::id_hash> doubts_;   // of mine_
  std::map<node_number, std::set<node_number>> asked_;   // who asked of whom that has not died here
  std::unordered_set<base::id, base::id_hash> freed_;    // of which is not lent again
  work work_;                                            // but what is freed
};

}  // namespace manta::inline v0::own
