// SPDX-License-Identifier: Apache-2.0
#include "node/trade.hpp"

#include <algorithm>
#include <new>
#include <utility>
#include <variant>

#include <manta/codec/errors.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/node/carrier.hpp>

#include "node/copy_cache.hpp"
#include "node/desk.hpp"
#include "node/errand.hpp"
#include "node/far_actors.hpp"
#include "node/far_arrays.hpp"
#include "node/far_futures.hpp"
#include "node/far_handles.hpp"
#include "node/far_pulls.hpp"
#include "node/node_things.hpp"
#include "node/note_run.hpp"
#include "node/outgoing.hpp"
#include "node/peer_question.hpp"
#include "node/resident_actors.hpp"
#include "node/surplus_data.hpp"
#include "node/task_records.hpp"
#include "node/trip.hpp"
#include "node/workbench.hpp"

namespace manta::inline v0::node {

namespace {

using namespace std::chrono_literals;

constexpr duration links_within = 5s;  // in the check mode

// By the table; the filter before it says yes too often to rely upon.
bool was_cancelled(const base::id& caller) noexcept {
  return exec::may_be_cancelled(caller) && exec::is_cancelled_caller(caller);
}

void wake_loop() { trade::global().turn_soon(); }

}  // namespace

void trade::turn_soon() noexcept {
  peers* const of = peers_.load();
  try {
    if (of != nullptr) of->turn_soon();
  } catch (const std::bad_alloc&) {
    return;  // at its next turn
  }
}

trade& trade::global() {
  static auto* const made = new trade;
  return *made;
}

void trade::open(peers& with, std::uint32_t workers, offers of_others, eagerness for_tests) {
  workers_ = std::max<std::uint32_t>(workers, 1);
  takes_offers_.store(of_others.are_taken);
  expected_.store(of_others.expected);
  is_closing_.store(false);
  peers_.store(&with);
  pace_ = {};
  window_ = sched::overflow_window(workers_);
  offered_ = 0;
  refused_ = 0;
  chance_ = base::chance::of_now();
  full_.clear();
  surplus_data::global().begin();
  vain_looks_ = {};
  in_line_ = came_ = 0;
  task_ns_ = 0;
  gives_all_.store(for_tests.gives_all);
  is_open_.store(true);
  try {
    start_threads();
  } catch (...) {
    is_open_.store(false);
    const std::lock_guard lock(mutex_);
    has_looker_ = false;
    throw;
  }
  resident_actors::global().open(with);
  far_actors::global().open(with, workers, for_tests.gives_actors);
  far_futures::global().open(with);
  node_things::global().open(with);
  is_door_open_.store(true);
  early_.open();
  with.tell_news();
  exec::thief_from_afar.store(this, std::memory_order_release);
  if (of_others.are_taken) {
    desk::global().open_to_others(may_be_elsewhere, data_of, of_others.expected == 0, wake_loop);
  }
  if (!for_tests.gives_all) return;
  const base::time_point limit = base::now() + links_within;
  const auto count = [&with] {
    return static_cast<std::size_t>(std::ranges::count_if(with.all(), &peers::member::takes_work));
  };
  while (count() < for_tests.awaits && base::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  exec::thief_of_all.store(this, std::memory_order_release);
}

void trade::call_back(bool at_once) noexcept {
  if (!is_open_.exchange(false)) return;
  if (takes_offers_.load()) desk::global().close_to_others();
  exec::thief_from_afar.store(nullptr, std::memory_order_release);
  exec::thief_of_all.store(nullptr);
  // Those who wait for an array would keep a worker from its end, or are about to give a task.
  if (at_once) far_pulls::global().close();
  while (givers_.load() > 0) std::this_thread::yield();
  std::vector<flight> away;
  try {
    const std::lock_guard lock(mutex_);
    for (const auto& [task, one] : away_) away.push_back(one);
  } catch (const std::bad_alloc&) {
    // They go on to their ends.
  }
  for (const flight& one : away) ask_to_stop(one, true);
  far_actors::global().call_back(at_once);
  far_futures::global().call_back(at_once);
  if (at_once) node_things::global().end_asking();
  if (at_once) end_flights();
}

void trade::close() noexcept {
  if (!looker_.joinable()) return;
  far_futures::global().call_back(true);  // here nobody waits any more, and others are answered
  node_things::global().end_asking();
  far_actors::global().close();
  {
    std::unique_lock lock(mutex_);
    is_home_.wait(lock, [this] {
      return !has_looker_ || (away_.empty() && lost_.empty() && landed_.empty());
    });
  }
  join_threads();
  far_pulls::global().close();
  far_pulls::global().let_all_go();
  copy_cache::global().clear();
  surplus_data::global().begin();
  far_arrays::global().close();  // what came until here was read
  far_handles::global().close();
  far_futures::global().close();
  node_things::global().close();
  place_granted();  // nowhere
  end_flights();
  std::vector<landed> unread;  // what came with them is given back when the mutex is free
  takes_offers_.store(false);
  const std::lock_guard lock(mutex_);
  has_looker_ = false;
  unread.swap(landed_);
  peers_.store(nullptr);
}

void trade::end_flights() noexcept {
  flights left;
  flights lost;
  {
    const std::lock_guard lock(mutex_);
    left.swap(away_);
    numbers_.clear();
    lost.swap(lost_);
    sent_.clear();
  }
  if (!left.empty() || !lost.empty()) outgoing::global().wait(0);
  for (const auto& [task, one] : left) one.job->fail(exec::ended_error(), 1);
  for (const auto& [task, one] : lost) one.job->fail(exec::ended_error(), 1);
}

void trade::close_door() noexcept {
  is_door_open_.store(false);
  desk::global().close_door();
  resident_actors::global().close_door();
}

bool trade::has_guests() const noexcept {
  const peers* const others = peers_.load();
  return guests_.load() > 0 || resident_actors::global().has_calls() ||
         (others != nullptr && !others->is_quiet());
}

// ---- what is to go

std::uint32_t trade::attempt_of(const exec::job& j) noexcept {
  const exec::call_extra* const with = j.extra();
  return with != nullptr ? with->attempt : 0;
}

bool trade::may_leave(const exec::job& j) noexcept {
  const carrier* const by = carrier_of(&j);
  if (by == nullptr || j.ops->origin != nullptr) return false;
  // Actors are queued as jobs, too.
  if (j.ops->execute != exec::execute_task) return false;
  if (by->entry == nullptr || by->entry->ops() == nullptr) return false;
  return !by->stays;  // it would only find there that it can't come back
}

bool trade::may_go(const exec::job& j) noexcept {
  return may_follow_data(j) && !was_cancelled(j.parent);
}

// True: it may be queued. False: it was cancelled meanwhile, or its time is over.
bool trade::comes_back(exec::job* j, bool stays) noexcept {
  constexpr std::uint64_t unwanted = exec::job_bits::late | exec::job_bits::cancel;
  task_records::global().came_home(j);
  if ((j->word() & unwanted) != 0) {
    j->fail(exec::cancelled_error(), 1);
    return false;
  }
  const carrier* const by = carrier_of(j);
  if (by != nullptr && by->stream != nullptr) by->stream(j)->come_back();
  j->come_back(stays);
  // Just now; its queue entry is a stale one then.
  if ((j->word() & unwanted) != 0) static_cast<void>(j->withdraw(exec::cancelled_error()));
  return true;
}

bool trade::take_all(exec::job* j) noexcept {
  ++givers_;
  outcome is = outcome::stays;
  if (is_open_.load() && may_go(*j)) {
    const std::uint64_t to = peers_.load()->any(turn_++);
    if (to != 0) is = give_one(to, j);
  }
  --givers_;
  return is == outcome::given || is == outcome::gone;
}

// stays, large, waits, full: it is the caller's again, as if nothing had been.
trade::outcome trade::give_one(std::uint64_t to, exec::job* j) noexcept {
  if (!j->try_claim()) {
    j->drop_entry();
    return outcome::gone;
  }
  const outcome is = give_claimed(to, j, nullptr);
  if (is == outcome::given || is == outcome::gone) return is;
  return comes_back(j, is == outcome::stays) ? is : outcome::gone;
}

// stays, large, waits, full: it is claimed still. `why`: of a job that has to go there, why not.
trade::outcome trade::give_claimed(std::uint64_t to, exec::job* j, error* why) noexcept {
  std::uint64_t noted = 0;  // its number, with a hold more: it may end as soon as it is sent
  outcome is = outcome::stays;
  bool is_said = false;
  ++given_;  // before who has it says that it does not
  try {
    is = send_away(to, j, noted, why != nullptr);
    // One that can't be reached was told of before this one was listed, or takes it from the list.
    const bool is_lost = is == outcome::given && !open_peers(peers_).can_reach(to);
    if (is_lost) is = outcome::full;
  } catch (...) {
    if (why != nullptr) *why = describe_current_exception(j->ops->function);
    is_said = true;
    // It could not be written: here it need not be. Or memory has ended on its way out.
    is = noted != 0 ? outcome::full : outcome::stays;
    if (noted == 0) surplus_data::rest(j);
  }
  if (is == outcome::given) {
    stop_if_cancelled(j);
    j->drop();
    return is;
  }
  --given_;
  if (noted != 0) {
    const bool is_here = take_flight(noted, to).has_value();
    j->drop();
    if (!is_here) return outcome::gone;  // that node is lost, and it is in lost_
    if (has_yielded(*j)) {
      j->fail(lost_with_node(*j), 1);
      return outcome::gone;
    }
  }
  // It is this thread's again.
  if (why != nullptr && is == outcome::full && !is_said) *why = lost_with_node(*j);
  return is;
}

// Meanwhile, when it could not be found yet.
void trade::stop_if_cancelled(exec::job* j) noexcept {
  if (was_cancelled(j->parent)) j->ask_to_stop();
  if ((j->word() & exec::job_bits::cancel) != 0) stop(j, was_cancelled(exec::id_of(*j)));
}

trade::outcome trade::send_away(std::uint64_t to, exec::job* j, std::uint64_t& noted,
                                bool is_placed) {
  peers& by = open_peers(peers_);
  const borrowed_workbench on;
  const neutral_caller nobody;
  if (carrier_of(j)->failure(j) != nullptr) return outcome::stays;
  if ((!is_placed || is_own_thread()) && !surplus_data::wakes(j)) return outcome::waits;
  const bool is_surplus = !is_placed && !gives_all_.load();  // the giver's
  const bool awaits_arrays = carrier_of(j)->wake_arguments != nullptr;
  const bool is_weighed = is_surplus || (awaits_arrays && is_granted(*j));
  const base::id request{is_surplus ? peers::surplus : peers::task, ++last_request_};
  const std::uint32_t attempt = attempt_of(*j);
  on->write_for(to, is_placed || awaits_arrays);  // else its size decides whether it goes
  const own::units::ancestor above = task_records::global().above(*j);
  if (!write_given(*on, j, request, attempt, above.id)) return outcome::stays;
  const std::size_t size = on->writer.size_bytes();
  const bool is_long = size > peers::most_at_once;
  if (is_long && !is_placed) return outcome::stays;
  if (is_long && is_own_thread()) return outcome::waits;
  if (is_weighed && !is_worth_moving(*on, *j, is_surplus)) {
    return is_surplus ? outcome::large : outcome::stays;
  }
  const outgoing::scope reading(to, size);
  // Before anybody finds it in the list, and may end it or run it here.
  j->set(task_records::global().left(j, above, *on));
  {
    const std::lock_guard lock(mutex_);
    if (!is_open_.load()) return outcome::stays;
    std::uint32_t& sent = sent_[to];
    numbers_.emplace(j, request.low);
    try {
      away_.emplace(request.low, flight{j, to, attempt, request.low, exec::id_of(*j), is_surplus});
    } catch (...) {
      numbers_.erase(j);
      throw;
    }
    ++sent;
    j->hold();
    noted = request.low;
  }
  j->set(exec::job_bits::escaped);
  const peers::when_full then = !is_placed ? peers::when_full::refuse
                                : is_long  ? peers::when_full::wait
                                           : peers::when_full::send;
  // Before: it may be back at once.
  if (is_weighed) surplus_data::global().gave(*on, *j);
  const result<void> sent = far_handles::global().send(by, request, *on, then);
  if (!sent && is_weighed) surplus_data::global().came_back(to, *j);
  return sent ? outcome::given : outcome::full;
}

// Whoever takes it out of the list ends it.
std::optional<trade::flight> trade::take_flight(std::uint64_t number, std::uint64_t node) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = away_.find(number);
  if (found == away_.end() || found->second.node != node) return std::nullopt;
  const flight out = found->second;
  away_.erase(found);
  numbers_.erase(out.job);
  if (const auto sent = sent_.find(node); sent != sent_.end() && --sent->second == 0) {
    sent_.erase(sent);
  }
  if (!is_open_.load()) is_home_.notify_all();
  return out;
}

// Without a job: it is not away.
trade::flight trade::flight_of(const exec::job* j) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto number = numbers_.find(j);
  return number == numbers_.end() ? flight{} : away_.find(number->second)->second;
}

std::pair<std::uint64_t, std::uint64_t> trade::where_is(const exec::job* j) const noexcept {
  const flight of = flight_of(j);
  return {of.node, of.number};
}

void trade::end_flight(std::uint64_t node, std::uint64_t number, const error& why) noexcept {
  if (const auto of = take_flight(number, node)) of->job->fail(why, 1);
}

// ---- what comes

namespace {

bool is_cancelled(const wire::result_view& came) noexcept {
  const auto* const why = std::get_if<wire::error_view>(&came.outcome);
  return why != nullptr && why->chain.size() == 1 && why->chain.front().code == errc::cancelled;
}

}  // namespace

void trade::on_result(std::uint64_t from, bytes_view message) noexcept {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message);
  const auto* const came = read ? std::get_if<wire::result_view>(&read->body) : nullptr;
  // Nobody knows whose it is: all that its node has runs here.
  if (came == nullptr) {
    lose_flights(from, UINT64_MAX);
    return;
  }
  const std::optional<flight> of = take_flight(came->execution, from);
  if (!of.has_value()) return;  // it is late
  exec::job* const j = of->job;
  if (!is_open_.load() && (came->may_repeat || is_cancelled(*came))) {
    return j->fail(exec::ended_error(), 1);  // as what is queued here
  }
  if (came->may_repeat) surplus_data::global().came_back(from, *j);
  const bool is_full = came->back == sent_back::line || came->back == sent_back::arrays;
  const bool is_refused = came->may_repeat && is_full && !has_yielded(*j);
  if (is_refused && of->may_come_back) return on_refusal(from, j, *came);
  if (came->may_repeat) {
    const bool has_begun = came->back == sent_back::begun;
    const error why = why_not_there(*j, *came);
    return go_on_here(j, why, has_begun ? lost_run::free : lost_run::none);
  }
  note_run(*j, *came);
  const std::uint64_t bits = fill_slot(j, *came);
  j->ops->drop_arguments(j);
  j->finish(bits | exec::job_bits::claimed, 1);
}

// ---- ends

void trade::stop(exec::job* j, bool with_children) noexcept {
  const flight of = flight_of(j);
  if (of.job == nullptr) return far_actors::global().stop(j, with_children);
  ask_to_stop(of, with_children);
}

void trade::stop_children() noexcept {
  std::vector<flight> asked;
  try {
    const std::lock_guard lock(mutex_);
    for (const auto& [task, one] : away_) {
      const bool is_told = (one.job->word() & exec::job_bits::cancel) != 0;
      if (is_told || !exec::is_cancelled_caller(one.job->parent)) continue;
      asked.push_back(one);
      one.job->ask_to_stop();
    }
  } catch (const std::bad_alloc&) {
    // Those that are not told go on to their ends.
  }
  for (const flight& one : asked) ask_to_stop(one, true);
  far_actors::global().stop_children();
}

// It goes on to its end when that can't be sent.
void trade::ask_to_stop(const flight& of, bool with_children) noexcept {
  try {
    peers* const to = peers_.load();
    if (to == nullptr) return;
    const stop_note said{of.number, of.task.high, of.task.low, of.attempt, with_children};
    const base::id request{peers::stop, ++last_request_};
    ask_peer(*to, of.node, request, wire::question::cancel_future, said);
  } catch (...) {
    return;
  }
}

// Those of a higher number were given when it could be reached again.
void trade::lose_flights(std::uint64_t node, std::uint64_t last) noexcept {
  {
    const std::lock_guard lock(mutex_);
    std::uint32_t left = 0;
    for (auto at = away_.begin(); at != away_.end();) {
      const auto next = std::next(at);
      const bool is_its = at->second.node == node;
      if (is_its && at->first > last) ++left;
      if (is_its && at->first <= last) {
        numbers_.erase(at->second.job);
        lost_.insert(away_.extract(at));
      }
      at = next;
    }
    if (left == 0) sent_.erase(node);
    if (left > 0) sent_.at(node) = left;
  }
  nap_.signal();
}

// The node that had them is lost: they run once more, and here, so that once is enough. One that
// lives has said what can't be read; it need not know, and its generators would wait for ever.
void trade::return_all() noexcept {
  flights lost;
  {
    const std::lock_guard lock(mutex_);
    lost.swap(lost_);
  }
  for (const auto& [task, one] : lost) {
    outgoing::global().wait(one.node);
    const peers* const by = peers_.load();
    if (by != nullptr && by->can_reach(one.node)) ask_to_stop(one, true);
    if (!is_open_.load()) {
      one.job->fail(exec::ended_error(), 1);
    } else {
      go_on_here(one.job, lost_with_node(*one.job), lost_run::charged);
    }
  }
}

}  // namespace manta::inline v0::node
