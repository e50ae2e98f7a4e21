// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>

#include "wire/frame_line.hpp"
#include "wire/link.hpp"

// The link over two rings in shared memory (ring.hpp), for two processes of one machine.
//
// It has no thread: what has no room in the ring waits here until somebody calls send, take or
// wait.
// The rings can't tell of a death, so there is a descriptor beside them that can: a pidfd or one
// end of a socketpair, readable or hung up when the other process is gone. It is looked at in wait,
// every 5 ms that nothing comes, and in state.
// Threads: any. A lock for each direction, so two senders never share a ring's end.

namespace manta::inline v0::wire {

class ring_link final : public link {
 public:
  /// What may wait here for room in the ring until send refuses.
  static constexpr std::size_t most_bytes = std::size_t{256} << 20U;

  /// The rings, and `life`, which this neither owns nor reads from, live longer than this. A `life`
  /// of -1: nobody tells of a death.
  ring_link(const ring_memory& in, const ring_memory& out, int life);
  ~ring_link() override;

  result<void> send(std::span<const std::span<const std::byte>> pieces, std::size_t size) override;
  got take(frame_buffer& to) override;
  bool wait(std::chrono::nanoseconds time) override;
  void on_arrival(std::function<void()> tell) override;
  void close() override;
  link_state state() const override;

 private:
  bool has_news() const;
  bool flush();
  void look_for_death() const;
  void end(error why) const;
  void tell();

  const int life_;

  mutable std::mutex out_mutex_;
  frame_sender sender_;  // guarded by out_mutex_

  std::mutex in_mutex_;      // taken before state_mutex_
  frame_receiver receiver_;  // guarded by in_mutex_, but for its has_message

  mutable std::mutex state_mutex_;
  mutable std::optional<error> ended_;  // guarded by state_mutex_

  std::recursive_mutex tell_mutex_;
  std::function<void()> tell_;  // guarded by tell_mutex_
};

}  // namespace manta::inline v0::wire
