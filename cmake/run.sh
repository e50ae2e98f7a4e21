#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job: sh cmake/run.sh [arguments of the program]. On a fresh Debian 12 it installs what is
# missing, builds in build/run and runs examples/evolution_strategies. Safe to run again, from
# any folder; the exit code is the program's.
set -eu
. "$(dirname "$0")/setup.sh"
finish() {
  code=$?
  if [ $code -eq 0 ]; then say "run finished: ok"; else say "run failed: exit code $code"; fi
}
trap finish EXIT

need_compiler
step cmake --preset release -B build/run -DMANTA_BUILD_TESTS=OFF -DMANTA_BUILD_BENCH=OFF
step cmake --build build/run --target evolution_strategies --parallel "$(jobs)"
step build/run/examples/evolution_strategies/evolution_strategies "$@"
