// SPDX-License-Identifier: Apache-2.0
#include "life/roll.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "spec/texts.hpp"

namespace manta::inline v0::life {

namespace {

using spec::node_member;
using spec::node_state;
using spec::node_verdict;
using spec::node_wish;

// How often the head looks whether somebody is silent: often enough for suspect_after, and for a
// stop of its own to be noticed before that.
duration look_interval(const membership_settings& with) noexcept { return with.heartbeat / 2; }

// Who accepts a connection sees one trip to and fro of its making, at least. Who has lost it takes
// three and a half to be heard again: to connect, to greet and prove, to hear so and to speak.
constexpr int trips_back = 4;

// The two are written together; a disk that says something else must not have an epoch given twice.
std::uint64_t larger_than(const std::vector<node_member>& known, std::uint64_t epoch) {
  for (const node_member& one : known) epoch = std::max(epoch, one.epoch);
  return epoch + 1;
}

}  // namespace

roll::roll(const membership_settings& with, std::vector<node_member> known,
           std::uint64_t last_epoch, base::time_point now)
    : with_(with),
      last_epoch_(larger_than(known, last_epoch)),
      head_epoch_(last_epoch_),
      looked_(now) {
  std::ranges::sort(known, {}, &node_member::epoch);
  for (node_member& one : known) {
    const std::uint64_t epoch = one.epoch;
    by_process_[one.process] = epoch;
    entry& made = all_[epoch];
    made.is = std::move(one);
    made.heard = now;
    if (made.is.is == node_state::ended) {
      made.at = entry::stage::ended;
      ended_.push_back(epoch);
    } else {
      living_[epoch] = &made;
      change(made);
    }
  }
  forget_oldest();
  write_row({});
  // Two rows with one name: the older one's process was never told that it is a member.
  for (const auto& [epoch, one] : living_) {
    const auto before = by_name_.find(one->is.who.name);
    if (before != by_name_.end()) end(*living_.at(before->second), "another one has its name");
    by_name_[one->is.who.name] = epoch;
  }
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
  wake(now);
  if (entry* const from = find(came.process)) {
    hear(*from, came, now);
  } else if (!dissolved_.empty()) {
    say_ended(came.process, came.epoch, dissolved_);
  } else if (came.epoch == 0 && came.wish == node_wish::stay) {
    if (!has_host() && came.process != with_.host) return put_off(came);
    admit(came, now);
    admit_early(now);
  } else if (came.epoch == 0) {
    drop_early(came.process);
    say_ended(came.process, 0, "left before it was a member");
  } else {
    say_ended(came.process, came.epoch,
              "this head does not know it as a member: it was away for too long");
  }
  tell_all(now);
}

void roll::on_connected(const base::id& process) {
  entry* const of = find(process);
  if (of == nullptr) return;
  of->told = of->seen;
  of->marked = 0;
}

bool roll::has_host() const { return with_.host == base::id{} || by_process_.contains(with_.host); }

// By the member in the head's own process is measured what others bring; a stranger that came
// before it would keep it out.
void roll::put_off(const heartbeat& came) {
  const auto same = std::ranges::find(early_, came.process, &heartbeat::process);
  if (same != early_.end()) {
    *same = came;
  } else if (early_.size() < with_.most_members) {
    early_.push_back(came);
  }
}

void roll::drop_early(const base::id& process) {
  std::erase_if(early_, [&](const heartbeat& one) { return one.process == process; });
}

void roll::admit_early(base::time_point now) {
  if (early_.empty() || !has_host()) return;
  for (const heartbeat& one : std::exchange(early_, {})) admit(one, now);
}

bool roll::has_name(const heartbeat& came) {
  const std::string& name = came.who.name;
  const char* const is_wrong = spec::fault_of_member_name(name);
  if (is_wrong == nullptr) return true;
  say(came.process, node_verdict::refused,
      fmt::format(
          "its name {} ({} bytes); give it one of 1 to {} bytes without control characters, "
          "but for {}",
          is_wrong, name.size(), spec::most_node_name, spec::own_node_name));
  return false;
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
  const entry& other = *living_.at(taken->second);
  const bool lives = other.at != entry::stage::ending && other.closed == base::time_point{} &&
                     other.spoke >= since + 2 * with_.heartbeat;
  if (!lives) {
    say(came.process, node_verdict::waits,
        fmt::format("its name {} is held by pid {} at {}, which {}", came.who.name,
                    other.is.who.pid, other.is.who.host,
                    other.at == entry::stage::ending
                        ? "has ended, which the head has yet to write; look at the head's disk if "
                          "that takes long, or choose another name"
                        : "has not been declared dead yet; end that one, or choose another name"));
    return true;
  }
  say(came.process, node_verdict::refused,
      fmt::format("the name {} is that of a living member (pid {} at {}); "
                  "give each process a name of its own",
                  came.who.name, other.is.who.pid, other.is.who.host));
  return true;
}

// What one gives to another is a place in a list of functions: that list has to be the same.
bool roll::is_other_program(const heartbeat& came) {
  if (came.who.functions == 0) return false;
  for (const auto& [epoch, one] : living_) {
    const spec::node_introduction& there = one->is.who;
    if (there.functions == 0 || there.functions == came.who.functions) continue;
    say(came.process, node_verdict::refused,
        fmt::format("its program has other functions than that of {} (pid {} at {}): {:016x}, not "
                    "{:016x}; start the same file everywhere",
                    there.name, there.pid, there.host, came.who.functions, there.functions));
    return true;
  }
  return false;
}

void roll::admit(const heartbeat& came, base::time_point now) {
  if (!has_name(came) || is_taken(came, now) || is_other_program(came)) return;
  if (living_.size() >= with_.most_members) {
    return say(came.process, node_verdict::refused,
               fmt::format("the cluster has {} members, which is its limit", with_.most_members));
  }
  entry made;
  made.is = {.who = came.who, .process = came.process, .epoch = ++last_epoch_};
  made.is.load = came.load;
  made.at = entry::stage::joining;
  made.heard = now;
  made.spoke = now;
  const std::uint64_t epoch = made.is.epoch;
  by_process_[came.process] = epoch;
  by_name_[came.who.name] = epoch;
  write_row(made.is);
  living_[epoch] = &all_.emplace(epoch, std::move(made)).first->second;
}

void roll::on_look(const heartbeat& came) {
  if (!is_open_) return;
  if (came.wish == node_wish::leave || !dissolved_.empty()) {
    return say_ended(came.process, came.epoch, "it looks no longer");
  }
  const bool follows = came.head_epoch == head_epoch_ && came.revision >= forgotten_;
  const std::uint64_t since = follows ? std::min(came.revision, revision_) : 0;
  // An epoch that no member has, so that it is a seat like any other to the process itself.
  actions_.emplace_back(bulletin{.process = came.process,
                                 .head_epoch = head_epoch_,
                                 .epoch = head_epoch_,
                                 .since = since,
                                 .revision = revision_,
                                 .changed = changes_since(since),
                                 .ends_with_driver = with_.ends_with_driver});
}

void roll::dissolve(const std::string& why) {
  dissolved_ = why;
  for (auto& [epoch, one] : all_) {
    // Who is on its way back is told when it is there, or ends when it is late.
    const bool is_there = one.closed == base::time_point{};
    if (one.at == entry::stage::in && is_there) end(one, why);
  }
}

void roll::hear(entry& from, const heartbeat& came, base::time_point now) {
  const bool is_other = came.epoch != 0 && came.epoch != from.is.epoch;
  if (from.at == entry::stage::ended || is_other) {
    return say_ended(came.process, from.is.epoch, from.is.cause);
  }
  from.heard = now;
  from.spoke = now;
  connect(from);
  if (from.at != entry::stage::in) return;  // the answer comes when its row is written
  if (!dissolved_.empty()) return end(from, dissolved_);
  see(from, came, now);
  // A row has no more than where it is: see to_row.
  if (from.is.who.workers == 0 && came.who.workers != 0) {
    from.is.who = came.who;
    change(from);
  }
  take_load(from, came.load, now);
  if (came.wish == node_wish::leave) return end(from, "left");
  if (from.is.is == node_state::suspected) {
    from.is.is = node_state::alive;
    change(from);
  }
  if (came.wish == node_wish::drain && from.is.is != node_state::draining) {
    from.is.is = node_state::draining;
    change(from);
  }
  bulletin answer = news_for(from);
  answer.loads_revision = load_revision_;
  const std::uint64_t has = came.head_epoch == head_epoch_ ? came.loads : 0;
  for (auto at = by_load_.upper_bound(has); at != by_load_.end(); ++at) {
    answer.loads.push_back({at->second, living_.at(at->second)->is.load});
  }
  actions_.emplace_back(std::move(answer));
}

// What was sent before its last heartbeat has come by now, or is lost. What was sent since is under
// way: a member that joins a large cluster has its whole view under way when it speaks again.
void roll::see(entry& of, const heartbeat& came, base::time_point now) {
  if (came.head_epoch == head_epoch_)
    of.seen = std::max(of.seen, std::min(came.revision, revision_));
  const bool is_next = now - of.marked_at >= with_.heartbeat / 2;  // and not the last one once more
  if (is_next && of.seen < of.marked) of.told = of.seen;
  of.told = std::max(of.told, of.seen);
  if (is_next) of.marked_at = now;
  if (is_next) of.marked = revision_;  // which the answer brings
}

void roll::take_load(entry& of, const spec::node_load& load, base::time_point now) {
  if (of.is.load == load) return;
  const auto share =
      static_cast<duration::rep>(living_.size() / std::max<std::size_t>(with_.loads_told, 1));
  // Half a heartbeat less, so that one that comes a little early is not too early.
  if (share > 0 && now - of.load_at < share * with_.heartbeat - with_.heartbeat / 2) return;
  of.is.load = load;
  of.load_at = now;
  by_load_.erase(of.load_revision);
  of.load_revision = ++load_revision_;
  by_load_.emplace(of.load_revision, of.is.epoch);
}

void roll::on_closed(const base::id& process, base::time_point now, closing how) {
  if (!is_open_) return;  // nobody is heard, so nobody could come back
  drop_early(process);
  entry* const of = find(process);
  if (of == nullptr || of->at > entry::stage::in || of->closed != base::time_point{}) return;
  const duration grace = (how.was_reset ? with_.reset_grace : with_.closed_grace) +
                         trips_back * std::min<duration>(how.made_in, with_.dead_after);
  of->closed = std::max(now + std::min<duration>(grace, with_.dead_after), lenient_until_);
  // One whose row is being written ends after that.
  if (of->at == entry::stage::in) closed_.emplace(of->closed, of->is.epoch);
}

void roll::connect(entry& of) {
  if (of.closed == base::time_point{}) return;
  closed_.erase({of.closed, of.is.epoch});
  of.closed = {};
}

void roll::forget_name(const entry& of) {
  const auto at = by_name_.find(of.is.who.name);
  if (at != by_name_.end() && at->second == of.is.epoch) by_name_.erase(at);
}

void roll::on_written(std::uint64_t ticket, base::time_point now) {
  const auto found = by_ticket_.find(ticket);
  if (found == by_ticket_.end()) return;
  const std::uint64_t epoch = found->second;
  by_ticket_.erase(found);
  if (epoch == 0) return open(now);
  entry& of = all_.find(epoch)->second;
  if (of.at == entry::stage::joining) {
    of.at = entry::stage::in;
    if (of.closed != base::time_point{}) closed_.emplace(of.closed, epoch);
    change(of);
    if (!dissolved_.empty()) return end(of, dissolved_);
    actions_.emplace_back(news_for(of));
  } else if (of.at == entry::stage::ending) {
    of.at = entry::stage::ended;
    of.is.is = node_state::ended;
    of.is.cause = of.cause;
    forget_name(of);
    living_.erase(epoch);
    by_load_.erase(of.load_revision);
    change(of);
    // Unless it has joined since: it was refused then, and its row had been written all the same.
    if (by_process_.at(of.is.process) == epoch) say_ended(of.is.process, epoch, of.is.cause);
    ended_.push_back(epoch);
    forget_oldest();
  }
  tell_all(now);
}

// Its own epoch is on the disk: from here on its members can be heard, and have as long as they may
// take to come back, however long the disk took.
void roll::open(base::time_point now) {
  is_open_ = true;
  looked_ = now;
  told_ = revision_;
  // As if it had been heard just before it would have to be back.
  const base::time_point heard = std::max(now, now + with_.return_grace - with_.dead_after);
  for (const auto& [epoch, one] : living_) one->heard = heard;
}

void roll::on_not_written(std::uint64_t ticket, const std::string& why, base::time_point now) {
  const auto found = by_ticket_.find(ticket);
  if (found == by_ticket_.end()) return;
  const std::uint64_t epoch = found->second;
  by_ticket_.erase(found);
  if (epoch == 0) return;  // again, at the next look
  entry& of = all_.find(epoch)->second;
  if (of.at == entry::stage::ending) {
    unwritten_.push_back(epoch);  // it may be on the disk after all, so there is no way back
    return;
  }
  say(of.is.process, node_verdict::refused, "the head could not write that it is a member: " + why);
  connect(of);
  by_process_.erase(of.is.process);
  forget_name(of);
  living_.erase(epoch);
  all_.erase(epoch);
  tell_all(now);
}

// When it should have looked long ago it was stopped, and what came meanwhile has not been heard
// yet, but for that some connections have ended.
void roll::wake(base::time_point now) {
  if (!is_open_) return;
  const duration late = now - due();
  if (late < 2 * with_.closed_grace) return;  // as on any busy machine
  lenient_until_ = std::max(lenient_until_, now + std::min(late, with_.stop_grace));
  while (!closed_.empty() && closed_.begin()->first < lenient_until_) {
    entry& of = *living_.at(closed_.begin()->second);
    closed_.erase(closed_.begin());
    of.closed = lenient_until_;
    closed_.emplace(of.closed, of.is.epoch);
  }
  const duration missed = now - looked_ - look_interval(with_);
  if (missed < with_.heartbeat) return;
  for (const auto& [epoch, one] : living_) {
    one->heard = std::max(one->heard, std::min(one->heard + missed, now));
  }
  looked_ = now - look_interval(with_);
}

void roll::on_time(base::time_point now) {
  const bool looks = now - looked_ >= look_interval(with_);
  if (!is_open_) {
    if (looks && by_ticket_.empty()) write_row({});
    if (looks) looked_ = now;
    return;
  }
  wake(now);
  if (looks) look(now);
  end_closed(now);
  tell_all(now);
}

void roll::look(base::time_point now) {
  looked_ = now;
  std::erase_if(waiting_, [&](const auto& one) { return now - one.second > with_.join_limit; });
  for (const std::uint64_t epoch : std::exchange(unwritten_, {})) write_end(*living_.at(epoch));
  for (const auto& [epoch, one] : living_) look_at(*one, now);
}

void roll::end_closed(base::time_point now) {
  while (!closed_.empty() && closed_.begin()->first <= now) {
    end(*living_.at(closed_.begin()->second), "its connection was closed");
  }
}

void roll::look_at(entry& of, base::time_point now) {
  if (of.at != entry::stage::in) return;
  const duration silent = now - of.heard;
  if (silent >= with_.dead_after) {
    end(of, fmt::format("it said nothing for {} ms", silent / std::chrono::milliseconds(1)));
  } else if (silent >= with_.suspect_after && of.is.is == node_state::alive) {
    of.is.is = node_state::suspected;
    change(of);
  }
}

base::time_point roll::due() const noexcept {
  base::time_point next = looked_ + look_interval(with_);
  if (!is_open_) return next;
  if (revision_ > told_) next = std::min(next, told_at_ + news_gap());
  if (!closed_.empty()) next = std::min(next, closed_.begin()->first);
  return next;
}

duration roll::news_gap() const noexcept {
  const std::size_t each = std::max<std::size_t>(with_.news_members, 1);
  const auto times = static_cast<duration::rep>((living_.size() + each - 1) / each);
  return std::min(std::max<duration::rep>(times, 1) * with_.news_gap,
                  std::max(with_.heartbeat, with_.news_gap));
}

// Nothing is told before its row is on the disk, and from here on it can't come back.
void roll::end(entry& of, std::string cause) {
  of.at = entry::stage::ending;
  connect(of);
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

bulletin roll::news_for(entry& whom) {
  if (whom.told < forgotten_) whom.told = 0;
  bulletin out{.process = whom.is.process,
               .head_epoch = head_epoch_,
               .epoch = whom.is.epoch,
               .since = whom.told,
               .revision = revision_,
               .ends_with_driver = with_.ends_with_driver};
  out.changed = changes_since(whom.told);
  whom.told = revision_;
  return out;
}

// To who knows nothing yet, those that are over are nothing to be known.
std::vector<node_member> roll::changes_since(std::uint64_t revision) const {
  std::vector<node_member> out;
  for (auto at = by_revision_.upper_bound(revision); at != by_revision_.end(); ++at) {
    const entry& changed = all_.find(at->second)->second;
    if (revision == 0 && changed.at == entry::stage::ended) continue;
    out.push_back(changed.is);
  }
  return out;
}

void roll::tell_all(base::time_point now) {
  if (revision_ == told_ || now - told_at_ < news_gap()) return;
  told_ = revision_;
  told_at_ = now;
  for (const auto& [epoch, one] : living_) {
    if (one->at == entry::stage::in && one->told < revision_) {
      actions_.emplace_back(news_for(*one));
    }
  }
}

void roll::say(const base::id& process, node_verdict verdict, std::string reason) {
  actions_.emplace_back(bulletin{.process = process,
                                 .head_epoch = head_epoch_,
                                 .verdict = verdict,
                                 .reason = std::move(reason)});
}

void roll::say_ended(const base::id& process, std::uint64_t epoch, std::string reason) {
  actions_.emplace_back(
      bulletin{.process = process,
               .head_epoch = head_epoch_,
               .verdict = dissolved_.empty() ? node_verdict::ended : node_verdict::dissolved,
               .epoch = epoch,
               .reason = std::move(reason)});
}

void roll::forget_oldest() {
  while (ended_.size() > with_.most_ended) {
    const auto oldest = all_.find(ended_.front());
    ended_.pop_front();
    const auto known = by_process_.find(oldest->second.is.process);
    if (known->second == oldest->first) by_process_.erase(known);
    by_revision_.erase(oldest->second.revision);
    forgotten_ = std::max(forgotten_, oldest->second.revision);
    all_.erase(oldest);
  }
}

std::vector<node_member> roll::members() const {
  std::vector<node_member> out;
  for (const auto& [epoch, one] : living_) {
    if (one->at != entry::stage::joining) out.push_back(one->is);
  }
  return out;
}

bool roll::has(const base::id& process) const {
  const auto known = by_process_.find(process);
  if (known == by_process_.end()) return false;
  const entry::stage at = all_.at(known->second).at;
  return at != entry::stage::joining && at != entry::stage::ended;
}

}  // namespace manta::inline v0::life
