// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include <manta/exec/context.hpp>

// Ends what a thread waits for while it reads a message.
//
// Problem. Large arrays that a message names are fetched as it is read (far_pulls.hpp), and there
// is no job yet that could be asked to stop: whoever cancels the call would wait for its node.
// Idea. One of these stands on the stack of who reads, where others find it: by a pointer that they
// have under their own lock, and that is taken back before it goes.
//
//   reader: [reading_stop] make_call -> array -> fetch ~~~ waits     <--ask-- who cancels the call
//
// A job that runs on the reader's stack, since what is read waits for it, is others' too: what that
// waits for is none of the reading's.
//
// Cost: nothing but the object while nothing is fetched.
// Threads: ask any, while it lives; all else the reader's.

namespace manta::inline v0::node {

class reading_stop {
 public:
  reading_stop() noexcept : outer_(std::exchange(innermost(), this)) {}
  ~reading_stop() { innermost() = outer_; }
  reading_stop(const reading_stop&) = delete;
  reading_stop& operator=(const reading_stop&) = delete;

  /// What is fetched for it ends with cancelled, now and later.
  void ask() noexcept {
    std::optional<std::stop_source> waits;
    {
      const std::lock_guard lock(mutex_);
      is_asked_ = true;
      waits = source_;
    }
    if (waits.has_value()) waits->request_stop();
  }
  bool is_asked() const noexcept {
    const std::lock_guard lock(mutex_);
    return is_asked_;
  }
  /// For a wait of the calling thread, in the context that reads; it may read nothing that can be
  /// stopped. Throws std::bad_alloc.
  static std::stop_token of_this_thread() {
    reading_stop* const reads = innermost();
    const bool is_its_own = reads != nullptr && reads->reader_ == exec::this_thread.current;
    return is_its_own ? reads->token() : std::stop_token();
  }

 private:
  static reading_stop*& innermost() noexcept {
    constinit thread_local reading_stop* mine = nullptr;
    return mine;
  }
  std::stop_token token() {
    const std::lock_guard lock(mutex_);
    if (!source_.has_value()) source_.emplace();
    if (is_asked_) source_->request_stop();  // nobody has a callback yet
    return source_->get_token();
  }

  reading_stop* const outer_;
  const exec::context* const reader_ = exec::this_thread.current;  // only an address
  mutable std::mutex mutex_;
  std::optional<std::stop_source> source_;  // made by the first who waits
  bool is_asked_ = false;
};

}  // namespace manta::inline v0::node
