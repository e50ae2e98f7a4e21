#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every header compiles alone: sh headers_alone.sh <checkout> <compiler> [<generated>]. What users
# include; or, told where lies what is made from the schemas, what is in src. Two at a time; a header
# that needs another one included before it fails here and not at a user's place.
set -eu
root=$1
compiler=$2
generated=${3-}
cd "$root"
folder=include/manta
flags=-Iinclude
if [ -n "$generated" ]; then
  folder=src
  flags="-Iinclude -Isrc -isystem $generated"
fi
# shellcheck disable=SC2086  # a list of flags
find $folder -name '*.hpp' | sort | xargs -P 2 -I '{}' \
  "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -DFMT_HEADER_ONLY $flags \
  -include '{}' -x c++ /dev/null
echo "headers alone: $(find $folder -name '*.hpp' | wc -l) compile"
