#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Size limits: sh size.sh <checkout>. Header 400 lines, source 600, function 70.
#
# size_exceptions.txt holds lines `path lines` for a file and `path:function lines` for a function
# that may be longer, up to that many lines. The list may only shrink: an entry that is not needed,
# or looser than needed, is a breach, and so is one that the list's version before did not have.
set -eu
root=$1
here=$(cd "$(dirname "$0")" && pwd)
cd "$root"
list=test/tidy/size_exceptions.txt
known=$(mktemp)
trap 'rm -f "$known"' EXIT

# The list's version before: HEAD's while it is being edited, else that of the commit before its
# latest. Nothing where there is no history, as in a tarball.
version_before() {
  [ -n "$(git log --format=%h -n 1 -- "$list")" ] || return 1
  commit=HEAD
  if git diff --quiet HEAD -- "$list"; then
    commit=$(git log --format=%h -n 2 -- "$list" | sed -n 2p)
  fi
  [ -n "$commit" ] && git show "$commit:$list"
}
before=$known
version_before >"$known" 2>/dev/null || before=""

folders=""
for folder in include src test examples bench; do
  [ ! -d "$folder" ] || folders="$folders $folder"
done
# shellcheck disable=SC2046,SC2086  # no file name here has a space; text.sh refuses such names
awk -v list="$list" -v known="$before" -f "$here/size.awk" \
  $(find $folders -name build -prune -o -name '*.[ch]pp' -print | sort)
