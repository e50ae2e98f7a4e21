// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <manta/base/export.hpp>
#include <manta/exec/barrier_core.hpp>
#include <manta/handles.hpp>

// barrier: nobody goes on before all have come.

namespace manta::inline v0 {

/// What an arrival at a barrier was.
struct barrier_arrival {
  std::uint64_t generation = 0;  ///< the round that was completed, from 0
  bool is_last = false;          ///< true for one arrival of each round: the one that completed it
};

/// A handle to a meeting point of a number of parties, used again and again. Handles are copied
/// into tasks, actors and other threads. A party that waits lends its core, so there may be more
/// parties than workers. A party that never comes makes the others wait for ever; a task that waits
/// gets cancelled, and its arrival taken back, when it is cancelled or its runtime ends. That of a
/// task in an isolated worker that dies, or in another node that is lost, is taken back, too. A
/// handle may go to any node; the barrier stays in the one that made it.
///
/// Any thread may use a handle and its copies. A default-made handle is empty: anything but
/// assignment throws invalid_argument.
class MANTA_API barrier {
 public:
  /// An empty handle.
  barrier() noexcept = default;
  /// A new barrier for `parties`, 1 or more, else throws invalid_argument.
  explicit barrier(std::size_t parties);

  /// Waits until all parties of this round have arrived. What each did before its arrival is seen
  /// by all after it. Cost: a lock; a wake for each party that sleeps; from an isolated worker or
  /// another node a message to its node and back. Throws cancelled; from there also store_full, by
  /// who waits too often, and node_lost when its node is lost.
  barrier_arrival arrive_and_wait() const;
  /// Number of parties.
  std::size_t parties() const;
  /// Whether this is a handle to a barrier.
  bool valid() const noexcept { return static_cast<bool>(core_); }

 private:
  friend struct codec::custom<barrier>;
  exec::barrier_core& checked() const;

  std::shared_ptr<exec::barrier_core> core_;
};

}  // namespace manta::inline v0

namespace manta::inline v0::codec {

/// Goes as the same barrier.
template <>
struct custom<barrier> {
  static MANTA_API void write(out_archive& out, const barrier& b);
  static MANTA_API barrier read(in_archive& in);
};

}  // namespace manta::inline v0::codec
