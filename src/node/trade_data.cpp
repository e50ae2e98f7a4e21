// SPDX-License-Identifier: Apache-2.0
// Tasks that go where their arguments' arrays lie: trade.hpp.
#include <algorithm>
#include <exception>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/exec/call_extra.hpp>
#include <manta/exec/executor.hpp>
#include <manta/node/carrier.hpp>
#include <manta/node/rest.hpp>

#include "node/errand.hpp"
#include "node/far_pulls.hpp"
#include "node/link_times.hpp"
#include "node/resting_array.hpp"
#include "node/trade.hpp"
#include "sched/places.hpp"

namespace manta::inline v0::node {

bool goes_to_its_data(exec::job* j) noexcept {
  if (exec::thief_from_afar.load(std::memory_order_acquire) == nullptr) return false;
  return trade::global().follows_data(j);
}

namespace {

/// The arrays that a task awaits.
struct awaited_arrays {
  struct one {
    array_block* block = nullptr;  // as long as the task awaits it: who it is, no more
    std::uint64_t bytes = 0;
    std::uint64_t in = 0;  // the node where it has stayed; 0: it is here
  };
  std::vector<one> all;
  bool goes_as_handle = false;

  static void add(void* to, array_block*& handle) {
    auto& of = *static_cast<awaited_arrays*>(to);
    const bool is_known =
        std::ranges::any_of(of.all, [&](const one& each) { return each.block == handle; });
    if (is_known) return;
    one is{handle, handle->bytes().size(), 0};
    if (handle->is_at_rest()) {
      is.bytes = static_cast<const resting_array&>(*handle).size();
    } else if (of.goes_as_handle && handle->is_away(0)) {
      is.in = static_cast<const distant_block&>(*handle).lies_in();
    }
    of.all.push_back(is);
  }
};

// Adds what has stayed in another node, by node.
void add_lying(void* to, array_block*& handle) {
  auto& all = *static_cast<std::vector<sched::lying>*>(to);
  if (!handle->is_away(0)) return;
  const std::uint64_t in = static_cast<const distant_block&>(*handle).lies_in();
  if (in == 0) return;
  const auto found = std::ranges::find(all, in, &sched::lying::in);
  if (found == all.end()) {
    all.push_back({in, handle->bytes().size()});
  } else {
    found->bytes += handle->bytes().size();
  }
}

// Of what is not there.
std::uint64_t missing_in(const awaited_arrays& of, std::uint64_t node) {
  std::uint64_t bytes = 0;
  for (const awaited_arrays::one& each : of.all) bytes += each.in == node ? 0 : each.bytes;
  return bytes;
}

// With what those bytes take to there, which a lock is taken for.
sched::data_place place_in(const awaited_arrays& of, std::uint64_t node, duration wait) {
  sched::moved_bytes missing;
  for (const awaited_arrays::one& each : of.all) {
    if (each.in != node) missing.add(each.bytes, link_times::global().of(each.in, node));
  }
  return {missing.bytes(), wait, missing.pace()};
}

}  // namespace

// Than to run, here or elsewhere, and again when that is lost.
bool trade::asks_for_more(const exec::call_extra& with) noexcept {
  return with.claim != nullptr || with.is_outside || with.losable || with.isolation.has_value() ||
         with.may_repeat() || with.retries_left == 0;
}

// It is not bound to this node, and may run once more. Of what goes of itself, too.
bool trade::may_follow_data(const exec::job& j) noexcept {
  constexpr std::uint64_t rare = exec::job_bits::stays | exec::job_bits::cancel;
  if ((j.word() & rare) != 0 || !may_leave(j)) return false;
  const exec::call_extra* const with = j.extra();
  return with == nullptr || !asks_for_more(*with);
}

// Under the gate's lock, which who withdraws the task has to pass before he drops its arguments; so
// in a time that grows with their number and no more. An array that is there twice counts twice.
std::uint64_t trade::data_of(const exec::job& j) noexcept {
  auto* const its = const_cast<exec::job*>(&j);  // nothing is changed
  const carrier& by = *carrier_of(its);
  if (!far_pulls::global().has_any() || by.rested_arguments == nullptr) return 0;
  if (by.failure(its) != nullptr) return 0;
  try {
    std::vector<sched::lying> all;
    for (const rested& one : by.rested_arguments(its)) {
      if (!one.as_handles || !one.note->may_be_away()) continue;
      look_at_arrays(one, add_lying, &all);
    }
    return sched::node_with_most(all);
  } catch (const std::exception&) {
    return 0;  // no memory: any node that has the amounts
  }
}

// 0: it stays.
std::uint64_t trade::node_of_data(exec::job* j) {
  const carrier& by = *carrier_of(j);
  if (by.rested_arguments == nullptr || by.failure(j) != nullptr) return 0;
  const std::vector<rested> all = by.rested_arguments(j);
  // Most tasks await what is here, and are asked for no lock.
  if (std::ranges::none_of(all, [](const rested& one) { return one.note->may_be_away(); })) {
    return 0;
  }
  awaited_arrays data;
  for (const rested& one : all) {
    data.goes_as_handle = one.as_handles;
    look_at_arrays(one, awaited_arrays::add, &data);
  }
  const sched::data_place here = place_in(data, 0, wait_here());
  std::uint64_t all_of_it = 0;  // what a node without any is missing
  for (const awaited_arrays::one& each : data.all) all_of_it += each.bytes;
  if (here.missing < sched::least_followed) return 0;
  std::vector<sched::data_place> places;
  std::vector<std::uint64_t> nodes;
  for (const peers::member& one : open_peers(peers_).all()) {
    const std::uint64_t missing = missing_in(data, one.epoch);
    if (!one.takes_work || missing >= all_of_it) continue;
    places.push_back(place_in(data, one.epoch, wait_there(one)));
    nodes.push_back(one.epoch);
  }
  const std::size_t best = sched::nearest_to_data(here, places);
  return best < nodes.size() ? nodes[best] : 0;
}

duration trade::wait_here() const noexcept {
  return sched::wait_of({in_line_.load(), workers_, duration(task_ns_.load())});
}

duration trade::wait_there(const peers::member& one) const noexcept {
  std::uint64_t sent = 0;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = sent_.find(one.epoch); found != sent_.end()) sent = found->second;
  }
  return sched::wait_in({one.load.queued, sent, one.workers, one.load.task_time},
                        duration(task_ns_.load()));
}

// True: it is, or will be, elsewhere or in a queue; takes the queue's hold over. It is claimed
// while its arguments are looked at, since who withdraws it drops them.
bool trade::follows_data(exec::job* j) noexcept {
  if (!far_pulls::global().has_any() || !is_open_.load()) return false;
  if (gives_all_.load() || !may_follow_data(*j)) return false;
  if (!j->try_claim()) {
    j->drop_entry();
    return true;
  }
  try {
    if (const std::uint64_t to = node_of_data(j); to != 0) {
      const peers* const by = peers_.load();
      // Users' values are written: not by who brings others' results.
      // Nor by who submits, as long as something is to come before.
      const bool may_write = !is_own_thread() && by != nullptr && !by->is_loop() &&
                             carrier_of(j)->wake_arguments(j, false, to);
      if (may_write) {
        follow_data(to, j);
      } else {
        run_errand([this, j, to](bool /*runs*/) { follow_data(to, j); });
      }
      return true;
    }
  } catch (...) {
    // No memory, or the runtime ends: it stays.
  }
  return !comes_back(j, false);
}

// A claimed one. Where it can't go it runs here, and has what it reads fetched.
void trade::follow_data(std::uint64_t to, exec::job* j) noexcept {
  ++givers_;
  error why = exec::ended_error();
  const outcome is = is_open_.load() ? give_claimed(to, j, &why) : outcome::stays;
  const bool has_left = is == outcome::given || is == outcome::gone;
  if (!has_left && comes_back(j, is == outcome::stays)) exec::executor::resume(j);
  --givers_;
}

}  // namespace manta::inline v0::node
