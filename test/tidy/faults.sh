#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The table of faults in test/README.md: sh faults.sh <checkout>. Each row names a file and a case,
# `| fault | `file` | case |`; the case must be in that file. A name may be cut into two literals.
set -eu
export LC_ALL=C
cd "$1"
breaches=0
rows=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sed -n 's/^|[^|]*| `\([^`|]*\)` | \([^|]*[^| ]\) *|$/\1|\2/p' test/README.md >"$work/rows"
while IFS='|' read -r file name; do
  rows=$((rows + 1))
  if [ ! -f "$file" ]; then
    echo "test/README.md: names $file, which is not there"
    breaches=$((breaches + 1))
    continue
  fi
  # All literals of a case's name as one line.
  tr '\n' ' ' <"$file" | sed 's/TEST_CASE( */\nTEST_CASE(/g; s/" *"//g' >"$work/cases"
  grep -qF "TEST_CASE(\"$name\"" "$work/cases" && continue
  echo "test/README.md: $file has no case \"$name\""
  breaches=$((breaches + 1))
done <"$work/rows"
[ "$rows" -gt 0 ] || { echo "test/README.md: has no table of faults"; breaches=$((breaches + 1)); }

echo "faults: $rows rows, $breaches breaches"
[ "$breaches" -eq 0 ]
