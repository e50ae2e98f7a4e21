// SPDX-License-Identifier: Apache-2.0
#include "life/roll.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace manta::inline v0::life {

namespace {

using spec::node_member;
using spec::node_state;
using spec::node_verdict;
using spec::node_wish;

// How often the head looks whether somebody is silent: often enough for suspect_after, and for a
// stop of its own to be noticed before that.
duration look_interval(const membership_settings& with) noexcept { return with.heartbeat / 2; }

}  // namespace

roll::roll(const membership_settings& with, std::vector<node_member> known,
           std::uint64_t last_epoch, base::time_point now)
    : with_(with), last_epoch_(last_epoch + 1), head_epoch_(last_epoch_), looked_(now) {
  // As if it had been heard just before it would have to be back.
  const base::time_point heard = now + with.return_grace - with.dead_after;
  for (node_member& one : known) {
    entry made;
    made.is = std::move(one);
    made.heard = std::max(heard, now);
    const std::uint64_t epoch = made.is.epoch;
    by_process_[made.is.process] = epoch;
    by_name_[made.is.who.name] = epoch;
    entry& kept = all_.insert_or_assign(epoch, std::move(made)).first->second;
    change(kept);
  }
  write_row({});
}

std::uint64_t roll::write_row(const node_member& row) {
  const std::uint64_t ticket = ++last_ticket_;
  actions_.emplace_back(write{
      .ticket = ticket, .last_epoch = last_epoch_, .has_member = row.epoch != 0, .member = row});
  by_ticket_[ticket] = row.epoch;
  return ticket;
}

roll::entry* roll::find(const base::id& process) noexcept {
  const auto known = by_process_.find(process);
  return known == by_process_.end() ? nullptr : &all_.find(known->second)->second;
}

void roll::on_heartbeat(const heartbeat& came, base::time_point now) {
  if (!is_open_) return;  // it speaks again
  if (entry* const from = find(came.process)) {
    hear(*from, came, now);
  } else if (came.epoch == 0 && came.wish == node_wish::stay) {
    admit(came, now);
  } else if (came.epoch == 0) {
    say_ended(came.process, 0, "left before it was a member");
  } else {
    say_ended(came.process, came.epoch,
              "this head does not know it as a member: it was away for too long");
  }
  tell_all(now);
}

// Whether somebody else with that name lives, who was heard again and again since it was asked for:
// one that has died makes room soon, though the last that it said may still be on its way.
bool roll::is_taken(const heartbeat& came, base::time_point now) {
  const auto taken = by_name_.find(came.who.name);
  if (taken == by_name_.end()) {
    waiting_.erase(came.process);
    return false;
  }
  const base::time_point since = waiting_.try_emplace(came.process, now).first->second;
  const entry& other = all_.find(taken->second)->second;
  const bool lives = other.at != entry::stage::ending && other.closed == base::time_point{} &&
                     other.spoke >= since + 2 * with_.heartbeat;
  if (!lives) return true;
  waiting_.erase(came.process);
  refuse(came.process, fmt::format("the name {} is that of a living member (pid {} at {}); "
                                   "give each process a name of its own",
                                   came.who.name, other.is.who.pid, other.is.who.host));
  return true;
}

void roll::admit(const heartbeat& came, base::time_point now) {
  if (is_taken(came, now)) return;
  if (by_name_.size() >= with_.most_members) {
    return refuse(came.process, fmt::format("the cluster has {} members, which is its limit",
                                            with_.most_members));
  }
  entry made;
  made.is = {.who = came.who, .process = came.process, .epoch = ++last_epoch_};
  made.is.load = came.load;
  made.at = entry::stage::joining;
  made.heard = now;
  const std::uint64_t epoch = made.is.epoch;
  by_process_[came.process] = epoch;
  by_name_[came.who.name] = epoch;
  write_row(made.is);
  all_.emplace(epoch, std::move(made));
}

void roll::hear(entry& from, const heartbeat& came, base::time_point now) {
  const bool is_other = came.epoch != 0 && came.epoch != from.is.epoch;
  if (from.at == entry::stage::ended || is_other) {
    return say_ended(came.process, from.is.epoch, from.is.cause);
  }
  from.heard = now;
  from.spoke = now;
  if (from.closed != base::time_point{}) {
    from.closed = {};
    --closed_;
  }
  if (from.at != entry::stage::in) return;  // the answer comes when its row is written
  from.is.load = came.load;
  const bool follows = came.head_epoch == head_epoch_ && came.revision >= forgotten_;
  from.told = follows ? std::min(came.revision, revision_) : 0;
  if (came.wish == node_wish::leave) return end(from, "left");
  if (from.is.is == node_state::suspected) {
    from.is.is = node_state::alive;
    change(from);
  }
  if (came.wish == node_wish::drain && from.is.is != node_state::draining) {
    from.is.is = node_state::draining;
    change(from);
  }
  tell(from);
}

void roll::on_closed(const base::id& process, base::time_point now) {
  if (!is_open_) return;  // nobody is heard, so nobody could come back
  entry* const of = find(process);
  if (of == nullptr || of->at == entry::stage::ended || of->closed != base::time_point{}) return;
  of->closed = now;
  ++closed_;
}

void roll::on_written(std::uint64_t ticket, base::time_point now) {
  const auto found = by_ticket_.find(ticket);
  if (found == by_ticket_.end()) return;
  const std::uint64_t epoch = found->second;
  by_ticket_.erase(found);
  if (epoch == 0) {
    is_open_ = true;
    return;
  }
  entry& of = all_.find(epoch)->second;
  if (of.at == entry::stage::joining) {
    of.at = entry::stage::in;
    change(of);
    tell(of);
  } else if (of.at == entry::stage::ending) {
    of.at = entry::stage::ended;
    of.is.is = node_state::ended;
    of.is.cause = of.cause;
    if (of.closed != base::time_point{}) --closed_;
    by_name_.erase(of.is.who.name);
    change(of);
    say_ended(of.is.process, epoch, of.is.cause);
    ended_.push_back(epoch);
    forget_oldest();
  }
  tell_all(now);
}

void roll::on_not_written(std::uint64_t ticket, const std::string& why, base::time_point now) {
  const auto found = by_ticket_.find(ticket);
  if (found == by_ticket_.end()) return;
  const std::uint64_t epoch = found->second;
  by_ticket_.erase(found);
  if (epoch == 0) return;  // again, at the next look
  entry& of = all_.find(epoch)->second;
  if (of.at == entry::stage::ending) {
    of.is_unwritten = true;  // it may be on the disk after all, so there is no way back
    return;
  }
  refuse(of.is.process, "the head could not write that it is a member: " + why);
  if (of.closed != base::time_point{}) --closed_;
  by_process_.erase(of.is.process);
  by_name_.erase(of.is.who.name);
  all_.erase(epoch);
  tell_all(now);
}

void roll::on_time(base::time_point now) {
  const duration since = now - looked_;
  const bool looks = since >= look_interval(with_);
  if (!is_open_) {
    if (looks && by_ticket_.empty()) write_row({});
    if (looks) looked_ = now;
    return;
  }
  if (looks) {
    // Longer than it should be: it was stopped, and what came meanwhile has not been heard yet.
    const duration missed = since - look_interval(with_);
    if (missed >= with_.heartbeat) {
      for (auto& [epoch, one] : all_) {
        one.heard = std::max(one.heard, std::min(one.heard + missed, now));
      }
    }
    looked_ = now;
    std::erase_if(waiting_, [&](const auto& one) { return now - one.second > with_.join_limit; });
  }
  if (looks || closed_ > 0) {
    for (auto& [epoch, one] : all_) {
      if (looks && std::exchange(one.is_unwritten, false)) write_end(one);
      look_at(one, now);
    }
  }
  tell_all(now);
}

void roll::look_at(entry& of, base::time_point now) {
  if (of.at != entry::stage::in) return;
  const duration silent = now - of.heard;
  if (of.closed != base::time_point{} && now - of.closed >= with_.closed_grace) {
    end(of, "its connection was closed");
  } else if (silent >= with_.dead_after) {
    end(of, fmt::format("it said nothing for {} ms", silent / std::chrono::milliseconds(1)));
  } else if (silent >= with_.suspect_after && of.is.is == node_state::alive) {
    of.is.is = node_state::suspected;
    change(of);
  }
}

base::time_point roll::due() const noexcept {
  base::time_point next = looked_ + look_interval(with_);
  if (!is_open_) return next;
  if (revision_ > told_) next = std::min(next, told_at_ + with_.news_gap);
  if (closed_ == 0) return next;
  for (const auto& [epoch, one] : all_) {
    if (one.at == entry::stage::in && one.closed != base::time_point{}) {
      next = std::min(next, one.closed + with_.closed_grace);
    }
  }
  return next;
}

// Nothing is told before its row is on the disk, and from here on it can't come back.
void roll::end(entry& of, std::string cause) {
  of.at = entry::stage::ending;
  of.cause = std::move(cause);
  write_end(of);
}

void roll::write_end(const entry& of) {
  node_member row = of.is;
  row.is = node_state::ended;
  row.cause = of.cause;
  write_row(row);
}

void roll::change(entry& of) {
  by_revision_.erase(of.revision);
  of.revision = ++revision_;
  by_revision_.emplace(of.revision, of.is.epoch);
}

void roll::tell(entry& whom) {
  if (whom.told < forgotten_) whom.told = 0;
  bulletin out{.process = whom.is.process,
               .head_epoch = head_epoch_,
               .epoch = whom.is.epoch,
               .since = whom.told,
               .revision = revision_};
  for (auto at = by_revision_.upper_bound(whom.told); at != by_revision_.end(); ++at) {
    const entry& changed = all_.find(at->second)->second;
    // To who knows nothing yet, those that are over are nothing to be known.
    if (whom.told == 0 && changed.at == entry::stage::ended) continue;
    out.changed.push_back(changed.is);
  }
  whom.told = revision_;
  actions_.emplace_back(std::move(out));
}

void roll::tell_all(base::time_point now) {
  if (revision_ == told_ || now - told_at_ < with_.news_gap) return;
  told_ = revision_;
  told_at_ = now;
  for (auto& [epoch, one] : all_) {
    if (one.at == entry::stage::in && one.told < revision_) tell(one);
  }
}

void roll::refuse(const base::id& process, std::string reason) {
  actions_.emplace_back(bulletin{.process = process,
                                 .head_epoch = head_epoch_,
                                 .verdict = node_verdict::refused,
                                 .reason = std::move(reason)});
}

void roll::say_ended(const base::id& process, std::uint64_t epoch, std::string reason) {
  actions_.emplace_back(bulletin{.process = process,
                                 .head_epoch = head_epoch_,
                                 .verdict = node_verdict::ended,
                                 .epoch = epoch,
                                 .reason = std::move(reason)});
}

void roll::forget_oldest() {
  while (ended_.size() > with_.most_ended) {
    const auto oldest = all_.find(ended_.front());
    ended_.pop_front();
    by_process_.erase(oldest->second.is.process);
    by_revision_.erase(oldest->second.revision);
    forgotten_ = std::max(forgotten_, oldest->second.revision);
    all_.erase(oldest);
  }
}

std::vector<node_member> roll::members() const {
  std::vector<node_member> out;
  for (const auto& [epoch, one] : all_) {
    if (one.at == entry::stage::in || one.at == entry::stage::ending) out.push_back(one.is);
  }
  return out;
}

}  // namespace manta::inline v0::life
