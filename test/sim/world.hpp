// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>

#include "exec/support.hpp"

// Simulated time: things that happen, in the order of their times, in one thread. The same seed
// gives the same run.

namespace sim {

using manta::duration;
using manta::base::time_point;
using manta_test::dice;

class world {
 public:
  explicit world(std::uint64_t seed) : random_(seed) { current() = this; }
  ~world() { current() = nullptr; }
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  /// The time of the one world that there is, as a clock.
  static time_point clock() { return current()->now_; }

  time_point now() const { return now_; }
  dice& random() { return random_; }
  /// 0 to `most`, evenly.
  duration any(duration most) {
    return duration(random_.below(static_cast<std::size_t>(most.count()) + 1));
  }

  void at(time_point when, std::function<void()> what) {
    next_.push({std::max(when, now_), ++last_, std::move(what)});
  }
  void after(duration wait, std::function<void()> what) { at(now_ + wait, std::move(what)); }

  void run_until(time_point end) {
    while (!next_.empty() && next_.top().when <= end) {
      const event one = next_.top();
      next_.pop();
      now_ = one.when;
      one.what();
    }
    now_ = end;
  }
  std::uint64_t events() const { return last_; }

 private:
  static world*& current() {
    static world* one = nullptr;
    return one;
  }
  struct event {
    time_point when;
    std::uint64_t number;
    std::function<void()> what;
    bool operator<(const event& other) const {  // the first is on top
      return std::pair(other.when, other.number) < std::pair(when, number);
    }
  };

  time_point now_{std::chrono::seconds(1000)};
  dice random_;
  std::uint64_t last_ = 0;
  std::priority_queue<event> next_;
};

}  // namespace sim
