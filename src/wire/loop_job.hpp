// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include <manta/base/clock.hpp>
#include <manta/spec/error.hpp>

#include "wire/loop.hpp"

// Work that a loop's thread does again and again: when it is asked to, and when it is time.
// For who uses links and has no KJ of its own; what decides by messages and time, as life/ does,
// needs nothing else.
// Threads: any for ask; who destroys it is not the loop's own thread.

namespace manta::inline v0::wire {

class loop_job {
 public:
  /// Does something, must neither block nor throw, and says when to be called next: nothing means
  /// not before ask.
  using work = std::function<base::deadline()>;

  /// `what` runs soon for the first time. When the loop has ended it never does.
  loop_job(loop& at, work what);
  loop_job(const loop_job&) = delete;
  loop_job& operator=(const loop_job&) = delete;
  /// As stop.
  ~loop_job();
  /// Waits until the work runs no more; ask does nothing from then on.
  void stop();

  /// Has the work run soon. Many calls before it does are one. Any thread, in the work too.
  void ask();

 private:
  class part;
  struct shared;

  const std::shared_ptr<shared> shared_;
};

}  // namespace manta::inline v0::wire
