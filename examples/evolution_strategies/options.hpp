// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace es {

struct options {
  bool train_pendulum = true;
  bool train_cart_pole = true;
  bool serial = false;
  std::uint64_t seed = 1;
  double patience_seconds = 5.0;  // for the last 5 % of a generation
  double limit_seconds = 180.0;   // for everything
  std::string curve_file;         // empty: none
};

// The options, or nothing after --help. Arguments that begin with --manta- are the runtime's.
// Anything else that is not understood: one line on stderr, then the process exits with code 2.
std::optional<options> options_from(int argc, char** argv);

}  // namespace es
