// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <manta/base/export.hpp>
#include <manta/base/id.hpp>

namespace manta::inline v0::exec {

class actor_core;

/// What several processes call an actor. It stays with a core that has ended, or that nobody here
/// has a handle of any more: a weak handle says by it who it is to.
struct known_actor {
  base::id id;
  std::uint64_t home = 0;  ///< the node where its object is, or was
  std::uint64_t run = 0;   ///< of which runtime of this process: the next one has the same ids
  friend bool operator==(const known_actor&, const known_actor&) = default;
};

/// Whether both stand for the same actor. Pinned, or null.
MANTA_API bool is_same_actor(const actor_core* a, const actor_core* b) noexcept;

}  // namespace manta::inline v0::exec
