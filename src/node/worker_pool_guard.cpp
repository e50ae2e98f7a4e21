// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <manta/exec/actor_core.hpp>
#include <manta/exec/call_extra.hpp>

#include "node/crash_note.hpp"
#include "node/output_lines.hpp"
#include "node/worker_hand.hpp"
#include "node/worker_pool.hpp"

// What the node does beside the tasks: it shows what workers print, measures what they use, and
// lets those go that are too many, worn or too large.

namespace manta::inline v0::node {

void worker_pool::open_output(const config& settings) {
  if (settings.worker_output == output_mode::plain) return;
  output_.open([this](std::uint64_t worker) { return speaker_of(worker); });
}

// Text comes before the result of the task that printed it.
void worker_pool::settle_text(hand& of, std::uint64_t number) noexcept {
  if (of.prints == nullptr) return;
  const std::uint64_t printed = of.line.page().printed.load(std::memory_order_acquire);
  if (printed == of.prints->seen.load(std::memory_order_acquire) && !of.prints->is_unsettled()) {
    return;
  }
  output_.settle(*of.prints, number);
  of.prints->seen.store(printed, std::memory_order_release);
}

namespace {

// Each some 20 ms after the one before.
constexpr int looks_before_it_goes = 10;

std::string name_of(const exec::job& j) {
  const exec::call_extra& with = *j.extra();
  if (with.name != nullptr) return *with.name;
  return speaker_name(is_passed(&j) ? passed_name(static_cast<const passed_job&>(j))
                                    : readable_name(j.ops->function));
}

}  // namespace

// Under the mutex: the task that runs there, or the only one that is suspended.
worker_output::speaker worker_pool::speaker_at(hand& of) {
  const wire::worker_page& page = of.line.page();
  worker_output::speaker out;
  out.pid = of.pid != 0 ? of.pid : page.pid.load(std::memory_order_relaxed);
  if (of.lives_here != nullptr) {
    out.name = speaker_name(of.lives_here->core->shown_name());
    return out;
  }
  const flight* top = nullptr;
  for (const flight& f : of.flights) {
    const bool runs = f.number != 0 && page.is(f.number, wire::slot_state::running);
    if (runs && (top == nullptr || f.number > top->number)) top = &f;
  }
  if (top == nullptr && of.off_stack.size() == 1) top = &of.off_stack.begin()->second;
  if (top == nullptr) return out;
  out.number = top->number;
  out.name = name_of(*top->job);
  return out;
}

worker_output::speaker worker_pool::speaker_of(std::uint64_t worker) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      all_, [worker](const std::shared_ptr<hand>& one) { return one->unique == worker; });
  if (found == all_.end()) return {};
  (*found)->line.page().prints.store(1, std::memory_order_relaxed);
  return speaker_at(**found);
}

// ---- workers that go

// A worker has nothing to do, and another one is busy for long with tasks behind it. Or none has
// nothing to do, but the others wait or have died: then there is another one first.
void worker_pool::help_idle() noexcept {
  bool is_one_missing = false;
  {
    const std::lock_guard lock(mutex_);
    const std::size_t idle = roster_.idle();
    const std::size_t loaded = roster_.most_loaded();
    for (const auto& one : hands_) {
      if (one == nullptr) continue;
      const bool is_slow = one->results == std::exchange(one->results_at_tick, one->results);
      if (!is_slow || one->number != loaded || has_pending()) continue;
      if (idle != sched::roster::nobody) take_back(*one);
      // One that has not begun yet is about to: who takes its tasks away then gets no further.
      const bool is_busy = std::ranges::any_of(one->flights, [&one](const flight& f) {
        return f.number != 0 && one->line.page().is(f.number, wire::slot_state::running);
      });
      is_one_missing = is_busy && idle == sched::roster::nobody && roster_.wants_worker();
    }
    if (is_closing_.load(std::memory_order_relaxed)) return;
  }
  if (is_one_missing) add_worker();
}

void worker_pool::let_surplus_go() noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t surplus = roster_.surplus();
  if (surplus == sched::roster::nobody) return;
  const std::shared_ptr<hand> one = hands_[surplus];
  if (one == nullptr || one->is_let_go || !one->off_stack.empty()) return;
  if (!one->asked.empty() || !one->owed.empty()) return;
  const bool is_quiet = one->results == std::exchange(one->results_at_look, one->results);
  one->quiet_looks = is_quiet ? one->quiet_looks + 1 : 0;
  if (one->quiet_looks < looks_before_it_goes) return;
  roster_.blocked(one->number, true);  // it gets nothing more
  let_go(*one);
}

// Under the mutex. Values of what has ended may still be being destroyed there, so it is not killed
// before enforce_stops() does.
void worker_pool::let_go(hand& of) noexcept {
  of.is_let_go = true;
  of.leave_asked = grace_.asked(base::now());
  say_order(of, {worker_order::kind::leave});
}

// Under the mutex. What it has ends there, or, where it has not begun, goes to others.
void worker_pool::wear_out(hand& of, bool gives_back) noexcept {
  if (gives_back) take_back(of);
  if (of.is_worn) return;
  of.is_worn = true;
  roster_.blocked(of.number, true);
}

void worker_pool::let_worn_go() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& one : hands_) {
    if (one == nullptr || !one->is_worn || one->is_let_go) continue;
    const bool is_empty = roster_.under_way(one->number) == 0 && one->off_stack.empty();
    if (is_empty && one->asked.empty() && one->owed.empty()) let_go(*one);
  }
}

void worker_pool::set_limits(const config& settings) {
  const std::lock_guard lock(mutex_);
  limits_ = {.tasks = static_cast<std::size_t>(settings.worker_tasks),
             .grown_bytes = settings.worker_recycle_bytes,
             .memory_bytes = settings.worker_memory_bytes};
  next_measure_ = {};
}

namespace {

std::string shown_user(const worker_output::speaker& one, std::uint64_t worker) {
  return one.name.empty() ? fmt::format("worker {}, pid {}", worker, one.pid)
                          : fmt::format("{} (worker {}, pid {})", one.name, worker, one.pid);
}

}  // namespace

// By the collector. A worker that is to be ended gives back what it has not begun first: so nothing
// else begins there meanwhile, and only what runs can have cost it its life.
void worker_pool::guard_memory() noexcept {
  constexpr auto between = std::chrono::milliseconds(250);
  const bool has_limits = limits_.measures_memory() || limited_.load() > 0;
  if (!has_limits || base::now() < next_measure_) return;
  next_measure_ = base::after(between);
  try {
    const std::vector<std::shared_ptr<hand>> all = look();
    std::vector<memory_use> used;
    std::vector<sched::memory_user> users;
    used.reserve(all.size());
    users.reserve(all.size());
    for (const auto& one : all) {
      used.push_back(memory_use_of(one->line.page().pid.load(std::memory_order_relaxed)));
    }
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < all.size(); ++i) {
      users.push_back({shown_user(speaker_at(*all[i]), all[i]->unique), used[i].resident});
    }
    for (std::size_t i = 0; i < all.size(); ++i) judge_memory(*all[i], used[i], users);
  } catch (const std::bad_alloc&) {
    // The next look.
  }
}

// Under the mutex. Of several tasks with a limit in one worker, which all but one are suspended,
// the one that is furthest past its own.
sched::worker_limits::measure worker_pool::measure(hand& of, const memory_use& used) {
  sched::worker_limits::measure out{.resident_bytes = used.resident};
  const wire::worker_page& page = of.line.page();
  const auto look_at = [&](std::int64_t limit, std::int64_t had) {
    if (limit <= 0 || had <= 0) return;
    const std::int64_t own = used.own - had;
    if (out.own_limit > 0 && own - limit <= out.own_bytes - out.own_limit) return;
    out.own_bytes = own;
    out.own_limit = limit;
  };
  if (of.lives_here != nullptr) {
    out.has_actor = out.is_busy = true;
    look_at(of.lives_here->core->memory_limit(), page.actor_had.load(std::memory_order_acquire));
    return out;
  }
  out.is_busy = speaker_at(of).number != 0 || !of.off_stack.empty();
  for (std::size_t i = 0; i < of.flights.size(); ++i) {
    const flight& f = of.flights[i];
    if (f.number == 0 || !page.is(f.number, wire::slot_state::running)) continue;
    look_at(f.memory_limit, page.had[i].load(std::memory_order_acquire));
  }
  for (const auto& [number, f] : of.off_stack) look_at(f.memory_limit, f.had);
  return out;
}

// Under the mutex.
void worker_pool::judge_memory(hand& one, const memory_use& used,
                               const std::vector<sched::memory_user>& users) {
  if (one.is_dead || one.is_let_go || !one.why.empty()) return;
  if (one.is_house() && one.lives_here == nullptr) return;  // it has no tasks to be kept from
  const sched::worker_limits::measure found = measure(one, used);
  const auto todo = limits_.judge(found);
  if (todo == sched::worker_limits::verdict::keep) return;
  if (!one.is_house()) wear_out(one, true);
  if (todo != sched::worker_limits::verdict::end) return;
  one.why = limits_.describe(found, users);
  zygote::global().kill(one.unique);
}

// What ended a worker, for people.
std::string worker_pool::how_it_ended(hand& of, int status) {
  const std::lock_guard lock(mutex_);
  if (!of.why.empty()) return of.why;
  return describe_end(status) + describe_crash(of.line.page(), zygote::global().image());
}

}  // namespace manta::inline v0::node
