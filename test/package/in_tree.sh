#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# manta inside a user's build: sh in_tree.sh <checkout> <scratch> <compiler>
# <add_subdirectory|fetch_content>.
set -eu
. "$(dirname "$0")/lib.sh"
way=$4

configure "$here/consumer" "$work/user project" -Dway="$way" -Dmanta_source="$source_dir"
# Both ways give CMake the same targets: the whole library is built once, and only what a user's source
# needs of it with the other.
if [ "$way" = fetch_content ]; then
  quietly cmake --build "$work/user project" --target consumer_source
  echo "ok: a source that includes manta's headers"
else
  build "$work/user project"
  runs "$work/user project/consumer"
fi
