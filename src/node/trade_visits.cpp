// SPDX-License-Identifier: Apache-2.0
// Tasks of other nodes that run here: trade.hpp.
#include <memory>
#include <new>
#include <utility>
#include <variant>

#include <manta/codec/errors.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/node/carrier.hpp>

#include "node/errand.hpp"
#include "node/trade.hpp"
#include "node/trip.hpp"
#include "node/workbench.hpp"
#include "node/worker_facts.hpp"

namespace manta::inline v0::node {

void trade::take_in(peers& by, std::uint64_t from, const frame_ptr& frame) {
  ++guests_;
  if (!is_door_open_.load()) return send_home(by, from, *frame);
  try {
    run_errand([this, &by, from, frame] { run_visit(by, from, *frame); },
               [this, &by, from, frame] { send_home(by, from, *frame); });
  } catch (...) {
    --guests_;
    throw;
  }
}

void trade::run_visit(peers& by, std::uint64_t from, const wire::frame_buffer& frame) noexcept {
  visit of{.node = from, .at = base::now()};
  bool is_stopped = false;
  {
    const borrowed_workbench on;
    const result<const wire::message_view&> read = on->reader.read(frame.bytes());
    const auto* const task = read ? std::get_if<wire::task_view>(&read->body) : nullptr;
    if (task == nullptr) {  // who gave it does not speak as this one does
      --guests_;
      return;
    }
    of.number = read->head.request.low;
    of.task = task->id;
    of.attempt = task->attempt;
    try {
      const neutral_caller nobody;
      of.job = make_task(*task);
      const std::lock_guard lock(mutex_);
      visits_.insert_or_assign({from, of.number}, of);
      of.job->hold();
      is_stopped = stopped_.erase({from, of.number}) > 0;
    } catch (...) {
      const error why = describe_current_exception("the message of a task");
      if (of.job != nullptr) {
        of.job->fail(why, 1);
        of.job->drop();
      }
      return refuse(by, of, why, false);
    }
  }
  if (is_stopped) exec::cancel_job(of.job, true);
  of.job->ops->execute(of.job);
  if (of.job->is_ready()) {
    answer(by, of);
  } else {
    answer_when_ready(by, of);
  }
}

// The runtime has ended here: nobody runs it.
void trade::send_home(peers& by, std::uint64_t from, const wire::frame_buffer& frame) noexcept {
  visit of{.node = from};
  {
    const borrowed_workbench on;
    const result<const wire::message_view&> read = on->reader.read(frame.bytes());
    const auto* const task = read ? std::get_if<wire::task_view>(&read->body) : nullptr;
    if (task != nullptr) {
      of.task = task->id;
      of.attempt = task->attempt;
    }
  }
  refuse(by, of, exec::ended_error(), true);
}

// The result of a task that has suspended, or stands for another one's.
struct trade::late_answer : exec::waiter {
  trade* to = nullptr;
  peers* by = nullptr;
  visit of;
};

void trade::answer_when_ready(peers& by, const visit& of) noexcept {
  auto* const late = new (std::nothrow) late_answer;
  if (late == nullptr) return refuse(by, of, error::out_of_memory(), true);
  late->to = this;
  late->by = &by;
  late->of = of;
  late->fire = [](exec::waiter* w) noexcept {
    const std::unique_ptr<late_answer> self(static_cast<late_answer*>(w));
    self->to->answer(*self->by, self->of);
  };
  if (of.job->add_waiter(late)) return;
  delete late;
  answer(by, of);
}

namespace {

// Whether it failed for what this node is, and its first node may well run it: this one's runtime
// ends, which cancels all that is here, or it has no room.
bool is_of_this_node(exec::job& ended) {
  exec::job* const end = ended.outcome();
  if ((end->word() & exec::job_bits::failed) == 0) return false;
  if (exec::is_all_cancelled() || !exec::executor::is_running()) return true;
  const errc is = end->failure().code();
  return is == errc::store_full || is == errc::out_of_memory;
}

}  // namespace

void trade::answer(peers& by, const visit& of) noexcept {
  {
    const std::lock_guard lock(mutex_);
    visits_.erase({of.node, of.number});
  }
  error why(errc::unsupported, "a value that has handles, or is too large, stays in its node");
  bool is_sent = false;
  try {
    const borrowed_workbench on;
    const base::id request{peers::result_of_task, ++last_request_};
    const bool can_go = !is_of_this_node(*of.job) &&
                        write_given_result(*on, of.job, request, of.attempt, base::now() - of.at) &&
                        on->writer.size_bytes() < most_bytes;
    if (can_go) {
      // False is of one that is gone.
      static_cast<void>(
          by.send_when_room(of.node, request, on->writer.pieces(), on->writer.size_bytes()));
      is_sent = true;
    }
  } catch (...) {
    why = describe_current_exception(of.job->ops->function);
  }
  if (is_sent) {
    --guests_;
  } else {
    refuse(by, of, why, true);  // at home its value needs no bytes
  }
  of.job->drop();  // that of the list
  of.job->drop();  // the future's, which nobody has
}

// The last that is said of a visit.
void trade::refuse(peers& by, const visit& of, const error& why, bool runs_at_home) noexcept {
  try {
    const borrowed_workbench on;
    const base::id request{peers::result_of_task, ++last_request_};
    write_refusal(*on, of.task, request, of.attempt, why, runs_at_home);
    // Of the loop's thread, too, which must not wait; it is small.
    static_cast<void>(by.send(of.node, request, on->writer.pieces(), on->writer.size_bytes()));
  } catch (...) {
    // No memory: the task stays with this node until one of the two ends.
  }
  --guests_;
}

// The loop's thread, and others. What has not come to a worker yet never begins, so that is noted
// at once; what has is asked by a thread of its own, since workers may all be at what is to be
// stopped.
void trade::stop_visit(std::uint64_t from, std::uint64_t number) noexcept {
  exec::job* j = nullptr;
  try {
    const std::lock_guard lock(mutex_);
    const auto found = visits_.find({from, number});
    if (found == visits_.end()) {
      constexpr std::size_t most_stopped = 65536;
      if (stopped_.size() >= most_stopped) stopped_.clear();  // of tasks that had ended, mostly
      stopped_.insert({from, number});
      return;
    }
    j = found->second.job;
    j->hold();
  } catch (const std::bad_alloc&) {
    return;  // it goes on to its end
  }
  try {
    // The line may be dropped with all that is in it.
    const std::shared_ptr<exec::job> held(j, [](exec::job* of) { of->drop(); });
    facts_line::global().add([held] { exec::cancel_job(held.get(), true); });
  } catch (...) {
    return;  // likewise
  }
}

}  // namespace manta::inline v0::node
