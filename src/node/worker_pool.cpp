// SPDX-License-Identifier: Apache-2.0
#include "node/worker_pool.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>
#include <variant>

#include <manta/base/check.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/delegation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/node/carrier.hpp>

#include "node/guest_actor.hpp"
#include "node/note_run.hpp"
#include "node/trip.hpp"
#include "node/worker_hand.hpp"

// Tasks on their way to isolated workers and back. Workers themselves: worker_pool_life.cpp.

namespace manta::inline v0::node {

namespace {

using namespace std::chrono_literals;

// Messages that one look at a ring takes before the others have their turn.
constexpr int messages_a_look = 64;
// Messages after which the places that results have freed are given to tasks that wait. Several at
// a time cost less; a worker has more than these under way where tasks are so short that it counts.
constexpr int messages_a_dispatch = 8;
constexpr std::size_t long_message = 4096;

// Instead of a flight's number.
constexpr std::uint64_t no_number = ~std::uint64_t{0};

// This thread handles messages of workers: it finishes jobs, which may submit others.
constinit thread_local bool is_pumping = false;

struct pumping {
  pumping() noexcept = default;
  pumping(const pumping&) = delete;
  pumping& operator=(const pumping&) = delete;
  ~pumping() { is_pumping = was; }
  bool was = std::exchange(is_pumping, true);
};

/// Gives a handle to an actor back.
class held_actor {
 public:
  explicit held_actor(exec::actor_core* core) noexcept : core_(core) {}
  ~held_actor() {
    if (core_ != nullptr) core_->drop_handle();
  }
  held_actor(const held_actor&) = delete;
  held_actor& operator=(const held_actor&) = delete;

 private:
  exec::actor_core* core_;
};

}  // namespace

worker_pool& worker_pool::global() {
  static auto* const made = new worker_pool;
  return *made;
}

worker_pool::view& worker_pool::my_view() noexcept {
  thread_local view mine;
  return mine;
}

const std::vector<std::shared_ptr<worker_pool::hand>>& worker_pool::look() {
  view& mine = my_view();
  const std::uint64_t now = generation_.load(std::memory_order_acquire);
  if (mine.generation == now) return mine.hands;
  const std::lock_guard lock(mutex_);
  mine.hands = all_;
  mine.generation = generation_.load(std::memory_order_relaxed);
  return mine.hands;
}

// ---- from here to a worker

void worker_pool::put_pending(waiting w, bool first) {
  auto& line = pending_[static_cast<std::size_t>(w.job->extra()->level)];
  if (first) {
    line.push_front(w);
  } else {
    line.push_back(w);
  }
  ++pending_count_;
}

bool worker_pool::has_pending() const noexcept {
  return pending_count_.load(std::memory_order_relaxed) > 0;
}

bool worker_pool::pop_pending(waiting& w) {
  for (const priority level : {priority::high, priority::normal, priority::low}) {
    auto& line = pending_[static_cast<std::size_t>(level)];
    if (line.empty()) continue;
    w = line.front();
    line.pop_front();
    --pending_count_;
    return true;
  }
  return false;
}

void worker_pool::take(exec::job* j) noexcept {
  std::shared_ptr<hand> to;
  std::uint64_t number = 0;
  try {
    const std::unique_lock lock(mutex_);
    const bool is_refused = is_closing_.load(std::memory_order_relaxed);
    if (!is_refused && !has_pending()) to = claim_place(j, number);
    if (!is_refused && to == nullptr) put_pending({j, false}, false);
    if (is_refused) number = no_number;
  } catch (const std::bad_alloc&) {
    j->ops->cancel(j, error::out_of_memory());
    return;
  }
  if (number == no_number) {
    j->ops->cancel(j, ended_error());
    return;
  }
  if (exec::this_thread.queue != nullptr) {
    exec::work_counters::add<std::uint64_t>(exec::this_thread.queue->counters.submitted, 1);
  }
  if (to != nullptr && send_to(to, j, number, false)) {
    to->down.bell();
  } else {
    dispatch();
  }
  wake_collector();
  if (is_crowded_.load(std::memory_order_relaxed)) make_room();  // all windows are full
}

// Who goes on submitting takes results, so that the collector needs no core for them.
void worker_pool::make_room() noexcept {
  if (!is_pumping) pump();
}

// Under the mutex: a worker with room for a job that nobody claimed yet, and its slot there; null
// when there is none, or the job was withdrawn.
std::shared_ptr<worker_pool::hand> worker_pool::claim_place(exec::job* j,
                                                            std::uint64_t& number) noexcept {
  const std::size_t place = roster_.place();
  if (place == sched::roster::nobody || !j->try_claim()) return nullptr;
  number = board(*hands_[place], j);
  return hands_[place];
}

void worker_pool::dispatch() noexcept {
  std::shared_ptr<hand> last;
  for (;;) {
    std::shared_ptr<hand> to;
    const step was = dispatch_one(to);
    if (was == step::wants_worker) {
      if (!add_worker()) break;  // a tick tries again
      continue;
    }
    if (was == step::nothing) break;
    if (was == step::skipped) continue;
    if (last != nullptr && last != to) last->down.bell();
    last = std::move(to);
  }
  if (last != nullptr) last->down.bell();
}

worker_pool::step worker_pool::dispatch_one(std::shared_ptr<hand>& to) noexcept {
  waiting next;
  std::uint64_t number = 0;
  if (!has_pending() && !is_crowded_.load(std::memory_order_relaxed)) return step::nothing;
  {
    const std::lock_guard lock(mutex_);
    if (!has_pending()) {
      is_crowded_.store(false, std::memory_order_relaxed);
      return step::nothing;
    }
    if (is_closing_.load(std::memory_order_relaxed)) return step::nothing;
    const std::size_t place = roster_.place();
    if (place == sched::roster::nobody) {
      is_crowded_.store(true, std::memory_order_relaxed);
      return roster_.wants_worker() ? step::wants_worker : step::nothing;
    }
    pop_pending(next);
    if (next.is_claimed || next.job->try_claim()) {
      to = hands_[place];
      number = board(*to, next.job);
    }
  }
  if (number == 0) {
    next.job->drop_entry();  // it was withdrawn meanwhile
    return step::skipped;
  }
  return send_to(to, next.job, number, false) ? step::sent : step::skipped;
}

// Under the mutex: a slot for a claimed job.
std::uint64_t worker_pool::board(hand& to, exec::job* j) noexcept {
  std::uint64_t number = to.last_number + 1;
  while (to.flights[number % to.flights.size()].number != 0) ++number;
  to.last_number = number;
  flight& f = to.flights[number % to.flights.size()];
  f = {.number = number, .job = j, .memory_limit = memory_limit_of(*j)};
  if (f.memory_limit > 0) {
    to.line.page().had[number % to.flights.size()].store(0, std::memory_order_relaxed);
    ++limited_;
  }
  to.line.page().slot_of(number).store(wire::slot_word(number, wire::slot_state::sent),
                                       std::memory_order_relaxed);
  roster_.sent(to.number);
  ++under_way_;
  const std::size_t had = to.results + roster_.under_way(to.number) + to.off_stack.size();
  // What has used gpus keeps their memory and sees no others: see gpu_sight.hpp.
  if (limits_.is_last(had) || !gpus_of(*j).empty()) wear_out(to, false);
  return number;
}

// Under the mutex: the flight is over, whatever comes of its job.
void worker_pool::leave(hand& of, flight& f) noexcept {
  --under_way_;
  const std::uint64_t number = f.number;
  const bool was_limited = f.memory_limit > 0;
  if (f.is_lent) f.job->extra()->claim->take_back();  // as its next run, or its end, expects it
  if (was_limited) --limited_;
  if (of.off_stack.erase(number) > 0) {  // it has no slot and no place in the window
    if (was_limited) note_room(of);
    return;
  }
  free_place(of, f);
}

// Under the mutex: the flight has no slot any more.
void worker_pool::free_place(hand& of, flight& f) noexcept {
  of.line.page().slot_of(f.number).store(0, std::memory_order_relaxed);
  f = {};
  if (!of.is_dead) roster_.taken_back(of.number);
}

void worker_pool::fail_flight(hand& of, std::uint64_t number, error reason) noexcept {
  exec::job* j = nullptr;
  {
    const std::lock_guard lock(mutex_);
    flight* const f = of.find(number);
    j = f->job;
    leave(of, *f);
  }
  j->fail(std::move(reason), 1);
}

// Writes the message of a flight that has begun. False: it did not leave, or has come back.
bool worker_pool::send_to(const std::shared_ptr<hand>& to, exec::job* j, std::uint64_t number,
                          bool is_awaited) noexcept {
  const borrowed_workbench on;
  try {
    const bool is_cancelled =
        (j->word() & exec::job_bits::cancel) != 0 ||
        (exec::may_be_cancelled(j->parent) && exec::is_cancelled_caller(j->parent));
    if (is_cancelled) exec::cancelled_error().raise();
    if (is_passed(j)) {
      write_passed(*on, passed_job::self(j), {to->unique, number});
    } else {
      const carrier& by = *carrier_of(j);
      if (const error* const inherited = by.failure(j)) inherited->raise();
      if (by.wake_arguments != nullptr && !by.wake_arguments(j, false, 0)) {
        bring_back(to, j, number, is_awaited);
        return true;
      }
      write_task(*on, j, {to->unique, number});
    }
    const bool yields = is_generator(j);
    const std::lock_guard lock(mutex_);
    flight& f = *to->find(number);
    // Who asked it to stop meanwhile, and may have wanted to force it, found it unwritten: end().
    if (f.stop_asked != base::time_point{}) {
      const bool is_closing = is_closing_.load(std::memory_order_relaxed);
      (is_closing ? ended_error() : exec::cancelled_error()).raise();
    }
    if (!to->is_dead) {
      if (yields) begin_stream(*to, number);
      send_naming(*to, *on);
      f.is_written = true;
      // Whoever began to wait while this was written gave all that was back (watch_block).
      const bool waits =
          to->seen_awaits.load() != wire::worker_page::awaits_nothing || to->ends_by_force;
      if (!waits || is_awaited || !to->line.page().claim(number, wire::slot_state::free)) {
        return true;
      }
    }
    put_pending({j, true}, true);
    leave(*to, f);
    return false;
  } catch (...) {
    fail_flight(*to, number, describe_current_exception(j->ops->function));
    return false;
  }
}

// ---- from a worker to here

bool worker_pool::is_handling() noexcept { return is_pumping; }

bool worker_pool::pump() noexcept {
  const pumping here;
  pumps_.store(pumps_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const neutral_caller nobody;
  sched::patience& patience = my_view().patience;
  bool any = false;
  // Who finishes a job may come here again and find other workers.
  for (std::size_t i = 0;; ++i) {
    const std::vector<std::shared_ptr<hand>>& hands = look();  // until it is called again
    if (i >= hands.size()) break;
    if (!hands[i]->has_message() && !hands[i]->has_changed()) continue;
    const std::shared_ptr<hand> one = hands[i];
    for (int n = 0; n < messages_a_look && drain_one(one); ++n) {
      any = true;
      patience.had_one();
      if (n % messages_a_dispatch == messages_a_dispatch - 1) dispatch();
    }
    if (is_crowded_.load(std::memory_order_relaxed)) dispatch();
    if (one->has_changed()) {
      watch_stack(*one);
      watch_block(one);
      any = true;
    }
  }
  return any;
}

bool worker_pool::drain_one(const std::shared_ptr<hand>& from, bool waits) noexcept {
  if (!waits && !from->has_message()) return false;
  const pumping here;
  const borrowed_workbench on;
  bool is_ordered = false;
  {
    std::unique_lock lock(from->up_mutex, std::defer_lock);
    if (waits) {
      lock.lock();
    } else if (!lock.try_lock()) {
      return false;
    }
    try {
      switch (from->up.take(on->frame)) {
        case wire::frame_receiver::got::message:
          from->being_handled.fetch_add(1);
          break;
        case wire::frame_receiver::got::nothing:
          if (!from->has_orphans.load(std::memory_order_relaxed)) return false;
          is_ordered = true;
          break;
        case wire::frame_receiver::got::broken:
          distrust(*from, "a ring that holds nonsense");
          return false;
      }
      if (!is_ordered && from->keeps_order()) {
        from->in_order.push_back(std::move(on->frame));
        is_ordered = true;
      }
      if (is_ordered && from->is_ordering) return true;  // who does that comes to it
      if (is_ordered) {
        from->is_ordering = true;
        from->has_orphans.store(false, std::memory_order_relaxed);
      }
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  if (is_ordered) {
    handle_in_order(from, *on);
  } else {
    on_frame(from, *on);
  }
  return true;
}

// What this thread handles in order; null in `of`: it has let others do that.
struct worker_pool::ordering {
  hand* of;
  ordering* outer;
  static ordering*& mine() noexcept {
    constinit thread_local ordering* innermost = nullptr;
    return innermost;
  }
};

namespace {

// A message that was taken before its worker asked for an order may be another thread's still: it
// comes first. For as long as such a thread may have to be given a core; none of them waits. Once
// is enough: from then on all are taken in order.
template <class Hand>
void wait_for_unordered(Hand& of) noexcept {
  constexpr auto most = 100ms;
  const auto is_done = [&of] {
    const std::lock_guard lock(of.up_mutex);
    of.has_order = of.has_order || of.being_handled.load() <= static_cast<int>(of.in_order.size());
    return of.has_order;
  };
  if (is_done()) return;
  const base::time_point until = base::after(most);
  while (!is_done() && base::now() < until) std::this_thread::yield();
  const std::lock_guard lock(of.up_mutex);
  of.has_order = true;
}

}  // namespace

// By the thread that set is_ordering, until there is nothing more, or it has begun to wait. Others
// may put more behind as fast as it goes, and it has more to do: after some, who looks goes on.
void worker_pool::handle_in_order(const std::shared_ptr<hand>& from, workbench& on) noexcept {
  wait_for_unordered(*from);
  ordering mine{from.get(), ordering::mine()};
  ordering::mine() = &mine;
  for (int n = 0; mine.of != nullptr; ++n) {
    {
      const std::lock_guard lock(from->up_mutex);
      if (from->in_order.empty() || n >= messages_a_look) {
        from->is_ordering = false;
        from->has_orphans.store(!from->in_order.empty(), std::memory_order_relaxed);
        break;
      }
      on.frame = std::move(from->in_order.front());
      from->in_order.pop_front();
    }
    on_frame(from, on);
  }
  ordering::mine() = mine.outer;
}

// This thread begins to wait in the middle of a message: the next ones may be what it waits for.
void worker_pool::let_others_order() noexcept {
  for (ordering* one = ordering::mine(); one != nullptr; one = one->outer) {
    if (one->of == nullptr) continue;
    const std::lock_guard lock(one->of->up_mutex);
    one->of->is_ordering = false;
    one->of->has_orphans.store(!one->of->in_order.empty(), std::memory_order_relaxed);
    one->of = nullptr;
  }
}

// Under the mutex: the worker has one handle more.
void worker_pool::lend(hand& to, const base::id& what) {
  to.has_handles.store(true, std::memory_order_relaxed);
  if (is_array(what)) {
    to.arrays.lend(what, to.socket);
    return;
  }
  ++to.lent[what];
  lend_name(what, 1);
}

void worker_pool::on_frame(const std::shared_ptr<hand>& from, workbench& on) noexcept {
  hand::handling handled(*from);
  try {
    const std::span<const std::byte> frame = on.frame.bytes();
    const result<const wire::message_view&> read = on.reader.read(frame);
    if (!read) return distrust(*from, "a message that is none");
    settle_text(*from, read->head.request.low);
    array_tray arrays;
    future_tray futures;
    if (!receive_arrays(*from, handles_of(*read), arrays) ||
        !receive_futures(*from, handles_of(*read), futures) ||
        !has_all_shared(*from, handles_of(*read))) {
      return distrust(*from, "a message about arrays or channels that it was never given");
    }
    const held_actor own(from->is_house() ? on_own_handles(*from, handles_of(*read)) : nullptr);
    if (const auto* const ended = std::get_if<wire::result_view>(&read->body)) {
      if (is_future(read->head.request)) return on_owed(*from, read->head.request, *ended, frame);
      if (from->is_house() && on_actor_result(from, read->head.request.low, *ended, frame)) return;
      exec::job* const j = end_flight(*from, read->head, *ended);
      handled.now();
      if (j != nullptr) finish(j, *ended, frame);
      if (j != nullptr && from->is_house()) after_late_call(from);
      if (frame.size() > long_message) dispatch();  // to read the next ones may take long, too
    } else if (const auto* const item = std::get_if<wire::item_view>(&read->body)) {
      on_item(from, read->head.request.low, *item);
    } else if (const auto* const flow = std::get_if<wire::flow_view>(&read->body)) {
      on_flow(*from, read->head.request.low, *flow);
    } else if (const auto* const asked = std::get_if<wire::ask_view>(&read->body)) {
      on_ask(from, read->head.request.low, *asked);
    } else if (const auto* const spawn = std::get_if<wire::spawn_view>(&read->body);
               spawn != nullptr && spawn->reserves) {
      on_reservation(from, read->head.request.low, *spawn);
    } else if (std::holds_alternative<wire::task_view>(read->body) ||
               std::holds_alternative<wire::call_view>(read->body) ||
               std::holds_alternative<wire::spawn_view>(read->body)) {
      on_task(from, frame, *read);
    } else if (const auto* const changes = std::get_if<wire::changes_view>(&read->body)) {
      on_releases(*from, *changes);
    } else if (const auto* const gone = std::get_if<wire::actor_end_view>(&read->body)) {
      on_actor_end(from, *gone);
    } else {
      distrust(*from, "a message that no worker sends");
    }
  } catch (...) {
    // What it said is lost; so is who waits for an answer.
    distrust(*from, "a message that makes no sense, or that its node had no memory for");
  }
}

// Whether a task that threw what its filter matches has a run left, which waits for a worker then.
bool worker_pool::repeats(exec::job* j, const wire::result_view& arrived) noexcept {
  exec::call_extra& with = *j->extra();
  if (with.retries_left == 0 ||
      (j->word() & (exec::job_bits::cancel | exec::job_bits::late)) != 0) {
    return false;
  }
  try {
    const std::lock_guard lock(mutex_);
    if (is_closing_.load(std::memory_order_relaxed)) return false;
    put_pending({j, true}, true);
    // Before another thread can send it.
    note_retry(*j, arrived);
    --with.retries_left;
    ++with.attempt;
    is_crowded_.store(true, std::memory_order_relaxed);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// The job whose result this is; null when it is nobody's.
exec::job* worker_pool::end_flight(hand& from, const wire::envelope& head,
                                   const wire::result_view& arrived) noexcept {
  const std::lock_guard lock(mutex_);
  flight* const f = from.find(head.request.low);
  if (f == nullptr || !f->is_written) return nullptr;
  exec::job* const j = f->job;
  if (!from.off_stack.contains(f->number)) roster_.ran(arrived.ran);
  leave(from, *f);
  count(from, arrived.ran);
  if (j->ops->origin != nullptr) ++sum_.calls;
  early_deaths_.ran();
  return j;
}

void worker_pool::finish(exec::job* j, const wire::result_view& arrived,
                         std::span<const std::byte> frame) noexcept {
  if (arrived.may_repeat) static_cast<void>(exec::forget_delegation(j));
  if (arrived.may_repeat && repeats(j, arrived)) return;
  std::uint64_t bits = 0;
  note_run(*j, arrived);
  if (is_passed(j)) {
    bits = fill_passed(passed_job::self(j), frame, arrived);
  } else {
    bits = fill_slot(j, arrived);
  }
  j->ops->drop_arguments(j);
  j->finish(bits | exec::job_bits::claimed, 1);
}

}  // namespace manta::inline v0::node
