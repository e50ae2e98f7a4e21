// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <manta/base/export.hpp>

namespace manta::inline v0 {

/// Why an actor ended.
enum class end_reason : std::uint8_t {
  ended,               ///< its last handle went, or it was retired; every call made before has run
  killed,              ///< kill
  exited,              ///< one of its methods called this_actor::exit
  constructor_failed,  ///< its object was never made
  runtime_ended,       ///< the runtime ended before it
  process_lost,        ///< its isolated worker died, and max_restarts were spent
};

/// "killed" and so on; static storage.
MANTA_API const char* to_string(end_reason reason) noexcept;

/// How an actor ended; what monitor() gives.
struct actor_end {
  /// What ended it.
  end_reason reason = end_reason::ended;
  /// The same in words, with the actor's name and, where there is one, the cause.
  std::string message = {};
};

}  // namespace manta::inline v0
