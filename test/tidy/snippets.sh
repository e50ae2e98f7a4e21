#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every public name is shown in use: sh snippets.sh <checkout>. A name of the public headers (see
# public_names.awk) must be in the code of a file in test/snippets, comments apart: `manta::NAME` or
# `this_task::NAME` for what is in a namespace, `errc::NAME` for an enumerator, `.NAME`, `->NAME` or
# `::NAME` for a member. And test/CMakeLists.txt must name every file there, so that it is compiled.
set -eu
export LC_ALL=C
root=$1
here=$(cd "$(dirname "$0")" && pwd)
cd "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
breaches=0

# What only the engine uses although it is public: cases of select, and what co_await meets.
cat >"$work/engine" <<'END'
.prepare receive_case
.finish receive_case
.prepare send_case
.finish send_case
.from next_wait
.from receive_wait
.of permit_wait
.count permit_wait
.to send_wait
.value send_wait
manta::next_wait
manta::receive_wait
manta::send_wait
manta::permit_wait
manta::manta_await
END

headers=$(find include/manta -name '*.hpp' ! -path '*/codec/*' ! -path '*/exec/*' ! -path '*/sched/*' | sort)
snippets=$(find test/snippets -name '*.cpp' 2>/dev/null | sort)
[ -n "$snippets" ] || { echo "snippets: no file in $root/test/snippets" >&2; exit 1; }
# shellcheck disable=SC2086  # no file name here has a space; text.sh refuses such names
awk -f "$here/public_names.awk" $headers | sort -u >"$work/public"

# The names in the snippets' code, each with what stands before it: `errc::timed_out`, `.get`.
# shellcheck disable=SC2086
awk '{
  gsub(/"[^"]*"/, "0")
  sub(/\/\/.*/, "")
  gsub(/MANTA_[A-Z_]+/, "manta::&")  # a macro
  while (match($0, /([A-Za-z_0-9]+::|\.|->|::)[A-Za-z_][A-Za-z_0-9]*/)) {
    found = substr($0, RSTART, RLENGTH)
    if (found !~ /^(\.|->|::)/) print found
    sub(/.*(::|\.|->)/, ".", found)
    print found
    $0 = substr($0, RSTART + RLENGTH - length(found) + 1)
  }
}' $snippets | sort -u >"$work/used"

missing=$(awk -v engine="$work/engine" -v used="$work/used" '
  BEGIN {
    while ((getline line <engine) > 0) is_known[line] = 1
    while ((getline line <used) > 0) is_used[line] = 1
  }
  !($0 in is_known) && !($1 in is_used) { print $1 ($2 == "" ? "" : " of " $2) }
' "$work/public")
if [ -n "$missing" ]; then
  printf '%s\n' "$missing" | sed 's/^/test\/snippets: no snippet shows /'
  breaches=$(printf '%s\n' "$missing" | wc -l)
fi
for file in $snippets; do
  grep -qF "${file#test/}" test/CMakeLists.txt && continue
  echo "test/CMakeLists.txt: does not name ${file#test/}"
  breaches=$((breaches + 1))
done

echo "snippets: $(wc -l <"$work/public") public names, $breaches breaches"
[ "$breaches" -eq 0 ]
