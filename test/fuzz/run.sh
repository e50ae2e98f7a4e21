#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fuzzes: sh test/fuzz/run.sh [<runs>|<seconds>s] [target...]. Each target for so many executions
# (10,000,000 unless told) or seconds, one after the other, beginning with the committed corpus.
# Needs clang++ with libFuzzer.
#
# What is found anew is kept in build/fuzz/corpus/<target>, inputs that fail in
# build/fuzz/findings/<target>-*. To take new inputs into the committed corpus:
#   build/fuzz/test/fuzz/fuzz_<target> -merge=1 test/fuzz/corpus/<target> build/fuzz/corpus/<target>
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
most=${1:-10000000}
[ $# -eq 0 ] || shift
case $most in
  *[!0-9s]* | s | "") echo "run.sh: '$most' is neither a number of runs nor seconds, as 60s" >&2; exit 2 ;;
  *s) limit="-max_total_time=${most%s}" ;;
  *) limit="-runs=$most" ;;
esac
# No option where a target is named: those of the folder.
if [ $# -eq 0 ]; then
  # shellcheck disable=SC2046  # names of targets have no blanks
  set -- $(cd test/fuzz/corpus && ls)
fi

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz

build=build/fuzz
mkdir -p "$build/findings"
failed=0
table=""
for target in "$@"; do
  mkdir -p "$build/corpus/$target"
  log=$build/$target.log
  status=0
  # A target counts what stays behind itself, so the leak checker at each input is not needed.
  nice "$build/test/fuzz/fuzz_$target" "$limit" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
    -malloc_limit_mb=512 -detect_leaks=0 -len_control=20 -print_final_stats=1 \
    -artifact_prefix="$build/findings/$target-" \
    "$build/corpus/$target" "test/fuzz/corpus/$target" >"$log" 2>&1 || status=$?
  [ "$status" -eq 0 ] || failed=$((failed + 1))
  row=$(awk -v target="$target" -v status="$status" '
    /stat::number_of_executed_units/ { runs = $2 }
    /stat::average_exec_per_sec/ { rate = $2 }
    match($0, / ft: [0-9]+/) { features = substr($0, RSTART + 5, RLENGTH - 5) }
    match($0, / corp: [0-9]+/) { corpus = substr($0, RSTART + 7, RLENGTH - 7) }
    END { printf "%-12s %12d %8d %10d %8d %8s", target, runs, rate, features, corpus,
                 status == 0 ? "none" : "CRASH" }' "$log")
  echo "$row"
  [ "$status" -eq 0 ] || grep -m 3 -E '^fuzz: |ERROR: |runtime error' "$log" || true
  table="$table
$row"
done

printf '\n%-12s %12s %8s %10s %8s %8s%s\n' target executions exec/s features corpus crashes "$table"
if [ "$failed" -ne 0 ]; then
  echo "fuzz: $failed of $# targets failed; the inputs are in $build/findings, the logs beside it"
  exit 1
fi
echo "fuzz: $# targets, no failures"
