// SPDX-License-Identifier: Apache-2.0
//
// What Open MPI's launcher takes for 8 processes that do nothing.
#include <cstdlib>

#include "harness/measure.hpp"
#include "rivals/can_run.hpp"
#include "rivals/rows.hpp"

namespace bench {

void add_mpirun(suite& s) {
  if (!can_run("BENCH_HAS_MPIRUN", "mpirun --version >/dev/null 2>&1")) {
    s.absent("mpirun", "not found; install openmpi-bin");
    return;
  }
  contestant c{cluster_life, "mpirun", side::rival};
  c.start = [](const plan&) -> body {
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    return [](const turn&) {
      const double before = now_s();
      check(std::system("mpirun --oversubscribe -n 8 /bin/true >/dev/null 2>&1") == 0, "mpirun");
      return reading{.value = (now_s() - before) * 1e3};
    };
  };
  s.add(c);
}

}  // namespace bench
