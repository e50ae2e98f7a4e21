// SPDX-License-Identifier: Apache-2.0
#include "node/worker_futures.hpp"

#include <exception>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <unistd.h>

#include <manta/codec/errors.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/delegation.hpp>
#include <manta/exec/outside.hpp>
#include <manta/spec/error.hpp>

#include "node/future_names.hpp"
#include "node/trip.hpp"

namespace manta::inline v0::node {

namespace {

std::atomic<worker_futures*> futures_here{nullptr};

// There is no memory to say what the node waits for.
[[noreturn]] void vanish() noexcept { _exit(0); }

}  // namespace

// A result that is sent when it is there.
struct worker_futures::owed : exec::waiter {
  worker_futures* by = nullptr;
  exec::job_ref of;
  const carrier* values = nullptr;
  base::id id;
};

worker_futures* worker_futures::here() noexcept {
  return futures_here.load(std::memory_order_acquire);
}

worker_futures::worker_futures(const seat& at) noexcept : at_(at) {
  static const exec::named_jobs hooks{
      .wanted = [](exec::job* j) noexcept { here()->wanted(j); },
      .looked_at =
          [] {
            exec::parker nap;
            exec::elsewhere.load(std::memory_order_acquire)->sleep(nap, base::now(), nullptr);
          },
      .cancel = [](exec::job* j,
                   const exec::far_cancel& how) noexcept { return here()->cancel(j, how); },
      .delegates = [](exec::job* from, exec::job* to) noexcept { here()->delegates(from, to); },
      .behind = [](exec::job* /*image*/) noexcept -> exec::job* { return nullptr; },
      .taken = [](exec::job* j) noexcept { return here()->taken(j); },
      .gone = [](exec::job* j) noexcept { here()->gone(j); },
      .unrecorded = [](exec::job* /*j*/) noexcept {}};
  futures_here.store(this, std::memory_order_release);
  exec::knows_names.store(&hooks);
}

base::id worker_futures::name(exec::job* j, const carrier* values) {
  const std::uint64_t request = at_.request_of(at_.to, j);
  base::id id;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = by_job_.find(j); known != by_job_.end()) return known->second.id;
    id = {future_mark | at_.worker, request != 0 ? request : own_future | ++last_};
    by_id_[id] = j;
    try {
      by_job_[j] = {.id = id, .values = values, .is_asked = request != 0};
    } catch (...) {
      by_id_.erase(id);
      throw;
    }
    at_.keeps_order->store(1, std::memory_order_relaxed);
    j->set(exec::job_bits::named);
  }
  // It may have been answered meanwhile, by a node that had not heard of the name.
  if (request == 0 || at_.request_of(at_.to, j) != request) owe(j);
  if (request == 0) tell_what_it_is(j, id);
  return id;
}

// Somebody else has got a name for what may stand for another one, or be a call that was not sent.
void worker_futures::tell_what_it_is(exec::job* j, const base::id& own) {
  exec::tell_delegation_of(j);
  const exec::call_extra* const with = j->extra();
  if (with == nullptr || !with->is_outside || j->is_ready()) return;
  say({own, {0, request_or_wish(j)}});
}

exec::job* worker_futures::borrow(const base::id& id, exec::job* (*make)()) {
  exec::job* found = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto known = by_id_.find(id);
    if (known != by_id_.end() && known->second->try_hold()) {
      found = known->second;
      if (arrived_handles::take(id)) ++by_job_.find(found)->second.came;
      return found;
    }
    if (!arrived_handles::take(id)) return nullptr;
    found = make();
    found->set(exec::job_bits::named | exec::job_bits::unasked);
    by_id_[id] = found;
    by_job_[found] = {.id = id};
  }
  return found;
}

void worker_futures::answered(exec::job* j, bool is_known) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto known = by_job_.find(j);
    if (known == by_job_.end() || !std::exchange(known->second.is_asked, false)) return;
  }
  if (!is_known) owe(j);
}

void worker_futures::owe(exec::job* j) noexcept {
  std::unique_ptr<owed> one(new (std::nothrow) owed);
  if (one == nullptr) vanish();
  {
    const std::lock_guard lock(mutex_);
    note& of = by_job_.find(j)->second;
    if (std::exchange(of.is_owed, true)) return;
    one->values = of.values;
    one->id = of.id;
  }
  j->hold();
  one->by = this;
  one->of = exec::job_ref(j);
  one->fire = [](exec::waiter* w) noexcept {
    const std::unique_ptr<owed> self(static_cast<owed*>(w));
    self->by->send_result(self->of.get(), *self->values, self->id);
  };
  owed* const listed = one.release();
  if (!j->add_waiter(listed)) listed->fire(listed);
}

// A result may hold futures whose results go likewise: one after another, since each in the other
// would take the stack.
void worker_futures::send_result(exec::job* j, const carrier& values, const base::id& id) noexcept {
  struct todo {
    exec::job_ref of;
    const carrier* values;
    base::id id;
  };
  static thread_local std::vector<todo>* under_way = nullptr;
  j->hold();
  todo first{exec::job_ref(j), &values, id};
  try {
    if (under_way != nullptr) {
      under_way->push_back(std::move(first));
      return;
    }
    std::vector<todo> all;
    all.push_back(std::move(first));
    under_way = &all;
    while (!all.empty()) {
      const todo next = std::move(all.back());
      all.pop_back();
      const borrowed_workbench on;
      try {
        write_outcome(*on, next.of.get(), *next.values, next.id);
      } catch (...) {
        write_failure(*on, {1, 1}, next.id, describe_current_exception(next.of->ops->function));
      }
      at_.send(at_.to, *on);
    }
    under_way = nullptr;
  } catch (...) {
    vanish();
  }
}

base::id worker_futures::id_of(const exec::job* j) noexcept {
  const std::lock_guard lock(mutex_);
  const auto known = by_job_.find(j);
  return known == by_job_.end() ? base::id{} : known->second.id;
}

void worker_futures::wanted(exec::job* j) noexcept {
  const base::id id = id_of(j);
  j->hold();  // the answer's
  try {
    at_.questions->ask_raw(wire::question::future_value, future_question{id.high, id.low},
                           [j](const wire::result_view& came) {
                             const std::uint64_t bits = fill_slot(j, came);
                             j->finish(bits | exec::job_bits::claimed, 1);
                           });
  } catch (...) {
    const std::uint64_t bits =
        fill_slot(j, describe_current_exception("a future of another process"));
    j->finish(bits | exec::job_bits::claimed, 1);
  }
}

bool worker_futures::cancel(exec::job* j, const exec::far_cancel& how) noexcept {
  const base::id id = id_of(j);
  if (id.high == (future_mark | at_.worker) && (id.low & own_future) != 0) return false;
  const cancel_question asked{id.high, id.low, how.with_children, how.at_once};
  try {
    if (how.waits) return at_.questions->ask_now<bool>(wire::question::cancel_future, asked);
    at_.questions->ask_raw(wire::question::cancel_future, asked,
                           [](const wire::result_view& /*came*/) {});
    return true;
  } catch (...) {
    return false;
  }
}

// What the node calls a job here that may stand for another one's; zero: it knows none.
base::id worker_futures::delegator(const exec::job* j) noexcept {
  const exec::call_extra* const with = j->extra();
  if (with != nullptr && with->number != 0) return {0, with->number};
  if ((j->word() & exec::job_bits::named) == 0) return {};
  const base::id own = id_of(j);
  return own.high == (future_mark | at_.worker) ? own : base::id{};
}

void worker_futures::delegates(exec::job* from, exec::job* to) noexcept {
  delegation_note said{.from = delegator(from), .to = {}};
  if (said.from == base::id{}) return;
  try {
    if ((to->word() & exec::job_bits::named) != 0) {
      said.to = id_of(to);
    } else if (to->extra() != nullptr && to->extra()->is_outside) {
      said.to = {0, request_or_wish(to)};
    }
    say(said);
  } catch (const std::bad_alloc&) {
    // A ring is not found then.
  }
}

void worker_futures::say(const delegation_note& said) {
  if (said.to == base::id{}) return;  // nobody knows it
  at_.keeps_order->store(1, std::memory_order_relaxed);
  at_.questions->tell_of(wire::question::delegation, said);
}

// 0: it has no number yet, and who gives it one says to the node what this is asked for.
std::uint64_t worker_futures::request_or_wish(exec::job* j) {
  constexpr std::size_t most = 65536;  // some are never sent, since they fail before
  {
    const std::lock_guard lock(mutex_);
    if (not_sent_.size() >= most) not_sent_.clear();
    not_sent_.insert(j);
    has_not_sent_.store(true, std::memory_order_relaxed);
  }
  // Who gives it one now sees that, or is seen here.
  const std::uint64_t request = at_.request_of(at_.to, j);
  if (request != 0) static_cast<void>(is_wished(j));
  return request;
}

bool worker_futures::is_wished(exec::job* j) noexcept {
  if (!has_not_sent_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(mutex_);
  const bool was = not_sent_.erase(j) > 0;
  if (not_sent_.empty()) has_not_sent_.store(false, std::memory_order_relaxed);
  return was;
}

void worker_futures::sent(exec::job* j, std::uint64_t request) noexcept {
  exec::tell_delegations_to(j);
  const base::id own = delegator(j);
  if (own == base::id{} || (own.low & own_future) == 0) return;
  try {
    say({own, {0, request}});
  } catch (const std::bad_alloc&) {
    // A ring is not found then.
  }
}

bool worker_futures::taken(exec::job* j) noexcept {
  const std::lock_guard lock(mutex_);
  const auto known = by_job_.find(j);
  if (known == by_job_.end()) return true;
  if (!j->is_unique()) return false;
  const auto at = by_id_.find(known->second.id);
  if (at != by_id_.end() && at->second == j) by_id_.erase(at);
  return true;
}

void worker_futures::gone(exec::job* j) noexcept {
  note was;
  {
    const std::lock_guard lock(mutex_);
    const auto known = by_job_.find(j);
    if (known == by_job_.end()) return;
    was = known->second;
    by_job_.erase(known);
    // Another job may have the id by now.
    const auto at = by_id_.find(was.id);
    if (at != by_id_.end() && at->second == j) by_id_.erase(at);
  }
  at_.give_back(at_.to, was.id, was.came);
}

}  // namespace manta::inline v0::node
