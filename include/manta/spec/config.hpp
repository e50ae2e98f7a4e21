// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <manta/base/export.hpp>
#include <manta/spec/error.hpp>

// The settings of a runtime. Where one comes from, strongest first: a field of `config` that is
// set, `--manta-KEY=VALUE` on the command line, the variable MANTA_KEY, the default.

namespace manta::inline v0 {

/// Settings of a manta::runtime. A field left at -1 is taken from the next weaker source.
struct config {
  /// Worker threads kept busy. 1 to 1024. Default: the cores that affinity and cgroup quota allow.
  int workers = -1;
  /// How long an idle worker or a waiting thread looks for work before it sleeps, microseconds. 0
  /// to 10000, default 50. More answers faster after a pause and costs CPU time in each pause.
  int spin_us = -1;
  /// Threads beyond `workers` that may stand in for blocked ones before growth slows down and a
  /// warning is printed. 0 to 100000, default 256. Never a hard limit: that could deadlock.
  int extra_threads = -1;
};

namespace spec {

/// A setting as it arrived, for messages: where it was found and its text.
struct setting {
  std::string key;     ///< "workers"
  std::string value;   ///< "2"
  std::string origin;  ///< "--manta-workers" or "MANTA_WORKERS"
};

/// The `--manta-KEY=VALUE` arguments, in order; what comes after "--" is the program's own.
MANTA_API std::vector<setting> settings_from_arguments(int argc, const char* const* argv);

/// The MANTA_* variables of the environment that name a known key.
MANTA_API std::vector<setting> settings_from_environment();

/// `base` with the settings filled in where it has none and then with the defaults; `cores` is the
/// default for workers. Errors: invalid_config with key, value and allowed range.
MANTA_API result<config> complete(config base, const std::vector<setting>& arguments,
                                  const std::vector<setting>& environment, int cores);

}  // namespace spec
}  // namespace manta::inline v0
