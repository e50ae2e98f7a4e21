// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>
#include <manta/spec/history.hpp>

#include "control/store.hpp"

// The states of actors, of any size, so that the last one that was written whole is found.
//
// Idea. A state is cut into parts; the row that names it is written after them, in the batch that
// deletes what is older. Batches become durable in their order, so a row that is there has its
// parts, and a crash before it leaves the older state as it was.
//
// Invariant: after a checkpoint the store has one state of the actor; while it is written, two:
// what earlier writers left unfinished goes with the first batch.
//
// Pure but for load and read_checkpoint, which wait. When a batch can't be committed, load again.
//
// Threads: one at a time.

namespace manta::inline v0::control {

struct checkpoint_row {
  std::uint64_t incarnation = 0;
  std::uint64_t execution = 0;  ///< the last call that the state has seen
  wall_time at{};
};

class checkpoints {
 public:
  explicit checkpoints(const base::id& actor);

  /// Learns what the store has of this actor, whole or not.
  result<void> load(store& in);
  /// A state of up to 1 GiB, as batches of 32 MiB; the last one is durable. Commit them in order
  /// and without anything of this actor between them. invalid_argument: larger.
  result<std::vector<batch>> write(const checkpoint_row& what, std::string_view state);

 private:
  std::string prefix_;
  std::uint64_t next_ = 0;
  std::vector<std::string> whole_;       // the keys of the last state
  std::vector<std::string> unfinished_;  // all others that the store has
};

struct kept_checkpoint {
  checkpoint_row what;
  std::string state;
};
/// The last state of an actor that was written whole, also while the next one is written; none:
/// there is none. decode_failed: it is damaged.
result<std::optional<kept_checkpoint>> read_checkpoint(store& in, const base::id& actor);

}  // namespace manta::inline v0::control
