// SPDX-License-Identifier: Apache-2.0
#include "node/journal.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <limits>
#include <new>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <manta/base/version.hpp>
#include <manta/codec/function_table.hpp>
#include <manta/codec/identity.hpp>

#include "control/ask.hpp"
#include "control/expiry.hpp"
#include "control/rows.hpp"
#include "control/table.hpp"
#include "node/own_program.hpp"

namespace manta::inline v0::node {

namespace {

using namespace std::chrono_literals;
namespace keys = control::keys;

constexpr auto gathering = 20ms;
constexpr std::size_t swept_at_once = 4096;  // about 20 ms of a disk
constexpr std::size_t store_memory = std::size_t{64} << 20U;

job_record describe_job(const config& settings) {
  job_record row;
  row.started = wall_now();
  row.pid = static_cast<std::uint32_t>(getpid());
  const auto us = static_cast<std::uint64_t>(row.started.time_since_epoch().count());
  row.id = fmt::format("{}{:08x}", control::digits(us), row.pid);
  row.program = own_program_name();
  row.host = own_host_name();
  row.version =
      fmt::format("{}.{}.{}", MANTA_VERSION_MAJOR, MANTA_VERSION_MINOR, MANTA_VERSION_PATCH);
  row.workers = static_cast<std::uint32_t>(settings.workers);
  return row;
}

std::shared_ptr<control::store> open_store(const std::string& where) {
  if (where == "memory") return control::make_memory_store();
  result<std::unique_ptr<control::store>> opened =
      control::open_rocks_store({.path = where, .memory_bytes = store_memory});
  if (!opened) opened.error().raise();
  return *std::move(opened);
}

// A row with its end is two.
std::size_t events_of(const control::event_row& row) { return row.lasted ? 2 : 1; }

// The keys with a prefix; none when they can't be read.
std::vector<std::string> keys_with(control::store& in, std::string_view prefix) {
  std::vector<std::string> keys;
  const auto found = control::scan_all(in, std::string(prefix));
  if (!found) return keys;
  for (const control::record& one : *found) keys.push_back(one.key);
  return keys;
}

control::change put(std::string key, std::string value) {
  return {control::change::kind::put, std::move(key), std::move(value)};
}
control::change del(std::string key) { return {control::change::kind::del, std::move(key), {}}; }

}  // namespace

journal& journal::global() {
  static auto* const made = new journal;  // never destroyed: late threads find it
  return *made;
}

void journal::open(const config& settings) {
  std::shared_ptr<control::store> opened = open_store(*settings.control);
  {
    const std::lock_guard lock(mutex_);
    store_ = std::move(opened);
    row_ = describe_job(settings);
    row_.functions = codec::table_hash();
    has_news_ = is_ending_ = false;
    chunks_.clear();
    kept_ = 0;
    next_chunk_ = dropped_ = 0;
    next_end_.reset();
    has_sweep_failed_ = has_lost_ = false;
    commit_failed_.reset();
  }
  sweep_ends(std::numeric_limits<std::size_t>::max());  // before anybody reads
  // Before anybody else's: what a killed process left names the job that left it.
  store()->commit({.changes = {job_change()}}, [](const auto&) {});  // said again in introduce
  recorder::global().begin(*settings.events, &journal::ring);
  writer_ = std::thread([this] { write_all(); });
}

void journal::close(std::uint64_t tasks_run) noexcept {
  if (store() == nullptr) return;
  recorder::global().end();
  {
    const std::lock_guard lock(mutex_);
    row_.ended = wall_now();
    row_.tasks_run = tasks_run;
    is_ending_ = true;
  }
  changed_.notify_all();
  if (writer_.joinable()) writer_.join();  // else there was no thread to be had
  if (const result<void> closed = store()->close(); !closed) {
    std::fprintf(stderr, "manta: %s\n", closed.error().message().c_str());
  }
  std::vector<std::shared_ptr<void>> ending;
  std::shared_ptr<control::store> last;
  const std::lock_guard lock(mutex_);
  ending.swap(ending_);
  last.swap(store_);
}

std::shared_ptr<control::store> journal::store() const {
  const std::lock_guard lock(mutex_);
  return store_;
}

std::string journal::job() const {
  const std::lock_guard lock(mutex_);
  return store_ != nullptr ? row_.id : std::string();
}

bool journal::after_writing(std::function<void(control::store&)> what) {
  {
    const std::lock_guard lock(mutex_);
    if (store_ == nullptr || is_ending_) return false;
    asked_.push_back(std::move(what));
  }
  changed_.notify_all();
  return true;
}

void journal::end_later(std::shared_ptr<void> what) {
  {
    const std::lock_guard lock(mutex_);
    if (store_ == nullptr) return;  // no bell rings any more: it may go here
    ending_.push_back(std::move(what));
    has_news_ = true;
  }
  changed_.notify_all();
}

void journal::ring() noexcept {
  journal& j = global();
  {
    const std::lock_guard lock(j.mutex_);
    j.has_news_ = true;
  }
  j.changed_.notify_all();
}

void journal::note_end(wall_time at) {
  {
    const std::lock_guard lock(mutex_);
    if (next_end_ && *next_end_ <= at) return;
    next_end_ = at;
  }
  changed_.notify_all();
}

// Under the mutex, which it leaves meanwhile.
void journal::wait_for_work(std::unique_lock<std::mutex>& lock) {
  const auto is_asked = [this] { return is_ending_ || !asked_.empty(); };
  while (!has_news_ && !is_asked()) {
    if (!next_end_) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, *next_end_) == std::cv_status::timeout) {
      return;
    }
  }
  changed_.wait_for(lock, gathering, is_asked);
}

// Takes away what has ended, and learns what ends next.
void journal::sweep_ends(std::size_t most) {
  {
    const std::lock_guard lock(mutex_);
    next_end_.reset();  // what is noted from now on may be later than the look
  }
  const result<control::swept> done = control::sweep(*store_, wall_now(), most);
  if (!done && !std::exchange(has_sweep_failed_, true)) {
    std::fprintf(stderr, "manta: %s\n", done.error().message().c_str());
  }
  if (!done) return note_end(wall_now() + 1s);
  has_sweep_failed_ = false;
  if (done->next) note_end(*done->next);
}

// Without memory a part of the history is missing, and the job goes on.
template <class Step>
void journal::try_to(const Step& step) noexcept {
  try {
    step();
  } catch (...) {
    if (std::exchange(has_lost_, true)) return;
    const error why = describe_current_exception("the history of this job");
    std::fprintf(stderr, "manta: a part of the history is not written: %s\n",
                 why.message().c_str());
  }
}

void journal::write_all() noexcept {
  try_to([this] { introduce(); });
  for (bool is_last = false; !is_last;) {
    std::vector<std::function<void(control::store&)>> asked;
    std::vector<std::shared_ptr<void>> ending;
    bool has_ends = false;
    {
      std::unique_lock lock(mutex_);
      wait_for_work(lock);
      has_news_ = false;
      has_ends = next_end_ && *next_end_ <= wall_now();
      is_last = is_ending_;
      asked.swap(asked_);
      ending.swap(ending_);
    }
    try_to([this] { write_told(); });
    if (has_ends && !is_last) {
      try_to([this] { sweep_ends(swept_at_once); });
    }
    for (const auto& one : asked) {
      try_to([&] { one(*store_); });
    }
  }
  try_to([this] { commit({.changes = {job_change()}, .how = control::durability::durable}); });
}

control::change journal::job_change() const {
  job_record row;
  {
    const std::lock_guard lock(mutex_);  // its end may come before its start was written
    row = row_;
  }
  row.events_dropped = dropped_;
  return put(std::string(keys::jobs) + row.id, control::to_bytes(row));
}

// A job whose records can't be written goes on, and says so once: a full disk is full for long.
bool journal::commit(control::batch what) {
  const auto done = control::commit_now(*store_, std::move(what));
  const auto failed = done ? std::nullopt : std::optional(done.error().code());
  if (failed != std::exchange(commit_failed_, failed) && !done) {
    std::fprintf(stderr, "manta: %s\n", done.error().message().c_str());
  }
  return done.has_value();
}

void journal::introduce() {
  control::batch start{.how = control::durability::durable};
  start.changes.push_back(job_change());
  const std::string key = std::string(keys::functions) + control::digits(row_.functions);
  const auto known = control::read_one(*store_, key);
  if (known && !*known) {
    std::vector<std::string> names;
    for (auto& one : codec::describe_table().functions) names.push_back(std::move(one.name));
    start.changes.push_back(put(key, control::to_bytes(names)));
  }
  commit(std::move(start));
  forget_old();  // which counts this job, too
}

// One runtime at a time has the store: the actors of others are gone.
void journal::forget_old() {
  for (const std::string_view table :
       {keys::names, keys::actors}) {  // once they were in the second
    for (std::string& key : keys_with(*store_, table)) {
      commit({.changes = {del(std::move(key))}});
    }
  }
  const std::vector<std::string> jobs = keys_with(*store_, keys::jobs);
  for (std::size_t i = 0; i + most_kept_jobs < jobs.size(); ++i) {  // this one is among them
    const std::string id = jobs[i].substr(keys::jobs.size());
    if (id == row_.id) continue;  // the clock went back
    control::batch gone{.changes = {del(jobs[i])}};
    for (std::string& key : keys_with(*store_, control::events_of(id))) {
      gone.changes.push_back(del(std::move(key)));
    }
    commit(std::move(gone));
  }
  if (jobs.size() > most_kept_jobs) forget_functions();
}

// The lists of programs that no job is of any more.
void journal::forget_functions() {
  const auto jobs = control::rows_with<job_record>(*store_, keys::jobs);
  if (!jobs) return;  // what can't be read may name them
  std::set<std::string> named;
  for (const job_record& one : *jobs) {
    named.insert(std::string(keys::functions) + control::digits(one.functions));
  }
  for (std::string& key : keys_with(*store_, keys::functions)) {
    if (!named.contains(key)) commit({.changes = {del(std::move(key))}});
  }
}

// What has not been written is not there, and is counted; what was to go for it stays.
void journal::write_told() {
  const recorder::batch told = recorder::global().take();
  dropped_ += told.dropped;
  const std::uint64_t first = next_chunk_;
  const auto give_up = [&] {
    for (const auto& row : told.events) dropped_ += events_of(row);
    for (; !chunks_.empty() && chunks_.back().number >= first; chunks_.pop_back()) {
      kept_ -= chunks_.back().events;
    }
  };
  control::batch what;
  try {
    add_names(what, told.names);
    const std::size_t over = add_events(what, told.events);
    if (!what.changes.empty() && !commit(std::move(what))) return give_up();
    for (std::size_t i = 0; i < over; ++i, chunks_.pop_front()) {
      kept_ -= chunks_.front().events;
      dropped_ += chunks_.front().events;
    }
  } catch (const std::bad_alloc&) {
    give_up();
    throw;
  }
}

void journal::add_names(control::batch& to, const std::vector<recorder::name_change>& names) {
  for (const auto& [actor, is_there] : names) {
    std::string key = control::name_key(actor.name_space, actor.name);
    if (!is_there) {
      to.changes.push_back(del(std::move(key)));
      continue;
    }
    actor_record row = actor;
    row.job = row_.id;
    to.changes.push_back(put(std::move(key), control::to_bytes(row)));
  }
}

// How many of the oldest chunks go with it.
std::size_t journal::add_events(control::batch& to, const std::vector<control::event_row>& rows) {
  const std::string prefix = control::events_of(row_.id);
  const std::span<const control::event_row> all(rows);
  for (std::size_t at = 0; at < all.size(); at += events_in_a_value) {
    const auto some = all.subspan(at, std::min(events_in_a_value, all.size() - at));
    to.changes.push_back(put(prefix + control::digits(next_chunk_), control::to_bytes(some)));
    std::size_t events = 0;
    for (const auto& row : some) events += events_of(row);
    chunks_.push_back({next_chunk_++, events});
    kept_ += events;
  }
  std::size_t over = 0;
  for (std::size_t left = kept_; left > most_kept_events; left -= chunks_[over++].events) {
    to.changes.push_back(del(prefix + control::digits(chunks_[over].number)));
  }
  return over;
}

}  // namespace manta::inline v0::node
