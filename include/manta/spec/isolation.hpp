// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Where tasks and actors run: of a runtime (config.hpp), of one call or actor (options.hpp).

namespace manta::inline v0 {

/// What runs tasks.
enum class isolation_mode : std::uint8_t {
  threads,    ///< threads of this process
  processes,  ///< worker processes: a crash costs the task that ran, and nothing else
};

/// When a runtime makes the process that isolated workers are born from.
enum class zygote_mode : std::uint8_t {
  late,   ///< with the first call that asks for one: the program's file is started once more
  early,  ///< when the runtime is made, by a fork
};

}  // namespace manta::inline v0
