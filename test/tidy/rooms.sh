#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The law of rooms: sh rooms.sh <checkout>. Reads every #include below include/ and src/.
# 1. A room includes only rooms on lower floors; rooms on one floor never include each other.
# 2. A public header includes only std, manta and cereal/access.hpp.
# 3. A third-party library is included only in the room it belongs to.
# Prints each breach with its place and what to do; exits with 1 if there is one.
set -eu
root=$1
here=$(cd "$(dirname "$0")" && pwd)
cd "$root"
files=$(find include/manta src -name '*.[ch]pp' 2>/dev/null | sort)
[ -n "$files" ] || { echo "rooms: no source below $root/include/manta and $root/src" >&2; exit 1; }
# shellcheck disable=SC2086  # no file name here has a space; text.sh refuses such names
awk -f "$here/rooms.awk" $files
