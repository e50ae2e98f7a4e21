// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

// Lines in which something waits for a thread of its own, for the loop's thread and others that
// can't wait. What one of them waits for is never brought by itself.

namespace manta::inline v0::node {

/// One of them; its thread begins with the first that is added. Threads: any.
class facts_line {
 public:
  /// Another one than those, which is closed before it ends. `thread`: its name.
  explicit facts_line(const char* thread, bool serves_things = false) noexcept
      : thread_(thread), serves_things_(serves_things) {}
  facts_line(const facts_line&) = delete;
  facts_line& operator=(const facts_line&) = delete;
  /// Of questions, which may wait for a store.
  static facts_line& global();
  /// Of what ends what is the user's: a destructor may wait for what the first line, or the loop's
  /// thread, brings.
  static facts_line& of_ends();
  /// Of what other nodes do with channels, semaphores and barriers of this one. It waits for no
  /// other node's answer, so those of two nodes never wait for each other.
  static facts_line& of_things();

  /// Of copies of a lost node's arrays that lie on the disk, for which room is waited for.
  static facts_line& of_copies();
  /// Of answers of a head of its own, which the first line may wait for.
  static facts_line& of_answers();

  /// Throws std::bad_alloc, std::system_error: no thread can be made.
  void add(std::function<void()> what);
  /// Whether the calling thread is that one.
  bool is_here() const noexcept;
  /// Whether it is that of of_things, or of another one that does a part of its work.
  static bool is_of_things_here() noexcept;
  /// Waits until what was added before has been done, or dropped. Not for that thread itself.
  void drain() noexcept;
  /// Drops what waits and ends the thread. While nobody adds what has to be done.
  void close() noexcept;

 private:
  void run() noexcept;

  const char* const thread_;
  const bool serves_things_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> line_;
  bool is_ending_ = false;
  std::thread runner_;
};

}  // namespace manta::inline v0::node
