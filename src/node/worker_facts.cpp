// SPDX-License-Identifier: Apache-2.0
#include "node/worker_facts.hpp"

#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>

#include "node/history_reads.hpp"
#include "node/record_keeper.hpp"
#include "node/workbench.hpp"
#include "wire/error_record.hpp"

namespace manta::inline v0::node {

namespace {

error too_much_open(std::size_t questions, std::size_t bytes) {
  return {
      errc::store_full,
      fmt::format(
          "kv or history: an isolated worker, or another node, asked more than is "
          "answered at a time: {} questions with {} bytes have no answer yet, allowed are {} with "
          "{}; wait for some of the futures first",
          questions, bytes, worker_facts::most_open, worker_facts::most_open_bytes)};
}

error too_many_watches() {
  return {errc::store_full,
          fmt::format("kv: an isolated worker, or another node, asked for a watch and has {}, "
                      "which is the most; let some go, or watch a prefix that they share",
                      worker_facts::most_watches)};
}

error no_such_watch() { return {errc::cancelled, "cancelled: that kv::watcher has ended"}; }

// What the front has checked in the worker; it may be anything.
void check_part(kv_part part) {
  if (part > kv_part::topics) raise(errc::decode_failed, "a question about no part of the store");
}

std::size_t bytes_of(const spec::parcel_view& what) noexcept {
  std::size_t sum = what.head.size();
  for (const spec::segment_view& one : what.segments) sum += one.bytes.size();
  return sum;
}

}  // namespace

// ---- one worker

template <class T>
void worker_facts::tell(std::uint64_t number, const result<T>& got) noexcept {
  const borrowed_workbench on;
  wire::result_view said;
  said.task = {1, 1};  // an answer is no task's
  try {
    on->out.clear();
    if (got) {
      said.outcome = codec::encode(on->out, *got);
      return tell_(number, said);
    }
    const wire::error_record record(got.error());
    said.outcome = record.view();
    tell_(number, said);
  } catch (...) {
    const wire::error_record record(describe_current_exception("the answer to a worker"));
    said.outcome = record.view();
    tell_(number, said);
  }
}

bool worker_facts::takes(std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (open_ >= most_open || bytes > most_open_bytes - open_bytes_) return false;
  ++open_;
  open_bytes_ += bytes;
  return true;
}

void worker_facts::answered(std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  --open_;
  open_bytes_ -= bytes;
}

// What throws before it has taken the question over answers it with that: there is no memory.
template <class T, class Ask>
void ask_or_say(const kv_answer<T>& then, const Ask& ask) noexcept {
  try {
    ask();
  } catch (...) {
    then(describe_current_exception("a question of an isolated worker"));
  }
}

// Holds the worker's facts, not the worker.
template <class T>
kv_answer<T> worker_facts::answer_to(std::uint64_t number, std::size_t bytes) {
  return [self = shared_from_this(), number, bytes](result<T> got) {
    self->answered(bytes);
    self->tell(number, got);
  };
}

void worker_facts::begin_watch(const watch_question& asked, const kv_answer<std::uint64_t>& then) {
  std::uint64_t number = 0;
  try {
    kv_watch made(asked.part, asked.prefix, asked.from);
    const std::lock_guard lock(mutex_);
    if (!is_over_ && watches_.size() < most_watches) {
      number = ++last_watch_;
      watches_.emplace(number, std::move(made));
    }
  } catch (...) {
    return then(describe_current_exception("manta::kv"));
  }
  if (number == 0) return then(too_many_watches());
  then(number);
}

std::optional<kv_watch> worker_facts::watch_of(std::uint64_t watch) {
  const std::lock_guard lock(mutex_);
  const auto found = watches_.find(watch);
  if (found == watches_.end()) return std::nullopt;
  return found->second;
}

// Who waits for its next change is told, without the lock.
void worker_facts::end_watch(std::uint64_t watch) noexcept {
  decltype(watches_)::node_type gone;
  const std::lock_guard lock(mutex_);
  gone = watches_.extract(watch);
}

void worker_facts::end() noexcept {
  decltype(watches_) gone;
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  gone.swap(watches_);
}

// What is to be asked; empty: no such question.
std::function<void()> worker_facts::open_history(std::uint64_t number, const wire::ask_view& asked,
                                                 std::size_t bytes) {
  switch (asked.what) {
    case wire::question::this_job:
      return [then = answer_to<std::string>(number, bytes)] {
        ask_or_say(then, [&] { then(history_this_job()); });
      };
    case wire::question::jobs:
      return [then = answer_to<std::vector<job_record>>(number, bytes)] {
        ask_or_say(then, [&] { history_jobs(then); });
      };
    case wire::question::actors:
      return [then = answer_to<std::vector<actor_record>>(number, bytes)] {
        ask_or_say(then, [&] { history_actors(then); });
      };
    case wire::question::functions:
      return [job = value_of_question<std::string>(asked),
              then = answer_to<std::vector<std::string>>(number, bytes)] {
        ask_or_say(then, [&] { history_functions(job, then); });
      };
    case wire::question::events:
      return [with = value_of_question<events_question>(asked),
              then = answer_to<std::vector<event_record>>(number, bytes)] {
        ask_or_say(then,
                   [&] { history_events(with.job, static_cast<std::size_t>(with.most), then); });
      };
    default:
      return {};
  }
}

std::function<void()> worker_facts::open(std::uint64_t number, const wire::ask_view& asked,
                                         std::size_t bytes) {
  switch (asked.what) {
    case wire::question::kv_write: {
      auto with = value_of_question<kv_write>(asked);
      check_part(with.part);
      check_key("kv", with.key);
      check_ttl("kv", with.ttl);
      return [with = std::move(with), then = answer_to<std::uint64_t>(number, bytes)]() mutable {
        ask_or_say(then, [&] { kv_commit(std::move(with), then); });
      };
    }
    case wire::question::kv_read: {
      auto key = value_of_question<std::string>(asked);
      check_key("kv", key);
      return [key = std::move(key), then = answer_to<std::optional<kv_record>>(number, bytes)] {
        ask_or_say(then, [&] { kv_read(key, then); });
      };
    }
    case wire::question::kv_list: {
      auto with = value_of_question<list_question>(asked);
      check_key("kv", with.prefix, true);
      return [with = std::move(with), then = answer_to<std::vector<kv_record>>(number, bytes)] {
        ask_or_say(then, [&] {
          kv_list(with.prefix, with.after, static_cast<std::size_t>(with.most), then);
        });
      };
    }
    case wire::question::kv_watch: {
      auto with = value_of_question<watch_question>(asked);
      check_part(with.part);
      check_key("kv", with.prefix, true);
      return [self = shared_from_this(), with = std::move(with),
              then = answer_to<std::uint64_t>(number, bytes)] { self->begin_watch(with, then); };
    }
    case wire::question::kv_next:
      return [self = shared_from_this(), watch = value_of_question<std::uint64_t>(asked),
              then = answer_to<kv_change>(number, bytes)] {
        std::optional<kv_watch> of = self->watch_of(watch);
        if (!of) return then(no_such_watch());
        ask_or_say(then, [&] { of->next(then); });
      };
    case wire::question::kv_unwatch:
      return [self = shared_from_this(), watch = value_of_question<std::uint64_t>(asked),
              then = answer_to<std::uint64_t>(number, bytes)] {
        self->end_watch(watch);
        then(watch);
      };
    default:
      return open_history(number, asked, bytes);
  }
}

bool worker_facts::takes_or_tells(std::uint64_t number, std::size_t bytes) {
  if (takes(bytes)) return true;
  std::size_t questions = 0;
  std::size_t taken = 0;
  {
    const std::lock_guard lock(mutex_);
    questions = open_;
    taken = open_bytes_;
  }
  tell(number, result<std::uint64_t>(too_much_open(questions, taken)));
  return false;
}

void worker_facts::ask_else(std::uint64_t number, const spec::parcel_view& with,
                            std::function<void()> answers) {
  const std::size_t bytes = bytes_of(with);
  if (!takes_or_tells(number, bytes)) return;
  try {
    facts_line::global().add([self = shared_from_this(), bytes, answers = std::move(answers)] {
      answers();
      self->answered(bytes);
    });
  } catch (...) {
    answered(bytes);
    throw;
  }
}

void worker_facts::ask(std::uint64_t number, const wire::ask_view& asked) {
  const std::size_t bytes = bytes_of(asked.with);
  if (!takes_or_tells(number, bytes)) return;
  try {
    std::function<void()> todo = open(number, asked, bytes);
    if (!todo) raise(errc::decode_failed, "a question that is none");
    facts_line::global().add(std::move(todo));
  } catch (...) {
    answered(bytes);
    throw;
  }
}

// Beside what its user's code asks, which may be more than is taken: a node has one at a time on
// its way, and its end.
void worker_facts::ask_records(std::uint64_t number, const wire::ask_view& asked,
                               std::uint64_t member) {
  constexpr int most = 4;
  if (records_.load() >= most) raise(errc::decode_failed, "more records than a node sends");
  auto what = value_of_question<records_question>(asked);
  record_keeper::global().note_asker();
  facts_line::global().add(
      [self = shared_from_this(), number, member, what = std::move(what)]() mutable {
        const result<void> is = record_keeper::global().keep(member, what);
        --self->records_;
        self->tell(number, is ? result<std::uint64_t>(what.puts.size()) : is.error());
        what = {};
      });
  ++records_;
}

}  // namespace manta::inline v0::node
