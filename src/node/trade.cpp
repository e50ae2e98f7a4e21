// SPDX-License-Identifier: Apache-2.0
#include "node/trade.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>
#include <variant>

#include <pthread.h>

#include <manta/codec/errors.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/node/carrier.hpp>

#include "node/errand.hpp"
#include "node/head_facts.hpp"
#include "node/trip.hpp"
#include "node/workbench.hpp"
#include "node/worker_facts.hpp"

namespace manta::inline v0::node {

namespace {

using namespace std::chrono_literals;

constexpr duration between_looks = 1ms;
// Tasks that are looked at for one that goes: those that stay are put back.
constexpr int looks_for_one = 4;
// One message; what is larger stays.
constexpr std::size_t most_bytes = wire::default_frame_limit / 2;

}  // namespace

trade& trade::global() {
  static auto* const made = new trade;
  return *made;
}

void trade::open(peers& with, std::uint32_t workers) {
  workers_ = std::max<std::uint32_t>(workers, 1);
  is_closing_.store(false);
  is_door_open_.store(true);
  peers_.store(&with);
  pace_ = {};
  looker_ = std::thread([this] { run(); });
  is_open_.store(true);
  exec::thief_from_afar.store(this, std::memory_order_release);
}

void trade::close() noexcept {
  if (!is_open_.exchange(false)) return;
  exec::thief_from_afar.store(nullptr, std::memory_order_release);
  is_closing_.store(true);
  nap_.signal();
  looker_.join();
  nap_.reset();
  std::unordered_map<base::id, flight, life::id_hash> left;
  std::vector<flight> lost;
  {
    const std::lock_guard lock(mutex_);
    left.swap(away_);
    lost.swap(lost_);
    sent_.clear();
    landed_.clear();
  }
  for (auto& [task, one] : left) one.job->fail(exec::ended_error(), 1);
  for (const flight& one : lost) one.job->fail(exec::ended_error(), 1);
  peers_.store(nullptr);
}

bool trade::has_guests() const noexcept {
  const peers* const others = peers_.load();
  return guests_.load() > 0 || (others != nullptr && !others->is_quiet());
}

// ---- what is to go

void trade::woken() noexcept {
  if (is_asleep_.load() && is_asleep_.exchange(false)) nap_.signal();
}

void trade::on_news() {
  if (is_asleep_.load()) woken();
}

// Sleeps while no worker runs, and looks again and again while one does: what is queued then is
// queued without a word to anybody.
void trade::run() noexcept {
  pthread_setname_np(pthread_self(), "manta-trade");
  try {
    exec::executor::require();
  } catch (...) {
    return;  // the runtime is about to end
  }
  base::time_point looked{};
  while (!is_closing_.load()) {
    is_asleep_.store(true);
    if (exec::executor::active_workers() > 0 && is_asleep_.exchange(false)) {
      nap_.park_until(looked + between_looks);
    } else {
      nap_.park();
      is_asleep_.store(false);
    }
    nap_.reset();
    land();
    const base::time_point now = base::now();
    if (is_closing_.load() || now - looked < between_looks) continue;
    looked = now;
    look(now);
  }
}

// Results are not left to workers, who may all be at tasks that take long.
void trade::land() noexcept {
  std::vector<landed> came;
  std::vector<flight> lost;
  {
    const std::lock_guard lock(mutex_);
    came.swap(landed_);
    lost.swap(lost_);
  }
  return_all(lost);
  for (const landed& one : came) {
    if (one.what == peers::answer) {
      head_facts::global().on_answer(one.frame->bytes());
    } else {
      on_result(one.from, *one.frame);
    }
  }
}

std::vector<sched::overflow_peer> trade::others() const {
  std::vector<sched::overflow_peer> out;
  const std::vector<peers::member> all = peers_.load()->all();
  const std::lock_guard lock(mutex_);
  for (const peers::member& one : all) {
    if (!one.takes_work) continue;
    const auto sent = sent_.find(one.epoch);
    out.push_back({.node = one.epoch,
                   .workers = one.workers,
                   .waiting = one.load.queued,
                   .sent = sent == sent_.end() ? 0 : sent->second,
                   .task_time = one.load.task_time});
  }
  return out;
}

void trade::look(base::time_point at) noexcept {
  const exec::queued_work now = exec::measure_queues();
  pace_.look(at, now.ran, now.queued, workers_);
  if (now.queued == 0) return;
  try {
    const sched::overflow_queue here{now.queued, workers_, pace_.task_time()};
    for (const sched::overflow_share& one : sched::spread_overflow({}, here, others())) {
      give(one.node, one.tasks);
    }
  } catch (const std::bad_alloc&) {
    // Then they stay, until there is memory again.
  }
}

bool trade::may_go(const exec::job& j) noexcept {
  constexpr std::uint64_t rare = exec::job_bits::stays | exec::job_bits::cancel;
  const carrier* const by = carrier_of(&j);
  if (by == nullptr || (j.word() & rare) != 0 || j.ops->origin != nullptr) return false;
  // Actors are queued as jobs, too; and an array may lie on the disk.
  if (j.ops->execute != exec::execute_task || by->wake_arguments != nullptr) return false;
  if (by->entry == nullptr || by->entry->ops() == nullptr || by->stream != nullptr) return false;
  if (exec::may_be_cancelled(j.parent)) return false;
  const exec::call_extra* const with = j.extra();
  if (with == nullptr) return true;
  const bool asks_for_more = with->claim != nullptr || with->is_outside || with->losable ||
                             with->isolation.has_value() || with->may_repeat();
  return !asks_for_more && with->retries_left > 0 && !exec::is_limited(with->deadline);
}

void trade::give(std::uint64_t to, std::uint64_t tasks) noexcept {
  exec::deque::loot loot;
  std::uint64_t tries = tasks * looks_for_one;
  while (tasks > 0 && tries > 0) {
    const std::size_t n = exec::take_queued(loot);
    if (n == 0) return;
    for (std::size_t i = 0; i < n; ++i) {
      auto* const j = static_cast<exec::job*>(loot[i]);
      tries -= tries > 0 ? 1 : 0;
      if (tasks == 0 || !may_go(*j)) {
        exec::submit_again(j);
        continue;
      }
      switch (give_one(to, j)) {
        case outcome::given:
          --tasks;
          break;
        case outcome::stays:
          break;
        case outcome::full:
          tasks = 0;
          break;
      }
    }
  }
}

trade::outcome trade::give_one(std::uint64_t to, exec::job* j) noexcept {
  if (!j->try_claim()) {
    j->drop_entry();
    return outcome::stays;
  }
  const base::id id = exec::id_of(*j);
  bool stays = true;
  bool is_noted = false;  // with a hold more: it may end as soon as it is sent
  const exec::call_extra* const with = j->extra();
  const std::uint32_t attempt = with != nullptr ? with->attempt : 0;
  try {
    const borrowed_workbench on;
    const neutral_caller nobody;
    const bool can_run = carrier_of(j)->failure(j) == nullptr;
    const base::id request{peers::task, ++last_request_};
    if (can_run && write_given(*on, j, request, attempt) && on->writer.size_bytes() < most_bytes) {
      {
        const std::lock_guard lock(mutex_);
        std::uint32_t& sent = sent_[to];
        stays = !away_.emplace(id, flight{j, to, attempt, request.low}).second;
        if (!stays) ++sent;
        if (!stays) j->hold();
        is_noted = !stays;
      }
      if (!stays) {
        j->set(exec::job_bits::escaped);
        const result<void> sent =
            peers_.load()->send(to, request, on->writer.pieces(), on->writer.size_bytes());
        if (sent) {
          if ((j->word() & exec::job_bits::cancel) != 0) stop(j);  // meanwhile
          j->drop();
          return outcome::given;
        }
        if (take_flight(id, to, attempt).has_value()) {
          j->come_back(false);
          exec::submit_again(j);
        }
        j->drop();
        return outcome::full;
      }
    }
  } catch (...) {
    // It could not be written: here it need not be. Or memory has ended on its way out.
    if (is_noted) {
      if (take_flight(id, to, attempt).has_value()) {
        j->come_back(false);
        exec::submit_again(j);
      }
      j->drop();
      return outcome::full;
    }
  }
  j->come_back(stays);
  exec::submit_again(j);
  return outcome::stays;
}

// Whoever takes it out of the list ends it.
std::optional<trade::flight> trade::take_flight(const base::id& task, std::uint64_t node,
                                                std::uint32_t attempt) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = away_.find(task);
  if (found == away_.end() || found->second.node != node || found->second.attempt != attempt) {
    return std::nullopt;
  }
  const flight out = found->second;
  away_.erase(found);
  if (const auto sent = sent_.find(node); sent != sent_.end() && --sent->second == 0) {
    sent_.erase(sent);
  }
  return out;
}

// ---- what comes

// The loop's thread: nothing that is the user's is read here.
void trade::on_message(peers& by, std::uint64_t from, std::uint64_t what,
                       std::span<const std::byte> frame) {
  try {
    const auto kept = std::make_shared<wire::frame_buffer>();
    std::memcpy(kept->reset(frame.size()).data(), frame.data(), frame.size());
    switch (what) {
      case peers::task:
        return take_in(by, from, kept);
      case peers::question:
        return head_facts::global().on_question(by, from, kept->bytes());
      case peers::result_of_task:
      case peers::answer: {
        {
          const std::lock_guard lock(mutex_);
          if (is_open_.load()) landed_.push_back({from, what, kept});
        }
        return nap_.signal();
      }
      case peers::stop: {
        // Workers may all be at what is to be stopped.
        const borrowed_workbench on;
        const result<const wire::message_view&> read = on->reader.read(kept->bytes());
        const auto* const asked = read ? std::get_if<wire::ask_view>(&read->body) : nullptr;
        if (asked == nullptr || asked->what != wire::question::cancel_future) return;
        const auto number = codec::decode<std::uint64_t>(asked->with);
        return facts_line::global().add([this, from, number] { stop_visit(from, number); });
      }
      default:
        return;
    }
  } catch (...) {
    // No memory, or nonsense: who waits for it hears of it when this node ends, and not before.
  }
}

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

void trade::on_result(std::uint64_t from, const wire::frame_buffer& frame) noexcept {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(frame.bytes());
  const auto* const came = read ? std::get_if<wire::result_view>(&read->body) : nullptr;
  if (came == nullptr) return;
  const std::optional<flight> of = take_flight(came->task, from, came->attempt);
  if (!of.has_value()) return;  // it is late
  exec::job* const j = of->job;
  if (came->may_repeat) {
    j->come_back(true);
    return exec::executor::resume(j);
  }
  const std::uint64_t bits = fill_slot(j, *came);
  j->ops->drop_arguments(j);
  j->finish(bits | exec::job_bits::claimed, 1);
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

// Whether it failed as this node's runtime ends, which cancels all that is here: not what its first
// node has asked for, which can run it.
bool is_overtaken(exec::job& ended) noexcept {
  const bool is_ending = exec::is_all_cancelled() || !exec::executor::is_running();
  return is_ending && (ended.outcome()->word() & exec::job_bits::failed) != 0;
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
    const bool can_go = !is_overtaken(*of.job) &&
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

// ---- ends

void trade::stop(exec::job* j) noexcept {
  flight of;
  {
    const std::lock_guard lock(mutex_);
    const auto found = away_.find(exec::id_of(*j));
    if (found == away_.end()) return;
    of = found->second;
  }
  try {
    const borrowed_workbench on;
    const base::id request{peers::stop, ++last_request_};
    on->out.clear();
    const result<void> written = on->writer.write(
        {request, 1, 0},
        wire::ask_view{wire::question::cancel_future, codec::encode(on->out, of.number)});
    peers* const to = peers_.load();
    if (written && to != nullptr) {
      static_cast<void>(to->send(of.node, request, on->writer.pieces(), on->writer.size_bytes()));
    }
  } catch (...) {
    // It goes on to its end, which is what asking to stop is.
  }
}

void trade::stop_visit(std::uint64_t from, std::uint64_t number) noexcept {
  exec::job* j = nullptr;
  {
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
  }
  exec::cancel_job(j, true);
  j->drop();
}

void trade::on_gone(peers& /*by*/, std::uint64_t node, const std::string& /*why*/) {
  head_facts::global().on_gone(node);
  std::vector<std::uint64_t> unwanted;
  {
    const std::lock_guard lock(mutex_);
    for (auto at = away_.begin(); at != away_.end();) {
      if (at->second.node != node) {
        ++at;
        continue;
      }
      lost_.push_back(at->second);
      at = away_.erase(at);
    }
    sent_.erase(node);
    for (const auto& [key, one] : visits_) {
      if (one.node == node) unwanted.push_back(one.number);
    }
  }
  nap_.signal();
  try {
    for (const std::uint64_t number : unwanted) {
      facts_line::global().add([this, node, number] { stop_visit(node, number); });
    }
  } catch (...) {
    // They go on to their ends, which nobody hears of.
  }
}

// The node that had them is lost: they run once more, and here, so that once is enough.
void trade::return_all(const std::vector<flight>& lost) noexcept {
  for (const flight& one : lost) {
    exec::job* const j = one.job;
    if ((j->word() & exec::job_bits::cancel) != 0) {
      j->fail(exec::cancelled_error(), 1);
      continue;
    }
    j->come_back(true);
    exec::executor::resume(j);
  }
}

}  // namespace manta::inline v0::node
