#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh bench/run.sh [--quick] [other options of the programs; --filter TEXT, --passes N, ...]
#
# Builds the benchmarks in build/bench (Release), runs them against every rival that can be
# installed here, and prints all tables and then the bars, met or missed, as Markdown. What it
# prints is also in build/bench/results.md; every sample is in build/bench/*.json.
set -e
# shellcheck source=../cmake/setup.sh
. "$(dirname "$0")/../cmake/setup.sh"

# shellcheck disable=SC2086,SC2154  # lists of setup.sh
need_compiler $rivals $mpi_start $mpi_build \
  libmimalloc2.0=file:/usr/lib/x86_64-linux-gnu/libmimalloc.so.2 >&2 ||
  say "not every rival could be installed; the table names those that are missing" >&2
need python3-distributed=file:/usr/lib/python3/dist-packages/distributed/__init__.py >&2 ||
  say "there is no Dask to compare with" >&2

build=$root/build/bench
step cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMANTA_BUILD_BENCH=ON \
  -DMANTA_BUILD_TESTS=OFF -DMANTA_BUILD_EXAMPLES=OFF >&2
step cmake --build "$build" --parallel "$(jobs)" >&2

MANTA_BENCH_COMMIT=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
if [ -n "$(git status --porcelain --untracked-files=no 2>/dev/null)" ]; then
  MANTA_BENCH_COMMIT=$MANTA_BENCH_COMMIT-dirty
fi
export MANTA_BENCH_COMMIT

bars=$build/bars.md
failed=$build/failed
rm -f "$bars" "$failed"
{
  echo "# Benchmark results"
  echo
  cat <<END
Command: \`sh bench/run.sh $*\`, $(date -u +%Y-%m-%d). Medians over the warm rounds; "cold" is the
first round of a process. Every contestant has processes of its own, A and B interleaved; a name
after a comma is a preloaded allocator. "line us" is the round trip of a cache line between two
cores, measured in the same processes: 0.1-0.2 near, 0.3-0.6 far.
END
  for program in bench_tasks bench_actors bench_graphs bench_library bench_codec bench_control \
    bench_arrays bench_isolation bench_ray_rows bench_link bench_cluster bench_scale; do
    pin=--pin
    # Its nodes are processes, which share what cores there are.
    [ "$program" != bench_cluster ] || pin=
    # shellcheck disable=SC2086  # an option or none
    "$build/bench/$program" $pin --json "$build/$program.json" --bars "$bars" "$@" ||
      echo "$program" >>"$failed"
  done
  if [ -e "$bars" ]; then
    echo
    echo "## All bars"
    cat "$bars"
  fi
} | tee "$build/results.md"

if [ -e "$failed" ]; then
  say "failed: $(tr '\n' ' ' <"$failed")" >&2
  exit 1
fi
