// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include <manta/base/clock.hpp>

#include "sched/looked_time.hpp"

// How long an isolated worker has for what it was asked to do, before its process is ended.
//
// Problem. What runs there can't be made to stop: it is asked, and may not hear it, for good or
// since its machine is busy. To end its process is certain, and costs what else it had.
// Idea. It has a time for each, of which only what somebody was there to watch counts.
// Pure: time is given. Threads: externally synchronised.

namespace manta::inline v0::sched {

struct grace_times {
  /// For a task that was cancelled to stop, and for a killed actor to end. Users are told a second:
  /// what is left of it is for the next look and for the process's end.
  duration to_stop = std::chrono::milliseconds(900);
  /// For a worker that was let go and still has something to do. Nobody waits for it, so it has the
  /// time that destructors and a library's threads may take; but it holds memory, and a place.
  duration to_leave = std::chrono::seconds(10);
  /// What passes between two looks at most. The pool looks each millisecond, or ten: far more than
  /// a busy machine makes of that, and far less than to_stop, so that a few looks have to agree.
  duration between_looks = std::chrono::milliseconds(50);
};

class worker_grace {
 public:
  worker_grace() noexcept : worker_grace(grace_times{}) {}
  explicit worker_grace(grace_times with) noexcept : with_(with), passed_(with.between_looks) {}

  /// What is noted of who is asked now.
  base::time_point asked(base::time_point now) const noexcept { return passed_.at(now); }
  /// A look at who is late.
  void look(base::time_point now) noexcept {
    passed_.look(now);
    looked_ = passed_.at(now);
  }
  /// At the last look, of who was asked then; none, or max: it was not.
  bool is_late_to_stop(base::time_point asked) const noexcept {
    return is_late(asked, with_.to_stop);
  }
  bool is_late_to_leave(base::time_point asked) const noexcept {
    return is_late(asked, with_.to_leave);
  }

 private:
  bool is_late(base::time_point asked, duration time) const noexcept {
    return asked != base::time_point{} && asked <= looked_ - time;
  }

  grace_times with_;
  looked_time passed_;
  base::time_point looked_{};
};

}  // namespace manta::inline v0::sched
