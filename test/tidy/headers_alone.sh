#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every header compiles alone: sh headers_alone.sh <checkout> <compiler>. Two at a time; a header
# that needs another one included before it fails here and not at a user's place.
set -eu
root=$1
compiler=$2
cd "$root"
headers=$(find include/manta src -name '*.hpp' | sort)
printf '%s\n' "$headers" | xargs -P 2 -I '{}' \
  "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -DFMT_HEADER_ONLY \
  -Iinclude -Isrc -include '{}' -x c++ /dev/null
echo "headers alone: $(printf '%s\n' "$headers" | wc -l) compile"
