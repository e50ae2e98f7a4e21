// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include <manta/base/export.hpp>
#include <manta/sched/ledger.hpp>

// The waiting line in front of the ledger: who gets what comes free.
//
// Problem. First come, first served is fair to requests and unfair to callers: one that asks ten
// thousand times makes all others wait for the last of them. Taking whatever fits starves the large
// requests. And holding everything back for a large one can stand still for ever: the holder of a
// gpu sleeps until a small task is done, which waits behind the large one that needs that gpu.
//
// Idea.
//   - Callers stand in a row; who is served goes to its end. Each has its requests in order.
//   - Each node that asks has such a row of its own, and nodes take turns the same way: however
//     many callers one has, each of the others gets as many turns.
//   - A request is looked at when it is its caller's oldest of its class. The class is the set of
//     kinds it needs, within one scope: the nodes, or one group. So a caller's tasks that wait for
//     a gpu do not hold back its tasks that need a licence.
//   - A request that does not fit now, but would when all active holders have ended, reserves: what
//     comes after it in this round and needs a kind of the same scope that it needs, too, waits.
//     One that would not fit even then (holders sleep, or live for long, like actors) reserves
//     nothing, since nobody knows when its turn comes.
//
//     row:  caller 7 [gpu 2 | gpu 1]   caller 3 [cpu 1] [cpu 4]   caller 9 [gpu+cpu]
//            no: short of gpus,          yes: fits, to the          no: gpus are
//            reserves gpus               row's end                  reserved
//
//     nodes:  this one [callers 7, 3, 9]   node 12 [caller 12]   node 5 [caller 5]
//
// Invariants
//   1. A request waits only when it does not fit, or an earlier reservation names one of its kinds.
//   2. While a request at the front reserves, nobody takes a kind that it needs: every active
//      holder that ends brings it nearer, so it is not starved.
//   3. Of two nodes whose requests are of one class, neither is served twice while the other one
//      waits at the head of its class with a request that fits; nor is, of two callers of one node,
//      either.
//   4. Whatever waits is looked at again after each event that frees something.
//
// Limit. A large request whose holders take turns in sleeping can be passed again and again; the
// alternative is a deadlock.
//
// Cost of an event: the grants, and one look at each class of waiting requests; callers that have
// nothing but blocked classes are skipped one by one, until no class is open.
// Pure, externally synchronised. Only ask allocates (std::bad_alloc leaves nothing behind).

namespace manta::inline v0::sched {

struct line_class;
struct line_shape;

/// One request: what a caller wants, and then what it holds. Lives where its owner wants, at a
/// stable address, until it is idle again.
struct request {
  enum class state : std::uint8_t { idle, waiting, held };

  // Set before ask.
  need what;
  placement where;
  std::uint64_t caller = 0;
  std::uint64_t from = 0;    ///< the node whose caller that is; 0: this one
  bool is_for_life = false;  ///< the holder does not end by itself (an actor)
  group* forming = nullptr;  ///< instead of `what`: a group that wants its place
  node_id near = 0;          ///< which of other nodes: ledger::take

  // The line's.
  state now = state::idle;
  grant got;
  request* next = nullptr;  ///< in its queue; in the list that an event answers
  request* previous = nullptr;
  std::uint64_t number = 0;  ///< in the order of arrival
  line_class* of_class = nullptr;
  line_shape* of_shape = nullptr;
};

/// Requests linked through `next`, in the order in which they were granted.
struct request_list {
  request* first = nullptr;
  request* last = nullptr;
  void append(request& r) noexcept;
};

/// The events. Those that free something answer which requests are granted by it.
class MANTA_API line {
 public:
  explicit line(ledger& of) noexcept;
  line(const line&) = delete;
  line& operator=(const line&) = delete;
  ~line();

  /// True: granted. False: it waits, and a later event's answer will have it.
  bool ask(request& r);
  /// A waiting request leaves. Harmless when it does not wait.
  request_list withdraw(request& r) noexcept;
  /// What was granted comes back.
  request_list give(request& r) noexcept;
  /// The holder sleeps in a wait; then it is back (see ledger).
  request_list lend(request& r) noexcept;
  void take_back(request& r) noexcept { ledger_.take_back(r.what, r.got); }
  /// There is more than before, or more of it may be given.
  request_list look_again() noexcept;
  /// Those that wait for what no node can ever give (any more) leave; they are idle, and in the
  /// answer. Groups: as they were last judged (ledger::judge).
  /// `within`: only those that wait in that group.
  request_list refuse_infeasible(group_id within = 0) noexcept;
  /// The group is gone. `refused` gets the requests that waited in it, or for its place; they are
  /// idle. A waiting group's own request is among them.
  request_list remove(group& g, request_list& refused) noexcept;

  /// Takes one that waits off the line and lets nobody through: for the end of everything.
  request* take_first() noexcept;

  std::size_t waiting() const noexcept { return waiting_; }
  /// Calls see(request) for all that wait.
  template <class See>
  void each_waiting(See&& see) const {
    for (const origin* o = origins_.first; o != nullptr; o = o->next) {
      for (const caller* c = o->callers.first; c != nullptr; c = c->next) {
        for (const queue& q : c->queues) {
          for (request* r = q.first; r != nullptr; r = r->next) see(*r);
        }
      }
    }
  }

 private:
  struct shape_less;
  struct scope;
  struct queue {
    line_class* of = nullptr;
    request* first = nullptr;
    request* last = nullptr;
  };
  template <class Entry>
  struct row {
    Entry* first = nullptr;
    Entry* last = nullptr;
    void link_last(Entry& e) noexcept;
    void unlink(Entry& e) noexcept;
    void move_last(Entry& e) noexcept;
  };
  struct caller {
    std::uint64_t serial = 0;
    caller* next = nullptr;
    caller* previous = nullptr;
    std::vector<queue> queues;
  };
  /// A node that asks; in the row while it has callers.
  struct origin {
    std::uint64_t node = 0;
    origin* next = nullptr;
    origin* previous = nullptr;
    row<caller> callers;
    caller* at = nullptr;  // whom this round looks at next
    std::unordered_map<std::uint64_t, std::unique_ptr<caller>> by_serial;
  };

  template <class Meant>
  void refuse(Meant&& is_meant, request_list& refused) noexcept;
  bool try_grant(request& r) noexcept;
  bool may_fit_soon(request& r) noexcept;
  bool is_reserved(std::uint64_t in, std::uint64_t kinds) const noexcept;
  void enqueue(request& r);
  line_class& class_of(const request& r);
  line_shape& shape_of(const request& r, line_class& in);
  queue& queue_of(caller& c, line_class& in);
  origin* find_origin(std::uint64_t node) noexcept;
  origin& origin_of(std::uint64_t node);
  caller& caller_of(origin& o, std::uint64_t serial);
  void drop_if_unused(origin& o, caller* c) noexcept;
  void dequeue(request& r) noexcept;
  void drop(line_shape& s) noexcept;
  void drop_if_unused(line_class& c) noexcept;
  void admit(request_list& granted) noexcept;
  bool round(request_list& granted) noexcept;
  request* serve(origin& o) noexcept;
  request* serve(caller& c) noexcept;
  bool move_on(origin& o, request& r) noexcept;
  request* candidate(const queue& q) const noexcept;
  void note_misfit(request& r) noexcept;
  void block(line_class& c) noexcept;

  ledger& ledger_;
  std::size_t waiting_ = 0;
  std::uint64_t arrivals_ = 0;
  std::uint64_t round_ = 0;
  std::size_t open_ = 0;  // classes that this round may still serve
  std::size_t classes_ = 0;
  origin own_;  // of this node's callers, which are mostly all
  row<origin> origins_;
  std::unordered_map<std::uint64_t, std::unique_ptr<origin>> others_;
  std::unordered_map<std::uint64_t, std::unique_ptr<scope>> scopes_;  // by group; 0: the nodes
};

}  // namespace manta::inline v0::sched
