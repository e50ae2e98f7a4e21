// SPDX-License-Identifier: Apache-2.0
#include "node/isolated_worker.hpp"

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include <pthread.h>
#include <sched.h>
#include <stdio_ext.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <manta/base/check.hpp>
#include <manta/base/pause.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/suspension.hpp>
#include <manta/exec/theft.hpp>
#include <manta/node/carrier.hpp>
#include <manta/spec/config.hpp>

#include "node/actor_names.hpp"
#include "node/crash_note.hpp"
#include "node/desk.hpp"
#include "node/memory_use.hpp"
#include "node/output_lines.hpp"
#include "node/passed_job.hpp"
#include "node/ring_sleep.hpp"
#include "node/trip.hpp"

namespace manta::inline v0::node {

namespace {

using namespace std::chrono_literals;
using page = wire::worker_page;
using wire::slot_state;

constexpr std::size_t most_kept_stops = 1024;
constexpr auto time_to_look = 200us;
// Results that a patient node hears of at once: half of what it sends ahead.
constexpr std::uint32_t most_unheard = wire::worker_page::slots / 2;

}  // namespace

// The node is gone, or says what can't be, or there is no memory: nothing is left to be done, and
// nobody to be told.
void isolated_worker::vanish() noexcept { _exit(0); }

isolated_worker::isolated_worker(wire::worker_line line, const worker_seat& seat)
    : line_(std::move(line)),
      unique_(seat.number),
      socket_(seat.socket),
      settings_(*seat.settings),
      up_(line_.to_node()),
      down_(line_.to_worker()),
      arrays_({.socket = seat.socket,
               .worker = seat.number,
               .page = &line_.page(),
               .to = this,
               .give_back = give_back_to,
               .wake = wake_node},
              settings_),
      questions_(seat.number, send_to, this, line_.page().makes_actors),
      streams_(seat.number, send_to, this),
      things_(questions_, give_back_to, this),
      futures_({.worker = seat.number,
                .questions = &questions_,
                .to = this,
                .send = send_to,
                .give_back = give_back_to,
                .request_of = request_in,
                .keeps_order = &line_.page().makes_actors}) {
  voice_.open(seat, line_.page());
  sight_.open(settings_.gpus > 0);
}

void isolated_worker::run() {
  prctl(PR_SET_NAME, "manta-worker", 0, 0, 0);
  // It ends without the ends of the C library, so what tasks print must not wait for them.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  main_thread_ = std::this_thread::get_id();
  note_crashes(line_.page());
  asks_elsewhere = true;
  takes_all = true;
  spin_us_ = settings_.spin_us;
  exec::elsewhere.store(this, std::memory_order_release);
  exec::executor_settings with;
  with.workers = 1;
  with.spin_us = 0;  // the main thread is the one that is waited for
  exec::executor::global().start(with, [this] { desk::global().open(settings_); });
  exec::executor::require();
  std::thread([this] { listen(); }).detach();
  // Messages go first, so that an actor finds several calls in one turn; but not for ever.
  constexpr int most_before_turn = 64;
  for (int messages = 0;;) {
    const bool any =
        messages < most_before_turn &&
        (serve_construction() || serve_aside() || pump(doing::nothing, nullptr) == came::something);
    messages = any ? messages + 1 : 0;
    if (any || serve_actor()) continue;
    ring_up();
    if (leaves_.load(std::memory_order_acquire)) {
      leave_if_quiet();
    } else {
      wait_for_message();
    }
  }
}

// Another thread may have something to do still, or to destroy.
void isolated_worker::leave_if_quiet() noexcept {
  const bool is_quiet = exec::executor::active_workers() == 0 && exec::measure_queues().queued == 0;
  if (is_quiet) vanish();
  std::this_thread::sleep_for(time_to_look);  // nobody rings when it is
}

// Runs the first task that was put aside, if there is one.
bool isolated_worker::serve_aside() {
  put_aside first;
  {
    const std::lock_guard lock(mutex_);
    if (aside_.empty()) return false;
    first = std::move(aside_.front());
    aside_.pop_front();
  }
  serve_one(first.frame, first.number);
  return true;
}

// By whichever thread: the main one may have gone to sleep meanwhile.
void isolated_worker::put_away(wire::frame_buffer frame, std::uint64_t number, const base::id& id) {
  {
    const std::lock_guard lock(mutex_);
    aside_.push_back({std::move(frame), number, id});
  }
  main_sleep_.signal();
}

// Spins as long as somebody who waits for an answer would, then sleeps until the bell.
void isolated_worker::wait_for_message() noexcept {
  const base::time_point from = base::now();
  const base::time_point until = from + std::chrono::microseconds(spin_us_);
  for (std::uint32_t round = 1; !down_.has_message(); ++round) {
    base::pause();
    if (round % 16 != 0) continue;
    const base::time_point now = base::now();
    if (now < until) {
      if (now - from > base::always_spin) sched_yield();  // who is to send may need this very core
      continue;
    }
    ring_sleep nap(main_sleep_);
    nap.add(down_.ring());
    if (!down_.has_message()) nap.sleep(base::after(1h));
    break;
  }
  main_sleep_.reset();
}

// ---- tasks that come

// Takes the next message; runs a task unless something is awaited that it is not.
isolated_worker::came isolated_worker::pump(doing now, exec::job* awaited) {
  if (!down_.has_message()) return came::nothing;
  begun_task begun;
  {
    const borrowed_workbench on;
    const wire::message_view* read = nullptr;
    {
      std::unique_lock lock(down_mutex_, std::try_to_lock);
      if (!lock) return came::nothing;
      switch (down_.take(on->frame)) {
        case wire::frame_receiver::got::message:
          break;
        case wire::frame_receiver::got::nothing:
          return came::nothing;
        case wire::frame_receiver::got::broken:
          vanish();
      }
      const result<const wire::message_view&> taken = on->reader.read(on->frame.bytes());
      if (!taken) vanish();
      read = &*taken;
      if (is_ordered(*read)) {
        hear_in_order(std::move(lock), *on, *read);
        return came::something;
      }
    }
    if (heard(*read)) return came::something;
    const auto* const task = std::get_if<wire::task_view>(&read->body);
    if (task == nullptr) vanish();
    const std::uint64_t number = read->head.request.low;
    const bool is_awaited = awaited != nullptr && task->id == exec::id_of(*awaited);
    if (now != doing::nothing && !is_awaited) {
      const base::id id = task->id;
      put_away(std::move(on->frame), number, id);
      return came::something;
    }
    begun = begin(*task, number);
  }
  if (now == doing::nothing) {  // nothing lies below on the stack, so nobody takes it for waiting
    run_task(begun);
    return came::something;
  }
  // While it runs this worker does not wait, whatever lies below.
  const std::uint64_t outer = say_waits(page::awaits_nothing);
  run_task(begun);
  say_waits(outer);
  return came::something;
}

// What makes the actor, calls it and lets go of it; and what comes of a stream, with its end.
bool isolated_worker::is_ordered(const wire::message_view& read) noexcept {
  if (std::holds_alternative<wire::result_view>(read.body)) {
    return (read.head.request.low & stream_mark) != 0;
  }
  return std::holds_alternative<wire::item_view>(read.body) ||
         std::holds_alternative<wire::call_view>(read.body) ||
         std::holds_alternative<wire::spawn_view>(read.body) ||
         std::holds_alternative<wire::changes_view>(read.body) ||
         std::holds_alternative<wire::actor_end_view>(read.body);
}

// Several threads take messages, and a caller's calls have an order: what comes while one of them
// is at it is left to that one. The lock is down_mutex_'s, under which it was taken.
void isolated_worker::hear_in_order(std::unique_lock<std::mutex> lock, workbench& on,
                                    const wire::message_view& first) {
  if (is_ordering_) {
    in_order_.push_back(std::move(on.frame));
    return;
  }
  is_ordering_ = true;
  lock.unlock();
  heard(first);
  lock.lock();
  while (!in_order_.empty()) {
    const wire::frame_buffer next = std::move(in_order_.front());
    in_order_.pop_front();
    lock.unlock();
    {
      const borrowed_workbench at;
      const result<const wire::message_view&> read = at->reader.read(next.bytes());
      if (!read) vanish();
      heard(*read);
    }
    lock.lock();
  }
  is_ordering_ = false;
}

void isolated_worker::give_one_back(void* to, const base::id& id) {
  static_cast<isolated_worker*>(to)->give_back(id, 1);
}

// A message that is no task.
bool isolated_worker::heard(const wire::message_view& read) {
  if (std::holds_alternative<wire::task_view>(read.body)) return false;
  const arrived_handles handles(handles_of(read), tenant_id(), give_one_back, this);
  if (const auto* const ended = std::get_if<wire::result_view>(&read.body)) {
    on_result(read.head, *ended);
  } else if (const auto* const item = std::get_if<wire::item_view>(&read.body)) {
    on_item(read.head, *item);
  } else if (const auto* const call = std::get_if<wire::call_view>(&read.body)) {
    on_call(*call, read.head.request.low);
  } else if (const auto* const spawn = std::get_if<wire::spawn_view>(&read.body)) {
    on_spawn(*spawn, read.head.request.low);
  } else if (const auto* const changes = std::get_if<wire::changes_view>(&read.body)) {
    on_changes(*changes);
  } else if (const auto* const end = std::get_if<wire::actor_end_view>(&read.body)) {
    on_end_order(*end);
  } else {
    return false;
  }
  return true;
}

// The main thread begins to wait, or goes on; answers what it said before.
std::uint64_t isolated_worker::say_waits(std::uint64_t awaits) noexcept {
  const std::lock_guard lock(mutex_);
  line_.page().stacked.store(awaits != page::awaits_nothing || depth_ == 0 ? depth_ : depth_ - 1,
                             std::memory_order_release);
  const std::uint64_t before = std::exchange(main_awaits_, awaits);
  main_looks_ = awaits != page::awaits_nothing;
  publish_awaits();
  return before;
}

// Another thread of a task begins to wait, or goes on: what it waits for may need this worker's
// place.
void isolated_worker::say_other_waits(int change) noexcept {
  const std::lock_guard lock(mutex_);
  others_waiting_ += change;
  publish_awaits();
}

void isolated_worker::publish_awaits() noexcept {
  const std::uint64_t own = main_awaits_;
  const bool has_others = own == page::awaits_nothing && others_waiting_ > 0;
  line_.page().awaits.store(has_others ? page::awaiting(0, false) : own, std::memory_order_release);
}

void isolated_worker::serve_one(wire::frame_buffer& task, std::uint64_t number) {
  begun_task begun;
  {
    const borrowed_workbench on;
    const result<const wire::message_view&> read = on->reader.read(task.bytes());
    MANTA_CHECK(read.has_value());
    begun = begin(std::get<wire::task_view>(read->body), number);
  }
  run_task(begun);
}

// The task's result when it has suspended, or stands for another one's.
struct isolated_worker::late_answer : exec::waiter {
  isolated_worker* to = nullptr;
  begun_task of;
};

// Its job, if it was not taken back and could be read. The message is not needed any more then.
isolated_worker::begun_task isolated_worker::begin(const wire::task_view& task,
                                                   std::uint64_t number) noexcept {
  begun_task out{.id = task.id, .number = number, .at = base::now()};
  // Also when it has been taken back: whoever gets it then has been lent his own.
  const arrived_handles handles(task.arguments.references, tenant_id(), give_one_back, this);
  // What is there is not this task's, whom the page names next.
  if (on_top_ != nullptr) say_printed(on_top_, duration::zero());
  if (!line_.page().claim(number, slot_state::running)) return out;
  if (task.options != nullptr && task.options->enforce_memory) {
    line_.page().had[number % page::slots].store(memory_use_of(getpid()).own,
                                                 std::memory_order_release);
  }
  const neutral_caller nobody;
  try {
    out.sight = sight_.prepare(task.gpus);
    out.job = make_task(task);
    out.job->extra()->number = number;
    if (const auto stream = carrier_of(out.job)->stream; stream != nullptr) {
      streams_.open(number, out.job, stream(out.job));
    }
    const std::lock_guard lock(mutex_);
    running_[number] = out.job;
    out.is_stopped = early_stops_.erase(number) > 0;
  } catch (...) {
    const error failure = describe_current_exception("the message of a task");
    const borrowed_workbench on;
    write_failure(*on, out.id, {unique_, number}, failure);
    line_.page().finish(number);
    send(*on);
  }
  return out;
}

void isolated_worker::run_task(const begun_task& task) noexcept {
  exec::job* const j = task.job;
  if (j == nullptr) return;
  if (task.is_stopped) exec::cancel_job(j, true);
  const exec::job* const below = std::exchange(on_top_, j);
  const char* const outer_sight = sight_.show(task.sight);
  ++depth_;
  j->ops->execute(j);
  --depth_;
  sight_.show(outer_sight);
  on_top_ = below;
  if (j->is_ready()) {
    answer(task);
    return;
  }
  say_printed(j, duration::zero());
  if (answer_when_ready(task) && line_.page().leave_stack(task.number)) bell();
}

// False: it is ready, and was answered.
bool isolated_worker::answer_when_ready(const begun_task& task) noexcept {
  auto* const late = new (std::nothrow) late_answer;
  if (late == nullptr) vanish();  // nobody could be told
  late->to = this;
  late->of = task;
  late->fire = [](exec::waiter* w) noexcept {
    const std::unique_ptr<late_answer> self(static_cast<late_answer*>(w));
    self->to->answer(self->of);
  };
  if (task.job->add_waiter(late)) return true;
  delete late;
  answer(task);
  return false;
}

// What was printed until now goes before anything else is said, and has a name.
void isolated_worker::say_printed(const exec::job* by, duration ran) noexcept {
  if (__fpending(stdout) > 0) std::fflush(stdout);
  if (!voice_.has_text(ran)) return;
  try {
    const exec::call_extra* const with = by->extra();
    const bool is_named = with != nullptr && with->name != nullptr;
    const bool is_actor = by->ops->origin != nullptr || tenant_id() != base::id{};
    voice_.mark(is_actor   ? std::string()
                : is_named ? *with->name
                           : speaker_name(readable_name(by->ops->function)));
  } catch (const std::bad_alloc&) {
    voice_.mark({});
  }
}

// Gives up the hold of a task that has ended.
void isolated_worker::answer(const begun_task& task) noexcept {
  exec::job* const ended = task.job;
  const duration ran = time_of(task);
  say_printed(ended, ran);
  // Before the result goes: with that the slot is the node's, who may give it to the next task. It
  // may have done so long ago, when this one left the stack.
  line_.page().finish(task.number);
  const base::id request{unique_, task.number};
  std::optional<error> lost;  // of a generator: why an item did not go
  if (carrier_of(ended)->stream != nullptr) lost = streams_.close(task.number);
  {
    const borrowed_workbench on;
    try {
      if (lost) lost->raise();
      write_result(*on, ended, request, ran);
    } catch (...) {
      try {
        write_failure(*on, task.id, request, describe_current_exception(ended->ops->function));
      } catch (...) {
        vanish();  // there is no memory to say so
      }
    }
    // Behind a task or turn that ends on the main thread come others, or ring_up().
    const bool has_more = std::this_thread::get_id() == main_thread_ &&
                          (depth_ == 0 || (depth_ == 1 && is_giving_turn_));
    send(*on, has_more);
  }
  {
    // Not before: an actor that ends asks which calls have had no answer.
    const std::lock_guard lock(mutex_);
    running_.erase(task.number);
  }
  ended->drop();
}

// Waits for room as long as it takes: the node reads whatever else happens.
void isolated_worker::send(workbench& on, bool has_more) noexcept {
  if (!on.references.empty()) lend_own(on);
  const std::lock_guard lock(up_mutex_);
  up_.send(on.writer.pieces(), on.writer.size_bytes());
  while (!up_.flush(1s)) {
  }
  if (has_more && ++unheard_ % most_unheard != 0) {
    up_.soft_bell();
  } else {
    up_.bell();
  }
}

// The main thread has nothing more to do: who was patient hears what was sent.
void isolated_worker::ring_up() noexcept {
  if (std::exchange(unheard_, 0) > 0) bell();
}

// Wakes a thread of the node that sleeps.
void isolated_worker::bell() noexcept {
  const std::lock_guard lock(up_mutex_);
  up_.bell();
}

// ---- the node's orders

void isolated_worker::obey(std::uint64_t number) noexcept {
  if (streams_.cancel(number)) return;
  exec::job_ref asked;
  {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(number);
    if (found == running_.end()) {
      // It may be about to begin. Numbers grow, so the old ones mean nothing any more.
      if (early_stops_.size() >= most_kept_stops) early_stops_.clear();
      early_stops_.insert(number);
    } else {
      if (!found->second->try_hold()) return;
      asked = exec::job_ref(found->second);
    }
  }
  if (asked) {
    exec::cancel_job(asked.get(), true);
  } else {
    hear_calls_until(number);
  }
}

void isolated_worker::listen() noexcept {
  pthread_setname_np(pthread_self(), "manta-listen");
  for (;;) {
    came_order said;
    const got_order got = receive_order(socket_, order_way::waits, said);
    const worker_order& order = said.order;
    if (got == got_order::order && !arrays_.obey(said)) {
      if (order.what == worker_order::kind::kill) {
        obey_kill({order.value, order.number});
      } else if (order.what == worker_order::kind::leave) {
        leaves_.store(true, std::memory_order_release);
        main_sleep_.signal();
      } else if (order.what == worker_order::kind::flow) {
        streams_.flow(order.number, order.value, order.credits);
      } else if (order.what == worker_order::kind::abandon) {
        streams_.abandon(order.number);
      } else if (order.what == worker_order::kind::end_coroutines) {
        exec::doom_coroutines();
      } else {
        obey(order.number);
      }
    } else if (got == got_order::closed) {
      vanish();
    }
  }
}

void run_isolated_worker(const worker_seat& seat) noexcept {
  result<wire::worker_line> line = wire::worker_line::map(seat.line);
  if (!line) {
    std::fprintf(stderr, "manta: an isolated worker can't begin: %s\n",
                 line.error().message().c_str());
    _exit(1);
  }
  // Never destroyed: its threads may be anywhere when the process goes.
  try {
    auto* const worker = new isolated_worker(*std::move(line), seat);
    worker->run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "manta: an isolated worker can't begin: %s\n", e.what());
  }
  _exit(1);
}

}  // namespace manta::inline v0::node
