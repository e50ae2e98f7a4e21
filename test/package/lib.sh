# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# What the package tests share; read with `.` under `set -eu`. Each test works in a folder of its own
# below the build folder, so that tests may run side by side, and leaves nothing there.

source_dir=$1
scratch_parent=$2
CXX=$3
export CXX
unset CXXFLAGS LDFLAGS CMAKE_PREFIX_PATH PKG_CONFIG_PATH 2>/dev/null || true

here=$source_dir/test/package
work=$(mktemp -d "$scratch_parent/package.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

fail() {
  echo "FAILED: $*"
  exit 1
}

# Runs a command, silent unless it fails.
quietly() {
  if ! "$@" >"$work/log" 2>&1; then
    cat "$work/log"
    fail "$*"
  fi
}

generator=""
if command -v ninja >/dev/null; then generator=-GNinja; fi
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi

# configure SOURCE BUILD OPTION...: not optimised, which is not what these tests are about.
configure() {
  from=$1
  to=$2
  shift 2
  quietly cmake -S "$from" -B "$to" $generator -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS_RELEASE="-O0 -DNDEBUG" "$@"
}

build() { quietly cmake --build "$1" --parallel 2; }

# The consumer's output is the proof that it worked.
runs() {
  out=$("$@") || fail "$* exits with $?: $out"
  [ "$out" = "consumer: 42, caught" ] || fail "$* prints '$out'"
  echo "ok: ${1#"$work/"}"
}
