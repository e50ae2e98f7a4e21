// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "sim/world.hpp"

namespace sim {

/// What runs pump() of something: soon when something came, and when it is due.
class pump_timer {
 public:
  pump_timer(world& in, std::function<time_point()> pump)
      : in_(in), self_(std::make_shared<state>()) {
    self_->pump = std::move(pump);
  }
  ~pump_timer() { self_->is_gone = true; }
  pump_timer(const pump_timer&) = delete;
  pump_timer& operator=(const pump_timer&) = delete;

  void soon() { arm(in_.now() + std::chrono::microseconds(10)); }
  /// Stops count: as many go_on() end them.
  void stop() { ++self_->stops; }
  void go_on() {
    if (self_->stops > 0 && --self_->stops > 0) return;
    soon();
  }
  bool is_stopped() const { return self_->stops > 0; }

 private:
  struct state {
    std::function<time_point()> pump;
    time_point next = time_point::max();
    bool is_gone = false;
    int stops = 0;
  };
  void arm(time_point when) { arm(in_, self_, when); }
  static void arm(world& in, const std::shared_ptr<state>& self, time_point when) {
    if (when >= self->next) return;
    self->next = when;
    in.at(when, [&in, self, when] {
      if (self->is_gone || self->next != when) return;
      self->next = time_point::max();
      if (self->stops > 0) return;  // go_on() pumps
      const time_point due = self->pump();
      if (!self->is_gone) arm(in, self, std::max(due, in.now() + std::chrono::microseconds(1)));
    });
  }

  world& in_;
  std::shared_ptr<state> self_;
};

}  // namespace sim
