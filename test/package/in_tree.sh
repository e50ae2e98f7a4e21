#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# manta inside a user's build: sh in_tree.sh <checkout> <scratch> <compiler>
# <add_subdirectory|fetch_content>.
set -eu
. "$(dirname "$0")/lib.sh"
way=$4

configure "$here/consumer" "$work/user project" -Dway="$way" -Dmanta_source="$source_dir"
build "$work/user project"
runs "$work/user project/consumer"
