// SPDX-License-Identifier: Apache-2.0
// What goes to other nodes of itself, and what comes so and is too much: trade.hpp.
#include <new>
#include <vector>

#include <manta/exec/executor.hpp>
#include <manta/node/carrier.hpp>
#include <manta/node/rest.hpp>

#include "node/surplus_data.hpp"
#include "node/trade.hpp"

namespace manta::inline v0::node {

namespace {

// Tasks that are looked at for one that goes: those that stay are put back.
constexpr int looks_for_one = 4;

}  // namespace

std::vector<sched::overflow_peer> trade::others(base::time_point at, std::size_t most) {
  std::vector<sched::overflow_peer> out;
  std::erase_if(full_, [at](const auto& one) { return one.second <= at; });
  // Each look begins with another node, or all would give to the same ones.
  const std::vector<peers::member> some =
      open_peers(peers_).some(most + full_.size(), chance_.next());
  out.reserve(some.size());
  const std::lock_guard lock(mutex_);
  for (const peers::member& one : some) {
    if (full_.contains(one.epoch) || out.size() == most) continue;
    const auto sent = sent_.find(one.epoch);
    out.push_back({.node = one.epoch,
                   .workers = one.workers,
                   .waiting = one.load.queued,
                   .sent = sent == sent_.end() ? 0 : sent->second,
                   .task_time = one.load.task_time});
  }
  return out;
}

void trade::look(base::time_point at) noexcept {
  const exec::queued_work now = exec::measure_queues();
  const bool is_news = pace_.look(at, now.ran, now.queued, workers_);
  in_line_.store(now.queued);
  came_.store(0);
  if (is_news) task_ns_.store(pace_.task_time().count());
  window_.look(at, offered_, refused_);
  if (most_moved_.load() != moves_all) most_moved_.store(sched::worth_moving(pace_.task_time()));
  if (now.queued == 0) return;
  try {
    const sched::overflow_queue here{now.queued, workers_, pace_.task_time()};
    const sched::overflow_settings with{.most = window_.left(offered_)};
    if (with.most == 0 || sched::wait_of(here) < with.threshold) return;
    const auto to = others(at, sched::worth_looking_at(with.most));
    for (const sched::overflow_share& one : sched::spread_overflow(with, here, to)) {
      give(one.node, one.tasks);
    }
  } catch (const std::bad_alloc&) {
    // Then they stay, until there is memory again.
  }
}

void trade::give(std::uint64_t to, std::uint64_t tasks) noexcept {
  exec::deque::loot loot;
  std::uint64_t tries = tasks * looks_for_one;
  while (tasks > 0 && tries > 0 && is_open_.load()) {
    const std::size_t n = exec::take_queued(loot);
    if (n == 0) return;
    for (std::size_t i = 0; i < n; ++i) {
      auto* const j = static_cast<exec::job*>(loot[i]);
      tries -= tries > 0 ? 1 : 0;
      const outcome is = tasks > 0 && may_go(*j) ? give_one(to, j) : outcome::stays;
      if (is == outcome::given) --tasks;
      if (is == outcome::given) ++offered_;
      if (is == outcome::full) tasks = 0;
      if (is != outcome::given && is != outcome::gone) exec::submit_again(j);
    }
  }
}

// ---- arrays that it awaits

surplus_data& surplus_data::global() {
  static auto* const made = new surplus_data;
  return *made;
}

bool surplus_data::wakes(exec::job* j) {
  const auto wake = carrier_of(j)->wake_arguments;
  return wake == nullptr || wake(j, false, any_cell);
}

void surplus_data::rest(exec::job* j) noexcept {
  const auto rests = carrier_of(j)->rest_arguments;
  if (rests != nullptr) rests(j);
}

namespace {

/// An array that a message names, and that its reader has to fetch.
struct named_array {
  sched::shared_data::data what;
  std::uint64_t bytes = 0;
};

// Each as often as it is named. What its maker calls its bytes is said where the reader may wait.
std::vector<named_array> fetched_by(const workbench& on) {
  std::vector<named_array> out;
  for (const spec::reference& one : on.references) {
    const bool is_mapped = one.place.segment != 0;
    const std::uint64_t owner = one.owner.high;
    if (one.kind != spec::reference_kind::array || is_mapped || owner == on.goes_to) continue;
    out.push_back({{owner, one.place.at}, one.place.bytes});
  }
  return out;
}

}  // namespace

bool surplus_data::is_worth_giving(const workbench& on, const exec::job& j,
                                   const sched::overflow_queue& line) {
  sched::moved_data what{.bytes = on.writer.size_bytes()};
  if (!on.references.empty()) {
    const base::time_point now = base::now();
    for (const named_array& one : fetched_by(on)) {
      what.add(one.bytes, shared_.look(one.what, on.goes_to, exec::id_of(j).low, now));
    }
  }
  return sched::is_worth_giving(what, line);
}

void surplus_data::gave(const workbench& on) noexcept {
  if (on.references.empty()) return;
  try {
    const base::time_point now = base::now();
    for (const named_array& one : fetched_by(on)) shared_.gave(one.what, on.goes_to, now);
  } catch (const std::bad_alloc&) {
    return;  // the next one counts as the first, once more
  }
}

// ---- what comes back

// Nothing has been read there: it may go to another one.
void trade::on_refusal(std::uint64_t from, exec::job* j, duration wait) noexcept {
  ++refused_;
  --given_;
  try {
    full_[from] = base::after(sched::rest_after(wait));
  } catch (const std::bad_alloc&) {
    // It is asked again soon.
  }
  if (comes_back(j, false)) exec::submit_again(j);
}

duration trade::too_long_a_wait() noexcept {
  sched::overflow_queue here{in_line_.load() + came_.load(), workers_, duration(task_ns_.load())};
  // The last look may be some time ago: what is in the queues now is worth a look of its own.
  if (sched::refuses({}, here)) {
    here.queued = exec::measure_queues().queued;
    in_line_.store(here.queued);
    came_.store(0);
    if (sched::refuses({}, here)) return sched::wait_of(here);
  }
  came_.fetch_add(1);
  return duration::zero();
}

}  // namespace manta::inline v0::node
