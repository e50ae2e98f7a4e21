// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/actor_core.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <manta/exec/block_pool.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/observer.hpp>
#include <manta/exec/outside.hpp>
#include <manta/exec/resource_gate.hpp>

#include "actor_state.hpp"

// An actor's life: handles, names, the ways to end, and who is told. See the story in
// actor_core.hpp.

namespace manta::inline v0::exec {

void execute_actor(job* self) noexcept { static_cast<actor_core*>(self)->drain(); }
void cancel_actor(job* self, const error& reason) noexcept {
  static_cast<actor_core*>(self)->abandon(reason);
}

namespace {

const job_ops activation_ops = {
    .execute = execute_actor,
    .run = nullptr,
    .ready = nullptr,
    .cancel = cancel_actor,
    .drop_arguments = nullptr,
    .drop_value = nullptr,
    .alias = nullptr,
    .origin = nullptr,
    .size = 0,
    .front = 0,
    .in_place = false,
    .function = "actor",
    .function_hash = 0,
};

}  // namespace

actor_core::actor_core(const actor_ops* kind)
    : job(&activation_ops, 1), kind_(kind), is_elsewhere_(sends_all()) {
  registry::global().add(this);
}

actor_core::~actor_core() {
  rare_state* const r = rare();
  if (r == nullptr) return;
  while (end_watcher* const w = r->watchers) {  // only of an actor whose end had no memory to tell
    r->watchers = w->next;
    w->give_up(w);
  }
  delete r;
}

rare_state& actor_core::make_rare() {
  if (rare_state* const r = rare()) return *r;
  auto made = std::make_unique<rare_state>();
  rare_state* expected = nullptr;
  if (rare_.compare_exchange_strong(expected, made.get(), std::memory_order_seq_cst)) {
    return *made.release();
  }
  return *expected;
}

std::string actor_core::shown_name() const {
  const rare_state* const r = rare();
  return r != nullptr && !r->name.empty() ? r->name : readable_name(kind_->type);
}

// Handles and pins.

void actor_core::unpin() noexcept {
  if (pins_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::size_t size = kind_->size;
  if (kind_->forget != nullptr) kind_->forget(this);
  this->~actor_core();
  free_block(this, size);
}

void actor_core::drop_handle() noexcept {
  dropped(handles_.fetch_sub(1, std::memory_order_acq_rel));
}

void actor_core::drop_others() noexcept {
  std::uint32_t old = handles_.load(std::memory_order_relaxed);
  while (
      !handles_.compare_exchange_weak(old, (old - 1) & ~others_going, std::memory_order_acq_rel)) {
  }
  dropped(old);
}

void actor_core::others_go(bool do_they) noexcept {
  if (do_they) {
    handles_.fetch_or(others_going, std::memory_order_acq_rel);
  } else {
    handles_.fetch_and(~others_going, std::memory_order_acq_rel);
  }
}

void actor_core::note_unwanted(bool is) noexcept {
  if (is) {
    gate_.fetch_or(gate_unwanted, std::memory_order_acq_rel);
  } else {
    gate_.fetch_and(~gate_unwanted, std::memory_order_acq_rel);
  }
}

// A handle went; what there was before.
void actor_core::dropped(std::uint32_t old) noexcept {
  if ((old & ~(end_queued | others_going)) != 1) return;
  // A method may have made a handle since, or the mail be on its way: its finder looks again.
  std::uint32_t none = 0;
  if ((old & end_queued) == 0 &&
      handles_.compare_exchange_strong(none, end_queued, std::memory_order_acq_rel)) {
    push(this);  // a thread that is new here joins in resume
  }
  unpin();
}

bool actor_core::try_add_handle(bool heeds_others) noexcept {
  const std::uint32_t refusing = gate_refusing | (heeds_others ? gate_unwanted : 0);
  if ((gate_.load(std::memory_order_acquire) & refusing) != 0 ||
      life_.load(std::memory_order_acquire) >= phase::over) {
    return false;
  }
  std::uint32_t old = handles_.load(std::memory_order_relaxed);
  do {
    const std::uint32_t going = heeds_others && (old & others_going) != 0 ? 1 : 0;
    if ((old & ~(end_queued | others_going)) <= going) return false;
  } while (!handles_.compare_exchange_weak(old, old + 1, std::memory_order_acq_rel));
  return true;
}

void actor_core::add_handle_inside() noexcept {
  pin();
  const std::uint32_t old = handles_.fetch_add(1, std::memory_order_acq_rel);
  if ((old & ~end_queued) != 0) unpin();  // the handles have their pin already
}

void actor_core::discard() noexcept {
  static_cast<void>(claim_start());
  end_life();
  if (actor_host* const away = is_afar_ ? host() : nullptr) away->kill(this);  // it forgets it
  unpin();
  drop_handle();
}

// Ends.

bool actor_core::claim_start() noexcept {
  phase expected = phase::starting;
  return life_.compare_exchange_strong(expected, phase::alive, std::memory_order_acq_rel);
}

// An end that nobody asked for. False: one was asked for meanwhile.
bool actor_core::lose(end_reason why, error told) noexcept {
  static const error no_memory = error::out_of_memory();
  const error* lost = &no_memory;
  std::unique_lock<std::mutex> lock;
  try {
    rare_state& r = make_rare();
    lock = std::unique_lock(r.life_mutex);
    if (is_stopping()) return false;
    r.stopped.emplace(std::move(told));
    lost = &*r.stopped;
  } catch (const std::bad_alloc&) {
    // The calls fail with that instead.
  }
  reason_ = why;
  lost_.store(lost, std::memory_order_release);
  gate_.fetch_or(gate_refusing, std::memory_order_acq_rel);
  stop_.store(true, std::memory_order_seq_cst);
  return true;
}

void actor_core::construction_failed(const error& reason) noexcept {
  error told = error::out_of_memory();
  try {
    told = error(errc::actor_lost,
                 fmt::format("the constructor of {} failed: {}", shown_name(), reason.message()));
  } catch (const std::bad_alloc&) {
    // That instead.
  }
  lose(end_reason::constructor_failed, std::move(told));
}

void actor_core::kill() { stop_now(end_reason::killed); }
void actor_core::exit() { stop_now(end_reason::exited); }

// The story's killer. What waits fails at once, on this thread; the object ends on a worker.
void actor_core::stop_now(end_reason why) {
  rare_state& r = make_rare();
  error told(errc::actor_lost,
             why == end_reason::killed
                 ? fmt::format("the actor {} was killed; the call did not run", shown_name())
                 : fmt::format("the actor {} has left (this_actor::exit); the call did not run",
                               shown_name()));
  std::unique_lock lock(r.life_mutex);
  if (is_stopping() || life_.load(std::memory_order_acquire) >= phase::over) return;
  r.stopped.emplace(std::move(told));
  reason_ = why;
  lost_.store(&*r.stopped, std::memory_order_release);
  gate_.fetch_or(gate_refusing, std::memory_order_acq_rel);
  stop_.store(true, std::memory_order_seq_cst);
  heavy_barrier();
  job* waiting = nullptr;
  if (running_.load(std::memory_order_acquire) != nullptr) {
    waiting = backlog_.exchange(nullptr, std::memory_order_acq_rel);
  }
  phase starting = phase::starting;
  const bool is_early = life_.compare_exchange_strong(starting, phase::over);
  job* const newest = inbox_.exchange(closed_mark(), std::memory_order_acq_rel);
  std::vector<job_ref> running =
      why == end_reason::killed ? running_calls() : std::vector<job_ref>{};
  lock.unlock();
  for (const job_ref& j : running) request_stop(j.get(), true);
  actor_host* const away = host();
  if (away != nullptr) away->kill(this);
  running.clear();  // users that wait for them find nobody else in the way
  fail_lost(waiting);
  if (has_lanes_) fail_lost(r.lanes->take_waiting());
  if (newest != idle_mark() && newest != closed_mark()) fail_lost(in_order(newest));
  open_places();
  fail_held();
  if (is_early) {
    leave_line();
    dispose();
  } else if (newest == idle_mark()) {
    schedule();
  }
}

// It was killed before it began: it may still wait for what it asked for. A worker drops the
// construction, and with it the arguments.
void actor_core::leave_line() noexcept {
  resource_claim* const asked = kind_->claim != nullptr ? kind_->claim(this) : nullptr;
  if (asked != nullptr && asked->withdraw()) executor::resume(asked->asked_by());
}

void actor_core::retire() {
  rare_state& r = make_rare();
  error told(errc::actor_lost,
             fmt::format("the actor {} was retired and takes no more calls", shown_name()));
  {
    const std::lock_guard lock(r.life_mutex);
    if (r.retired || is_stopping() || life_.load(std::memory_order_acquire) >= phase::over) return;
    r.retired.emplace(std::move(told));
    lost_.store(&*r.retired, std::memory_order_release);
  }
  const std::uint32_t gate = gate_.fetch_or(gate_refusing, std::memory_order_acq_rel);
  if ((gate & gate_held) == 0 && push_final()) schedule();
}

// Pushes the mail of a retired actor's end, unless the core is in the mailbox already: who finds
// that comes back here. True: the caller has to schedule the actor.
bool actor_core::push_final() noexcept {
  if ((handles_.fetch_or(end_queued, std::memory_order_acq_rel) & end_queued) != 0) return false;
  rare()->final_pushed = true;  // passes with the mail to its finder
  return insert(this) == arrival::first;
}

// The core was found in the mailbox; what came after it is in backlog_. Ended: it must not be
// touched again.
actor_core::verdict actor_core::at_end_mail() noexcept {
  if (is_stopping()) {
    stopped(nullptr);
    return verdict::ended;
  }
  rare_state* const r = rare();
  const bool is_final = r != nullptr && r->final_pushed;
  if (is_final || (handles_.load(std::memory_order_acquire) & ~end_queued) == 0) {
    const bool has_more = backlog_.load(std::memory_order_relaxed) != nullptr ||
                          inbox_.load(std::memory_order_relaxed) != nullptr;
    if (has_more && !is_final) {
      // A method's handle sent more and went: those calls come first.
      static_cast<void>(insert(this));
      return verdict::goes_on;
    }
    come_to_rest(is_final ? leaving::retired : leaving::unneeded);
    return verdict::ended;
  }
  // Void: a method made a handle meanwhile. When that went, too, its dropper left the end to us.
  const std::uint32_t old = handles_.fetch_and(~end_queued, std::memory_order_acq_rel);
  std::uint32_t none = 0;
  if ((old & ~end_queued) == 0 &&
      handles_.compare_exchange_strong(none, end_queued, std::memory_order_acq_rel)) {
    static_cast<void>(insert(this));
    return verdict::goes_on;
  }
  const std::uint32_t gate = gate_.load(std::memory_order_acquire);
  if ((gate & gate_refusing) != 0 && (gate & gate_held) == 0) static_cast<void>(push_final());
  return verdict::goes_on;
}

void actor_core::wait_for_killer() noexcept {
  // Its constructor failed with no memory: nobody killed it.
  rare_state* const r = rare();
  if (r != nullptr) const std::lock_guard lock(r->life_mutex);
}

// The runner saw stop_ before `current` ran (null: after it had): waits until the killer is done
// and puts the call in front of what he left.
void actor_core::rejoin(job* current) noexcept {
  wait_for_killer();
  running_.store(nullptr, std::memory_order_relaxed);
  if (current == nullptr) return;
  current->link() = backlog_.load(std::memory_order_relaxed);
  backlog_.store(current, std::memory_order_relaxed);
}

// The runner ends a stopped actor, when no call runs any more.
void actor_core::stopped(job* current) noexcept {
  rejoin(current);
  fail_lost(backlog_.exchange(nullptr, std::memory_order_acq_rel));
  if (has_lanes_) {
    fail_lost(rare()->lanes->take_waiting());
    if (!are_lanes_over(lane_end::stopped)) return;  // the last lane comes back here
  }
  come_to_rest(leaving::stopped);
}

// By who has the turn: the end, or what has to come before it.
void actor_core::come_to_rest(leaving how) noexcept {
  actor_host* const away = host();
  if (away != nullptr && away->leave(this, how)) return;
  end_life();
}

// True for one: the life ends by it.
bool actor_core::claim_end() noexcept {
  phase now = life_.load(std::memory_order_acquire);
  while (now < phase::over) {
    if (life_.compare_exchange_weak(now, phase::over, std::memory_order_acq_rel)) return true;
  }
  return false;
}

// By who runs the actor, when no call runs. Of an actor elsewhere that may be any caller's thread,
// and the runtime's end comes between.
void actor_core::end_life() noexcept {
  bool is_ours = false;
  if (rare_state* const r = rare()) {
    const std::lock_guard lock(r->life_mutex);
    is_ours = claim_end();
  } else {
    is_ours = claim_end();
  }
  fail_lost(backlog_.exchange(nullptr, std::memory_order_acq_rel));
  job* const newest = inbox_.exchange(closed_mark(), std::memory_order_acq_rel);
  if (newest != idle_mark() && newest != closed_mark()) fail_lost(in_order(newest));
  if (!is_ours) return;
  fail_held();
  dispose();
}

// Fails what waited in vain, for the runtime's end if nothing else; the core itself is no call.
void actor_core::fail_lost(job* list) noexcept {
  const error* const lost = lost_.load(std::memory_order_acquire);
  static_cast<void>(cancel_mails(list, lost != nullptr ? *lost : ended_error()));
}

// Fails the calls that still wait for arguments, into which what they wait for still points: they
// stay in the list, and are dropped when those have come. One pass, since there may be a million of
// them: flush_held, which takes calls out, keeps the place. Two may be at it, and share that.
void actor_core::fail_held() noexcept {
  rare_state* const r = rare();
  const error* const lost = lost_.load(std::memory_order_acquire);
  if (r == nullptr || lost == nullptr) return;
  for (rare_state::list& list : r->held) {
    {
      const std::lock_guard lock(r->held_mutex);
      list.next_to_fail = list.first;
    }
    fail_rest(*r, list, *lost);
  }
}

void fail_rest(rare_state& r, rare_state::list& list, const error& lost) noexcept {
  for (;;) {
    job_ref next;
    {
      const std::lock_guard lock(r.held_mutex);
      job* const call = list.next_to_fail;
      if (call == nullptr) return;
      list.next_to_fail = call->link();
      call->hold();
      next = job_ref(call);
    }
    if (!next->try_claim()) continue;
    new (next->slot(1)) error(lost);
    next->finish(job_bits::ready | job_bits::failed, 0);
  }
}

actor_end actor_core::how_it_ended() const {
  const rare_state* const r = rare();
  if (r != nullptr && r->ended_there) return *r->ended_there;
  const error* const lost = lost_.load(std::memory_order_acquire);
  std::string text;
  switch (reason_) {
    case end_reason::ended:
      text = lost != nullptr ? fmt::format("the actor {} was retired and has ended", shown_name())
                             : fmt::format("the actor {} ended with its last handle", shown_name());
      break;
    case end_reason::killed:
      text = fmt::format("the actor {} was killed", shown_name());
      break;
    case end_reason::exited:
      text = fmt::format("the actor {} has left (this_actor::exit)", shown_name());
      break;
    case end_reason::constructor_failed:
    case end_reason::process_lost:
      if (lost != nullptr) text = lost->message();
      break;
    case end_reason::runtime_ended:
      text = fmt::format("the runtime ended before the actor {} did", shown_name());
      break;
  }
  return {reason_, std::move(text)};
}

void tell_all(end_watcher* watchers, const actor_end& how) noexcept {
  while (watchers != nullptr) {
    end_watcher* const w = watchers;
    watchers = w->next;
    w->tell(w, how);
  }
}

// The object goes, then who watches is told, then the life's pin.
void actor_core::dispose() noexcept {
  if (has_object_) {
    kind_->destroy(this);
  } else if (is_elsewhere_ && kind_->release != nullptr) {
    kind_->release(this);
  }
  has_object_ = false;
  // Before rare_ is read: who makes it later finds the actor gone.
  life_.store(phase::gone, std::memory_order_seq_cst);
  end_watcher* watchers = nullptr;
  if (rare_state* const r = rare_.load(std::memory_order_seq_cst)) {
    if (!r->name.empty()) lose_name(*r);
    open_places();
    const std::lock_guard lock(r->life_mutex);
    watchers = std::exchange(r->watchers, nullptr);
  }
  registry::global().remove(this);
  if (watchers != nullptr) {
    actor_end how{reason_, {}};
    try {
      how = how_it_ended();
    } catch (const std::bad_alloc&) {
      // The reason alone.
    }
    tell_all(watchers, how);
  }
  unpin();
}

bool actor_core::watch(end_watcher* w, actor_end& how) {
  rare_state& r = make_rare();
  end_watcher* forgotten = nullptr;
  {
    const std::lock_guard lock(r.life_mutex);
    if (life_.load(std::memory_order_seq_cst) != phase::gone) {
      if (++r.watcher_count > r.prune_at) {
        r.watcher_count = 1;
        for (end_watcher** link = &r.watchers; *link != nullptr;) {
          end_watcher* const at = *link;
          if (at->is_forgotten(at)) {
            *link = at->next;
            at->next = forgotten;
            forgotten = at;
          } else {
            link = &at->next;
            ++r.watcher_count;
          }
        }
        r.prune_at = 2 * r.watcher_count + 16;
      }
      w->next = r.watchers;
      r.watchers = w;
      w = nullptr;
    }
  }
  while (forgotten != nullptr) {
    end_watcher* const at = forgotten;
    forgotten = at->next;
    at->give_up(at);
  }
  if (w != nullptr) how = how_it_ended();
  return w == nullptr;
}

bool actor_core::unwatch(const end_watcher* w) noexcept {
  rare_state* const r = rare();
  if (r == nullptr) return false;
  const std::lock_guard lock(r->life_mutex);
  for (end_watcher** link = &r->watchers; *link != nullptr; link = &(*link)->next) {
    if (*link != w) continue;
    *link = w->next;
    --r->watcher_count;
    return true;
  }
  return false;
}

bool actor_core::is_watched() const noexcept {
  rare_state* const r = rare();
  if (r == nullptr) return false;
  const std::lock_guard lock(r->life_mutex);
  return r->watchers != nullptr;
}

}  // namespace manta::inline v0::exec
