// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <variant>

#include <manta/exec/actor_core.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/job.hpp>

#include "node/future_names.hpp"
#include "node/guest_actor.hpp"
#include "node/passed_job.hpp"
#include "node/trip.hpp"
#include "node/worker_hand.hpp"
#include "node/worker_pool.hpp"

// What workers ask for that other workers run: a passed_job each, from the message that asks to the
// one that answers. What this process's threads run: worker_pool_hosts.cpp.

namespace manta::inline v0::node {

void worker_pool::on_task(const std::shared_ptr<hand>& from, std::span<const std::byte> frame,
                          const wire::message_view& arrived) {
  if (is_hosted(*from, arrived)) return host(from, frame, arrived);
  const std::uint64_t request = arrived.head.request.low;
  passed_job* j = nullptr;
  bool is_stopped = false;
  bool has_run = true;
  exec::job_ref stood_for;  // by others, since before it came
  try {
    j = make_passed(frame, arrived);
    j->worker = from->unique;
    j->request = request;
    // First, since who knows the job may end it.
    j->answer.of = j;
    j->answer.fire = [](exec::waiter* w) noexcept {
      worker_pool::global().answer(static_cast<passed_job::ending*>(w)->of);
    };
    j->add_waiter(&j->answer);
    const auto* const call = std::get_if<wire::call_view>(&arrived.body);
    if (call != nullptr) address(*j, *from, *call);
    const auto* const spawn = std::get_if<wire::spawn_view>(&arrived.body);
    if (spawn != nullptr) adopt(*j, *from, *spawn);
    const std::lock_guard lock(mutex_);
    if (call != nullptr) check_lent(*from, call->actor);
    watch_places(*from);
    from->asked[request] = j;
    is_stopped = from->early_stops.erase(request) > 0;
    has_run = charge_spent(*j);
    if (from->early_delegations.contains(request)) {
      j->hold();
      stood_for = exec::job_ref(j);
    }
  } catch (...) {
    const error failure = describe_current_exception(passed_job::ops.function);
    if (j != nullptr) {  // it answers by itself
      if (j->actor != nullptr) j->actor->unpin();
      j->try_claim();
      j->fail(failure, 1);
      return;
    }
    return answer_error(*from, request, failure);
  }
  if (stood_for) note_early_delegations(*from, request, j);
  if (is_stopped) exec::cancel_job(j, true);
  if (!has_run) {
    j->withdraw(
        error(errc::worker_lost,
              "a task that an isolated worker asked for ended its worker, and the task that asked, "
              "in each of its runs; mend what ends it, or raise max_retries"));
  }
  exec::watch_deadline(j);
  if (exec::actor_core* const of = j->actor) {
    if (is_passed_call(j)) {
      of->send(j, j->caller);
    } else {
      start_guest(j);
    }
    of->unpin();
    return;
  }
  exec::ready_task(j);
  // It may be awaited since before it came: whoever saw that did not know it then.
  const std::uint64_t awaits = from->line.page().awaits.load(std::memory_order_acquire);
  if (wire::worker_page::request_of(awaits) == request && give_awaited(from, awaits)) {
    from->down.bell();
  }
}

// A task that a worker asked for has ended. Takes over the hold that was the worker's.
void worker_pool::answer(passed_job* j) noexcept {
  std::shared_ptr<hand> to;
  bool is_known = false;  // since before it was answered
  {
    const std::lock_guard lock(mutex_);
    is_known = (j->word() & exec::job_bits::named) != 0;
    const auto found = std::ranges::find_if(all_, [j](const std::shared_ptr<hand>& one) {
      return one->unique == j->worker && !one->is_dead;
    });
    if (found != all_.end()) {
      to = *found;
      to->asked.erase(j->request);
    }
  }
  if (to != nullptr) {
    const base::id request = is_known ? known_request(j->request) : base::id{1, j->request};
    try {
      const borrowed_workbench on;
      write_passed_result(*on, j, request);
      reply(*to, *on);
    } catch (...) {
      refuse_answer(*to, request);
    }
  }
  j->drop();
}

}  // namespace manta::inline v0::node
