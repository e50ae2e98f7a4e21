// SPDX-License-Identifier: Apache-2.0
#include <manta/node/kv_bytes.hpp>

#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "control/expiry.hpp"
#include "control/rows.hpp"
#include "node/journal.hpp"
#include "node/kv_watches.hpp"
#include "node/recorder.hpp"
#include "node/worker_questions.hpp"

namespace manta::inline v0::node {

namespace {

namespace keys = control::keys;

constexpr std::size_t longest_key = 1000;
constexpr std::chrono::years longest_ttl(10);
static_assert(keys::topics.size() + longest_key + 1 <= control::longest_ending_key);
constexpr std::size_t taken_at_once = 64;

error no_store() {
  return {errc::no_runtime, "kv: no manta::runtime runs; it has ended, or is about to"};
}

// A topic's key ends where no other one can go on.
std::string key_of(kv_part part, const std::string& key) {
  if (part == kv_part::values) return std::string(keys::users) + key;
  return std::string(keys::topics) + key + '\0';
}

std::string users_key(kv_part part, const std::string& key) {
  if (part == kv_part::values) return key.substr(keys::users.size());
  return key.substr(keys::topics.size(), key.size() - keys::topics.size() - 1);
}

kv_record to_record(const control::record& from) {
  return {users_key(kv_part::values, from.key), from.value, from.at};
}

}  // namespace

void check_key(const char* what, const std::string& key, bool may_be_empty) {
  if ((key.empty() && !may_be_empty) || key.size() > longest_key) {
    raise(errc::invalid_argument, fmt::format("{}: asked a key of {} bytes, allowed are {} to {}",
                                              what, key.size(), may_be_empty ? 0 : 1, longest_key));
  }
}

void check_ttl(const char* what, std::optional<std::chrono::milliseconds> ttl) {
  if (ttl && (ttl->count() < 1 || *ttl > longest_ttl)) {
    raise(errc::invalid_argument,
          fmt::format("{}: asked a ttl of {} ms, allowed are 1 ms to 10 years ({} ms)", what,
                      ttl->count(), std::chrono::milliseconds(longest_ttl).count()));
  }
}

void kv_commit(kv_write what, kv_answer<std::uint64_t> then) {
  if (worker_questions* const afar = worker_questions::here()) {
    return afar->ask(wire::question::kv_write, what, std::move(then));
  }
  const auto store = journal::global().store();
  if (store == nullptr) return then(no_store());
  control::batch batch;
  const std::string key = key_of(what.part, what.key);
  if (what.at) batch.conditions.push_back({key, *what.at});
  const auto kind = what.value ? control::change::kind::put : control::change::kind::del;
  batch.changes.push_back({kind, key, what.value ? std::move(*what.value) : std::string()});
  batch.how = what.is_durable ? control::durability::durable : control::durability::buffered;
  std::optional<wall_time> end;
  if (what.ttl) {
    const wall_time now = wall_now();
    end = now + *what.ttl;
    control::end_at(batch, key, *end, now);
  }
  store->commit(std::move(batch),
                [then = std::move(then), end](const result<control::outcome>& got) {
                  if (got) {
                    // Now, when a look for what ends finds it.
                    if (end && !got->refused) journal::global().note_end(*end);
                    then(got->at);
                  } else {
                    then(got.error());
                  }
                });
}

void kv_read(const std::string& key, kv_answer<std::optional<kv_record>> then) {
  if (worker_questions* const afar = worker_questions::here()) {
    return afar->ask(wire::question::kv_read, key, std::move(then));
  }
  const auto store = journal::global().store();
  if (store == nullptr) return then(no_store());
  store->read({key_of(kv_part::values, key)},
              [then = std::move(then)](const result<control::found>& got) {
                if (!got) return then(got.error());
                const std::optional<control::record>& one = got->records.at(0);
                if (!one) return then(std::optional<kv_record>());
                then(std::optional(to_record(*one)));
              });
}

void kv_list(const std::string& prefix, const std::string& after, std::size_t most,
             kv_answer<std::vector<kv_record>> then) {
  if (worker_questions* const afar = worker_questions::here()) {
    return afar->ask(wire::question::kv_list, list_question{prefix, after, most}, std::move(then));
  }
  const auto store = journal::global().store();
  if (store == nullptr) return then(no_store());
  control::range of{.prefix = key_of(kv_part::values, prefix), .most = most};
  if (!after.empty()) of.after = key_of(kv_part::values, after);
  store->scan(std::move(of), [then = std::move(then)](const result<control::page>& got) {
    if (!got) return then(got.error());
    std::vector<kv_record> out;
    out.reserve(got->records.size());
    for (const control::record& one : got->records) out.push_back(to_record(one));
    then(std::move(out));
  });
}

// Watches.

namespace {

/// A watcher that is about to go, and what it must not outlive.
struct parked {
  std::shared_ptr<control::store> keeps;
  std::unique_ptr<control::watcher> gone;
};

}  // namespace

/// What the handles of a watch share with its bell.
struct kv_watch::state final : ending_watch, std::enable_shared_from_this<state> {
  state(kv_part of, std::string key) : part(of), prefix(std::move(key)) {}

  result<void> begin(std::optional<std::uint64_t> from);
  void next(kv_answer<kv_change> then);
  void pump();
  void end(const error& why) override;

  const kv_part part;
  const std::string prefix;
  std::shared_ptr<control::store> store;

 private:
  bool look();
  void park(std::unique_ptr<control::watcher> gone) const;
  result<std::unique_ptr<control::watcher>> watch(std::uint64_t from);
  kv_change to_change(control::event&& from) const;

  std::mutex mutex_;
  std::unique_ptr<control::watcher> watcher_;
  std::deque<kv_change> taken_;
  std::deque<kv_answer<kv_change>> asked_;
  std::optional<error> over_;
};

/// The handles: with the last one the watch ends. In an isolated worker it is the node's, under a
/// number.
struct kv_watch::owner {
  explicit owner(std::shared_ptr<state> s) : of(std::move(s)) {}
  owner(worker_questions* node, std::uint64_t watch) : afar(node), number(watch) {}
  owner(const owner&) = delete;
  owner& operator=(const owner&) = delete;
  ~owner() {
    if (afar != nullptr) {
      afar->ask(wire::question::kv_unwatch, number,
                kv_answer<std::uint64_t>([](const result<std::uint64_t>& /*got*/) {}));
    } else {
      of->end(error(errc::cancelled, "cancelled: the kv::watcher that was asked is gone"));
    }
  }
  const std::shared_ptr<state> of;
  worker_questions* const afar = nullptr;
  const std::uint64_t number = 0;
};

result<std::unique_ptr<control::watcher>> kv_watch::state::watch(std::uint64_t from) {
  return store->watch(prefix, from, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->pump();
  });
}

kv_change kv_watch::state::to_change(control::event&& from) const {
  kv_change out;
  const bool is_put = from.what.what == control::change::kind::put;
  out.what = is_put ? kv_change::kind::put : kv_change::kind::erased;
  out.of = {users_key(part, from.what.key), std::move(from.what.value), from.at};
  return out;
}

// Under the mutex. Whether there is a change; when there is none, the bell will ring.
bool kv_watch::state::look() {
  if (!taken_.empty()) return true;
  control::taken got = watcher_->take(taken_at_once);
  for (control::event& one : got.events) taken_.push_back(to_change(std::move(one)));
  if (got.has_gap) {
    const std::uint64_t now = store->measure().at;
    auto anew = watch(now);
    if (!anew) {
      over_ = anew.error();
      return false;
    }
    park(std::exchange(watcher_, *std::move(anew)));
    taken_.push_back({kv_change::kind::missed, {{}, {}, now}});
  }
  return !taken_.empty();
}

// Answers what can be answered.
void kv_watch::state::pump() {
  for (;;) {
    kv_answer<kv_change> then;
    std::optional<kv_change> what;
    std::optional<error> why;
    {
      const std::lock_guard lock(mutex_);
      if (asked_.empty()) return;
      if (over_ || !look()) {
        if (!over_) return;
        why = over_;
      } else {
        what = std::move(taken_.front());
        taken_.pop_front();
      }
      then = std::move(asked_.front());
      asked_.pop_front();
    }
    if (why) {
      then(*why);
    } else {
      then(*std::move(what));
    }
  }
}

void kv_watch::state::next(kv_answer<kv_change> then) {
  {
    const std::lock_guard lock(mutex_);
    asked_.push_back(std::move(then));
  }
  pump();
}

void kv_watch::state::end(const error& why) {
  std::unique_ptr<control::watcher> gone;
  {
    const std::lock_guard lock(mutex_);
    if (!over_) over_ = why;
    gone = std::move(watcher_);
  }
  pump();
  if (gone != nullptr) park(std::move(gone));
}

// It ends on the journal's thread: this one may be in its bell, or have what its bell waits for.
void kv_watch::state::park(std::unique_ptr<control::watcher> gone) const {
  auto last = std::make_shared<parked>();
  last->keeps = store;
  last->gone = std::move(gone);
  journal::global().end_later(std::move(last));
}

result<void> kv_watch::state::begin(std::optional<std::uint64_t> from) {
  store = journal::global().store();
  if (store == nullptr) return no_store();
  auto begun = watch(from ? *from : store->measure().at);
  if (!begun) return begun.error();
  const std::lock_guard lock(mutex_);
  watcher_ = *std::move(begun);
  return {};
}

kv_watch::kv_watch(kv_part part, const std::string& prefix, std::optional<std::uint64_t> from) {
  if (worker_questions* const afar = worker_questions::here()) {
    const auto number =
        afar->ask_now<std::uint64_t>(wire::question::kv_watch, watch_question{part, prefix, from});
    owner_ = std::make_shared<owner>(afar, number);
    return;
  }
  const auto made = std::make_shared<state>(part, key_of(part, prefix));
  if (const result<void> begun = made->begin(from); !begun) begun.error().raise();
  owner_ = std::make_shared<owner>(made);
  if (!kv_watches::global().add(made)) no_store().raise();
}

void kv_watch::next(kv_answer<kv_change> then) {
  if (owner_->afar != nullptr) {
    return owner_->afar->ask(wire::question::kv_next, owner_->number, std::move(then));
  }
  owner_->of->next(std::move(then));
}

}  // namespace manta::inline v0::node
