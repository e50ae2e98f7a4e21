// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <fmt/format.h>

#include <manta/base/check.hpp>
#include <manta/base/machine.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/delegation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/suspension.hpp>

#include "node/note_run.hpp"
#include "node/worker_hand.hpp"
#include "node/worker_order.hpp"
#include "node/worker_pool.hpp"
#include "spec/made_error.hpp"

// How isolated workers begin and end, and the thread that looks after them.

namespace manta::inline v0::node {

namespace {

using namespace std::chrono_literals;

constexpr auto tick_time = 1ms;
constexpr auto most_pumping = 10ms;  // between two ticks
// Ticks with nothing under way until the collector sleeps for good.
constexpr int quiet_ticks = 50;
// Ticks between two looks for workers that are one too many.
constexpr int surplus_ticks = 20;
// Workers that can't be made in a row, with none there, until nobody waits for one: about a second.
constexpr int most_failed_starts = 1000;
// Workers that are started before anything asks for them.
constexpr int most_early_workers = 64;
// Looks at the end until tasks that wait are asked to stop once more.
constexpr int rounds_a_stop = 50;

// Told apart from every worker this process ever had.
std::uint64_t next_unique() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1) + 1;
}

}  // namespace

void worker_pool::open(const config& settings, bool all_calls) {
  {
    const std::lock_guard lock(mutex_);
    roster_ = sched::roster({.target = static_cast<std::size_t>(settings.workers)});
    spin_ = std::chrono::microseconds(settings.spin_us);
    cores_ = static_cast<std::size_t>(base::usable_cores());
    target_ = static_cast<std::size_t>(settings.workers);
    under_way_ = 0;
    early_deaths_ = {};
    sum_at_open_ = sum_;
    is_closing_.store(false);
  }
  collector_ends_.store(false);
  collector_parked_.store(false);
  collector_sleep_.reset();
  set_limits(settings);
  open_output(settings);
  // Where few calls need one, they come with these.
  const int early = all_calls ? std::min(settings.workers, most_early_workers) : 0;
  for (int i = 0; i < early; ++i) add_worker();
  restorer_ = std::make_unique<store::lane>();
  takes_all = all_calls;
  collector_ = std::thread([this] { collect(); });
  is_open_.store(true, std::memory_order_release);
  exec::knows_names.store(&names_of_node());
  exec::elsewhere.store(this, std::memory_order_release);
}

// From here on nothing new begins.
void worker_pool::begin_close(bool asks_to_stop) noexcept {
  // Else threads that go on calling would have the mutex, and this one call after call to cancel.
  exec::executor::global().refuse_calls();
  exec::doom_coroutines();  // of this process, that workers may wait for
  {
    const std::lock_guard lock(mutex_);
    is_closing_.store(true);
    for (const auto& one : hands_) {
      if (one != nullptr) take_back(*one);
    }
    for (const auto& one : all_) {
      abandon_all(*one);
      if (!asks_to_stop) continue;
      for (flight& f : one->flights) order_stop(*one, f);
      for (auto& [number, f] : one->off_stack) order_stop(*one, f);
    }
  }
  cancel_pending();
  close_actors(asks_to_stop);
  stop_waking(nullptr);
}

void worker_pool::close(bool asks_to_stop) noexcept {
  {
    const std::lock_guard lock(opening_);
    offered_.reset();
  }
  if (!is_open()) return;
  begin_close(asks_to_stop);
  wake_collector();
  exec::parker nap;
  for (int round = 0;; ++round) {
    {
      const std::lock_guard lock(mutex_);
      if (under_way_ == 0 && !has_pending()) break;
    }
    cancel_pending();
    if (round % rounds_a_stop == 0) {
      stop_waiting_tasks();
      end_coroutines();
    }
    if (!pump()) nap.park_until(base::after(100us));
  }
  // Their methods have ended, their destructors may be running.
  const auto has_actors = [this] {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(all_, [](const auto& one) { return one->lives_here != nullptr; });
  };
  for (const base::time_point end = base::after(5s); has_actors() && base::now() < end;) {
    if (!pump()) nap.park_until(base::after(100us));
  }
  restorer_ = nullptr;
  collector_ends_.store(true);
  collector_sleep_.signal();
  collector_.join();
  replaying_.clear();
  cancel_pending();
  forget_actors();
  std::vector<std::shared_ptr<hand>> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(all_);
    hands_.clear();
    generation_.fetch_add(1);
  }
  for (const auto& one : left) {
    zygote::global().kill(one->unique);
    forget_questions(*one);
    forget_owed(*one, ended_error());
    for (const auto& [id, n] : one->lent) give_back_name(id, n);
    static_cast<void>(one->arrays.leave());
  }
  // Until the last of them is gone: nothing is left behind.
  const base::time_point end = base::after(5s);
  std::size_t remaining = left.size();
  while (remaining > 0 && base::now() < end && !zygote::global().is_dead()) {
    const auto said = zygote::global().next_report();
    if (!said) {
      nap.park_until(base::after(200us));
    } else if (said->what == zygote::report::kind::ended || said->pid == 0) {
      --remaining;
    }
  }
  facts_line::of_ends().close();  // what it ends may ask the other one
  facts_line::global().close();
  output_.close();
  my_view() = {};
  is_open_.store(false, std::memory_order_release);
  exec::elsewhere.store(nullptr, std::memory_order_release);
}

void worker_pool::cancel_pending() noexcept {
  for (;;) {
    waiting next;
    {
      const std::lock_guard lock(mutex_);
      if (!pop_pending(next)) return;
    }
    if (next.is_claimed) {
      next.job->fail(ended_error(), 1);
    } else {
      next.job->ops->cancel(next.job, ended_error());
    }
  }
}

// What is written for it waits in its ring until it comes. Null: none can be made just now.
std::shared_ptr<worker_pool::hand> worker_pool::make_hand(std::size_t place) noexcept {
  if (is_closing_.load(std::memory_order_relaxed)) return nullptr;
  result<wire::worker_line> line = wire::worker_line::make();
  int ends[2] = {-1, -1};
  worker_output::ends pipes;
  std::shared_ptr<hand> made;
  std::shared_ptr<worker_output::source> prints;
  if (line.has_value() && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0) {
    try {
      made = std::make_shared<hand>(*std::move(line), place, next_unique());
      made->socket = ends[0];
      worker_seat seat;
      seat.number = made->unique;
      seat.line = made->line.files();
      seat.socket = ends[1];
      if (output_.is_open()) prints = made->prints = output_.add(made->unique, pipes);
      if (output_.is_open() && prints == nullptr) throw std::bad_alloc();
      seat.output = pipes.files;
      const std::lock_guard lock(mutex_);
      all_.reserve(all_.size() + 1);
      // One that comes at the runtime's end would be nobody's to end.
      const bool is_late = is_closing_.load(std::memory_order_relaxed);
      if (!is_late && zygote::global().spawn(seat)) {
        all_.push_back(made);
        ++sum_.workers;
        if (place != sched::roster::nobody) {
          hands_[place] = made;
          roster_.joined(place);
        }
        generation_.fetch_add(1, std::memory_order_release);
      } else {
        made = nullptr;
      }
    } catch (const std::bad_alloc&) {
      made = nullptr;
    }
  }
  if (ends[1] >= 0) ::close(ends[1]);
  if (made == nullptr && prints != nullptr) output_.end(*prints);
  failed_starts_ = made != nullptr ? 0 : failed_starts_ + 1;
  return made;
}

// It has its place at once. False: none was needed, or none can be made just now.
bool worker_pool::add_worker() noexcept {
  std::size_t place = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!roster_.wants_worker()) return false;
    try {
      place = roster_.start();
      if (hands_.size() <= place) hands_.resize(place + 1);
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  if (make_hand(place) != nullptr) return true;
  const std::lock_guard lock(mutex_);
  roster_.left(place);
  return false;
}

// Nobody is there to run anything, and for a while nobody could be made.
void worker_pool::fail_without_workers() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (roster_.size() > 0 || failed_starts_ < most_failed_starts) return;
  }
  give_up_pending(zygote::global().is_dead()
                      ? "the process that isolated workers are born from has died"
                      : "no isolated worker can be made: there is no memory, or no descriptor or "
                        "process is left; raise those limits");
}

// Fails what waits.
void worker_pool::give_up_pending(const std::string& why) noexcept {
  for (;;) {
    waiting next;
    {
      const std::lock_guard lock(mutex_);
      if (!pop_pending(next)) return;
    }
    if (next.is_claimed || next.job->try_claim()) {
      next.job->fail(error(errc::worker_lost, why), 1);
    } else {
      next.job->drop_entry();
    }
  }
}

void worker_pool::on_report(const zygote::report& said) noexcept {
  std::shared_ptr<hand> of;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(
        all_, [&said](const std::shared_ptr<hand>& one) { return one->unique == said.number; });
    if (found == all_.end()) return;
    of = *found;
    if (said.what == zygote::report::kind::spawned) of->pid = said.pid;
  }
  if (said.pid == 0) {
    on_death(of, false, fmt::format("no process: {}", std::strerror(said.status)));
  } else if (said.what == zygote::report::kind::ended) {
    const bool was_killed = WIFSIGNALED(said.status) && WTERMSIG(said.status) == SIGKILL;
    on_death(of, was_killed, how_it_ended(*of, said.status));
  }
}

// Under the mutex: what it had under way, and the number of the task that has cost it its life: the
// last one that it began, or, if none was on its stack, the last one that had left that.
std::uint64_t worker_pool::collect_lost(hand& dead, std::vector<flight>& lost) noexcept {
  const wire::worker_page& page = dead.line.page();
  std::uint64_t culprit = 0;
  for (flight& f : dead.flights) {
    if (f.number == 0 || !f.is_written) continue;
    // One that is done and whose result did not come has run, too.
    f.has_begun =
        page.is(f.number, wire::slot_state::running) || page.is(f.number, wire::slot_state::done);
    if (f.has_begun) culprit = std::max(culprit, f.number);
    lost.push_back(f);
  }
  const bool has_run = culprit != 0;
  for (auto& [number, f] : dead.off_stack) {
    if (!has_run) culprit = std::max(culprit, number);
    f.has_begun = true;
    lost.push_back(f);
  }
  for (const flight& f : lost) leave(dead, *dead.find(f.number));
  return culprit;
}

namespace {

// Whether one that has begun may do so once more, and one by whose fault that was lost.
bool has_run_left(const exec::job& j, bool was_stopped) noexcept {
  return !was_stopped && j.extra()->retries_left > 0;
}
bool takes_retry(const exec::job& j, bool was_stopped) noexcept {
  const bool is_late = (j.word() & exec::job_bits::late) != 0;
  return has_run_left(j, was_stopped) && !j.extra()->losable && !is_late;
}

// A future of it left the worker that asked for it.
bool is_wanted_by_others(const exec::job& j) noexcept {
  return (j.word() & exec::job_bits::named) != 0;
}

error lost_value_error(const std::string& how) noexcept {
  return spec::made_error(errc::worker_lost, [&] {
    return fmt::format(
        "a future inside of a value: the isolated worker that was to make its value "
        "ended with {}; let a task make it, which is run again",
        how);
  });
}

}  // namespace

// Everything it said is heard first; then what it had is given to others.
void worker_pool::on_death(const std::shared_ptr<hand>& dead, bool was_killed,
                           const std::string& how) noexcept {
  while (drain_one(dead, true)) {
  }
  while (dead->being_handled.load() != 0) std::this_thread::yield();
  if (dead->prints != nullptr) output_.end(*dead->prints);
  std::vector<flight> lost;
  std::vector<exec::job_ref> orphans;
  std::vector<exec::job_ref> had_delegated;  // to these
  actor_names::counts had;
  std::vector<lent_array> had_arrays;
  bool is_hopeless = false;
  {
    const std::lock_guard lock(mutex_);
    dead->is_dead = true;
    exec::claim_list none;
    dead->lend_cores(false, none);
    expect_restart(*dead);
    had.swap(dead->lent);
    had_arrays = dead->arrays.leave();
    for (const auto& [request, j] : dead->asked) {
      if (is_passed_spawn(j)) continue;  // it ends with the handles that the worker had
      if (is_wanted_by_others(*j)) continue;
      j->hold();
      orphans.emplace_back(j);
    }
    if (!dead->is_house()) {
      roster_.left(dead->number);
      hands_[dead->number] = nullptr;
    }
  }
  // What it held is back before anybody hears of its death, or runs what it ran.
  forget_questions(*dead);
  for (const auto& [id, n] : had) give_back_name(id, n);
  had_arrays.clear();
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t culprit = collect_lost(*dead, lost);
    for (const flight& f : lost) had_delegated.push_back(exec::forget_delegation(f.job));
    std::erase(all_, dead);
    generation_.fetch_add(1, std::memory_order_release);
    if (!dead->is_let_go && !dead->is_house() && culprit == 0 && dead->results == 0) {
      early_deaths_.died(was_killed, base::now().time_since_epoch());
      is_hopeless = early_deaths_.is_hopeless();
      if (is_hopeless) early_deaths_.ran();  // begins to count anew
    }
    // In the same step: whoever looks finds each task under way, pending, or among those to fail.
    requeue_lost(*dead, lost, culprit, how);
  }
  if (dead->is_house()) on_tenant_death(*dead, how);
  for (const flight& f : lost) fail_lost(f, dead->pid, how);
  // Nobody wants what it asked for and did not live to get: a run of its task asks anew.
  for (const exec::job_ref& one : orphans) {
    const bool is_stream = is_passed(one.get()) && is_generator(one.get());
    if (exec::withdraw_job(one.get(), exec::cancelled_error()) || !is_stream) continue;
    abandon_passed(*passed_job::self(one.get()));
  }
  forget_owed(*dead, lost_value_error(how));
  if (is_hopeless) {
    give_up_pending(
        fmt::format("isolated workers end before they run anything, the last one with {}", how));
  }
  dispatch();
}

// Under the mutex. Afterwards `lost` has those that are to fail.
void worker_pool::requeue_lost(hand& dead, std::vector<flight>& lost, std::uint64_t culprit,
                               const std::string& how) noexcept {
  std::ranges::sort(lost, [](const flight& a, const flight& b) { return a.number > b.number; });
  std::erase_if(lost, [&](flight& f) {
    const bool is_own = is_passed(f.job) && passed_job::self(f.job)->worker == dead.unique;
    try {
      if (has_yielded(f.job) || f.job->ops->origin != nullptr) return false;
      exec::call_extra& with = *f.job->extra();
      if (is_own) {
        // It ran on its caller's stack, who asks anew when it runs again: what that costs is noted.
        const passed_job& child = *passed_job::self(f.job);
        const bool is_over = f.has_begun && with.retries_left == 0;
        if (f.number == culprit || is_over) spent_.note(child.id.low, with.attempt + 1);
        if (!is_wanted_by_others(child)) return false;
      }
      // One that has begun beside what is to blame spends no run, but needs one that is left.
      if (f.has_begun && with.retries_left == 0) return false;
      const bool was_stopped = f.stop_asked != base::time_point{};
      const bool is_free = dead.ends_by_force && has_run_left(*f.job, was_stopped);
      const bool is_charged = f.number == culprit && !dead.is_let_go && !is_free;
      if (is_charged && !takes_retry(*f.job, was_stopped)) return false;
      put_pending({f.job, true}, true);
      if (f.has_begun) note_lost_run(*f.job, dead.pid, how);
      if (is_charged) {
        --with.retries_left;
        ++with.attempt;
      }
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  });
}

// Under the mutex. A call that was made before by a run of its caller which died with it has runs
// less. False: none is left.
bool worker_pool::charge_spent(passed_job& j) noexcept {
  const std::uint32_t spent = spent_.of(j.id.low);
  if (spent == 0) return true;
  exec::call_extra& with = *j.extra();
  with.attempt = spent;
  if (spent > with.retries_left) return false;
  with.retries_left -= spent;
  return true;
}

void worker_pool::fail_lost(const flight& f, pid_t pid, const std::string& how) noexcept {
  try {
    const exec::call_extra& with = *f.job->extra();
    const std::string name =
        with.name != nullptr ? *with.name : readable_name(f.job->ops->function);
    if (f.stop_asked != base::time_point{}) {
      f.job->fail(error(errc::cancelled,
                        fmt::format("{} went on after it was asked to stop, so its isolated worker "
                                    "(pid {}) was ended",
                                    name, pid)),
                  1);
      return;
    }
    if (has_yielded(f.job)) {
      f.job->fail(lost_generator(name, pid, how), 1);
      return;
    }
    if (f.job->ops->origin != nullptr) {
      f.job->fail(
          error(errc::actor_lost,
                fmt::format("{}: the actor has ended, and before what the call returned was "
                            "there its isolated worker (pid {}) ended with {}",
                            name, pid, how)),
          1);
      return;
    }
    f.job->fail(
        error(errc::worker_lost,
              fmt::format("{}: the isolated worker that ran it (pid {}) ended with {}, in "
                          "run {} of {}; mend what ends it, or raise max_retries",
                          name, pid, how, with.attempt + 1, with.attempt + 1 + with.retries_left)),
        1);
  } catch (...) {
    f.job->fail(error::out_of_memory(), 1);
  }
}

// ---- the collector

void worker_pool::wake_collector() noexcept {
  if (collector_parked_.load(std::memory_order_seq_cst)) collector_sleep_.signal();
}

// Nobody waits for a task; but who calls an actor, or watches one, wants to hear of its death.
duration worker_pool::quiet_time() noexcept {
  const std::lock_guard lock(mutex_);
  const bool has_actor = std::ranges::any_of(
      all_, [](const std::shared_ptr<hand>& one) { return one->lives_here != nullptr; });
  return has_actor ? duration(10ms) : duration(1s);
}

bool worker_pool::is_quiet() noexcept {
  const std::lock_guard lock(mutex_);
  return under_way_ == 0 && !has_pending();
}

namespace {

// What it finishes may start other jobs. False: the runtime has not quite begun, or ends.
bool joins_runtime() noexcept {
  if (!exec::executor::is_running()) return false;
  exec::executor::join_if_new();
  return true;
}

}  // namespace

void worker_pool::collect() noexcept {
  pthread_setname_np(pthread_self(), "manta-collector");
  int quiet = 0;
  std::uint32_t seen = 0;
  bool is_looked_after = false;  // others have taken what came lately
  base::time_point ticked{};
  for (int ticks = 1; !collector_ends_.load(); ++ticks) {
    quiet = is_quiet() ? quiet + 1 : 0;
    if (!replaying_.empty()) {
      // It goes on at once.
    } else if (quiet > quiet_ticks) {
      collector_parked_.store(true, std::memory_order_seq_cst);
      if (is_quiet()) collector_sleep_.park_until(base::after(quiet_time()));
      collector_parked_.store(false, std::memory_order_relaxed);
      quiet = 0;
    } else if (pumping_.load() == 0 && quiet == 0 && !is_looked_after) {
      sleep_on_rings(collector_sleep_, base::after(tick_time));
    } else {
      collector_sleep_.park_until(base::after(tick_time));
    }
    collector_sleep_.reset();
    if (!joins_runtime()) continue;
    is_looked_after = pumps_.load(std::memory_order_relaxed) != seen;
    // Results may come faster than they are taken: others' deaths are to be heard all the same.
    for (const base::time_point end = base::after(most_pumping); pump() && base::now() < end;) {
    }
    seen = pumps_.load(std::memory_order_relaxed);
    hear_deaths();
    replay_some();
    const base::time_point now = base::now();
    if (!replaying_.empty() && now - ticked < tick_time) continue;
    ticked = now;
    tick();
    if (ticks % surplus_ticks == 0) let_surplus_go();
    let_worn_go();
  }
}

void worker_pool::hear_deaths() noexcept {
  while (const auto said = zygote::global().next_report()) on_report(*said);
  if (!zygote::global().is_dead()) return;
  const std::vector<std::shared_ptr<hand>> all = look();
  for (const auto& one : all) on_death(one, false, "the zygote's end");
}

void worker_pool::tick() noexcept {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& one : all_) {
      if (one->down.is_behind()) {
        one->down.flush();
        one->down.bell();
      }
    }
  }
  hear_orders();
  share_array_news();
  enforce_stops();
  guard_memory();
  help_idle();
  dispatch();
  fail_without_workers();
}

}  // namespace manta::inline v0::node
