// SPDX-License-Identifier: Apache-2.0
#include "node/cluster_member.hpp"

#include <variant>

namespace manta::inline v0::node {

namespace {

constexpr std::size_t most_before = 4;

}  // namespace

void cluster_member::pump(base::time_point now) {
  hear(now);
  seat_.on_time(now);
  act(now);
}

void cluster_member::drain(duration limit, base::time_point now) {
  seat_.drain(limit, now);
  act(now);
}

void cluster_member::idle(base::time_point now) {
  seat_.idle(now);
  act(now);
}

// The newest first; but a network that comes back may bring something over an older one before.
void cluster_member::hear(base::time_point now) {
  for (;;) {
    const got newest = head_ == nullptr ? got::nothing : read(*head_);
    if (newest == got::ended) {
      head_ = nullptr;
      seat_.on_closed(now);
    } else if (newest == got::bulletin) {
      take(now);
    } else if (!hear_older(now)) {
      return;
    }
  }
}

bool cluster_member::hear_older(base::time_point now) {
  for (auto one = before_.begin(); one != before_.end();) {
    const got is = read(**one);
    if (is == got::bulletin) {
      head_ = std::move(*one);
      seat_.on_connected(now);
      take(now);
      return true;
    }
    one = is == got::ended ? before_.erase(one) : one + 1;
  }
  return false;
}

cluster_member::got cluster_member::read(wire::link& from) {
  switch (from.take(frame_)) {
    case wire::link::got::nothing:
      return got::nothing;
    case wire::link::got::ended:
      if (const auto why = from.state().ended) visitor_.on_lost(*why);
      return got::ended;
    case wire::link::got::message:
      break;
  }
  const result<const wire::message_view&> came = post_.read(frame_.bytes());
  const auto* const said = came ? std::get_if<wire::bulletin_view>(&came->body) : nullptr;
  if (said == nullptr) return got::ended;  // no head says that
  answer_ = to_bulletin(came->head, *said);
  return got::bulletin;
}

void cluster_member::take(base::time_point now) {
  before_.clear();
  const wire::link_state is = head_->state();
  if (cluster_ == base::id{}) cluster_ = is.cluster;
  head_process_ = is.process;  // another one, when it was started again
  visitor_.on_heard();
  seat_.on_bulletin(std::exchange(answer_, {}), now);
}

void cluster_member::act(base::time_point now) {
  for (std::vector<life::seat::action> todo = seat_.take(); !todo.empty(); todo = seat_.take()) {
    for (const life::seat::action& one : todo) {
      if (std::holds_alternative<life::seat::dial>(one)) {
        if (head_ != nullptr) before_.push_back(std::move(head_));
        if (before_.size() > most_before) before_.erase(before_.begin());
        head_ = dial_();
        if (head_ != nullptr) seat_.on_connected(now);
      } else if (const auto* const said = std::get_if<life::heartbeat>(&one)) {
        // What does not go is said again by the next one; a link that has ended says so itself.
        if (head_ != nullptr) static_cast<void>(post_.send(*head_, *said));
      } else if (const auto* const joined = std::get_if<life::seat::joined>(&one)) {
        visitor_.on_joined(joined->epoch);
      } else if (const auto* const changed = std::get_if<life::seat::changed>(&one)) {
        visitor_.on_changed(changed->member);
      } else if (const auto* const loaded = std::get_if<life::seat::loaded>(&one)) {
        visitor_.on_load(loaded->member);
      } else if (const auto* const over = std::get_if<life::seat::over>(&one)) {
        head_ = nullptr;
        before_.clear();
        visitor_.on_over(over->why);
      }
    }
  }
}

}  // namespace manta::inline v0::node
