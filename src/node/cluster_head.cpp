// SPDX-License-Identifier: Apache-2.0
#include "node/cluster_head.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <variant>

#include "control/cluster_rows.hpp"
#include "control/rows.hpp"

namespace manta::inline v0::node {

struct cluster_head::inbox {
  using what = std::function<void(cluster_head& at, base::time_point now)>;

  void put(what one) {
    const std::lock_guard lock(mutex);
    all.push_back(std::move(one));
    if (wake) wake();
  }

  std::mutex mutex;
  // A link has something for that guest.
  void ring(std::uint64_t number) {
    const std::lock_guard lock(mutex);
    ready.push_back(number);
    if (wake) wake();
  }

  // Under it.
  std::function<void()> wake;
  std::vector<what> all;
  std::vector<std::uint64_t> ready;  // guests
};

cluster_head::cluster_head(const life::membership_settings& how, const base::id& process,
                           control::store& rows, std::function<void()> wake)
    : how_(how), rows_(rows), inbox_(std::make_shared<inbox>()), post_(process) {
  inbox_->wake = std::move(wake);
  read_rows({}, {});
}

cluster_head::~cluster_head() {
  const std::lock_guard lock(inbox_->mutex);
  inbox_->wake = nullptr;
}

// ---- its last life

void cluster_head::read_rows(std::string after, std::vector<spec::node_member> known) {
  control::range of;
  of.prefix = std::string(control::keys::nodes);
  of.after = std::move(after);
  rows_.scan(of, [in = inbox_, known = std::move(known)](result<control::page> came) mutable {
    auto page = std::make_shared<result<control::page>>(std::move(came));
    in->put([page, known = std::move(known)](cluster_head& at, base::time_point /*now*/) mutable {
      if (!*page) {
        at.failure_ = page->error();
        return;
      }
      for (const control::record& one : (*page)->records) {
        if (!at.take_row(one, known)) return;
      }
      if ((*page)->has_more) return at.read_rows((*page)->records.back().key, std::move(known));
      at.read_epoch(std::move(known));
    });
  });
}

// False: it is no row.
bool cluster_head::take_row(const control::record& one, std::vector<spec::node_member>& known) {
  const auto row = control::read_row<control::node_row>(one.key, one.value);
  if (!row) {
    failure_ = row.error();
  } else {
    if (row->is == control::node_row::state::ended) ended_rows_.emplace(row->epoch, one.key);
    known.push_back(to_member(*row));
  }
  return row.has_value();
}

void cluster_head::read_epoch(std::vector<spec::node_member> known) {
  rows_.read({std::string(control::keys::last_epoch)}, [in = inbox_, known = std::move(known)](
                                                           result<control::found> came) mutable {
    auto found = std::make_shared<result<control::found>>(std::move(came));
    in->put([found, known = std::move(known)](cluster_head& at, base::time_point now) mutable {
      if (!*found) {
        at.failure_ = found->error();
        return;
      }
      const std::optional<control::record>& last = (*found)->records.front();
      const std::uint64_t epoch = last ? control::number_of(last->value) : 0;
      at.roll_.emplace(at.how_, std::move(known), epoch, now);
      if (at.dissolves_) at.roll_->dissolve(*at.dissolves_);
    });
  });
}

// ---- what comes

void cluster_head::accept(std::unique_ptr<wire::link> from, bool looks) {
  const std::uint64_t number = ++last_guest_;
  from->on_arrival([in = inbox_, number] { in->ring(number); });
  guests_.emplace(number, guest{std::move(from), looks, {}});
  inbox_->ring(number);  // what came before
}

void cluster_head::dissolve(const std::string& why) {
  if (!roll_) {
    dissolves_ = why;
    return;
  }
  roll_->dissolve(why);
  act();
}

bool cluster_head::is_quiet() const {
  return std::ranges::all_of(guests_, [](const auto& one) {
    const wire::link_state is = one.second.link->state();
    return is.ended.has_value() || is.waiting_messages == 0;
  });
}

void cluster_head::pump(base::time_point now) {
  hear_store(now);
  if (!roll_) return;
  hear_links(now);
  roll_->on_time(now);
  act();
}

base::time_point cluster_head::due() const {
  return roll_ ? roll_->due() : base::time_point::max();
}

void cluster_head::hear_store(base::time_point now) {
  std::vector<inbox::what> came;
  {
    const std::lock_guard lock(inbox_->mutex);
    came.swap(inbox_->all);
  }
  for (const inbox::what& one : came) one(*this, now);
}

void cluster_head::hear_links(base::time_point now) {
  std::vector<std::uint64_t> ready;
  {
    const std::lock_guard lock(inbox_->mutex);
    ready.swap(inbox_->ready);
  }
  // The oldest first: who has two connections is heard over both, and its newest is known by then.
  std::ranges::sort(ready);
  ready.erase(std::unique(ready.begin(), ready.end()), ready.end());
  for (const std::uint64_t number : ready) {
    const auto at = guests_.find(number);
    if (at != guests_.end() && !hear(number, at->second, now)) guests_.erase(at);
  }
}

// A process that has another connection is as well as it was.
void cluster_head::forget(std::uint64_t number, const guest& gone, base::time_point now) {
  const base::id& process = gone.process;
  const auto newest = by_process_.find(process);
  if (newest == by_process_.end() || newest->second != number) return;
  for (auto other = guests_.rbegin(); other != guests_.rend(); ++other) {
    if (other->first == number || other->second.process != process) continue;
    newest->second = other->first;
    return;
  }
  by_process_.erase(newest);
  const wire::link_state was = gone.link->state();
  roll_->on_closed(process, now, {was.greeted_in, was.was_reset});
}

// False: the connection has ended.
bool cluster_head::hear(std::uint64_t number, guest& from, base::time_point now) {
  for (;;) {
    switch (from.link->take(frame_)) {
      case wire::link::got::nothing:
        return true;
      case wire::link::got::ended: {
        forget(number, from, now);
        return false;
      }
      case wire::link::got::message:
        break;
    }
    const result<const wire::message_view&> came = post_.read(frame_.bytes());
    const auto* const said = came ? std::get_if<wire::heartbeat_view>(&came->body) : nullptr;
    const bool is_sane =
        said != nullptr && (from.process == base::id{} || from.process == said->process);
    if (!is_sane) {  // no member says that
      from.link->close();
      continue;
    }
    if (from.process == base::id{}) {
      from.process = said->process;
      std::uint64_t& newest = by_process_[from.process];
      newest = std::max(newest, number);
      if (newest == number) roll_->on_connected(from.process);
    }
    const life::heartbeat heard = to_heartbeat(came->head, *said);
    if (from.looks) {
      roll_->on_look(heard);
    } else {
      roll_->on_heartbeat(heard, now);
    }
  }
}

// ---- what is to be done

void cluster_head::act() {
  for (std::vector<life::roll::action> todo = roll_->take(); !todo.empty(); todo = roll_->take()) {
    for (const life::roll::action& one : todo) {
      if (const auto* const row = std::get_if<life::roll::write>(&one)) {
        write(*row);
        continue;
      }
      const auto& said = std::get<life::bulletin>(one);
      const auto newest = by_process_.find(said.process);
      if (newest == by_process_.end()) continue;  // it asks again when it is back
      const auto to = guests_.find(newest->second);
      if (to != guests_.end()) static_cast<void>(post_.send(*to->second.link, said));
    }
  }
}

void cluster_head::write(const life::roll::write& row) {
  control::batch what;
  what.how = control::durability::durable;
  if (row.has_member) {
    const control::node_row as_row = to_row(row.member);
    if (as_row.is == control::node_row::state::ended) {
      ended_rows_.emplace(as_row.epoch, control::key_of(as_row));
      drop_oldest(what);
    }
    what.changes.push_back({.what = control::change::kind::put,
                            .key = control::key_of(as_row),
                            .value = control::to_bytes(as_row)});
  }
  what.changes.push_back({.what = control::change::kind::put,
                          .key = std::string(control::keys::last_epoch),
                          .value = control::digits(row.last_epoch)});
  rows_.commit(std::move(what), [in = inbox_,
                                 ticket = row.ticket](const result<control::outcome>& came) {
    const std::string why = came ? std::string() : came.error().message();
    in->put([ticket, why, is_written = came.has_value()](cluster_head& at, base::time_point now) {
      if (is_written) {
        at.roll_->on_written(ticket, now);
      } else {
        at.roll_->on_not_written(ticket, why, now);
      }
    });
  });
}

// Who reads the history of a name finds its former holders; not for ever.
void cluster_head::drop_oldest(control::batch& with) {
  while (ended_rows_.size() > how_.most_ended) {
    with.changes.push_back(
        {.what = control::change::kind::del, .key = ended_rows_.begin()->second});
    ended_rows_.erase(ended_rows_.begin());
  }
}

}  // namespace manta::inline v0::node
