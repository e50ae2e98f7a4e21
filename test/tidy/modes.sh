#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How each case of test/api stands to other processes: sh modes.sh <checkout>. It is tagged [anywhere],
# [nodes], [one_node] or [stays:why], so that none is left out by chance; every why has a row in
# test/README.md, and a case of [one_node] says why in the line above it.
set -eu
export LC_ALL=C
cd "$1"
breaches=0
cases=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for file in test/api/*_test.cpp; do
  # A case's name and its tags as one line.
  tr '\n' ' ' <"$file" | sed 's/TEST_CASE(/\nTEST_CASE(/g' | grep '^TEST_CASE(' |
    sed 's/) *{.*//' >"$work/cases" || true
  while IFS= read -r one; do
    cases=$((cases + 1))
    case $one in
    *'[anywhere]'* | *'[nodes]'* | *'[one_node]'* | *'[stays:'*) continue ;;
    esac
    echo "$file: $one: asked for [anywhere], [nodes], [one_node] or [stays:why], found none"
    breaches=$((breaches + 1))
  done <"$work/cases"
done
# A case's name and tags may take several lines; what is above it is its first line's.
awk '
  /^TEST_CASE\(/ { is_told = before ~ /^\/\//; text = "" }
  /^TEST_CASE\(/, /\{/ { text = text $0 }
  /\{/ && text != "" {
    if (text ~ /\[one_node\]/ && !is_told) {
      sub(/\) *\{.*/, "", text)
      print FILENAME ": " text ": asked for a line above it that says why it is of one node, found none"
    }
    text = ""
  }
  { before = $0 }
' test/api/*_test.cpp >"$work/untold"
cat "$work/untold"
breaches=$((breaches + $(wc -l <"$work/untold")))
grep -ho '\[stays:[a-z_]*\]' test/api/*_test.cpp | sort -u >"$work/tags"
while IFS= read -r tag; do
  grep -qF "| \`$tag\` |" test/README.md && continue
  echo "test/README.md: asked for a row that says why nothing leaves of what is tagged $tag, found none"
  breaches=$((breaches + 1))
done <"$work/tags"
[ "$cases" -gt 0 ] || { echo "test/api: has no cases"; breaches=$((breaches + 1)); }

echo "modes: $cases cases, $breaches breaches"
[ "$breaches" -eq 0 ]
