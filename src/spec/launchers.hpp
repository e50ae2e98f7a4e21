// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "spec/launch.hpp"

// What launchers say of a process, each in its own variables.
//
// Problem. Launchers are nested, and variables stay: mpirun in a Slurm job leaves its ranks on
// other machines with the SLURM_STEP_* of the daemons that srun has started for it, and those on
// the first with the SLURM_PROCID of the batch script. Read in the wrong order, all of them are
// rank 0.
//
// Idea. Those that are started by others go first: torchrun, Open MPI, Hydra (PMI), a step of
// Slurm, and last RANK and WORLD_SIZE without more, which a script may have set from any of these.
// Slurm counts only within a step that srun started: a batch script has SLURM_PROCID=0 and
// SLURM_NTASKS=N, and is one process.
//
// Limits. Hydra and plain RANK/WORLD_SIZE name no job; see launcher_word::key.
//
// Threads: any; values.

namespace manta::inline v0::spec {

/// What one launcher says.
struct launcher_word {
  int rank = 0;
  int size = 1;
  bool is_one_machine = false;
  std::string key = {};  ///< of the job, fit for a file's name; empty: it does not say
  std::string source = {};
  std::string variables = {};  ///< which say rank and size, for messages

  friend bool operator==(const launcher_word&, const launcher_word&) = default;
};

/// The word of the launcher that is nearest to this process, or none. Errors: invalid_config.
result<std::optional<launcher_word>> ask_launchers(const environment_lookup& environment);

/// The word of one that numbers processes and does not say how many there are: PMIx without Open
/// MPI, and indexed jobs of Kubernetes. Its size is `size`.
result<std::optional<launcher_word>> ask_numberers(const environment_lookup& environment, int size);

}  // namespace manta::inline v0::spec
