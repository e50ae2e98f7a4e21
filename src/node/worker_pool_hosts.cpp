// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include <manta/base/check.hpp>
#include <manta/codec/errors.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/resource_gate.hpp>
#include <manta/node/carrier.hpp>

#include "node/actor_names.hpp"
#include "node/asked.hpp"
#include "node/guest_actor.hpp"
#include "node/trip.hpp"
#include "node/worker_hand.hpp"
#include "node/worker_pool.hpp"
#include "node/worker_streams.hpp"

// What isolated workers ask for that runs in the node's own threads.
//
// Problem. Where few calls are isolated, the rest is not: what a task in a worker calls, and the
// actors it makes or was given handles of, are the node's as those of any other task are.
//
// Idea. The node makes of such a message the job that the worker would have made of it, by the same
// function's entry, and runs it as any job of its own; when it has ended the result is written to
// who asked. A job that may run once more has its message kept, of which the next run is made.
//
//   message --make_task, make_call--> job --threads--> ended --write_result--> the worker's ring
//
// Everything in the message is a worker's word: the entry is looked up among those of this process,
// and its method or constructor has to be one of that very actor's type.

namespace manta::inline v0::node {

struct worker_pool::hosted : exec::waiter {
  exec::job* job = nullptr;  // with a hold
  std::uint64_t worker = 0;  // who asked, by its unique number
  std::uint64_t request = 0;
  std::unique_ptr<kept_message> task;  // while it may run once more
};

namespace {

// Throws what spec::check does, unknown_function.
options options_here(const wire::task_view& task) {
  if (task.options == nullptr) return {};
  options asked = to_options(*task.options);
  if (task.options->retry_filter != spec::function_id{}) {
    const result<const codec::entry*> found = codec::find(task.options->retry_filter);
    if (!found) found.error().raise();
    asked.retry_exceptions = codec::filter_of(**found);
  }
  if (asked.enforce_memory) spec::check(asked, isolation_mode::threads);
  return asked;
}

// An actor of this process that a worker asked for. Throws as make_guest does.
exec::actor_core* make_resident(const wire::spawn_view& asked) {
  const actor_options with = options_of(asked);
  if (with.enforce_memory) spec::check(with, isolation_mode::threads);
  std::unique_ptr<exec::resource_claim> claim =
      exec::resource_gate::claim(spec::to_demand(with), with.where, true);
  exec::resource_claim* const held = claim.get();
  exec::actor_core* const made = make_core(asked, std::move(claim));
  if (held != nullptr) held->holder = made;
  made->lives_elsewhere(false);
  try {
    made->apply(with);
  } catch (...) {
    drop_core(made);
    throw;
  }
  return made;
}

bool is_away(const wire::spawn_view& asked) { return goes_elsewhere(isolation_of(asked.options)); }

}  // namespace

exec::actor_core* worker_pool::make_asked(const wire::spawn_view& asked) {
  return is_away(asked) ? make_guest(asked) : make_resident(asked);
}

// Whether what came is for this process's threads.
bool worker_pool::is_hosted(hand& from, const wire::message_view& arrived) {
  if (const auto* const task = std::get_if<wire::task_view>(&arrived.body)) {
    // Items come to a worker from another one only.
    if ((arrived.head.request.low & stream_mark) != 0) return false;
    return !goes_elsewhere(isolation_of(task->options));
  }
  if (const auto* const call = std::get_if<wire::call_view>(&arrived.body)) {
    exec::actor_core* const of = actor_names::global().find(call->actor);
    if (of == nullptr) return false;
    const bool is_here = !of->is_elsewhere();
    of->unpin();
    return is_here;
  }
  const auto& spawn = std::get<wire::spawn_view>(arrived.body);
  {
    const std::lock_guard lock(mutex_);
    const auto found = from.reserved.find(spawn.actor);
    if (found != from.reserved.end()) return !found->second->is_elsewhere();
  }
  return !is_away(spawn);
}

// The call for an actor, which it keeps a pin of. Throws as address() does, and as make_call.
exec::actor_core* worker_pool::host_call(hosted& into, const wire::call_view& call) {
  exec::actor_core* const of = actor_names::global().find(call.actor);
  if (of == nullptr) raise(errc::actor_lost, "the actor has ended; the call did not run");
  bool is_admitted = false;
  try {
    is_admitted = of->is_capped() && of->admit_from_afar();
    if (of->is_capped() && !is_admitted) {
      raise(errc::mailbox_full, fmt::format("the mailbox of {} is full; call later, or spawn it "
                                            "with a larger mailbox_cap",
                                            of->shown_name()));
    }
    into.job = make_call(call, of);
    return of;
  } catch (...) {
    if (is_admitted) of->unadmit();
    of->unpin();
    throw;
  }
}

// The actor's one handle is the worker's.
void worker_pool::host_actor(hosted& into, hand& from, const wire::spawn_view& asked) {
  if (asked.actor.high != from.unique) raise(errc::decode_failed, "an actor with another's name");
  exec::actor_core* made = take_reserved(from, asked.actor);
  if (made == nullptr) {
    made = make_resident(asked);
    try {
      welcome(*made, from, asked.actor);
    } catch (...) {
      drop_core(made);
      throw;
    }
  }
  try {
    into.job = make_construction(asked, made);
    into.job->hold();  // the answer's
  } catch (...) {
    abandon_core(*made, describe_current_exception(made->kind().type));
    throw;
  }
}

void worker_pool::host(const std::shared_ptr<hand>& from, std::span<const std::byte> frame,
                       const wire::message_view& arrived) {
  auto made = std::make_unique<hosted>();
  made->worker = from->unique;
  made->request = arrived.head.request.low;
  made->fire = [](exec::waiter* w) noexcept {
    worker_pool::global().answer(static_cast<hosted*>(w));
  };
  exec::actor_core* to = nullptr;
  const auto* const task = std::get_if<wire::task_view>(&arrived.body);
  const auto* const call = std::get_if<wire::call_view>(&arrived.body);
  try {
    if (task != nullptr) {
      const options asked = options_here(*task);
      if (asked.retry_exceptions && asked.max_retries > 0) {
        made->task = std::make_unique<kept_message>(frame, handles_of(arrived));
      }
      const neutral_caller there(task->parent);
      made->job = make_task(*task, &asked);
    } else if (call != nullptr) {
      {
        const std::lock_guard lock(mutex_);
        check_lent(*from, call->actor);
      }
      if ((made->request & stream_mark) != 0) {
        raise(errc::unsupported,
              "a generator of an actor that lives in the driver's threads can't be read in an "
              "isolated worker; spawn the actor with .isolation = processes");
      }
      to = host_call(*made, *call);
    } else {
      host_actor(*made, *from, std::get<wire::spawn_view>(arrived.body));
    }
  } catch (...) {
    answer_error(*from, made->request, describe_current_exception("a call of an isolated worker"));
    return;
  }
  exec::job* const j = made->job;
  const std::uint64_t request = made->request;
  // First, since who knows the job may end it.
  MANTA_CHECK(j->add_waiter(made.release()));
  const bool is_stopped = note_asked(*from, request, j);
  note_early_delegations(*from, request, j);
  if (is_stopped) exec::cancel_job(j, true);
  exec::watch_deadline(j);
  if (to != nullptr) {
    to->send(j, j->ops->origin(j).caller);
    to->unpin();
  } else {
    j->ops->ready(j);
  }
}

// Whether it was asked to stop before it came. Without memory it can't be stopped from there.
bool worker_pool::note_asked(hand& from, std::uint64_t request, exec::job* j) noexcept {
  if (j->extra() == nullptr) return false;  // a construction ends with its actor
  const std::lock_guard lock(mutex_);
  watch_places(from);
  try {
    from.asked[request] = j;
  } catch (const std::bad_alloc&) {
    return false;
  }
  return from.early_stops.erase(request) > 0;
}

// What was asked for has another run.
void worker_pool::note_next(std::uint64_t worker, std::uint64_t request, exec::job* j) noexcept {
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<hand>& one : all_) {
    if (one->unique != worker || one->is_dead) continue;
    const auto found = one->asked.find(request);
    if (found != one->asked.end()) found->second = j;
  }
}

// Whether the exception that it ended with is one of those after which it runs once more. It is on
// its way then, and not this thread's any more.
bool worker_pool::runs_again(hosted& h) noexcept {
  using bits = exec::job_bits;
  exec::job* const j = h.job;
  constexpr std::uint64_t ended_else = bits::aliased | bits::cancel | bits::late;
  if (h.task == nullptr || (j->word() & bits::failed) == 0 || (j->word() & ended_else) != 0) {
    return false;
  }
  const exec::call_extra& with = *j->extra();
  const task_failure* const thrown = j->failure().failure();
  if (thrown == nullptr || !with.may_repeat() || !with.retry.matches(thrown->cause)) return false;
  try {
    const neutral_caller nobody;
    const borrowed_workbench on;
    const result<const wire::message_view&> read = on->reader.read(h.task->frame().bytes());
    MANTA_CHECK(read.has_value());
    const auto& task = std::get<wire::task_view>(read->body);
    options asked = options_here(task);
    asked.max_retries = static_cast<int>(with.retries_left - 1);
    asked.timeout = time_left(with);
    exec::job* const next = make_task(task, &asked);
    next->extra()->attempt = with.attempt + 1;
    const std::uint64_t worker = h.worker;
    const std::uint64_t request = h.request;
    h.job = next;
    MANTA_CHECK(next->add_waiter(&h));
    note_next(worker, request, next);  // from here on others may end it
    j->drop();
    exec::watch_deadline(next);
    next->ops->ready(next);
    return true;
  } catch (...) {
    return false;  // what it ended with is what there is
  }
}

void worker_pool::answer(hosted* h) noexcept {
  if (runs_again(*h)) return;
  const std::unique_ptr<hosted> own(h);
  if (const std::shared_ptr<hand> to = take_asked(own->worker, own->request)) {
    const base::id request{1, own->request};
    try {
      const borrowed_workbench on;
      try {
        write_result(*on, own->job, request, duration::zero());
      } catch (...) {
        write_failure(*on, {1, 1}, request, describe_current_exception(own->job->ops->function));
      }
      reply(*to, *on);
    } catch (...) {
      refuse_answer(*to, request);
    }
  }
  own->job->drop();
}

// Who asked, and does no longer; null: it has died.
std::shared_ptr<worker_pool::hand> worker_pool::take_asked(std::uint64_t worker,
                                                           std::uint64_t request) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(all_, [worker](const std::shared_ptr<hand>& one) {
    return one->unique == worker && !one->is_dead;
  });
  if (found == all_.end()) return nullptr;
  (*found)->asked.erase(request);
  return *found;
}

// ---- a runtime in which few calls are isolated

void worker_pool::offer(const config& settings) {
  const std::lock_guard lock(opening_);
  offered_ = settings;
}

void worker_pool::need() {
  if (is_open()) return;
  const std::lock_guard lock(opening_);
  if (is_open()) return;
  if (!offered_) exec::ended_error().raise();
  if (const result<void> made = zygote::global().start(*offered_); !made) made.error().raise();
  open(*offered_, false);
}

bool goes_elsewhere(std::optional<isolation_mode> asked) {
  const exec::outside* const away = exec::elsewhere.load(std::memory_order_acquire);
  if (away != nullptr && away->asks_elsewhere) return true;
  if (!asked) return away != nullptr && away->takes_all;
  if (*asked == isolation_mode::threads) return false;
  worker_pool::global().need();
  return true;
}

}  // namespace manta::inline v0::node
