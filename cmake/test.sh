#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests: sh cmake/test.sh [arguments of ctest]. On a fresh Debian 12 it installs what is missing,
# builds the dev preset in build/dev and runs every test that is not labelled slow. Safe to run
# again, from any folder. The last line is `N passed, N failed`; the exit code is 0 if none failed.
set -eu
. "$(dirname "$0")/setup.sh"
log=build/dev/test.log

finish() {
  code=$?
  [ $code -ne 0 ] && [ "$failed" -eq 0 ] && failed=1 # a step before the tests failed
  if [ $code -eq 0 ]; then say "test finished: ok"; else say "test failed: exit code $code"; fi
  echo "$passed passed, $failed failed"
}
passed=0
failed=0
trap finish EXIT

# shellcheck disable=SC2154  # of setup.sh
need_compiler clang=cmd:clang++ lld=cmd:ld.lld pkg-config=cmd:pkg-config \
  catch2=file:/usr/include/catch2/catch.hpp git=cmd:git "$mpi_start" iproute2=cmd:ip \
  munge=file:/usr/sbin/munged slurm-wlm=cmd:srun slurmctld=file:/usr/sbin/slurmctld \
  slurmd=file:/usr/sbin/slurmd python3-yaml=file:/usr/lib/python3/dist-packages/yaml/__init__.py
step cmake --preset dev
step cmake --build --preset dev --parallel "$(jobs)"

# ctest's exit code is kept beside the pipe, which POSIX sh does not do by itself.
{ ctest --preset dev --parallel 2 "$@" || echo $? >"$log.code"; } | tee "$log"
total=$(sed -n 's/^.* tests failed out of \([0-9]*\)$/\1/p' "$log")
failed=$(sed -n 's/^.*, \([0-9]*\) tests failed out of [0-9]*$/\1/p' "$log")
total=${total:-0}
failed=${failed:-0}
passed=$((total - failed))
if [ -e "$log.code" ]; then
  code=$(cat "$log.code")
  rm -f "$log.code"
  exit "$code"
fi
if [ "$total" -eq 0 ]; then
  say "no test ran"
  exit 1
fi
