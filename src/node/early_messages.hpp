// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include <manta/base/id.hpp>

#include "node/far_handles.hpp"
#include "node/peers.hpp"

// Messages that come before this node can do what they ask for.
//
// Problem. A node is a member before its runtime has started, and others make actors in it at once.
// And who has joined is told by the head, while a handle comes from anybody: it may be here first,
// and an actor in an unknown node would be taken for one of a lost node.
// Idea. Such a message waits, and behind it what the same member says next, until the runtime is
// there, and the head has spoken of that node or of one that has joined after it.
// Threads: the loop's, but for open.

namespace manta::inline v0::node {

class early_messages {
 public:
  /// A runtime is to start.
  void begin() noexcept {
    is_open_.store(false);
    waiting_.clear();
  }
  /// It has started; go_on is next. Any thread.
  void open() noexcept { is_open_.store(true); }

  /// True: it waits. Throws std::bad_alloc.
  bool keeps(const peers& by, std::uint64_t from, const base::id& request,
             const peers::kept_message& message) {
    if (peers::topic_of(request) == peers::question) return false;  // those need neither
    const auto found = waiting_.find(from);
    if (found == waiting_.end() && is_clear(by, request, message)) return false;
    waiting_[from].push_back({request, message});
    return true;
  }

  /// That member is lost, and what it has said is not heard any more.
  void drop(std::uint64_t from) noexcept { waiting_.erase(from); }

  /// Calls hear(from, request, message) with each that waits no longer, in the order of who sent
  /// them.
  template <class Hear>
  void go_on(const peers& by, Hear&& hear) {
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      auto& [from, all] = *at;
      while (!all.empty() && is_clear(by, all.front().request, all.front().message)) {
        const letter next = std::move(all.front());
        all.pop_front();
        hear(from, next.request, next.message);
      }
      at = all.empty() ? waiting_.erase(at) : std::next(at);
    }
  }
  bool is_empty() const noexcept { return waiting_.empty(); }

 private:
  struct letter {
    base::id request;
    peers::kept_message message;
  };
  bool is_clear(const peers& by, const base::id& request,
                const peers::kept_message& message) const {
    const std::uint64_t topic = peers::topic_of(request);
    const bool needs_runtime = topic == peers::spawn || topic == peers::call ||
                               topic == peers::construct || topic == peers::release ||
                               topic == peers::actor_order || topic == peers::name ||
                               topic == peers::task || topic == peers::surplus ||
                               topic == peers::stop || topic == peers::flow;
    if (needs_runtime && !is_open_.load()) return false;
    return !peers::has_handles(request) ||
           far_handles::newest_owner_in(message.bytes, by.epoch()) <= by.newest();
  }

  std::atomic<bool> is_open_{false};
  std::map<std::uint64_t, std::deque<letter>> waiting_;  // by who has sent them
};

}  // namespace manta::inline v0::node
