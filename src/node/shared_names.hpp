// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include <manta/base/id.hpp>
#include <manta/node/shared_thing.hpp>

#include "base/id_hash.hpp"

// Channels, semaphores and barriers whose handles are in other processes.
//
// Problem. A channel's items, and who waits for them, are in the memory of the process that made
// it. A handle that goes to an isolated worker has to mean that same channel, and who waits there
// must neither hold a thread of the node nor be forgotten when either side ends.
//
// Idea. The thing stays where it was made, at the node. A handle in a message is an id; the node
// counts for each worker how often it has sent that and not had it back, as for actors, and keeps
// the thing meanwhile. In the worker a core stands for it, which has no items and no waiters: each
// operation is a question to the node (worker_questions.hpp), answered when it has happened. What
// has to wait is listed in the thing itself, as any wish, and answered by whoever meets it.
//
//   worker: send --Ask(id, send, item)--> node: channel_core::attempt, else enlist ...
//           goes on <------ Result ------------ ... met, on a thread of the node's own
//           cancelled or late: Ask(withdraw) -> taken back and answered, or met before
//
// A worker that ends has its wishes withdrawn, its arrivals at barriers too, its permits given
// back, and an item that was taken for it and could not be told is the oldest again: as when a task
// ends by an exception.
//
// Limits: worker_things::most_open wishes of a worker. What a worker makes itself stays there: its
// handles can't leave it. Threads: any; a lock of its own, under which nothing of others ends.

namespace manta::inline v0::node {

/// In the high half of the ids of shared things, and in no other's.
constexpr std::uint64_t shared_mark = std::uint64_t{1} << 60U;

constexpr bool is_shared(const base::id& id) noexcept {
  return (id.high >> 60U) == (shared_mark >> 60U);
}

/// Those of this process, which is a node.
class shared_names {
 public:
  static shared_names& global();

  /// The id of a thing that lives here, drawn when it has none yet.
  base::id name(const shared_thing& thing);
  /// Nothing: there is none any more.
  std::optional<shared_thing> find(const base::id& id);
  /// Handles that others have: n more, or fewer.
  void lend(const base::id& id, std::uint32_t n);
  void give_back(const base::id& id, std::uint32_t n);

 private:
  struct entry {
    shared_thing thing;  // its owner only while it is lent
    std::weak_ptr<void> owner;
    std::uint64_t lent = 0;
  };
  void sweep();

  std::mutex mutex_;
  std::unordered_map<base::id, entry, base::id_hash> by_id_;
  std::unordered_map<const void*, base::id> by_core_;
  std::uint64_t last_ = 0;
  std::size_t sweep_at_ = 64;
};

}  // namespace manta::inline v0::node
