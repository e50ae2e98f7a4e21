// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <manta/base/export.hpp>
#include <manta/sched/pool.hpp>
#include <manta/spec/resources.hpp>

// The ledger: which node has what, who holds it, and which part of it is set aside for a group.
//
// Problem. Tasks and actors ask for fractions of cores, for gpus (and must be told which), for
// memory and for things only the user knows; groups want several such sets at once or none. What
// was given must come back to the last thousandth.
//
// Idea. Everything is a pool (pool.hpp). A node is a pool; a bundle of a placed group is a smaller
// pool, taken from its node like a task's demand is:
//
//      node pool   [############........................]
//                    |  task's grant     free
//                    +- bundle's pool [####......]
//                                       |  grant of a task in the group
//
// A group that is removed is absorbed: the free part of each bundle goes back to its node at once,
// and a grant that is still held inside gives to the node when it ends.
//
// Invariants
//   1. free + held = total in each pool and each gpu; free < 0 only for cpus, and only between a
//      lend and the return of whoever got them (take_back never waits).
//   2. a gpu's shares never exceed 1; a whole gpu is shared with nobody.
//   3. a group has all its bundles or none, but for those that it lost with their node.
//
// Several nodes are supported; node 0 is the one that this process is, and the first choice. Others
// keep ledgers of their own: what is here of them (add_other) is what they say that they have, less
// what was given of it from here. It tells where to ask, not what will be free there;
// and nobody waits for their holders (horizon::soon): whether those sleep is not known here.
// Bundles of a group may lie there, too. Such a place is `asked` until that node has set them
// aside: then the group is confirmed, or taken apart again. A node that is lost takes its bundles
// along; they get new places, and what was given in the old ones comes back to that node.
// Pure: no lock, no clock, no thread. Externally synchronised. take, give, lend, take_back, place,
// confirm, take_apart, lose and remove allocate nothing.

namespace manta::inline v0::sched {

using node_id = std::uint32_t;
using group_id = std::uint64_t;

/// A placement group. Its address is stable.
struct group {
  enum class seat : std::uint8_t {
    nowhere,
    asked,  ///< set aside here; another node has not said yet that it is there
    given
  };
  struct place : pool {
    node_id node = 0;
    seat at = seat::nowhere;
    std::uint32_t turn = 0;     ///< which of the places that it has had
    std::uint64_t booking = 0;  ///< what its node knows it by; 0: it is this process's
    std::int64_t lent = 0;      ///< of its cpus, by what its node says
  };
  enum class state : std::uint8_t { waiting, placed, removed };

  group_id id = 0;
  strategy how = strategy::pack;
  std::vector<need> bundles;
  std::vector<spec::demand> shown;     ///< the bundles as they were asked for
  std::vector<std::size_t> order;      ///< bundles, the hardest to place first
  std::vector<place> places;           ///< one for each bundle
  std::vector<std::vector<int>> gpus;  ///< the indices of each bundle
  state now = state::waiting;
  std::size_t users = 0;       ///< grants held inside
  std::vector<node_id> shuns;  ///< other nodes that have no room for it, for now
  bool is_hopeless = false;    ///< what has no place can never have one (see judge)
};

/// What somebody holds. Empty until take succeeds.
struct grant {
  static constexpr std::size_t no_bundle = static_cast<std::size_t>(-1);

  bool is_held = false;
  bool is_active = false;
  bool is_lent = false;
  node_id node = 0;
  group* in = nullptr;  ///< the group whose bundle it is a part of
  std::size_t bundle = no_bundle;
  std::uint32_t turn = 0;  ///< of that bundle's place
  std::vector<int> gpus;   ///< indices on the node; needs room for gpu_count before take
};

class MANTA_API ledger {
 public:
  static constexpr std::size_t most_bundles = 1000;

  /// Groups get the ids after `ids_used`, so that those of several ledgers can be told apart.
  explicit ledger(group_id ids_used = 0) noexcept : groups_made_(ids_used) {}

  /// A node that joins. gpus are whole, and numbered from `first_gpu` on. Its index is its id.
  node_id add_node(std::string name, label_list labels, const spec::demand& capacity,
                   int first_gpu = 0);
  /// Another process's node. Which of its gpus a grant names means nothing.
  /// Takes the place of one that is gone and has nothing to come back.
  node_id add_other(std::string name, label_list labels, const spec::demand& capacity);
  /// How another node stands; what was given of it comes back as ever.
  enum class standing : std::uint8_t {
    gives,
    rests,  ///< gives nothing for now
    gone    ///< nor ever
  };
  void set(node_id of, standing now) noexcept { nodes_[of].now = now; }
  standing of(node_id which) const noexcept { return nodes_[which].now; }
  /// Makes custom keys known that nobody has yet, since somebody may come who does.
  void learn(const spec::demand& asked);
  std::size_t node_count() const noexcept { return nodes_.size(); }
  const std::string& node_name(node_id of) const noexcept { return nodes_[of].name; }
  const label_list& labels(node_id of) const noexcept { return nodes_[of].labels; }
  /// It is called that from now on.
  void rename(node_id of, std::string name) noexcept { nodes_[of].name = std::move(name); }

  /// Whether every custom key of `asked` is one that some node has.
  bool knows(const spec::demand& asked) const noexcept;
  /// `asked` in the ledger's terms. Requires !infeasible (it drops what no node knows).
  need translate(const spec::demand& asked) const;

  /// Why no node can ever give `asked` at `where`; nothing when one can. A group that is unknown or
  /// removed is not the ledger's to judge: see find_group.
  /// `stays`: other nodes don't count.
  std::optional<std::string> infeasible(const spec::demand& asked, const placement& where,
                                        bool stays = false) const;
  std::optional<std::string> infeasible(const std::vector<spec::demand>& bundles, strategy how,
                                        bool stays = false) const;

  /// Whether `asked` can be given at `where`, by the amounts of `when`.
  bool fits(const need& asked, const placement& where, horizon when) const noexcept;
  /// Whether this node gives it then, other nodes aside; `where` is no group. A wish that is soft
  /// keeps nothing from it, though one that others fulfil lets `take` ask those alone.
  bool gives_here(const need& asked, const placement& where, horizon when) const noexcept;
  /// All nodes that give it then; `where` is no group. Allocates.
  std::vector<node_id> who_gives(const spec::demand& asked, const placement& where,
                                 horizon when) const;
  /// Gives `asked` when it fits now. `is_active`: the holder runs and will end. `near`: of
  /// other nodes with as much left this one comes first, unless it is to lie spread; 0: none.
  bool take(const need& asked, const placement& where, bool is_active, grant& into,
            node_id near = 0) noexcept;
  /// The same of that node, for who lives there.
  bool take_of(node_id node, const need& asked, grant& into) noexcept;
  /// Everything comes back; harmless when nothing is held.
  void give(const need& asked, grant& held) noexcept;
  /// The holder sleeps: its cpus are free for others, and nothing is expected of it.
  void lend(const need& asked, grant& held) noexcept;
  /// The holder is back: its cpus are its own at once, though others may hold them, too.
  void take_back(const need& asked, grant& held) noexcept;

  /// A group that waits for its place. Requires 1 to most_bundles bundles, !infeasible.
  /// `stays`: other nodes don't count.
  group& make_group(std::vector<spec::demand> bundles, strategy how, bool stays = false);
  /// Null when there is none of that id (any more).
  group* find_group(group_id id) const noexcept;
  /// Sets all bundles that have no place aside when all of them fit: all or none. When some of
  /// them are other nodes' to give, all are asked (see group::seat), else given.
  bool place(group& g) noexcept;
  /// Whether it has places that are asked.
  static bool is_asking(const group& g) noexcept;
  /// The asked ones are given.
  void confirm(group& g) noexcept;
  /// The asked ones are nowhere again.
  void take_apart(group& g) noexcept;
  /// Its bundles in that node have none any more. False: there was none.
  bool lose(group& g, node_id with) noexcept;
  /// The node of a bundle says that its holders have lent so much of its cpus.
  static void note_lent(group& g, std::size_t bundle, std::int64_t cpus) noexcept;
  /// Looks which groups can never have all their places, as the nodes are.
  void judge(bool others_may_join) noexcept;
  void judge(group& g, bool others_may_join) noexcept;
  template <class See>
  void each_group(See&& see) {
    for (const auto& [id, g] : groups_) {
      if (g->now != group::state::removed) see(*g);
    }
  }
  /// Whether it would have a place by the amounts of `when`. A search that grows too long says yes.
  bool has_place(group& g, horizon when) const noexcept;
  /// The group is gone for everybody; what is held inside stays held. The record goes with the last
  /// grant, or now.
  void remove(group& g) noexcept;

  /// All that this process has, and what of it is free; gpus by index of node 0.
  resource_report report() const;

 private:
  struct node {
    std::string name;
    label_list labels;
    pool has;
    bool is_other = false;
    standing now = standing::gives;
    std::uint32_t grants = 0;  // held; of this process's, but for those in groups
  };
  enum class found : std::uint8_t { no, yes, unknown };

  std::optional<kind> kind_of(const std::string& key) const noexcept;
  spec::demand to_spec(const pool& of, bool free) const;
  bool matches(const node& n, const placement& where) const noexcept;
  static bool gives(const node& n, const need& asked, horizon when) noexcept;
  bool is_bound(const need& asked, const placement& where) const noexcept;
  pool* choose(const need& asked, const placement& where, horizon when, node_id& chosen,
               node_id near = 0) noexcept;
  bool take_in_group(const need& asked, const placement& where, grant& into) noexcept;
  pool& home(const grant& held) noexcept;
  bool is_usable(const group::place& p, const need& asked) const noexcept;
  bool fits_ever(const group& g, const group::place& p, const need& asked) const noexcept;
  void dissolve(group::place& p) noexcept;
  std::unique_ptr<group> make_record(std::vector<spec::demand> bundles, strategy how,
                                     bool stays) const;
  struct trial;
  found search(group& g, horizon when) const noexcept;
  found search_as(strategy how, group& g, horizon when) const noexcept;
  bool may_host(const trial& of, std::size_t node, std::size_t bundle) const noexcept;
  void begin_trial(std::size_t node, group& g, horizon when) const noexcept;
  void sort_by_room(const trial& of) const noexcept;
  found search_from(trial& of, std::size_t done) const noexcept;
  found search_at(trial& of, std::size_t done, std::size_t already) const noexcept;
  std::string describe_nodes() const;

  std::vector<std::string> keys_;  // custom kinds, from first_custom_kind
  std::vector<node> nodes_;
  std::unordered_map<group_id, std::unique_ptr<group>> groups_;
  group_id groups_made_;
  // For trials: as many pools as nodes, with room for the same accounts.
  mutable std::vector<pool> trial_;
  mutable std::vector<std::size_t> on_node_;  // bundles of the group tried, by node
  mutable std::vector<std::size_t> room_;     // how many of them it has room for
  mutable std::vector<node_id> in_turn_;      // the nodes as they are tried
  mutable std::vector<int> own_gpus_;         // of a bundle that has its place, in a trial
};

}  // namespace manta::inline v0::sched
