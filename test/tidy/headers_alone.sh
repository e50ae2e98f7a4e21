#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every header compiles alone: sh headers_alone.sh <checkout> <compiler> <generated>, where what is
# made from the schemas lies. Two at a time; a header that needs another one included before it fails
# here and not at a user's place. What users include is compiled without the generated headers.
set -eu
root=$1
compiler=$2
generated=$3
cd "$root"
# compile FOLDER FLAG...: the headers of a folder.
compile() {
  folder=$1
  shift
  find "$folder" -name '*.hpp' | sort | xargs -P 2 -I '{}' \
    "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -DFMT_HEADER_ONLY "$@" \
    -include '{}' -x c++ /dev/null
}
compile include/manta -Iinclude
compile src -Iinclude -Isrc -isystem "$generated"
echo "headers alone: $(find include/manta src -name '*.hpp' | wc -l) compile"
