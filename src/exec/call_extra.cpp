// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/call_extra.hpp>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>
#include <vector>

#include <manta/exec/cancellation.hpp>
#include <manta/exec/delegation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/observer.hpp>
#include <manta/exec/outside.hpp>
#include <manta/exec/theft.hpp>

namespace manta::inline v0::exec {

namespace {

// A moment after the caller's: so that the caller is the first to end, and its waiters hear of its
// own deadline, not of what it makes of its child's.
base::time_point inherited_deadline() noexcept {
  const base::time_point own = this_thread.current->deadline;
  return is_limited(own) ? own + std::chrono::nanoseconds(1) : own;
}

base::time_point deadline_of(const std::optional<duration>& timeout) noexcept {
  return timeout ? earlier(inherited_deadline(), base::after(*timeout)) : inherited_deadline();
}

void set_name(call_extra& with, const std::optional<std::string>& name) {
  if (name) with.name = std::make_unique<std::string>(*name);
}

call_extra& extra_of(timer_entry* entry) noexcept { return *static_cast<call_extra*>(entry); }

std::unique_ptr<resource_claim> claim_of(const options& asked) {
  const spec::demand what = spec::to_demand(asked);
  const bool asks = !what.is_empty() || asked.where.by != placement::rule::anywhere;
  far_thief* const others = asks ? thief_from_afar.load(std::memory_order_acquire) : nullptr;
  const std::uint64_t to = others != nullptr ? others->place(asked, what) : 0;
  if (to == 0) return resource_gate::claim(what, asked.where, false);
  const bool is_wish = asked.where.is_soft || asked.where.by == placement::rule::spread;
  return resource_gate::claim_elsewhere(what, {to, is_wish});
}

void fill(call_extra& with, const options& asked) {
  with.deadline = deadline_of(asked.timeout);
  set_name(with, asked.name);
  with.claim = claim_of(asked);
  with.retry = asked.retry_exceptions;
  with.retries_left = static_cast<std::uint32_t>(asked.max_retries);
  with.level = asked.priority;
  with.losable = asked.losable;
  with.isolation = asked.isolation;
  with.enforces_memory = asked.enforce_memory;
}

void fill(call_extra& with, const call_options& asked) {
  with.deadline = deadline_of(asked.timeout);
  set_name(with, asked.name);
}

}  // namespace

const extra_source inherited_extra{};
constinit std::atomic<outside*> elsewhere{nullptr};
constinit std::atomic<actor_host*> actors_afar{nullptr};

void make_extra(char* at, const extra_source& from) {
  auto* const with = new (at) call_extra;
  try {
    if (from.task != nullptr) {
      fill(*with, *from.task);
    } else if (from.call != nullptr) {
      fill(*with, *from.call);
    } else {
      with->deadline = inherited_deadline();
    }
  } catch (...) {
    with->~call_extra();
    throw;
  }
}

void drop_extra(char* at) noexcept { reinterpret_cast<call_extra*>(at)->~call_extra(); }

call_extra::call_extra() {
  pin = [](timer_entry* entry) noexcept { return extra_of(entry).of->try_hold(); };
  fire = [](timer_entry* entry) noexcept {
    job* const late = extra_of(entry).of;
    expire_job(late);
    late->drop();
  };
}

call_extra::~call_extra() {
  if (is_limited(deadline)) timer::disarm(*this);
  if (job* const noted = stands_for.load(std::memory_order_relaxed)) noted->drop();
}

void call_extra::ended() noexcept {
  if (is_limited(deadline)) timer::disarm(*this);
  static_cast<void>(forget_delegation(of));
  if (claim != nullptr) claim->release();
}

void call_extra::entry_dropped() noexcept {
  if (claim != nullptr) claim->release();
}

// A worker drops the entry, and with it the arguments: their destructors are the user's.
void call_extra::withdrawn(job* j) noexcept {
  if (claim != nullptr && claim->withdraw()) executor::resume(j);
}

base::deadline limit_of_call(const call_options* with) {
  const base::time_point at = with != nullptr ? deadline_of(with->timeout) : inherited_deadline();
  return is_limited(at) ? base::deadline(at) : base::deadline();
}

void watch_deadline(job* j) {
  call_extra* const with = j->extra();
  if (with == nullptr || !is_limited(with->deadline) || j->is_ready()) return;
  timer::arm(*with, with->deadline);
  if (j->is_ready()) timer::disarm(*with);
}

namespace {

// Who is not let through ends, and those that wait for it are asked next: one inside of the other
// only so deep, for the stack's sake.
struct asking {
  static constexpr int most_depth = 64;
  int depth = 0;
  std::vector<job*> later;
};
thread_local asking ready_now;

void ask_for(job* j, call_extra& with) noexcept {
  outside* const away = with.is_outside ? elsewhere.load(std::memory_order_acquire) : nullptr;
  if (away != nullptr && away->asks_elsewhere) return away->take(j);
  resource_claim* const claim = with.claim.get();
  const bool asks = claim != nullptr && claim->elsewhere.node == 0 && executor::is_running();
  if (asks && !claim->is_settled() && !claim->request(j)) return;
  if (claim != nullptr && claim->elsewhere.node != 0) {
    far_thief* const others = thief_from_afar.load(std::memory_order_acquire);
    return others != nullptr ? others->take_placed(j) : j->ops->cancel(j, ended_error());
  }
  if (away != nullptr && executor::is_running()) return away->take(j);
  if (with.is_outside) return j->ops->cancel(j, ended_error());  // nobody is there to run it
  far_thief* const thief = thief_of_all.load(std::memory_order_acquire);
  if (thief != nullptr && thief->take_all(j)) return;
  executor::resume(j);
}

void ask_in_turn(job* j, call_extra& with) noexcept {
  if (ready_now.depth == asking::most_depth) {
    try {
      return ready_now.later.push_back(j);
    } catch (const std::bad_alloc&) {
      // Deeper, then.
    }
  }
  ++ready_now.depth;
  ask_for(j, with);
  --ready_now.depth;
}

}  // namespace

void ready_task(job* j) noexcept {
  if (j->is_claimed()) {  // withdrawn while it waited
    j->drop_entry();
    return;
  }
  call_extra* const with = j->extra();
  if (with == nullptr) return executor::resume(j);
  ask_in_turn(j, *with);
  while (ready_now.depth == 0 && !ready_now.later.empty()) {
    job* const next = ready_now.later.back();
    ready_now.later.pop_back();
    ready_task(next);
  }
}

bool take_retry(job* j) noexcept {
  call_extra* const with = j->extra();
  if (with == nullptr || !with->may_repeat() || !executor::is_running()) return false;
  if ((j->word() & (job_bits::cancel | job_bits::ready)) != 0) return false;
  auto& failure = *static_cast<error*>(j->slot(1));
  const task_failure* const thrown = failure.failure();
  if (thrown == nullptr || !with->retry.matches(thrown->cause)) return false;
  if (const run_observer* const by = observing()) by->retries(*j, failure);
  failure.~error();
  --with->retries_left;
  ++with->attempt;
  return true;
}

}  // namespace manta::inline v0::exec
