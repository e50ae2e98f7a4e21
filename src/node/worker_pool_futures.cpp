// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <manta/codec/errors.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/delegation.hpp>

#include "base/id_hash.hpp"
#include "node/future_names.hpp"
#include "node/trip.hpp"
#include "node/worker_facts.hpp"
#include "node/worker_hand.hpp"
#include "node/worker_pool.hpp"

// Futures that go to isolated workers and come from them inside of values, seen from the pool:
// future_names.hpp has the story.

namespace manta::inline v0::node {

// A worker waits for a result that the node has, or will have.
struct worker_pool::value_answer : exec::waiter {
  std::weak_ptr<hand> to;
  std::uint64_t number = 0;
  future_names::found of;
};

// Under the mutex: a future that a worker names for the first time; false: it is not its to name.
bool worker_pool::adopt_future(hand& from, const base::id& id, std::uint64_t type) {
  if (id.high != (future_mark | from.unique)) return false;
  const bool is_own = (id.low & own_future) != 0;
  auto asked = is_own ? from.asked.end() : from.asked.find(id.low);
  // What runs in this process's threads has its answer sent as if nobody else knew it.
  if (asked != from.asked.end() && !is_passed(asked->second)) asked = from.asked.end();
  from.has_handles.store(true, std::memory_order_relaxed);
  std::uint32_t& count = from.lent[id];
  if (asked != from.asked.end()) {
    future_names::global().adopt(id, asked->second, type);
    asked->second->hold();
  } else {
    // Answered already, or its own: the result comes.
    const auto [at, is_new] = from.owed.try_emplace(id);
    at->second = make_owed();
    future_names::global().adopt(id, at->second, type);
  }
  count = 1;
  return true;
}

// What futures in a message from the worker are here, kept until the message has had its effect.
// False: nonsense.
bool worker_pool::receive_futures(hand& from, std::span<const spec::reference> came,
                                  future_tray& into) {
  if (came.empty()) return true;
  const std::lock_guard lock(mutex_);
  for (const spec::reference& one : came) {
    const bool is_one = one.kind == spec::reference_kind::future;
    if (!is_one && !is_future(one.what)) continue;
    const bool is_known = is_one && is_future(one.what) &&
                          (from.lent.contains(one.what) || adopt_future(from, one.what, one.type));
    if (!is_known || !future_names::global().has(one.what, one.type)) {
      end_for(from, "a message about a future that it was never given");
      return false;
    }
    into.reserve_one();
    future_names::global().lend(one.what, 1);
    into.put(one.what);
  }
  return true;
}

// A worker sends the result of what is its own.
void worker_pool::on_owed(hand& from, const base::id& id, const wire::result_view& arrived,
                          std::span<const std::byte> frame) {
  passed_job* owed = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const bool is_known = from.lent.contains(id) || adopt_future(from, id, 0);
    if (!is_known) return end_for(from, "the result of a future that is not its own");
    const auto found = from.owed.find(id);
    if (found == from.owed.end()) return;  // it has had one
    owed = found->second;
    from.owed.erase(found);
  }
  const std::uint64_t bits = fill_passed(owed, frame, arrived);
  owed->finish(bits | exec::job_bits::claimed, 1);
}

// The worker is gone, or the runtime ends: what it has not sent never comes.
void worker_pool::forget_owed(hand& of, const error& why) noexcept {
  std::unordered_map<base::id, passed_job*, base::id_hash> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(of.owed);
  }
  for (const auto& [id, owed] : left) {
    if (owed != nullptr) owed->fail(why, 1);  // else memory ended just then
  }
}

// Questions about futures.
void worker_pool::on_future_ask(const std::shared_ptr<hand>& from, std::uint64_t number,
                                const wire::ask_view& asked) {
  const bool is_cancel = asked.what == wire::question::cancel_future;
  cancel_question about;
  if (is_cancel) {
    about = value_of_question<cancel_question>(asked);
  } else {
    const auto value = value_of_question<future_question>(asked);
    about.high = value.high;
    about.low = value.low;
  }
  const base::id id{about.high, about.low};
  {
    const std::lock_guard lock(mutex_);
    if (from->is_dead) return;
    if (!is_future(id) || !from->lent.contains(id)) {
      return end_for(*from, "a question about a future that it was never given");
    }
  }
  auto one = std::make_unique<value_answer>();
  one->of = future_names::global().find(id);
  if (!one->of.job) return;  // it gave the future back meanwhile
  if (is_cancel) {
    const bool is_asked = cancel_named(one->of.job.get(), about.with_children, about.at_once);
    return say_asked(*from, number, is_asked);
  }
  one->to = from;
  one->number = number;
  one->fire = [](exec::waiter* w) noexcept {
    const std::unique_ptr<value_answer> self(static_cast<value_answer*>(w));
    if (const auto alive = self->to.lock()) global().say_value(*alive, self->number, self->of);
  };
  value_answer* const listed = one.release();
  if (!listed->of.job->add_waiter(listed)) listed->fire(listed);
}

void worker_pool::say_asked(hand& to, std::uint64_t number, bool is_asked) {
  const borrowed_workbench on;
  const spec::parcel_view value = codec::encode(on->out, is_asked);
  on->references.clear();
  write_answer(*on, {1, number}, value);
  reply(to, *on);
}

// By whichever thread has made it ready.
void worker_pool::say_value(hand& to, std::uint64_t number,
                            const future_names::found& of) noexcept {
  const neutral_caller nobody;
  try {
    const borrowed_workbench on;
    try {
      if (of.values == nullptr) {
        write_passed_result(*on, passed_job::self(of.job.get()), {1, number});
      } else {
        write_outcome(*on, of.job.get(), *of.values, {1, number});
      }
    } catch (...) {
      return answer_error(to, number, describe_current_exception(of.job->ops->function));
    }
    reply(to, *on);
  } catch (...) {
    refuse_answer(to, {1, number});
  }
}

// ---- delegations in workers, see exec/delegation.hpp

// Under the mutex: what a worker runs, or what is its own; null: that has ended.
exec::job_ref worker_pool::delegator(hand& from, const base::id& id) noexcept {
  exec::job* j = nullptr;
  if (is_future(id)) {
    const auto owed = from.owed.find(id);
    j = owed == from.owed.end() ? nullptr : owed->second;
  } else {
    j = under_way_at(from, id.low);
  }
  if (j == nullptr || j->extra() == nullptr || !j->extra()->is_outside) return exec::job_ref();
  j->hold();
  return exec::job_ref(j);
}

void worker_pool::on_delegation(hand& from, const delegation_note& said) {
  constexpr std::size_t most_early = 4096;
  exec::job_ref of;
  exec::job_ref to;
  {
    const std::lock_guard lock(mutex_);
    if (from.is_dead) return;
    if (is_future(said.to) && !from.lent.contains(said.to)) {
      return end_for(from, "a delegation to a future that it was never given");
    }
    of = delegator(from, said.from);
    if (said.to == base::id{}) {  // its actor ends, and it does not
      tenant* const t = from.lives_here.get();
      const bool is_new = t != nullptr && t->has(said.from.low) &&
                          std::ranges::find(t->late, said.from.low) == t->late.end();
      if (is_new) t->late.push_back(said.from.low);
      return;
    }
    if (is_future(said.to)) {
      to = future_names::global().find(said.to).job;
    } else if (const auto asked = from.asked.find(said.to.low); asked != from.asked.end()) {
      asked->second->hold();
      to = exec::job_ref(asked->second);
    } else {
      // It was answered, or another thread is at it. In the first case this stays: a few bytes.
      if (from.early_delegations.size() >= most_early) from.early_delegations.clear();
      from.early_delegations.emplace(said.to.low, said.from);
    }
  }
  if (of && to) exec::note_delegation(of.get(), to.get());
}

// A call of the worker has come to which others had delegated. With a hold of it.
void worker_pool::note_early_delegations(hand& from, std::uint64_t request, exec::job* j) noexcept {
  for (;;) {
    exec::job_ref of;
    {
      const std::lock_guard lock(mutex_);
      const auto early = from.early_delegations.find(request);
      if (early == from.early_delegations.end()) return;
      of = delegator(from, early->second);
      from.early_delegations.erase(early);
    }
    if (of) exec::note_delegation(of.get(), j);
  }
}

}  // namespace manta::inline v0::node
