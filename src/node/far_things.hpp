// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <manta/base/id.hpp>
#include <manta/node/shared_thing.hpp>

#include "base/id_hash.hpp"
#include "node/worker_questions.hpp"

// What stands here for the channels, semaphores and barriers of another process: in an isolated
// worker for its node's (the story is shared_names.hpp's), in a node for another node's
// (node_things.hpp's).

namespace manta::inline v0::node {

class far_thing;

/// What the other process knows a thing by that stands for one of its; zero: it lives here.
base::id id_of_far(const shared_thing& of) noexcept;
/// The node that such a one lives in; 0: none any more, or it is a worker's, or lives here.
std::uint64_t node_of_far(const shared_thing& of) noexcept;

/// How another node's is used.
struct node_link {
  std::shared_ptr<void> asker;  ///< is kept
  bool counts = false;          ///< it is one holder while it lives
};

/// Those of this worker, or of one other node. Threads: any.
class far_things {
 public:
  /// That of this process; null: it is no worker.
  static far_things* here() noexcept;

  /// `give_back(to, id, n)` tells the node that n handles are gone.
  far_things(worker_questions& asks,
             void (*give_back)(void* to, const base::id& id, std::uint32_t n) noexcept,
             void* to) noexcept;
  /// Those of that node.
  far_things(worker_questions& asks, std::uint64_t node) noexcept : asks_(asks), node_(node) {}

  /// What stands for the thing that came; null: nothing came. Throws std::bad_alloc.
  std::shared_ptr<void> borrow(const spec::reference& came, const item_ops* items,
                               std::uint64_t size, make_mirror make);
  /// The same of another node's. Null: it came as one of another type before.
  std::shared_ptr<void> view(const spec::reference& came, const item_ops* items, std::uint64_t size,
                             make_mirror make, node_link by);

 private:
  friend class far_thing;
  struct known {
    std::weak_ptr<void> owner;
    far_thing* link = nullptr;  // lives as long as the owner
  };
  worker_questions& asks_;
  void (*const give_back_)(void*, const base::id&, std::uint32_t) noexcept = nullptr;
  void* const to_ = nullptr;
  const std::uint64_t node_ = 0;
  std::mutex mutex_;
  std::unordered_map<base::id, known, base::id_hash> by_id_;
};

}  // namespace manta::inline v0::node
