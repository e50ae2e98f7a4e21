// SPDX-License-Identifier: Apache-2.0
#include "node/recorder.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <utility>

#include <manta/exec/call_extra.hpp>

namespace manta::inline v0::node {

namespace {

constexpr std::size_t most_waiting = 65536;  // events of one thread
constexpr std::size_t most_names = 65536;
constexpr std::size_t most_changes = 65536;
constexpr std::size_t longest_text = 1000;

}  // namespace

struct recorder::event {
  wall_time at;
  base::id task;
  base::id parent;
  std::uint32_t name = 0;
  std::uint32_t attempt = 0;
  std::unique_ptr<std::string> text;
  event_kind kind = event_kind::start;
  bool has_ended = false;  // of a start: its end is told, too
  std::uint32_t lasted = 0;
};

struct recorder::lane {
  struct known {
    const char* function = nullptr;
    std::uint64_t hash = 0;
    std::uint32_t number = 0;
  };

  std::mutex mutex;
  std::vector<event> events;
  std::uint64_t dropped = 0;
  std::array<known, 64> known_names;  // the thread's
};

/// A thread's list; the next new thread takes it over.
struct recorder::thread_lane {
  lane* of = nullptr;
  ~thread_lane() {
    if (of == nullptr) return;
    recorder& r = global();
    const std::lock_guard lock(r.mutex_);
    r.free_.push_back(std::exchange(of, nullptr));
  }
};

recorder& recorder::global() {
  static auto* const made = new recorder;  // never destroyed: late threads find it
  return *made;
}

recorder::lane& recorder::this_lane() {
  thread_local thread_lane mine;
  if (mine.of != nullptr) [[likely]]
    return *mine.of;
  recorder& r = global();
  const std::lock_guard lock(r.mutex_);
  r.free_.reserve(r.lanes_.size() + 1);  // so that giving it back needs no memory
  if (r.free_.empty()) {
    r.lanes_.push_back(std::make_unique<lane>());
    mine.of = r.lanes_.back().get();
  } else {
    mine.of = r.free_.back();
    r.free_.pop_back();
  }
  return *mine.of;
}

const exec::run_observer& recorder::callbacks() noexcept {
  static constexpr exec::run_observer all = {
      .began = [](const exec::job& j) noexcept { tell(event_kind::start, j, nullptr); },
      .ended = [](const exec::job& j) noexcept { tell(event_kind::end, j, nullptr); },
      .ran_elsewhere =
          [](const exec::job& j, duration ran, bool runs_again) noexcept {
            tell(event_kind::start, j, nullptr, ran, !runs_again);
          },
      .retries = [](const exec::job& j,
                    const error& why) noexcept { tell(event_kind::retry, j, &why); },
      .failed =
          [](const exec::job& j, const error& why) noexcept {
            // What was cancelled is what somebody wanted, often a million of it.
            if (why.code() != errc::cancelled) tell(event_kind::failure, j, &why);
          },
      .named = [](const std::string& name, const std::string& name_space,
                  const char* type) noexcept { tell_name(name, name_space, type, true); },
      .unnamed =
          [](const std::string& name, const std::string& name_space) noexcept {
            tell_name(name, name_space, nullptr, false);
          },
  };
  return all;
}

void recorder::begin(event_mode mode, void (*bell)() noexcept) {
  take();
  bell_ = bell;
  is_rung_.store(false);
  exec::watches_runs.store(mode == event_mode::all);
  exec::observer.store(mode == event_mode::none ? nullptr : &callbacks());
}

void recorder::end() noexcept {
  exec::observer.store(nullptr);
  exec::watches_runs.store(false);
}

// A start that `ran` goes with is that long ago, and its end goes with it if it has one.
void recorder::tell(event_kind kind, const exec::job& of, const error* why,
                    std::optional<duration> ran, bool has_ended) noexcept {
  recorder& r = global();
  try {
    r.add(kind, of, why, ran, has_ended);
  } catch (const std::exception&) {
    return;  // no memory: it is not recorded
  }
  r.ring();
}

// Most tasks make none: their start is what this thread told last, and their end goes with it.
bool recorder::ends_last(lane& in, const event& end) {
  if (in.events.empty()) return false;
  event& last = in.events.back();
  if (last.kind != event_kind::start || last.has_ended || last.task != end.task) return false;
  const auto us = (end.at - last.at).count();  // below zero when somebody set the clock
  if (us < 0 || us > std::numeric_limits<std::uint32_t>::max()) return false;
  last.has_ended = true;
  last.lasted = static_cast<std::uint32_t>(us);
  return true;
}

void recorder::add(event_kind kind, const exec::job& of, const error* why,
                   std::optional<duration> ran, bool has_ended) {
  lane& mine = this_lane();
  event e;
  e.at = wall_now();
  e.kind = kind;
  e.task = exec::id_of(of);
  e.parent = of.parent;
  e.name = name_of(mine, of);
  if (const exec::call_extra* const with = of.extra()) e.attempt = with->attempt;
  if (ran) {
    constexpr std::int64_t longest = std::numeric_limits<std::uint32_t>::max();
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(*ran).count();
    const auto lasted = static_cast<std::uint32_t>(std::clamp<std::int64_t>(us, 0, longest));
    e.at -= std::chrono::microseconds(lasted);
    e.has_ended = has_ended;
    if (has_ended) e.lasted = lasted;
  }
  if (why != nullptr) {
    e.text = std::make_unique<std::string>(why->message().substr(0, longest_text));
  }
  const std::lock_guard lock(mine.mutex);
  if (kind == event_kind::end && ends_last(mine, e)) return;
  if (mine.events.size() >= most_waiting) {
    const auto half = mine.events.begin() + most_waiting / 2;
    for (auto gone = mine.events.begin(); gone != half; ++gone)
      mine.dropped += gone->has_ended ? 2 : 1;
    mine.events.erase(mine.events.begin(), half);
  }
  mine.events.push_back(std::move(e));
}

// Rings once until what there is was taken.
void recorder::ring() noexcept {
  if (!is_rung_.load(std::memory_order_relaxed) &&
      !is_rung_.exchange(true, std::memory_order_acq_rel)) {
    bell_();
  }
}

// The function's text may go with its module; a name that was seen is never looked at again.
std::uint32_t recorder::name_of(lane& in, const exec::job& of) {
  const exec::call_extra* const with = of.extra();
  if (with != nullptr && with->name != nullptr) {
    const std::lock_guard lock(mutex_);
    return number(*with->name);
  }
  const exec::job_ops& ops = *of.ops;
  lane::known& known = in.known_names[ops.function_hash % in.known_names.size()];
  if (known.function == ops.function && known.hash == ops.function_hash) return known.number;
  std::string name = readable_name(ops.function);
  const std::lock_guard lock(mutex_);
  known = {ops.function, ops.function_hash, number(std::move(name))};
  return known.number;
}

// Under the mutex.
std::uint32_t recorder::number(std::string name) {
  const auto next = static_cast<std::uint32_t>(names_.size());
  if (next >= most_names && !numbers_.contains(name)) name = "...";
  const auto [at, is_new] = numbers_.try_emplace(std::move(name), next);
  if (is_new) names_.push_back(at->first);
  return at->second;
}

void recorder::tell_name(const std::string& name, const std::string& name_space, const char* type,
                         bool is_there) noexcept {
  recorder& r = global();
  try {
    actor_record actor;
    actor.name = name;
    actor.name_space = name_space;
    if (type != nullptr) actor.type = readable_name(type);
    actor.since = wall_now();
    const std::lock_guard lock(r.mutex_);
    if (r.changes_.size() >= most_changes) return;
    r.changes_.push_back({std::move(actor), is_there});
  } catch (const std::exception&) {
    return;
  }
  r.ring();
}

// Under the mutex. The list of names only grows, and its elements stay where they are.
void recorder::add_to(batch& out, event& from) const {
  control::event_row row;
  row.at = from.at;
  row.kind = from.kind;
  row.attempt = from.attempt;
  row.task = from.task;
  row.parent = from.parent;
  row.name = names_[from.name];
  if (from.has_ended) row.lasted = from.lasted;
  if (from.text != nullptr) {
    row.text = *from.text;
    out.texts.push_back(std::move(from.text));
  }
  out.events.push_back(row);
}

recorder::batch recorder::take() {
  is_rung_.store(false, std::memory_order_release);
  batch out;
  const std::lock_guard lock(mutex_);
  out.names = std::exchange(changes_, {});
  for (const auto& one : lanes_) {
    std::vector<event> events;
    {
      const std::lock_guard of_lane(one->mutex);
      events.swap(one->events);
      out.dropped += std::exchange(one->dropped, 0);
    }
    out.events.reserve(out.events.size() + events.size());
    for (event& e : events) add_to(out, e);
  }
  return out;
}

}  // namespace manta::inline v0::node
