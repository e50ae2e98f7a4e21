// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <manta/codec/errors.hpp>
#include <manta/node/shared_thing.hpp>

namespace manta::inline v0::node {

/// The permits that one other process has, of semaphores wherever they live. Threads: any.
class held_permits {
 public:
  struct some {
    shared_thing of;
    std::uint64_t count = 0;
  };
  using list = std::unordered_map<const void*, some>;  // by the semaphore's core

  /// Throws std::bad_alloc.
  void note(const shared_thing& of, std::uint64_t count) {
    const std::lock_guard lock(mutex_);
    some& all = all_[of.core];
    all.of = of;
    all.count += count;
  }
  /// False: it has not so many.
  bool forget(const shared_thing& of, std::uint64_t count) noexcept {
    shared_thing last;  // ends without the lock
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(of.core);
    if (found == all_.end() || found->second.count < count) return false;
    found->second.count -= count;
    if (found->second.count > 0) return true;
    last = std::move(found->second.of);
    all_.erase(found);
    return true;
  }
  /// As it says itself: throws decode_failed when it has not so many.
  void give_back(const shared_thing& of, std::uint64_t count) {
    if (count > 0 && forget(of, count)) return;
    raise(errc::decode_failed, "permits that it has not");
  }
  /// All, which it has no more.
  list take_all() noexcept {
    list out;
    const std::lock_guard lock(mutex_);
    out.swap(all_);
    return out;
  }

 private:
  std::mutex mutex_;
  list all_;
};

}  // namespace manta::inline v0::node
