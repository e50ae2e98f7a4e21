// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>

// What a call may ask for beside its arguments. Every field is checked at the call; a bad one
// throws manta::invalid_argument there, with the field, the value and the allowed range.

namespace manta::inline v0 {

/// Options of one task: `remote<f>.with({.cpus = 2, .name = "fit"})(x)`.
struct options {
  /// Cores the task needs to run, fractions allowed. Tasks that say so run only while their sum
  /// fits the runtime's cores; a task that leaves it unset takes a worker and is not counted. 0 or
  /// more; more than the runtime has throws manta::infeasible, since no other node can give them.
  std::optional<double> cpus = std::nullopt;
  /// GPUs the task needs: 0, a fraction below 1, or a whole number.
  double gpus = 0;
  /// Runs after a system failure (not after a user's exception). 0 or more. A thread's failure is
  /// the process's, so inside one process no retry ever happens.
  int max_retries = 3;
  /// Shown in errors instead of the function's name. Not empty when set.
  std::optional<std::string> name = std::nullopt;
};

/// Options of one actor: `spawn<T>.with({.name = "shard 3"})(x)`.
struct actor_options {
  /// GPUs as in `options`.
  double gpus = 0;
  /// Restarts after the loss of its process; inside one process none ever happens. 0 or more.
  int max_restarts = 0;
  /// Shown in errors instead of the type's name. Not empty when set.
  std::optional<std::string> name = std::nullopt;
};

/// How long and for how many `wait` waits.
struct wait_options {
  /// Return as soon as this many are ready; between 1 and the number of futures (0 for none).
  std::size_t count = 1;
  /// Return after this time with what is ready; unset means for ever.
  std::optional<duration> timeout = std::nullopt;
};

namespace spec {

/// Throws manta::invalid_argument or manta::infeasible; `cores` is what the runtime has.
MANTA_API void check(const options& asked, int cores);
MANTA_API void check(const actor_options& asked);

}  // namespace spec
}  // namespace manta::inline v0
