#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Lists against folders: sh sources.sh <checkout>. cmake/sources.cmake names every .cpp below src/,
# cmake/tool.cmake every one below src/tool, test/CMakeLists.txt every *_test.cpp below test/; a file that is in no list would never be built.
set -eu
export LC_ALL=C
cd "$1"
breaches=0

same() {  # <list file> <what the list names> <what the folder holds>
  [ "$2" = "$(printf '%s\n' "$2" | sort)" ] || { echo "$1: the list is not sorted"; breaches=1; }
  for file in $3; do
    printf '%s\n' "$2" | grep -qxF "$file" || { echo "$1: does not name $file; add it"; breaches=1; }
  done
  for file in $2; do
    printf '%s\n' "$3" | grep -qxF "$file" || { echo "$1: names $file, which is not there"; breaches=1; }
  done
}

# The program in src/tool is not part of the library.
same cmake/sources.cmake "$(sed -n 's/^ *\(src\/[^ ]*\.cpp\)$/\1/p' cmake/sources.cmake)" \
  "$(find src -name '*.cpp' ! -path 'src/tool/*' 2>/dev/null | sort)"

named=$(sed -n 's/^ *\(src\/[^ ]*\.cpp\)$/\1/p' cmake/tool.cmake 2>/dev/null || true)
same cmake/tool.cmake "$named" "$(find src/tool -name '*.cpp' 2>/dev/null | sort)"

named=$(sed -n 's/^ *\([^ ]*_test\.cpp\)$/\1/p' test/CMakeLists.txt | sort)
same test/CMakeLists.txt "$named" "$(cd test && find . -name '*_test.cpp' | sed 's/^\.\///' | sort)"

[ "$breaches" -eq 0 ] && echo "sources: lists and folders agree"
