// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include <manta/spec/error.hpp>

// The watches of manta::kv that are open: at the end of the runtime, before the workers are waited
// for, whoever waits for a change is told that none will come.

namespace manta::inline v0::node {

class ending_watch {
 public:
  ending_watch() = default;
  ending_watch(const ending_watch&) = delete;
  ending_watch& operator=(const ending_watch&) = delete;
  /// Fails who waits, now and later.
  virtual void end(const error& why) = 0;

 protected:
  ~ending_watch() = default;
};

/// Any thread.
class kv_watches {
 public:
  static kv_watches& global() {
    static auto* const made = new kv_watches;  // never destroyed: handles may outlive main
    return *made;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
  }
  /// Ends all, and refuses those that come later.
  void close() {
    const error why(errc::cancelled, "cancelled: the runtime ended while kv::watcher::next waited");
    std::vector<std::weak_ptr<ending_watch>> ending;
    {
      const std::lock_guard lock(mutex_);
      is_open_ = false;
      ending.swap(all_);
    }
    // Without the lock: who is told may drop handles.
    for (const auto& one : ending) {
      if (const auto alive = one.lock()) alive->end(why);
    }
  }
  /// False: they are closed.
  bool add(const std::shared_ptr<ending_watch>& one) {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const auto& known) { return known.expired(); });
    if (is_open_) all_.push_back(one);
    return is_open_;
  }
  /// How many are open.
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const auto& known) { return known.expired(); });
    return all_.size();
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<ending_watch>> all_;
  bool is_open_ = false;
};

}  // namespace manta::inline v0::node
