// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <manta/exec/resource_gate.hpp>
#include <manta/sched/ledger.hpp>
#include <manta/sched/line.hpp>
#include <manta/spec/config.hpp>

#include "base/chance.hpp"
#include "node/bookings.hpp"
#include "sched/group_steps.hpp"
#include "spec/cluster.hpp"

// Where the gate of exec/ meets the ledger of sched/. A claim is a request of the line: the desk
// hands one to the other and turns what the line grants into what the gate starts. It decides
// nothing.
//
// Other nodes that share their work are in the ledger, too, with what they say that they have: a
// task that may leave waits in one line for whoever has room, and is sent to the node whose amounts
// it was granted (resource_claim::elsewhere).

namespace manta::inline v0::node {

class desk final : public exec::resource_desk {
 public:
  /// The process's desk; never destroyed.
  static desk& global();

  /// Begins the books of a new runtime, while none runs; its gpus are numbered from `first_gpu` on.
  /// Not under the gate's lock.
  void open(const config& settings, int first_gpu = 0);

  /// What a claim of this desk was made for, and where. The claim's owner.
  static const spec::demand& asked_by(const exec::resource_claim& c) noexcept;
  static const placement& place_of(const exec::resource_claim& c) noexcept;

  // For the gate, under its lock.
  std::unique_ptr<exec::resource_claim> prepare(const spec::demand& asked, const placement& where,
                                                std::uint64_t caller, bool is_for_life) override;
  std::unique_ptr<exec::resource_claim> note(const spec::demand& asked) override;
  void ask_again(exec::resource_claim& c, std::uint64_t caller, bool here) override;
  answer ask(exec::resource_claim& c) override;
  exec::claim_list leave(exec::resource_claim& c) noexcept override;
  exec::claim_list lend(exec::resource_claim& c) noexcept override;
  void take_back(exec::resource_claim& c) noexcept override;
  exec::resource_claim* take_waiting() noexcept override;

  // Of other nodes; they take the gate's lock.

  /// What a node says that it has, and is. Throws std::bad_alloc.
  static spec::demand offer_of(const spec::node_introduction& who);
  static label_list labels_of(const spec::node_introduction& who);

  /// Whether a job that asks may run in another node; `if_it_must`: where this one can never give
  /// what it asks for. Called under the gate's lock.
  enum class departure : std::uint8_t { no, if_it_must, yes };
  using leaver = departure (*)(const exec::job& j) noexcept;
  /// The node where most of what it reads lies; 0: this one, or it does not matter. As that.
  using nearer = std::uint64_t (*)(const exec::job& j) noexcept;
  /// Tasks may go. `may_grow`: others may join, so that what no node can give waits for them.
  /// `wake`: letters() is to be called soon, on the loop's thread.
  void open_to_others(leaver may_leave, nearer data_of, bool may_grow, void (*wake)()) noexcept;
  /// The runtime ends: none does from here on. What waits for what only others have is told
  /// so.
  void close_to_others() noexcept;
  /// Another node, by its number, and whether it takes work.
  struct other_node {
    std::uint64_t node = 0;
    bool takes_work = false;
  };
  /// How they stand; answers those that it does not know. Throws std::bad_alloc.
  std::vector<std::uint64_t> see_others(const std::vector<other_node>& all);
  /// One of those. Throws std::bad_alloc.
  void add_other(const other_node& one, const spec::node_introduction& who);
  /// It gives nothing until it is seen again.
  void rest_other(std::uint64_t node) noexcept;
  /// It is gone, and with it what only it could give.
  void lose_other(std::uint64_t node) noexcept;
  /// The nodes that can give that, by the amounts of `when`; 0 is this one. Throws std::bad_alloc.
  std::vector<std::uint64_t> who_gives(const spec::demand& asked, const placement& where,
                                       sched::horizon when);
  /// Whether this one can ever give that, whatever others can; `where` is no group.
  bool gives_here(const spec::demand& asked, const placement& where) const;
  /// Why a node with that introduction can never give it; nothing: it can, or has not said yet.
  /// Throws std::bad_alloc. Takes no lock.
  static std::optional<std::string> why_never_there(const spec::node_introduction& who,
                                                    const spec::demand& asked);
  /// What an actor of this node has of another one, as far as that is free by what is known here,
  /// until it is dropped, which takes the gate's lock and lets others through. Null: it waits
  /// there. Throws std::bad_alloc.
  /// `where`, in a group, becomes what that node knows it by.
  std::shared_ptr<void> lease(std::uint64_t node, const spec::demand& asked, placement& where);
  /// Throws infeasible when this node can never give that; std::bad_alloc.
  void check_here(const spec::demand& asked) const;

  // Placement groups over nodes: bookings.hpp. They take the gate's lock; the loop's thread.

  /// What is to be said, and when to ask again at the latest.
  std::vector<booking_letter> letters(base::time_point now, base::deadline& due);
  /// A node's answer to one of them, and what it says of cpus that are lent there.
  void booked(std::uint64_t node, const booking_note& said);
  void hear_lent(std::uint64_t node, const booking_note& said);
  /// Another node's group wants bundles here. False: not now, or nonsense. Throws std::bad_alloc.
  bool book(std::uint64_t maker, const booking_note& asked);
  /// It wants them no more: as remove_group. And that node is gone, with all its groups.
  void drop_guest(std::uint64_t maker, std::uint64_t number) noexcept;
  /// This node leaves: it promises nothing more. Any thread.
  void close_door() noexcept;
  void lose_maker(std::uint64_t maker) noexcept;

  // The same for any thread.

  /// What that node's task or actor means by a place in one of its groups. Throws group_removed.
  placement place_of_guest(std::uint64_t maker, std::uint64_t number, int bundle) const;
  /// The node with the bundle that an actor asks for, 0: this one; nothing: the group has no place
  /// yet. Throws group_removed, infeasible.
  std::optional<std::uint64_t> node_in_group(const spec::demand& asked, const placement& where);

  // For the front; they take the gate's lock.

  /// A group and its claim, not made yet: request(job) does that, and the job goes on when the
  /// group has its place. The claim has to live until the job went on or was cancelled. Throws
  /// infeasible, std::bad_alloc. `stays`: other nodes have no part in it.
  std::unique_ptr<exec::resource_claim> make_group(std::vector<spec::demand> bundles, strategy how,
                                                   bool stays, sched::group_id& id);
  /// False when it is not there (any more). Those who wait for it fail with group_removed, actors
  /// in it are killed. Throws std::bad_alloc: the group is gone, and some actor may live on.
  bool remove_group(sched::group_id id);
  std::vector<demand_report> unmet() const;
  resource_report report() const;
  label_list labels() const;
  /// What placements call this node: "local", which always means it, or its name in the cluster
  /// that it is a member of.
  std::string node_name() const;
  void call_node(std::string name);

 private:
  desk() = default;
  struct claim;
  struct loan;
  struct guest;
  struct books;

  bool is_current(const claim& c) const noexcept;
  template <class Each>
  void each_waiting(Each&& each) const;
  static demand_report report_of(const claim& one);
  exec::claim_list claims_of(const sched::request_list& granted) noexcept;
  template <class Why>
  static exec::claim_list refused_of(const sched::request_list& refused, Why&& why) noexcept;
  exec::claim_list refuse_infeasible() noexcept;
  exec::claim_list refused_as_hopeless(const sched::request_list& all) noexcept;
  sched::node_id index_of(std::uint64_t other) const noexcept;
  bool stays(const claim& c) const noexcept;
  bool can_never_be_given(claim& c);
  void send_where_granted(claim& c) const noexcept;
  void warn_of(const std::string& reason);
  std::string why_never(const claim& c) const;
  // desk_groups.cpp
  void wake() const noexcept;
  void wake_if_news() noexcept;
  exec::claim_list follow(const sched::group_steps::outcome& from) noexcept;
  template <class Step>
  static void change_soon(Step&& step);
  void try_again(base::time_point now, base::deadline& due, exec::claim_list& through);
  void write_letters(std::vector<booking_letter>& out) const;
  exec::claim_list end_formings(const error& why) noexcept;
  exec::claim_list take_group(sched::group& g, std::vector<exec::actor_core*>& actors);
  bool lease_in_group(sched::node_id node, const sched::need& what, placement& where,
                      sched::grant& into) noexcept;
  // desk_guests.cpp
  bool has_room_for(std::uint64_t maker, std::size_t bundles) const noexcept;
  void forget_guest(std::uint64_t maker, std::uint64_t number) noexcept;
  void note_lent(const claim& c, int sign) noexcept;
  void say_lent(std::vector<booking_letter>& out) const;
  void lent_is_said() noexcept;
  void list(claim& c) noexcept;
  void unlist(claim& c) noexcept;
  std::vector<exec::actor_core*> actors_in(const sched::group& g) const;

  std::uint64_t generation_ = 0;
  leaver may_leave_ = nullptr;
  nearer data_of_ = nullptr;
  void (*wake_)() = nullptr;
  bool may_grow_ = false;
  bool is_closed_ = false;  // to others: the runtime ends
  bool is_leaving_ = false;
  std::unique_ptr<books> books_;
  base::chance chance_{1};
  claim* living_ = nullptr;  // what actors hold now
};

}  // namespace manta::inline v0::node
