// SPDX-License-Identifier: Apache-2.0
// Tasks of other nodes that run here: trade.hpp.
#include <atomic>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <variant>

#include <manta/codec/errors.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/node/carrier.hpp>

#include "node/asked.hpp"
#include "node/desk.hpp"
#include "node/errand.hpp"
#include "node/task_records.hpp"
#include "node/trade.hpp"
#include "node/trip.hpp"
#include "node/visits.hpp"
#include "node/workbench.hpp"
#include "node/worker_facts.hpp"
#include "spec/made_error.hpp"

namespace manta::inline v0::node {

namespace {

base::id stream_of_visit(const std::pair<std::uint64_t, std::uint64_t>& who) noexcept {
  return {who.first, far_streams::of_task(who.second)};
}

// A generator ends where it is suspended, too.
void cancel_visit(const base::id& stream, exec::job* j, bool with_children) noexcept {
  if (!far_streams::global().stop(stream, with_children)) exec::cancel_job(j, with_children);
}

// Takes a hold over.
void cancel_soon(const base::id& stream, exec::job* j, bool with_children) noexcept {
  try {
    // The line may be dropped with all that is in it.
    std::shared_ptr<exec::job> held(j, [](exec::job* of) { of->drop(); });
    facts_line::of_ends().add([stream, held = std::move(held), with_children] {
      cancel_visit(stream, held.get(), with_children);
    });
  } catch (...) {
    return;  // it goes on to its end
  }
}

}  // namespace

error trade::leaves_error() noexcept {
  return spec::made_error(errc::node_lost, [] {
    return "the node that ran it has left the cluster, and is lost for what it had not ended; call "
           "it again with another place";
  });
}

void trade::take_in(peers& by, const visitor_key& who, const peers::kept_message& message,
                    std::shared_ptr<far_arrivals> came, std::optional<duration> wait) {
  {
    const std::lock_guard lock(mutex_);
    // No honest node gives one twice.
    if (!visits_.try_emplace(who, visit{.node = who.first, .number = who.second}).second) return;
    ++guests_;
  }
  if (!is_door_open_.load()) return send_home(by, who, message.bytes);
  if (wait > duration::zero()) {
    return send_home(by, who, message.bytes, {true, sent_back::line, *wait});
  }
  try {
    run_errand([this, &by, who, kept = message, handles = std::move(came),
                may_go_back = wait.has_value()](bool runs) mutable {
      if (!runs) return send_home(by, who, kept.bytes);
      if (may_go_back && handles != nullptr && sched::are_enough(reading_.load(), workers_)) {
        const duration patience = sched::overflow_settings{}.patience;
        return send_home(by, who, kept.bytes, {true, sent_back::arrays, patience});
      }
      run_visit(by, who, std::move(kept), handles, may_go_back);
    });
  } catch (...) {
    if (leaves_line(who)) --guests_;
    throw;
  }
}

// False: it was stopped meanwhile, and that is answered.
bool trade::leaves_line(const visitor_key& who) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = visits_.find(who);
  if (found == visits_.end() || !found->second.is_in_line) return false;
  visits_.erase(found);
  return true;
}

// From here on a stop finds that it has begun. False as above.
bool trade::comes_in(const visit& of, reading_stop& reading) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = visits_.find({of.node, of.number});
  if (found == visits_.end()) return false;
  found->second.is_in_line = false;
  found->second.reading = &reading;
  return true;
}

// True: it was stopped before it had a job.
bool trade::sits_down(const visit& of) {
  const std::lock_guard lock(mutex_);
  visit& here = visits_.at({of.node, of.number});
  here.job = of.job;
  here.reading = nullptr;
  of.job->hold();
  return here.is_stopped;
}

bool trade::has_visit(const exec::job* j) const noexcept {
  const std::lock_guard lock(mutex_);
  return has_job(visits_, j);
}

exec::job* trade::visitor(std::uint64_t from, std::uint64_t number) const noexcept {
  const std::lock_guard lock(mutex_);
  return job_of_visit(visits_, {from, number});
}

namespace {

// What it asks this node for, because it is to run here and nowhere else; nothing, of all others.
std::optional<options> asked_of_here(const wire::task_view& task, std::uint64_t from) {
  if (task.options == nullptr) return std::nullopt;
  options out = to_options(*task.options);
  const wire::placement_view& where = task.options->where;
  if (where.by == placement::rule::group) {
    out.where = desk::global().place_of_guest(from, where.group, where.bundle);
    return out;
  }
  const spec::demand asked = spec::to_demand(out);
  if (asked.is_empty()) return std::nullopt;
  // What can never be is said as that, and not as a message that can't be read.
  desk::global().check_here(asked);
  return out;
}

// What this node has not, or could not fetch, may be there at home.
bool may_do_at_home(const error& why) noexcept {
  const errc is = why.code();
  return is == errc::infeasible || is == errc::node_lost || is == errc::object_lost ||
         is == errc::store_full || is == errc::out_of_memory;
}

/// Counts while it lives.
class counted {
 public:
  explicit counted(std::atomic<std::uint32_t>& by) noexcept : by_(by) { ++by_; }
  ~counted() { --by_; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;

 private:
  std::atomic<std::uint32_t>& by_;
};

// It cancels all that is here then, and ends what is waited for.
bool ends_here() noexcept { return exec::is_all_cancelled() || !exec::executor::is_running(); }

}  // namespace

void trade::run_visit(peers& by, const visitor_key& who, peers::kept_message message,
                      const std::shared_ptr<far_arrivals>& came, bool may_go_back) noexcept {
  visit of{.node = who.first, .number = who.second, .at = base::now()};
  std::optional<neutral_caller> its_node(std::in_place, neutral_caller::of_node{who.first});
  std::optional<reading_stop> reading(std::in_place);
  if (!comes_in(of, *reading)) return;
  bool is_stopped = false;
  bool asks = false;
  try {
    const borrowed_workbench on;
    const far_reading handles(came.get());
    const result<const wire::message_view&> read = on->reader.read(message.bytes);
    const auto* const task = read ? std::get_if<wire::task_view>(&read->body) : nullptr;
    if (task == nullptr) raise(errc::decode_failed, "a task that is none");
    of.task = task->id;
    of.attempt = task->attempt;
    const std::optional<options> asked = asked_of_here(*task, who.first);
    asks = asked.has_value();
    {
      const counted reads(reading_);
      of.job = make_task(*task, asks ? &*asked : nullptr);
    }
    of.unit = task_records::global().came(*task, message.bytes);
    far_streams::global().open(by, stream_of_visit(who), of.job);
    of.job->set(exec::job_bits::stays);  // who sent it has chosen this node
    message = {};                        // with all that came beside it; the task may take long
    is_stopped = sits_down(of);
  } catch (...) {
    const error why = describe_current_exception("the message of a task");
    const visit last = takes_leave(who);
    if (last.is_answered) return ends(of);
    const bool is_leaving = !is_door_open_.load() || last.is_unwanted;
    if (is_leaving || ends_here()) return refuse(by, of, leaves_error(), {.runs_at_home = true});
    // One that was sent of itself has not run, and home has all that it reads.
    return refuse(by, of, why, {.runs_at_home = may_go_back || may_do_at_home(why)});
  }
  reading.reset();
  its_node.reset();
  if (is_stopped) cancel_visit(stream_of_visit(who), of.job, true);
  of.asks = asks;
  of.has_begun = !asks && !is_stopped && !ends_here();
  if (asks) {
    exec::ready_task(of.job);
    return answer_when_ready(by, of);
  }
  of.job->ops->execute(of.job);
  if (of.job->is_ready()) {
    answer(by, of);
  } else {
    answer_when_ready(by, of);
  }
}

// The runtime has ended here, or is about to: nobody runs it. Or it would wait for long.
void trade::send_home(peers& by, const visitor_key& who, bytes_view message,
                      const way_back& how) noexcept {
  if (!leaves_line(who)) return;
  visit of{.node = who.first, .number = who.second};
  {
    const borrowed_workbench on;
    const result<const wire::message_view&> read = on->reader.read(message);
    const auto* const task = read ? std::get_if<wire::task_view>(&read->body) : nullptr;
    if (task != nullptr) {
      of.task = task->id;
      of.attempt = task->attempt;
    }
  }
  refuse(by, of, exec::ended_error(), how);
}

// The result of a task that has suspended, or stands for another one's.
struct trade::late_answer : exec::waiter {
  trade* to = nullptr;
  peers* by = nullptr;
  visit of;
};

void trade::answer_when_ready(peers& by, const visit& of) noexcept {
  auto* const late = new (std::nothrow) late_answer;
  if (late == nullptr) {
    const base::id stream = stream_of_visit({of.node, of.number});
    cancel_visit(stream, of.job, true);
    static_cast<void>(far_streams::global().close(stream, of.job));
    return refuse(by, of, error::out_of_memory(), {true, sent_back::begun});
  }
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
// ends, which cancels all that is here and closes what it asks, or it has no room.
bool is_of_this_node(exec::job& ended, bool is_leaving) {
  exec::job* const end = ended.outcome();
  if ((end->word() & exec::job_bits::failed) == 0) return false;
  if (is_leaving || ends_here()) return true;
  const errc is = end->failure().code();
  return is == errc::store_full || is == errc::out_of_memory;
}

// What waited for amounts ends with one of these two when it is called off, or this node ends. What
// ran may, too, and is not told of then.
bool seems_to_have_begun(exec::job& ended) noexcept {
  exec::job* const end = ended.outcome();
  if ((end->word() & exec::job_bits::failed) == 0) return true;
  const std::string& why = end->failure().message();
  return why != exec::cancelled_error().message() && why != exec::ended_error().message();
}

}  // namespace

void trade::answer(peers& by, const visit& of) noexcept {
  const visit last = takes_leave({of.node, of.number});
  const bool is_leaving = !is_door_open_.load() || last.is_unwanted;
  error why(errc::unsupported, "a value with handles of its node stays there");
  bool is_sent = false;
  const std::optional<error> lost =
      far_streams::global().close(stream_of_visit({of.node, of.number}), of.job);
  try {
    if (lost) lost->raise();
    const bool is_ours = is_of_this_node(*of.job, is_leaving);
    if (is_ours) why = is_leaving ? leaves_error() : of.job->outcome()->failure();
    const borrowed_workbench on;
    const base::id request{peers::result_of_task, ++last_request_};
    on->write_for(of.node);
    const bool can_go =
        !is_ours && !last.is_answered &&
        write_given_result(*on, of.job, request, of.attempt, base::now() - of.at, of.number);
    if (can_go) {
      // False is of one that is gone.
      static_cast<void>(far_handles::global().send(by, request, *on, peers::when_full::wait));
      is_sent = true;
    }
  } catch (...) {
    why = describe_current_exception(of.job->ops->function);
  }
  if (is_sent || last.is_answered) {
    ends(of);
  } else {
    // At home its value needs no bytes.
    const bool has_begun = of.asks ? seems_to_have_begun(*of.job) : of.has_begun;
    refuse(by, of, why, {true, has_begun ? sent_back::begun : sent_back::unread});
  }
  of.job->drop();  // that of the list
  of.job->drop();  // the future's, which nobody has
}

// Answers what was known of it.
trade::visit trade::takes_leave(const visitor_key& who) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = visits_.find(who);
  if (found == visits_.end()) return {};
  const visit out = found->second;
  visits_.erase(found);
  return out;
}

// All is said of it.
void trade::ends(const visit& of) noexcept {
  task_records::global().over(of.unit);
  --guests_;
}

// The last that is said of a visit.
void trade::refuse(peers& by, const visit& of, const error& why, const way_back& how) noexcept {
  say_refusal(by, of, why, how);
  ends(of);
}

void trade::say_refusal(peers& by, const visit& of, const error& why,
                        const way_back& how) noexcept {
  try {
    const borrowed_workbench on;
    const base::id request{peers::result_of_task, ++last_request_};
    write_refusal(*on, of.task, request, of.attempt, why, how, of.number);
    // Of the loop's thread, too.
    static_cast<void>(
        by.send_anyway(of.node, request, on->writer.pieces(), on->writer.size_bytes()));
  } catch (...) {
    // No memory: the task stays with this node until one of the two ends.
  }
}

// The loop's thread. What has not come to a worker yet, or waits there for arrays that its message
// names, never begins, and is answered at once; what has begun is asked by a thread of its own,
// since workers may all be at what is to be stopped.
void trade::stop_visit(peers& by, std::uint64_t from, const stop_note& asked) noexcept {
  const visitor_key who{from, asked.number};
  exec::job* j = nullptr;
  bool is_in_line = false;
  bool is_read = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = visits_.find(who);
    is_in_line = found != visits_.end() && found->second.is_in_line;
    if (is_in_line) {
      visits_.erase(found);
    } else if (found != visits_.end()) {
      j = found->second.job;
      found->second.is_stopped = true;
      if (found->second.reading != nullptr) found->second.reading->ask();
      is_read = j == nullptr && !std::exchange(found->second.is_answered, true);
    }
    if (j != nullptr) j->hold();
  }
  const visit of{.node = from,
                 .number = asked.number,
                 .task = {asked.task_high, asked.task_low},
                 .attempt = asked.attempt};
  if (is_in_line) return refuse(by, of, exec::cancelled_error(), {});
  if (is_read) return say_refusal(by, of, exec::cancelled_error(), {});
  if (j != nullptr) cancel_soon(stream_of_visit(who), j, asked.with_children);
}

// Who gave them is lost, or seems so from here: what they end with now is not what it has asked
// for.
void trade::stop_visits(std::uint64_t node) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [who, one] : visits_) {
    if (who.first != node) continue;
    one.is_unwanted = one.is_stopped = true;
    if (one.reading != nullptr) one.reading->ask();
    if (one.job == nullptr) continue;
    one.job->hold();
    cancel_soon(stream_of_visit(who), one.job, true);
  }
}

}  // namespace manta::inline v0::node
