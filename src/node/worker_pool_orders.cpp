// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include <sys/socket.h>

#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>

#include "node/passed_job.hpp"
#include "node/worker_hand.hpp"
#include "node/worker_order.hpp"
#include "node/worker_pool.hpp"

// Orders to stop what runs in isolated workers, and those that workers give.

namespace manta::inline v0::node {

namespace {

constexpr std::size_t most_early_stops = 4096;
// Of one worker at a time: the others have their turn, and the lock is free meanwhile. A socket
// holds fewer, so one look hears all that went before a message.
constexpr int orders_a_look = 1024;

bool is_for_node(worker_order::kind what) noexcept {
  using kind = worker_order::kind;
  return what == kind::stop || what == kind::end || what == kind::abandon ||
         what == kind::segment || what == kind::room;
}

}  // namespace

bool worker_pool::take_back(exec::job* j, const error& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto [of, f] = find_flight(j);
    if (f == nullptr || !(f->is_written || f->is_in_line)) return false;
    // Who brings arrays back finds that it is gone.
    const bool is_ours = f->is_in_line || of->line.page().claim(f->number, wire::slot_state::free);
    if (!is_ours) return false;
    leave(*of, *f);
  }
  j->fail(reason, 1);
  return true;
}

// One that was sent ahead and has not begun ends here; one that runs is told, and what it called
// from there is cancelled.
void worker_pool::stop(exec::job* j) noexcept {
  if (stop_call(j) || take_back(j, exec::cancelled_error())) return;
  std::vector<exec::job_ref> children;
  {
    const std::lock_guard lock(mutex_);
    const auto [of, f] = find_flight(j);
    if (f == nullptr) return;
    order_stop(*of, *f);
    const base::id caller = is_passed(j) ? passed_job::self(j)->id : exec::id_of(*j);
    for (const auto& [request, child] : of->asked) {
      if (child->parent != caller) continue;
      child->hold();
      children.emplace_back(child);
    }
  }
  for (const exec::job_ref& one : children) exec::cancel_job(one.get(), true);
}

void worker_pool::end(exec::job* j) noexcept {
  if (j->ops->origin != nullptr) return;  // an actor has more to lose than one call
  const std::lock_guard lock(mutex_);
  const auto [of, f] = find_flight(j);
  // What is not written never begins: it was asked to stop before this.
  if (f == nullptr || of->is_let_go || !f->is_written) return;
  if (of->line.page().is(f->number, wire::slot_state::done)) return;  // its result comes
  if (f->stop_asked == base::time_point{}) f->stop_asked = grace_.asked(base::now());
  end_by_force(*of);
}

// Under the mutex: for what does not stop there. From here on nothing begins there, or it would die
// in its place when that stops after all.
void worker_pool::end_by_force(hand& of) noexcept {
  if (of.is_dead) return;
  of.ends_by_force = true;
  if (!of.is_house()) wear_out(of, true);
  zygote::global().kill(of.unique);
}

// Under the mutex. What does not stop is ended by enforce_stops().
void worker_pool::order_stop(hand& at, flight& f) noexcept {
  if (f.number == 0) return;
  if (f.stop_asked == base::time_point{}) f.stop_asked = grace_.asked(base::now());
  const worker_order order{worker_order::kind::stop, f.number};
  ::send(at.socket, &order, sizeof order, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// The runtime ends: nothing there goes on that is suspended, or will be. What has no room in a
// socket is said at the next look.
void worker_pool::end_coroutines() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& one : all_) {
    if (one->ends_coroutines || one->is_dead) continue;
    const worker_order order{worker_order::kind::end_coroutines};
    one->ends_coroutines =
        ::send(one->socket, &order, sizeof order, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof order;
  }
}

// Under the mutex.
std::pair<worker_pool::hand*, worker_pool::flight*> worker_pool::find_flight(
    const exec::job* j) noexcept {
  for (const auto& one : all_) {
    for (flight& f : one->flights) {
      if (f.number != 0 && f.job == j) return {one.get(), &f};
    }
    for (auto& [number, f] : one->off_stack) {
      if (f.job == j) return {one.get(), &f};
    }
  }
  return {nullptr, nullptr};
}

// Workers ask that what they called is stopped, and for room. Null: any of them.
void worker_pool::hear_orders(const hand* only) noexcept {
  std::vector<std::pair<exec::job_ref, worker_order::kind>> asked;
  room_requests rooms;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& one : all_) {
      if (only != nullptr && one.get() != only) continue;
      came_order came;
      const worker_order& order = came.order;
      for (int n = 0; n < orders_a_look; ++n) {
        if (receive_order(one->socket, order_way::at_once, came) != got_order::order) break;
        if (!is_for_node(order.what)) {
          end_for(*one, "an order that no worker gives");
          break;
        }
        if (is_of_arrays(one, came, rooms)) continue;
        const auto found = one->asked.find(order.number);
        if (found == one->asked.end()) {
          // The request may be behind it, in the ring; or it has had its answer.
          if (one->early_stops.size() < most_early_stops) one->early_stops.insert(order.number);
          continue;
        }
        found->second->hold();
        asked.emplace_back(exec::job_ref(found->second), order.what);
      }
    }
  }
  for (const auto& [one, order] : rooms) grant_room(one, order);
  for (const auto& [one, what] : asked) {
    const bool is_stream = is_passed(one.get()) && is_generator(one.get());
    if (what == worker_order::kind::abandon && is_stream) {
      abandon_passed(*passed_job::self(one.get()));
    } else if (exec::cancel_job(one.get(), true) && what == worker_order::kind::end) {
      end(one.get());
    }
  }
}

// What was asked to stop, or to go, and has not is killed.
void worker_pool::enforce_stops() noexcept {
  const std::lock_guard lock(mutex_);
  grace_.look(base::now());
  for (const auto& one : all_) {
    if (one->is_let_go) {
      if (grace_.is_late_to_leave(one->leave_asked) && !one->is_dead)
        zygote::global().kill(one->unique);
      continue;
    }
    const tenant* const t = one->lives_here.get();
    if (t != nullptr && grace_.is_late_to_stop(t->kill_asked)) {
      zygote::global().kill(one->unique);
      continue;
    }
    for (const flight& f : one->flights) {
      if (f.number == 0 || !grace_.is_late_to_stop(f.stop_asked)) continue;
      const std::uint64_t word = one->line.page().slot_of(f.number).load(std::memory_order_acquire);
      if (word >> 2U != f.number) {
        end_for(*one, "a page that holds nonsense");
        break;
      }
      if (word != wire::slot_word(f.number, wire::slot_state::running)) continue;
      end_by_force(*one);
      break;
    }
    for (const auto& [number, f] : one->off_stack) {
      if (!grace_.is_late_to_stop(f.stop_asked)) continue;
      end_by_force(*one);
      break;
    }
  }
}

}  // namespace manta::inline v0::node
