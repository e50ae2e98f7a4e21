// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include <manta/base/clock.hpp>
#include <manta/spec/error.hpp>

// The other nodes of a job that a driver has started on its own machine (the setting `nodes`): the
// program's file once more for each, told by its environment which rank it is.
//
// They end by themselves when their cluster does, or its head has gone; this waits for them, and
// ends those that do not.
// Threads: one at a time.

namespace manta::inline v0::node {

class child_nodes {
 public:
  child_nodes() = default;
  child_nodes(const child_nodes&) = delete;
  child_nodes& operator=(const child_nodes&) = delete;
  /// As end(), without time.
  ~child_nodes() { end(duration()); }

  /// Ranks 1 to count - 1 of `count`, which find their head at `address`. What has been started
  /// ends with this when it fails: worker_lost.
  result<void> start(int count, const std::string& job, const std::string& address);
  /// What has become of one that has ended before it had joined; nothing: there is none.
  std::optional<error> failure(const std::function<bool(int rank)>& has_joined);
  /// Waits until all have ended, and kills those that have not within `limit`, if there is one.
  void end(std::optional<duration> limit) noexcept;

 private:
  struct child {
    int rank = 0;
    pid_t pid = 0;
    int life = -1;  // its pidfd: readable when it has ended
  };

  std::vector<child> all_;
};

}  // namespace manta::inline v0::node
