// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include <algorithm>
#include <chrono>

#include <manta/base/pause.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/resource_gate.hpp>

#include "node/ring_sleep.hpp"
#include "node/worker_hand.hpp"
#include "node/worker_pool.hpp"

// Threads of the node that wait, and look after all rings meanwhile; and workers that wait.

namespace manta::inline v0::node {

namespace {

using namespace std::chrono_literals;

// Tasks that one worker runs on its stack, each waiting for the next; it has a slot for each.
constexpr std::size_t most_in_place = wire::worker_page::slots - 8;

/// What may begin since cores were lent begins when the lock that was taken after this is free.
struct let_through {
  let_through() = default;
  let_through(const let_through&) = delete;
  let_through& operator=(const let_through&) = delete;
  ~let_through() { exec::resource_gate::start(through); }
  exec::claim_list through;
};

}  // namespace

bool worker_pool::has_news(const std::vector<std::shared_ptr<hand>>& hands) noexcept {
  return std::ranges::any_of(hands, [](const std::shared_ptr<hand>& one) {
    return one->has_message() || one->has_changed();
  });
}

// Returns when something came, `p` was signalled, or at `until`; or sooner.
void worker_pool::sleep_on_rings(exec::parker& p, base::time_point until) noexcept {
  const std::vector<std::shared_ptr<hand>> hands = look();
  const base::time_point now = base::now();
  const bool is_patient = my_view().patience.decide(now);
  if (is_patient) until = std::min<base::time_point>(until, now + sched::patience::longest);
  ring_sleep nap(p);
  for (const auto& one : hands) nap.add(one->up.ring(), is_patient);
  if (!has_news(hands)) nap.sleep(until);
}

// How long a thread that waits looks before it sleeps: not long where workers need the cores.
std::chrono::microseconds worker_pool::spin_time() const noexcept {
  const std::size_t busy = std::min(under_way_.load(std::memory_order_relaxed), target_);
  const auto waiters = static_cast<std::size_t>(pumping_.load(std::memory_order_relaxed));
  return busy + waiters > cores_ ? std::min(spin_, base::always_spin) : spin_;
}

bool worker_pool::sleep(exec::parker& p, const base::deadline& deadline, exec::job* /*awaited*/) {
  constexpr auto longest = 1s;
  let_others_order();
  pumping_.fetch_add(1);
  base::time_point idle_since{};
  bool is_late = false;
  for (std::uint32_t round = 1; !p.is_signalled() && !is_late; ++round) {
    if (pump()) {
      idle_since = {};
      continue;
    }
    base::pause();
    if (round % 16 != 0) continue;
    const base::time_point now = base::now();
    if (idle_since == base::time_point{}) idle_since = now;
    is_late = deadline && now >= *deadline;
    if (is_late) continue;
    if (now - idle_since < spin_time()) {
      if (now - idle_since > base::always_spin)
        sched_yield();  // who is to answer may need this very core
      continue;
    }
    const base::time_point most = now + longest;
    sleep_on_rings(p, deadline ? std::min(*deadline, most) : most);
    idle_since = {};
  }
  pumping_.fetch_sub(1);
  return p.is_signalled();
}

// ---- workers that wait

// Under the mutex. What it has not begun goes to others, in its order.
void worker_pool::take_back(hand& from) noexcept {
  std::array<flight*, wire::worker_page::slots> back{};
  std::size_t count = 0;
  for (flight& f : from.flights) {
    const bool may_come =
        f.number != 0 && f.is_written && from.line.page().is(f.number, wire::slot_state::sent);
    if (may_come) back[count++] = &f;
  }
  std::sort(back.begin(), back.begin() + static_cast<std::ptrdiff_t>(count),
            [](const flight* a, const flight* b) { return a->number > b->number; });
  for (std::size_t i = 0; i < count; ++i) {
    exec::job* const j = back[i]->job;
    try {
      put_pending({j, true}, true);
    } catch (const std::bad_alloc&) {
      return;  // they stay where they are
    }
    if (from.line.page().claim(back[i]->number, wire::slot_state::free)) {
      leave(from, *back[i]);
    } else {
      unqueue(j);  // it has begun
    }
  }
}

// Under the mutex. Tasks that wait below another one on the worker's stack keep nobody from it.
void worker_pool::watch_places(hand& of) noexcept {
  if (of.is_dead || of.is_house()) return;
  roster_.stacked(of.number, of.line.page().stacked.load(std::memory_order_acquire));
}

// Tasks that left the worker's stack give their places to others; and somebody there may wait for
// the answer to an order.
void worker_pool::watch_stack(hand& of) noexcept {
  const std::uint64_t news = of.line.page().news.load(std::memory_order_acquire);
  const std::uint64_t seen = of.seen_news.load(std::memory_order_relaxed);
  if (news == seen) return;
  if (news / wire::worker_page::one_order != seen / wire::worker_page::one_order) hear_orders(&of);
  let_through next;
  const std::lock_guard lock(mutex_);
  if (of.is_dead) return;
  of.seen_news.store(news, std::memory_order_relaxed);
  for (flight& f : of.flights) {
    if (f.number == 0 || !of.line.page().is(f.number, wire::slot_state::done)) continue;
    try {
      flight& left_one = of.off_stack.emplace(f.number, f).first->second;
      // What was sent behind it may have begun by now, and what it uses could not be told apart.
      const bool was_last = of.last_number == f.number;
      const auto& had = of.line.page().had[f.number % of.flights.size()];
      left_one.had = was_last ? had.load(std::memory_order_acquire) : 0;
      // For good: nobody hears when it goes on.
      hand::lend_cores(left_one, true, next.through);
    } catch (const std::bad_alloc&) {
      continue;  // it keeps its place
    }
    const bool is_limited = f.memory_limit > 0;
    free_place(of, f);
    if (!is_limited) continue;
    note_room(of);
    take_back(of);
  }
}

// What others use must not be a suspended task's fault.
bool worker_pool::is_alone(const hand& of) noexcept {
  return std::ranges::any_of(of.off_stack,
                             [](const auto& one) { return one.second.memory_limit > 0; });
}

// Under the mutex: whether it gets tasks may have changed.
void worker_pool::note_room(hand& of) noexcept {
  if (of.is_dead || of.is_house()) return;
  const bool waits =
      of.seen_awaits.load(std::memory_order_relaxed) != wire::worker_page::awaits_nothing;
  roster_.blocked(of.number, of.is_worn || waits || is_alone(of));
}

// A worker began to wait, or went on.
void worker_pool::watch_block(const std::shared_ptr<hand>& of) noexcept {
  const std::uint64_t awaits = of->line.page().awaits.load(std::memory_order_acquire);
  {
    let_through next;
    const std::lock_guard lock(mutex_);
    if (of->is_dead || of->seen_awaits.load(std::memory_order_relaxed) == awaits) return;
    of->seen_awaits.store(awaits, std::memory_order_relaxed);
    const bool waits = awaits != wire::worker_page::awaits_nothing;
    if (!of->is_house()) {
      watch_places(*of);
      note_room(*of);
      if (waits) take_back(*of);
    }
    of->lend_cores(waits, next.through);
  }
  if (of->is_house()) return;  // what it calls is run by others: a crash is its own alone
  if (give_awaited(of, awaits)) of->down.bell();
  dispatch();
}

// What it waits for it may as well run itself, when nobody has begun it.
bool worker_pool::give_awaited(const std::shared_ptr<hand>& to, std::uint64_t awaits) noexcept {
  const std::uint64_t request = wire::worker_page::request_of(awaits);
  if (request == 0 || !wire::worker_page::has_room(awaits) || to->is_house()) return false;
  exec::job* j = nullptr;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = to->asked.find(request);
    if (to->is_dead || found == to->asked.end()) return false;
    j = found->second;
    if (!is_passed_task(j)) return false;  // an actor's calls are run by its own worker
    if (j->extra()->claim != nullptr || roster_.under_way(to->number) >= most_in_place)
      return false;
    if (j->try_claim()) {
      j->hold();  // the entry in pending has the other
    } else if (!unqueue(j) && !take_from_another(j)) {
      return false;
    }
    number = board(*to, j);
  }
  return send_to(to, j, number, true);
}

// Under the mutex: a job that was sent ahead to a worker that has not begun it.
bool worker_pool::take_from_another(const exec::job* j) noexcept {
  const auto [of, f] = find_flight(j);
  if (f == nullptr || !f->is_written) return false;
  if (!of->line.page().claim(f->number, wire::slot_state::free)) return false;
  leave(*of, *f);
  return true;
}

// Under the mutex: takes a claimed job out of those that wait. It was put back there a moment ago,
// so it is one of the first, if it is there.
bool worker_pool::unqueue(const exec::job* j) noexcept {
  constexpr std::ptrdiff_t looked_at = 2 * wire::worker_page::slots;
  auto& line = pending_[static_cast<std::size_t>(j->extra()->level)];
  const auto end = line.begin() + std::min<std::ptrdiff_t>(std::ssize(line), looked_at);
  const auto found =
      std::find_if(line.begin(), end, [j](const waiting& w) { return w.is_claimed && w.job == j; });
  if (found == end) return false;
  line.erase(found);
  --pending_count_;
  return true;
}

}  // namespace manta::inline v0::node
