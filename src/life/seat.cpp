// SPDX-License-Identifier: Apache-2.0
#include "life/seat.hpp"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

namespace manta::inline v0::life {

namespace {

using namespace std::chrono_literals;
using spec::node_member;
using spec::node_state;
using spec::node_verdict;
using spec::node_wish;

constexpr duration first_dial_wait = 5ms;
constexpr duration longest_dial_wait = 500ms;
// While nothing comes another connection is tried with each heartbeat, and so few are enough: each
// tries again by itself, a second later, so that one of them comes soon after the network is back.
constexpr int quick_dials = 3;
// How long one that leaves waits for the head to know it.
constexpr duration leave_limit = 2s;

error not_taken(duration limit, const std::string& why) {
  const std::string took =
      fmt::format("no head has taken this process as a member within {} ms", limit / 1ms);
  if (why.empty()) {
    return error(errc::timed_out, took + "; is the head's address right, and its process alive?");
  }
  return error(errc::timed_out, took + ": " + why);
}

error lost_head(duration away) {
  return error(
      errc::node_lost,
      fmt::format("the head has not answered for {} s; is its process alive, and can it be "
                  "reached from here?",
                  away / 1s));
}

}  // namespace

seat::seat(const membership_settings& with, const base::id& process, spec::node_introduction who,
           base::time_point now)
    : with_(with),
      process_(process),
      who_(std::move(who)),
      born_(now),
      awake_(now),
      heard_(now),
      dialed_(now),
      dial_at_(now),
      dial_wait_(first_dial_wait) {}

void seat::on_connected(base::time_point now) {
  is_connected_ = true;
  if (at_ != stage::over) speak(now);
}

void seat::on_closed(base::time_point now) {
  wake(now);
  is_connected_ = false;
  // At once, since who is late by closed_grace is taken for dead; but not for ever at once.
  if (has_answer_) dial_at_ = now;
}

// Again when that fails, or nothing comes of it, each time later.
void seat::redial(base::time_point now) {
  is_connected_ = false;
  has_answer_ = false;
  dialed_ = now;
  dial_at_ = now + dial_wait_;
  dial_wait_ = std::min(2 * dial_wait_, longest_dial_wait);
  actions_.emplace_back(dial{});
}

void seat::speak(base::time_point now) {
  spoke_ = now;
  heartbeat out{.process = process_,
                .epoch = epoch_,
                .load = load_,
                .head_epoch = head_epoch_,
                .revision = revision_,
                .who = who_,
                .loads = loads_};
  if (at_ == stage::draining) out.wish = node_wish::drain;
  if (at_ == stage::leaving) out.wish = node_wish::leave;
  actions_.emplace_back(std::move(out));
}

void seat::on_bulletin(bulletin came, base::time_point now) {
  if (at_ == stage::over || came.process != process_) return;
  if (came.head_epoch < head_epoch_) return;  // from a former life of the head
  wake(now);
  heard_ = now;
  has_answer_ = true;
  silent_dials_ = 0;
  if (came.verdict == node_verdict::member) ends_with_driver_ = came.ends_with_driver;
  dial_wait_ = first_dial_wait;
  switch (came.verdict) {
    case node_verdict::ended:
      if (at_ == stage::leaving) return end(std::nullopt);
      return end(error(errc::node_lost, "this process is no member of its cluster any more (" +
                                            came.reason +
                                            "); what it did is done by others, so it ends"));
    case node_verdict::dissolved:
      return end(std::nullopt);
    case node_verdict::refused:
      if (at_ != stage::joining) return;  // it is late: it has asked again since, and was taken
      return end(error(errc::invalid_argument, "the head refuses this process: " + came.reason));
    case node_verdict::waits:
      waits_for_ = std::move(came.reason);
      return;
    case node_verdict::member:
      break;
  }
  if (came.head_epoch > head_epoch_) {
    if (came.since != 0) return;  // it does not know yet what this process has not seen
    head_epoch_ = came.head_epoch;
    revision_ = 0;
    loads_ = 0;
  }
  if (epoch_ == 0) {
    epoch_ = came.epoch;
    at_ = at_ == stage::joining ? stage::member : at_;
    actions_.emplace_back(joined{epoch_});
  }
  if (came.since <= revision_ && came.revision > revision_) apply(came);
  take_loads(came);
}

void seat::apply(bulletin& came) {
  if (came.since == 0) {  // all that live: who is not among them has ended
    std::unordered_set<base::id, base::id_hash> living;
    for (const node_member& one : came.changed) living.insert(one.process);
    std::vector<node_member> gone;
    for (const auto& known : view_) {
      if (!living.contains(known.first)) gone.push_back(known.second);
    }
    for (node_member& one : gone) {
      one.is = node_state::ended;
      put(std::move(one));
    }
  }
  for (node_member& one : came.changed) put(std::move(one));
  revision_ = came.revision;
}

void seat::put(node_member&& one) {
  const bool is_news = one.epoch > largest_epoch_;
  largest_epoch_ = std::max(largest_epoch_, one.epoch);
  const auto known = view_.find(one.process);
  // A row of a time before it joined, which the head has found on a disk that had failed.
  if (known != view_.end() && known->second.epoch > one.epoch) return;
  if (one.is == node_state::ended) {
    // One that came and went before this one was told: others may have heard of it meanwhile.
    if (known == view_.end() && !is_news) return;
    if (known != view_.end()) {
      by_epoch_.erase(known->second.epoch);
      view_.erase(known);
    }
  } else if (known != view_.end()) {
    if (known->second == one) return;
    by_epoch_.erase(known->second.epoch);
    by_epoch_.emplace(one.epoch, one.process);
    known->second = one;
  } else {
    view_.emplace(one.process, one);
    by_epoch_.emplace(one.epoch, one.process);
  }
  if (one.process != process_) actions_.emplace_back(changed{std::move(one)});
}

// They are answers to what it said to have, so that none is missing between those and these. Where
// rows are missing before them, these may still come, with the loads of their time.
void seat::take_loads(const bulletin& came) {
  if (came.loads_revision <= loads_ || came.since > revision_) return;
  loads_ = came.loads_revision;
  for (const spec::node_share& one : came.loads) {
    const auto known = by_epoch_.find(one.epoch);
    if (known == by_epoch_.end()) continue;  // its row comes, with its load
    node_member& of = view_.find(known->second)->second;
    if (std::exchange(of.load, one.load) == one.load || of.process == process_) continue;
    actions_.emplace_back(loaded{of});
  }
}

seat::worth seat::of(const base::id& process, std::uint64_t epoch) const noexcept {
  const auto known = view_.find(process);
  if (known != view_.end()) return known->second.epoch == epoch ? worth::good : worth::stale;
  // Epochs grow, and the view has all that live: one that is not larger than what was seen and is
  // not there is over.
  return epoch > largest_epoch_ ? worth::early : worth::stale;
}

// Before anything else is done with the time: when nothing was done since long before now, though
// something was due, it was stopped meanwhile, maybe with all others. That time is nobody's fault.
void seat::wake(base::time_point now) {
  if (at_ == stage::over) return;
  if (const duration late = now - std::max(due(), awake_); late > with_.heartbeat) {
    heard_ += late;
    born_ += late;
    drains_until_ += late;
  }
  awake_ = now;
}

void seat::on_time(base::time_point now) {
  if (at_ == stage::over) return;
  wake(now);
  if (at_ == stage::joining && now - born_ >= with_.join_limit) {
    return end(not_taken(with_.join_limit, waits_for_));
  }
  if (at_ != stage::joining && now - heard_ >= head_wait()) return end(lost_head(now - heard_));
  if (at_ == stage::draining && now >= drains_until_) leave(now);
  if (at_ == stage::leaving && now >= drains_until_ + leave_limit) return end(std::nullopt);
  // Each heartbeat is answered: a connection over which nothing comes is as good as none.
  const duration patience =
      silent_dials_ > 0 && silent_dials_ < quick_dials ? with_.heartbeat : with_.suspect_after;
  const bool is_dumb = is_connected_ && now - heard_ >= with_.suspect_after &&
                       now >= std::max(dial_at_, dialed_ + patience);
  if (is_dumb) {
    is_connected_ = false;
    ++silent_dials_;
  }
  if (!is_connected_ && now >= dial_at_) redial(now);
  if (is_connected_ && now - spoke_ >= with_.heartbeat) speak(now);
}

base::time_point seat::due() const noexcept {
  if (at_ == stage::over) return base::time_point::max();
  base::time_point next = at_ == stage::joining ? born_ + with_.join_limit : heard_ + head_wait();
  if (at_ == stage::draining) next = std::min(next, drains_until_);
  if (at_ == stage::leaving) next = std::min(next, drains_until_ + leave_limit);
  next = std::min(next, is_connected_ ? spoke_ + with_.heartbeat : dial_at_);
  return next;
}

void seat::drain(duration limit, base::time_point now) {
  wake(now);
  if (at_ == stage::joining) return end(std::nullopt);
  if (at_ != stage::member) return;
  at_ = stage::draining;
  drains_until_ = now + limit;
  if (is_connected_) speak(now);
}

void seat::idle(base::time_point now) {
  if (at_ == stage::draining) leave(now);
}

void seat::leave(base::time_point now) {
  at_ = stage::leaving;
  drains_until_ = now;
  if (is_connected_) speak(now);
}

void seat::end(std::optional<error> why) {
  at_ = stage::over;
  actions_.emplace_back(over{std::move(why)});
}

}  // namespace manta::inline v0::life
