// SPDX-License-Identifier: Apache-2.0
#include "control/history.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace manta::inline v0::control {

// One watcher's place. `bell` and `is_alive` belong to bell_mutex, the rest to the history's.
struct watching {
  std::string prefix;
  std::uint64_t next = 0;  // number of the change it looks at next
  bool has_gap = false;
  bool is_rung = false;
  std::mutex bell_mutex;
  std::function<void()> bell;
  bool is_alive = true;
};

class history_watcher final : public watcher {
 public:
  history_watcher(history& of, std::shared_ptr<watching> place)
      : history_(of), place_(std::move(place)) {}
  ~history_watcher() override {
    history_.leave(place_);
    const std::lock_guard lock(place_->bell_mutex);  // one that rings is waited for
    place_->is_alive = false;
    place_->bell = nullptr;
  }
  taken take(std::size_t most) override { return history_.take(*place_, most); }

 private:
  history& history_;
  const std::shared_ptr<watching> place_;
};

namespace {

// What a batch takes in memory, about: its owner may have asked for more room than it has used.
std::size_t bytes_of(const std::vector<change>& changes) noexcept {
  std::size_t sum = changes.capacity() * sizeof(change);
  for (const change& one : changes) sum += one.key.capacity() + one.value.capacity();
  return sum;
}

// Changes that one take looks at for a watcher whose prefix is rare: others wait for the lock.
constexpr std::size_t looked_at_once = 4096;

}  // namespace

history::history(revision before, std::size_t most_events, std::size_t most_bytes)
    : most_events_(most_events), most_bytes_(most_bytes), complete_after_(before) {}

history::~history() = default;

std::uint64_t history::end_of_kept() const noexcept {
  return kept_.empty() ? first_number_ : kept_.back().first_number + kept_.back().changes.size();
}

void history::trim() noexcept {
  end_number_ = end_of_kept();
  while (end_number_ - first_number_ > most_events_ || kept_bytes_ > most_bytes_) {
    const told& oldest = kept_.front();
    kept_bytes_ -= bytes_of(oldest.changes);
    complete_after_ = oldest.at;
    first_number_ += oldest.changes.size();
    kept_.pop_front();
  }
  published_ = kept_.size();
}

// Of those that are about to be published; numbers stay without holes.
void history::forget_unwatched() noexcept {
  std::size_t to = published_;
  std::uint64_t number = end_number_;
  for (std::size_t at = published_; at < kept_.size(); ++at) {
    told& one = kept_[at];
    if (!one.is_watched) {
      kept_bytes_ -= bytes_of(one.changes);
      continue;
    }
    one.first_number = number;
    number += one.changes.size();
    if (to != at) kept_[to] = std::move(one);
    ++to;
  }
  kept_.resize(to);
}

void history::cut_back_to_published() noexcept {
  while (kept_.size() > published_) {
    kept_bytes_ -= bytes_of(kept_.back().changes);
    kept_.pop_back();
  }
}

history::draft::draft(history& of) : history_(of) {
  const std::lock_guard lock(of.mutex_);
  whose_.reserve(of.watchers_.size());
  of.open_ = this;
}

void history::draft::add(revision at, std::vector<change> changes, bool is_watched) {
  history& of = history_;
  const std::size_t bytes = bytes_of(changes);
  const std::lock_guard lock(of.mutex_);
  of.kept_.push_back({at, of.end_of_kept(), std::move(changes), is_watched});
  of.kept_bytes_ += bytes;
}

history::draft::~draft() {
  if (is_published_) return;
  const std::lock_guard lock(history_.mutex_);
  history_.open_ = nullptr;
  history_.cut_back_to_published();
}

history::bells history::draft::publish() noexcept {
  history& of = history_;
  const std::lock_guard lock(of.mutex_);
  is_published_ = true;
  of.open_ = nullptr;
  of.forget_unwatched();
  const std::uint64_t end = of.end_of_kept();
  const auto first_new = of.kept_.begin() + static_cast<std::ptrdiff_t>(of.published_);
  for (const auto& who : of.watchers_) {
    if (who->is_rung) continue;
    const auto is_seen = [&who](const told& batch) {
      return std::any_of(batch.changes.begin(), batch.changes.end(),
                         [&who](const change& one) { return one.key.starts_with(who->prefix); });
    };
    if (!std::any_of(first_new, of.kept_.end(), is_seen)) {
      who->next = end;
      continue;
    }
    who->is_rung = true;
    whose_.push_back(who);
  }
  of.trim();
  return std::move(whose_);
}

void history::ring(const bells& whose) noexcept {
  for (const auto& who : whose) {
    const std::lock_guard lock(who->bell_mutex);
    if (who->is_alive && who->bell) who->bell();
  }
}

std::uint64_t history::published_after(revision from) const noexcept {
  const auto end = kept_.begin() + static_cast<std::ptrdiff_t>(published_);
  const auto at = std::upper_bound(kept_.begin(), end, from,
                                   [](revision r, const told& one) { return r < one.at; });
  return at == end ? end_number_ : at->first_number;
}

std::unique_ptr<watcher> history::watch(std::string prefix, revision from,
                                        std::function<void()> bell) {
  auto place = std::make_shared<watching>();
  place->prefix = std::move(prefix);
  place->bell = std::move(bell);
  auto made = std::make_unique<history_watcher>(*this, place);
  const std::lock_guard lock(mutex_);
  if (open_ != nullptr) open_->whose_.reserve(watchers_.size() + 1);
  place->has_gap = from < complete_after_;
  place->next = published_after(from);
  // What is there already is no news that would ring: its owner takes until there is no more.
  place->is_rung = place->has_gap || place->next < end_number_;
  watchers_.push_back(std::move(place));
  return made;
}

taken history::take(watching& of, std::size_t most) {
  taken out;
  most = std::clamp<std::size_t>(most, 1, limits::taken_events);
  const std::lock_guard lock(mutex_);
  if (of.has_gap || of.next < first_number_) {
    of.has_gap = true;
    out.has_gap = true;
    return out;
  }
  const std::uint64_t last =
      std::min<std::uint64_t>(end_number_, of.next + std::max(most, looked_at_once));
  auto batch =
      std::upper_bound(kept_.begin(), kept_.end(), of.next,
                       [](std::uint64_t n, const told& one) { return n < one.first_number; });
  for (; of.next < last && out.events.size() < most; ++of.next) {
    if (batch != kept_.end() && batch->first_number == of.next) ++batch;
    const told& in = *std::prev(batch);
    const change& one = in.changes[static_cast<std::size_t>(of.next - in.first_number)];
    if (one.key.starts_with(of.prefix)) out.events.push_back({in.at, one});
  }
  out.has_more = of.next < end_number_;
  of.is_rung = out.has_more;
  return out;
}

void history::leave(const std::shared_ptr<watching>& who) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(watchers_, who);
}

}  // namespace manta::inline v0::control
