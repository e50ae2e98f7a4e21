// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

namespace bench {

// Whether a command ends well. It is run once: the processes of the contestants, which ask the same
// before they measure, find the answer in the variable.
inline bool can_run(const char* variable, const char* command) {
  if (std::getenv(variable) == nullptr) {
    setenv(variable, std::system(command) == 0 ? "yes" : "no", 1);
  }
  return *std::getenv(variable) == 'y';
}

}  // namespace bench
