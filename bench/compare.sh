#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh bench/compare.sh BASE [--rounds N] [--filter TEXT] [--limit PERCENT] [program ...]
#
# Did anything get slower? Builds the benchmarks of commit BASE and of the working tree (Release,
# each with its own sources), runs our contestants of the chosen rows of both in turns, N times
# (default 5), and prints the ratio of the medians, working tree over BASE, above 1 = slower, with the
# best rounds beside it: on a machine that others use, too, those tell more. Rows that
# only one of the two has are left out. Exit code 1 when the better of the two ratios of a row is more
# than PERCENT (default 5) worse. Figures of a busy machine say little: repeat what looks bad.
set -e
# shellcheck source=../cmake/setup.sh
. "$(dirname "$0")/../cmake/setup.sh"

[ $# -gt 0 ] || { sed -n '3,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
base=$1
shift
rounds=5 filter= limit=5 programs=
while [ $# -gt 0 ]; do
  case $1 in
    --rounds) rounds=$2; shift 2 ;;
    --filter) filter=$2; shift 2 ;;
    --limit) limit=$2; shift 2 ;;
    -*) say "unknown option $1" >&2; exit 2 ;;
    *) programs="$programs $1"; shift ;;
  esac
done
programs=${programs:-bench_tasks bench_actors bench_ray_rows}
base=$(git rev-parse --short "$base^{commit}")

# build SOURCE FOLDER
build() {
  step cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMANTA_BUILD_BENCH=ON \
    -DMANTA_BUILD_TESTS=OFF -DMANTA_BUILD_EXAMPLES=OFF >&2
  # shellcheck disable=SC2086
  step cmake --build "$2" --parallel "$(jobs)" --target $programs >&2
}
old=$root/build/compare-$base
if [ ! -d "$old/source" ]; then
  mkdir -p "$old/source"
  git archive "$base" | tar -x -C "$old/source"
fi
build "$old/source" "$old/build"
build "$root" "$root/build/bench"

found=$root/build/compare
rm -rf "$found"
mkdir -p "$found"
round=0
while [ "$round" -lt "$rounds" ]; do
  for program in $programs; do
    for side in old new; do
      case $side in old) at=$old/build ;; *) at=$root/build/bench ;; esac
      "$at/bench/$program" --pin --passes 1 --no-allocators --filter "$filter" \
        --json "$found/$program.$side.$round.json" >/dev/null
    done
  done
  round=$((round + 1))
done
python3 "$root/bench/compare.py" "$found" "$limit"
