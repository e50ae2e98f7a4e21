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

void cluster_member::hear(base::time_point now) {
  while (head_ != nullptr) {
    switch (head_->take(frame_)) {
      case wire::link::got::nothing:
        return;
      case wire::link::got::ended:
        if (const auto why = head_->state().ended) visitor_.on_lost(*why);
        head_ = nullptr;
        seat_.on_closed(now);
        return;
      case wire::link::got::message:
        break;
    }
    const result<const wire::message_view&> came = post_.read(frame_.bytes());
    const auto* const said = came ? std::get_if<wire::bulletin_view>(&came->body) : nullptr;
    if (said == nullptr) {  // no head says that
      head_ = nullptr;
      seat_.on_closed(now);
      return;
    }
    before_.clear();
    visitor_.on_heard();
    seat_.on_bulletin(to_bulletin(came->head, *said), now);
  }
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
