// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "node/desk.hpp"
#include "sched/group_steps.hpp"

// What the desk's files share: its claims, and its books.

namespace manta::inline v0::node {

struct desk::claim final : exec::resource_claim, sched::request {
  claim() = default;
  struct of_others {};
  explicit claim(of_others /*mark*/) noexcept : resource_claim(given{}) {}

  std::uint64_t generation = 0;
  spec::demand asked;
  bool is_only_here = false;
  placement there;  // what another node is told: by group, or nothing
  // Among what actors hold.
  claim* next_living = nullptr;
  claim* previous_living = nullptr;
  bool is_listed = false;

  const std::vector<int>& gpus() const noexcept override { return got.gpus; }

  static claim& of(exec::resource_claim& c) noexcept { return static_cast<claim&>(c); }
  static const claim& of(const exec::resource_claim& c) noexcept {
    return static_cast<const claim&>(c);
  }
  static claim& of(sched::request& r) noexcept { return static_cast<claim&>(r); }
  static const claim& of(const sched::request& r) noexcept { return static_cast<const claim&>(r); }
};

/// Bundles of another node's group that are set aside here.
struct desk::guest {
  sched::group_id here = 0;
  std::uint64_t group = 0;             // its maker's
  std::vector<std::uint32_t> bundles;  // which of those they are
  std::vector<std::int64_t> lent;      // of their cpus, by who sleeps in them
  std::vector<bool> is_news;
};

// All that belongs to one runtime.
struct desk::books {
  explicit books(std::uint64_t generation);
  ~books();
  sched::ledger has;
  sched::line waits;
  std::vector<std::uint64_t> others;  // by index in the ledger; 0: this one, or gone
  std::unordered_map<std::uint64_t, sched::node_id> index;  // of those that are not gone
  std::set<std::string> warned;
  sched::group_steps groups;
  std::map<std::pair<std::uint64_t, std::uint64_t>, guest> guests;  // by maker and number
  struct guest_count {
    std::size_t groups = 0;
    std::size_t bundles = 0;
  };
  std::unordered_map<std::uint64_t, guest_count> guest_counts;  // by maker, of those that have any
};

// Those that were granted go on here, and those that were refused by another thread than the
// loop's: what ends drops its arguments, whose destructors are the user's and may wait for what the
// loop brings.
void start_soon(exec::claim_list through) noexcept;

/// resource_gate::change for what is heard of other nodes.
template <class Step>
void desk::change_soon(Step&& step) {
  start_soon(exec::resource_gate::global().look(std::forward<Step>(step)));
}

template <class Why>
exec::claim_list desk::refused_of(const sched::request_list& refused, Why&& why) noexcept {
  exec::claim_list out;
  for (sched::request* r = refused.first; r != nullptr;) {
    sched::request* const following = r->next;
    claim& one = claim::of(*r);
    one.refusal = why(one);
    out.append(one);
    r = following;
  }
  return out;
}

error removed_error(sched::group_id id);

}  // namespace manta::inline v0::node
