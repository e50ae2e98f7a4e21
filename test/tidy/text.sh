#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What every text file of ours must be: sh text.sh <checkout>.
# - C++ and CMake files start with the SPDX line, scripts have it below the interpreter's line;
# - headers have #pragma once;
# - C++ lines, comments included, have at most 100 columns;
# - nothing is left to be done now (see `marker`), and no line ends with blanks;
# - no file name has a blank, so that scripts may split lists of them;
# - no test case has a semicolon in its name: CMake's lists end there, and ctest would run none.
set -eu
cd "$1"
marker="TODO(""now)"  # in two parts, or this line would be a breach itself
spdx="SPDX-License-Identifier: Apache-2.0"
breaches=0

complain() {
  echo "$1"
  breaches=$((breaches + 1))
}

first_line_of() {  # <file> <number> <text>
  [ "$(sed -n "$2p" "$1")" = "$3" ] || complain "$1:$2: line $2 must be '$3'"
}

top=""
for name in CMakeLists.txt .ci cmake include src test examples bench; do
  [ ! -e "$name" ] || top="$top $name"
done
# shellcheck disable=SC2086
list=$(find $top -name build -prune -o -type f -print | sort)

spaced=$(printf '%s\n' "$list" | grep '[[:blank:]]' || true)
[ -z "$spaced" ] || complain "file name with a blank: $spaced"

count=0
for file in $(printf '%s\n' "$list" | grep -v '[[:blank:]]'); do
  count=$((count + 1))
  case $file in
    *.hpp | *.cpp) first_line_of "$file" 1 "// $spdx" ;;
    *.cmake | *CMakeLists.txt | *.awk) first_line_of "$file" 1 "# $spdx" ;;
    cmake/setup.sh | test/package/lib.sh) first_line_of "$file" 1 "# $spdx" ;; # read by others, no program
    *.sh | .ci/run) first_line_of "$file" 2 "# $spdx" ;;
  esac
  case $file in
    *.hpp | *.cpp)
      for line in $(awk 'length($0) > 100 { print FNR }' "$file"); do
        complain "$file:$line: longer than 100 columns"
      done
      for line in $(grep -nE 'TEST_CASE\("[^"]*;' "$file" | cut -d: -f1); do
        complain "$file:$line: a test case with a semicolon in its name"
      done
      ;;
  esac
  case $file in
    *.hpp) grep -q '^#pragma once$' "$file" || complain "$file:1: has no '#pragma once'" ;;
  esac
done

# shellcheck disable=SC2086
for hit in $(grep -rnIF --exclude-dir=build "$marker" $top *.md 2>/dev/null | cut -d: -f1,2); do
  complain "$hit: $marker is still to be done"
done
# shellcheck disable=SC2086
for hit in $(grep -rnI --exclude-dir=build '[[:blank:]]$' $top 2>/dev/null | cut -d: -f1,2); do
  complain "$hit: blanks at the end of the line"
done

echo "text: $count files, $breaches breaches"
[ "$breaches" -eq 0 ]
