// SPDX-License-Identifier: Apache-2.0
#include "node/task_records.hpp"

#include <algorithm>
#include <cstdio>
#include <new>
#include <span>
#include <utility>

#include <pthread.h>

#include <manta/codec/digest.hpp>
#include <manta/exec/context.hpp>

#include "control/ask.hpp"
#include "control/rows.hpp"
#include "node/record_keeper.hpp"
#include "node/worker_questions.hpp"

namespace manta::inline v0::node {

namespace {

using limits = own::record_limits;
using unit_number = own::units::number;

// Large ranges may lie in the store, beside the message.
bool has_all(const spec::parcel_view& what) noexcept {
  return std::ranges::none_of(what.segments,
                              [](const spec::segment_view& one) { return one.bytes.empty(); });
}

error not_there() { return {errc::cancelled, "the store of task records is closed"}; }

}  // namespace

task_records& task_records::global() {
  static auto* const made = new task_records;  // jobs may outlive main
  return *made;
}

void task_records::open(const settings& how) {
  if (writer_.joinable()) return;
  self_ = how;
  prefix_ = control::tasks_of({how.name, how.epoch});
  table_.emplace(control::owner_id{how.name, how.epoch}, limits::told_bytes);
  tickets_.clear();
  unsent_.clear();
  chance_ = base::chance::of_now();
  between_tries_.reset();
  pause_ = {};
  failures_ = 0;
  has_spoken_ = false;
  stored_.store(0);
  {
    const std::lock_guard lock(mutex_);
    life_ = static_cast<std::uint8_t>(life_ % 100 + 1);
    units_ = std::make_unique<own::units>(
        own::units::settings{.life = life_,
                             .most_bytes = how.has_main ? limits::kept_bytes : limits::told_bytes,
                             .has_main = how.has_main});
    is_rung_ = is_ending_ = has_told_ = has_left_ = false;
  }
  writer_ = std::thread([this] { run(); });
  is_open_.store(true);
}

// The writer says it, since who says it may have to wait for room; that long, and no longer.
void task_records::leave() noexcept {
  if (!is_open_.exchange(false)) return;
  exec::listens_to_callers.store(nullptr);
  std::unique_lock lock(mutex_);
  is_ending_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, limits::longest_farewell, [this] { return has_left_; });
}

void task_records::say_farewell() noexcept {
  worker_questions* const head = worker_questions::here();
  if (self_.hosts_store || head == nullptr) return;
  try {
    head->tell_of(wire::question::task_records,
                  records_question{.node = self_.name, .puts = {}, .dels = {}, .leaves = true});
  } catch (...) {
    return;  // they stay as those of a lost node
  }
}

void task_records::close() noexcept {
  is_open_.store(false);
  exec::listens_to_callers.store(nullptr);
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  writer_.join();
  std::unique_ptr<own::units> gone;
  const std::lock_guard lock(mutex_);
  gone.swap(units_);
  guests_.store(0);
  table_.reset();
  tickets_ = {};
  unsent_ = {};
}

void task_records::end_job() noexcept {
  if (std::exchange(self_.hosts_store, false)) record_keeper::global().end_job();
}

// The same call has the same one wherever it is made, and by whichever route it goes: so what names
// a thing of here, a number that counts, is no part of it, and where ranges or arrays may go as
// bytes or in the store there is none.
base::id task_records::digest_of(const spec::parcel_view& arguments) {
  const bool has_arrays = std::ranges::any_of(arguments.references, [](const spec::reference& one) {
    return one.kind == spec::reference_kind::array;
  });
  if (!arguments.segments.empty() || has_arrays) return {};
  if (arguments.references.empty()) return codec::digest(arguments);
  std::vector<spec::reference> unnamed(arguments.references.begin(), arguments.references.end());
  for (spec::reference& one : unnamed) one.what = {};
  return codec::digest({arguments.head, {}, unnamed});
}

// ---- what leaves

// Most nodes that give tasks away have none of others.
own::units::ancestor task_records::above(const exec::job& j) noexcept {
  if (guests_.load(std::memory_order_relaxed) == 0) return {};
  const std::lock_guard lock(mutex_);
  return units_ ? units_->nearest(j.parent) : own::units::ancestor{};
}

void task_records::note_caller(const base::id& self, const base::id& caller) noexcept {
  task_records& records = global();
  if (records.guests_.load(std::memory_order_relaxed) == 0) return;
  try {
    const std::lock_guard lock(records.mutex_);
    if (records.units_) records.units_->calls(self, caller);
  } catch (const std::bad_alloc&) {
    return;  // what it makes has no ancestor
  }
}

// What is told to nobody is kept beside its job, which has all but the arguments: where they are
// bytes alone, those will do.
own::units::recipe task_records::recipe_of(const own::units::ancestor& under, workbench& on) const {
  const spec::parcel_view given = on.out.view();
  const bool is_told = !self_.has_main || under.id != base::id{};
  const bool is_plain = given.segments.empty() && on.references.empty();
  if (is_told || !is_plain) return own::units::recipe(on.writer.pieces());
  return own::units::recipe(std::span(&given.head, 1));
}

std::uint64_t task_records::left(exec::job* j, const own::units::ancestor& under,
                                 workbench& on) noexcept {
  came_home(j);
  if (!is_open_.load(std::memory_order_relaxed)) return 0;
  unit_number made = 0;
  try {
    const bool is_whole = on.packed.empty() && on.writer.size_bytes() <= own::units::most_recipe;
    if (!is_whole) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      return 0;
    }
    own::units::recipe how = recipe_of(under, on);
    std::unique_lock lock(mutex_);
    if (!units_) return 0;
    made = units_->left(exec::id_of(*j), under, std::move(how));
    ring(lock);
  } catch (const std::bad_alloc&) {
    return 0;  // it has none
  }
  if (made == 0) return 0;
  j->needs.store(static_cast<std::int32_t>(made), std::memory_order_relaxed);
  return exec::job_bits::recorded;
}

void task_records::came_home(exec::job* j) noexcept {
  if ((j->word() & exec::job_bits::recorded) == 0) return;
  over(static_cast<unit_number>(j->needs.exchange(0, std::memory_order_relaxed)));
}

void task_records::over(unit_number of) noexcept {
  if (of == 0) return;
  std::unique_lock lock(mutex_);
  if (!units_) return;
  units_->over(of);
  guests_.store(units_->guests(), std::memory_order_relaxed);
  ring(lock);
}

// ---- what comes

unit_number task_records::came(const wire::task_view& task,
                               std::span<const std::byte> message) noexcept {
  if (!is_open_.load(std::memory_order_relaxed)) return 0;
  try {
    // Without a recipe it is known all the same, as what is above it.
    own::units::recipe how;
    const bool is_whole = has_all(task.arguments) && message.size() <= own::units::most_recipe;
    if (is_whole) how = own::units::recipe(std::span(&message, 1));
    const std::lock_guard lock(mutex_);
    if (!units_) return 0;
    const unit_number made = units_->came(task.id, task.under, std::move(how));
    guests_.store(units_->guests(), std::memory_order_relaxed);
    exec::listens_to_callers.store(&note_caller, std::memory_order_release);
    return made;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

unit_number task_records::lent(const exec::job& j) noexcept {
  const own::units::ancestor under = above(j);
  if (under.here == 0) return 0;
  try {
    std::unique_lock lock(mutex_);
    if (!units_ || !units_->lent(under)) return 0;
    ring(lock);
    return under.here;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

// ---- what is written

// Wakes the writer where it sleeps, which is once for all that comes until it has taken that.
void task_records::ring(std::unique_lock<std::mutex>& lock) noexcept {
  if (is_rung_ || !units_->has_work()) return;
  is_rung_ = true;
  lock.unlock();
  changed_.notify_one();
}

void task_records::run() noexcept {
  pthread_setname_np(pthread_self(), "manta-records");
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    changed_.wait(lock, [this] { return is_ending_ || is_rung_ || !unsent_.empty(); });
    changed_.wait_for(lock, std::max(pause_, limits::between_writes),
                      [this] { return is_ending_; });
    if (is_ending_) break;
    bool has_failed = false;
    try {
      while (has_more(lock)) {
      }
    } catch (...) {
      has_failed = true;
      say_once(error::out_of_memory());
    }
    if (!lock.owns_lock()) lock.lock();
    is_rung_ = is_rung_ || has_failed;  // what the table has is written at the next look
  }
  const bool tells = has_told_;
  lock.unlock();
  if (tells) say_farewell();
  lock.lock();
  has_left_ = true;
  changed_.notify_all();
}

// A turn: what was not sent goes before anything else is taken. True: there was more, or nothing
// was taken yet; what has come since waits for the next look.
bool task_records::has_more(std::unique_lock<std::mutex>& lock) {
  own::units::work work;
  const bool takes = unsent_.empty();
  if (takes) {
    work = units_->take(limits::taken_at_once);
    is_rung_ = units_->has_work();
  }
  lock.unlock();
  if (takes) {
    note(work);
    pack_sparse();
    for (control::batch& one : table_->write()) unsent_.push_back(std::move(one));
  }
  const bool is_sent = send_all();
  lock.lock();
  return is_sent && !is_ending_ && (work.is_cut || !takes);
}

// Without memory for one there is no record of it, and the others go on.
void task_records::note(own::units::work& work) {
  for (const unit_number one : work.ended) {
    const std::size_t at = own::units::index_of(one);
    if (at < tickets_.size()) table_->remove(std::exchange(tickets_[at], {}));
  }
  for (own::units::record& one : work.made) {
    try {
      const std::size_t at = own::units::index_of(one.unit);
      if (at >= tickets_.size()) tickets_.resize(at + 1);
      const auto added = table_->add({one.id, one.under, std::move(one.recipe)}, one.unit);
      if (added) {
        tickets_[at] = *added;
        continue;
      }
      say_once(added.error());
    } catch (const std::bad_alloc&) {
      say_once(error::out_of_memory());
    }
    refused_.fetch_add(1, std::memory_order_relaxed);
  }
}

// Values half of which is over are written again, with what the units have still.
void task_records::pack_sparse() {
  for (std::size_t i = 0; i < limits::sparse_at_once; ++i) {
    const auto value = table_->sparse();
    if (!value) return;
    std::vector<control::task_row> rows;
    rows.reserve(value->known_as.size());
    {
      const std::lock_guard lock(mutex_);
      for (const unit_number of : value->known_as) {
        own::units::record is = units_->told(of);
        rows.push_back({is.id, is.under, std::move(is.recipe)});
      }
    }
    table_->rewrite(*value, std::move(rows));
  }
}

// In their order. Values that find no room, or can't be told, are given up; all else goes again.
bool task_records::send_all() {
  while (!unsent_.empty()) {
    const result<void> is = commit(unsent_.front());
    const errc why = is ? errc{} : is.error().code();
    if (!is && why == errc::cancelled) return false;  // at the runtime's end
    const bool is_refused =
        why == errc::store_full || why == errc::decode_failed || why == errc::invalid_argument;
    if (!is && (is_refused || ++failures_ >= limits::many_failures)) say_once(is.error());
    if (!is && !(is_refused && give_up_puts(unsent_.front()))) {
      pause_ = between_tries_.next(chance_);
      return false;
    }
    if (is) {
      failures_ = 0;
      between_tries_.reset();
      pause_ = {};
      ++writes_;
      unsent_.front().changes.clear();
    }
    if (unsent_.front().changes.empty()) unsent_.pop_front();
  }
  stored_.store(table_->stored_bytes());
  return true;
}

// False: it has none.
bool task_records::give_up_puts(control::batch& of) noexcept {
  const std::size_t gone = std::erase_if(of.changes, [](const control::change& one) {
    return one.what == control::change::kind::put;
  });
  refused_.fetch_add(gone, std::memory_order_relaxed);
  return gone > 0;
}

result<void> task_records::commit(const control::batch& what) {
  records_question asked{.node = self_.name, .puts = {}, .dels = {}, .leaves = false};
  for (const control::change& one : what.changes) {
    const std::uint64_t number =
        control::number_of(std::string_view(one.key).substr(prefix_.size()));
    if (one.what == control::change::kind::del) {
      asked.dels.push_back(number);
    } else {
      asked.puts.push_back({number, one.value});
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (is_ending_) return not_there();
    has_told_ = true;
  }
  if (self_.hosts_store) return record_keeper::global().keep(self_.epoch, asked);
  worker_questions* const head = worker_questions::here();
  if (head == nullptr) return not_there();
  const auto is = control::answer_of<std::uint64_t>([&](kv_answer<std::uint64_t> then) {
    head->ask<std::uint64_t>(wire::question::task_records, asked, std::move(then));
  });
  return is ? result<void>() : result<void>(is.error());
}

// It goes on: what is missing can't be made again when a node is lost.
void task_records::say_once(const error& why) noexcept {
  if (std::exchange(has_spoken_, true)) return;
  std::fprintf(stderr, "manta: records of tasks: %s\n", why.message().c_str());
}

task_records::counts task_records::count() const {
  const std::lock_guard lock(mutex_);
  counts out{.refused = refused_.load(), .writes = writes_.load(), .stored = stored_.load()};
  if (units_) {
    out.units = units_->size();
    out.bytes = units_->bytes();
    out.refused += units_->refused();
  }
  return out;
}

}  // namespace manta::inline v0::node
