// SPDX-License-Identifier: Apache-2.0
// What goes to other nodes of itself, and what comes so and is too much: trade.hpp.
#include <algorithm>
#include <new>
#include <vector>

#include <manta/exec/call_extra.hpp>
#include <manta/exec/executor.hpp>

#include "node/desk.hpp"
#include "node/surplus_data.hpp"
#include "node/trade.hpp"

namespace manta::inline v0::node {

namespace {

// Tasks that are looked at for one that goes: those that stay are put back.
constexpr int looks_for_one = 4;

}  // namespace

std::vector<sched::overflow_peer> trade::others(base::time_point at, std::size_t most) {
  std::vector<sched::overflow_peer> out;
  std::size_t full = 0;
  {
    const std::lock_guard lock(mutex_);
    full_.look(at);
    full = full_.size();
  }
  // Each look begins with another node, or all would give to the same ones.
  const std::vector<peers::member> some = open_peers(peers_).some(most + full, chance_.next());
  out.reserve(some.size());
  const std::lock_guard lock(mutex_);
  for (const peers::member& one : some) {
    if (full_.is_resting(one.epoch, at) || out.size() == most) continue;
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
  window_.look(at, offered_, refused_.load());
  surplus_data::global().sweep(at);
  if (now.queued == 0 || !vain_looks_.is_time(at)) return;
  try {
    const sched::overflow_queue here{now.queued, workers_, pace_.task_time()};
    const sched::overflow_settings with{.most = window_.left(offered_)};
    if (with.most == 0 || sched::wait_of(here) < with.threshold) return;
    const auto to = others(at, sched::worth_looking_at(with.most));
    vain_looks_.begin();
    for (const sched::overflow_share& one : sched::spread_overflow(with, here, to)) {
      give(one.node, one.tasks);
    }
    vain_looks_.end(at, chance_);
  } catch (const std::bad_alloc&) {
    // Then they stay, until there is memory again.
  }
}

void trade::give(std::uint64_t to, std::uint64_t tasks) noexcept {
  exec::deque::loot loot;
  std::uint64_t tries = tasks * looks_for_one;
  vain_looks_.turn();
  while (tasks > 0 && tries > 0 && is_open_.load()) {
    const std::size_t n = exec::take_queued(loot);
    if (n == 0) return;
    for (std::size_t i = 0; i < n; ++i) {
      auto* const j = static_cast<exec::job*>(loot[i]);
      tries -= tries > 0 ? 1 : 0;
      const outcome is = tasks > 0 && may_go(*j) ? give_one(to, j) : outcome::stays;
      if (is == outcome::given) {
        --tasks;
        ++offered_;
        vain_looks_.gave();
      } else if (is == outcome::large || is == outcome::waits) {
        if (vain_looks_.stays_for_data()) tasks = 0;
      } else if (tasks > 0) {
        vain_looks_.stays();
      }
      if (is == outcome::full) tasks = 0;
      if (is != outcome::given && is != outcome::gone) exec::submit_again(j);
    }
  }
}

// ---- arrays that it awaits

bool trade::is_granted(const exec::job& j) noexcept {
  const exec::call_extra* const with = j.extra();
  return with != nullptr && with->claim != nullptr && with->claim->elsewhere.is_granted;
}

namespace {

// Whether this node has its amounts, too, be it soon.
bool can_be_had_here(const exec::job& j) {
  const exec::resource_claim& claim = *j.extra()->claim;
  const placement& where = desk::place_of(claim);
  const spec::demand& what = desk::asked_by(claim);
  if (!sched::may_wait_for_them(what, where.by)) return false;
  const std::vector<std::uint64_t> all =
      desk::global().who_gives(what, where, sched::horizon::soon);
  return std::ranges::find(all, 0U) != all.end();
}

}  // namespace

// Of a message that is written. A surplus one is the giver's, and so is the pace.
bool trade::is_worth_moving(const workbench& on, const exec::job& j, bool is_surplus) {
  surplus_data& data = surplus_data::global();
  if (is_surplus) {
    return data.is_worth_giving(on, j, {in_line_.load(), workers_, pace_.task_time()});
  }
  return gives_all_.load() || data.is_worth_sending(on, j, duration(task_ns_.load())) ||
         !can_be_had_here(j);
}

// ---- what comes back

// Nothing has been read there: it may go to another one.
void trade::on_refusal(std::uint64_t from, exec::job* j, const wire::result_view& came) noexcept {
  // Threads that wait for arrays are no matter of other tasks.
  if (came.back == sent_back::line) ++refused_;
  --given_;
  try {
    const std::lock_guard lock(mutex_);
    full_.rest(from, base::after(sched::rest_after(came.ran)));
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
