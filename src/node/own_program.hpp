// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

// The program's own file as a new process, which comes to its runtime by its own main.
// Threads: any. No fork: posix_spawn runs nothing of this process in the new one.

namespace manta::inline v0::node {

struct own_program {
  /// Beside this process's own; one without a value goes.
  std::vector<std::pair<std::string, std::string>> variables = {};
  /// Descriptors that stay open there.
  std::vector<int> files = {};
  /// Its stdin is empty; else it is this process's.
  bool reads_nothing = false;
};

/// Starts it with the arguments that this process was started with, and no signal blocked. 0, or an
/// errno.
int start_own_program(const own_program& how, pid_t& pid);

/// Its name, and that of this machine; empty when the kernel does not say.
std::string own_program_name();
std::string own_host_name();

}  // namespace manta::inline v0::node
