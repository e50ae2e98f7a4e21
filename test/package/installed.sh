#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The installed package: sh installed.sh <checkout> <scratch> <compiler> <static|shared> [<build>].
# Builds the library, unless a folder is given in which it is; installs to a prefix with a blank, moves
# that, and builds against it with find_package and pkg-config, and the examples as projects of their
# own.
set -eu
. "$(dirname "$0")/lib.sh"
linkage=$4
built=${5-}

first="$work/first place/manta"
prefix="$work/second place/manta"
if [ "$linkage" = shared ]; then shared=ON; else shared=OFF; fi

if [ -z "$built" ]; then
  built=$work/build
  configure "$source_dir" "$built" -DCMAKE_INSTALL_PREFIX="$first" -DBUILD_SHARED_LIBS=$shared \
    -DMANTA_BUILD_TESTS=OFF -DMANTA_BUILD_EXAMPLES=OFF -DMANTA_BUILD_BENCH=OFF
  build "$built"
fi
quietly cmake --install "$built" --prefix "$first"
mkdir -p "$work/second place"
mv "$first" "$prefix"
rm -rf "$work/build" "$work/first place"

libdir=$(dirname "$(find "$prefix" -name 'libmanta.*' | head -n 1)")
if [ "$linkage" = shared ]; then want=so; else want=a; fi
[ -e "$libdir/libmanta.$want" ] || fail "$linkage package has no libmanta.$want: $(ls "$libdir")"

# What is written into the package names neither the build's places nor a private dependency.
for word in "$work" "$built" "$source_dir" fmt; do
  hit=$(grep -rlF -- "$word" "$libdir/cmake" "$libdir/pkgconfig" || true)
  [ -z "$hit" ] || fail "the package's files name '$word': $hit"
done

# Hidden by default: the shared library shows nothing of fmt, and of manta only what lies in the
# inline namespace that carries the ABI's number.
if [ "$linkage" = shared ] && command -v nm >/dev/null; then
  nm -DC --defined-only "$libdir/libmanta.so" | sed 's/^[^ ]* . //' >"$work/names"
  alien=$(grep -E '^(fmt|kj|capnp|rocksdb|manta_wire_schema|manta_mailbox_schema|manta_control_schema)::' "$work/names" || true)
  alien=$alien$(grep -E '^(typeinfo|vtable)[^:]* for (fmt|kj|capnp|rocksdb|manta_wire_schema|manta_mailbox_schema|manta_control_schema)::' "$work/names" || true)
  [ -z "$alien" ] || fail "libmanta.so shows names of a private library: $alien"
  unversioned=$(grep -F 'manta::' "$work/names" | grep -vE 'manta::v[0-9]+::' || true)
  [ -z "$unversioned" ] || fail "libmanta.so shows names outside manta's inline namespace: $unversioned"
  grep -qE 'manta::v[0-9]+::' "$work/names" || fail "libmanta.so shows no name of manta's"
fi

configure "$here/consumer" "$work/consumer" -Dway=find_package -DCMAKE_PREFIX_PATH="$prefix"
build "$work/consumer"
runs "$work/consumer/consumer"

if configure_refuses=$(cmake -S "$here/refused" -B "$work/refused" $generator \
  -DCMAKE_PREFIX_PATH="$prefix" 2>&1); then
  fail "version 0.2 was asked for and 0.1 taken: $configure_refuses"
fi

# Without cereal's headers there is one line that says so; CMake wraps it, so blanks are joined.
if without_cereal=$(cmake -S "$here/consumer" -B "$work/without_cereal" $generator -Dway=find_package \
  -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_DISABLE_FIND_PACKAGE_cereal=ON 2>&1); then
  fail "the package is found without cereal: $without_cereal"
fi
case $(echo $without_cereal) in
  *"which were looked for and not found; install them (Debian: apt-get install libcereal-dev)"*) ;;
  *) fail "the package does not say that cereal is missing: $without_cereal" ;;
esac

if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH="$libdir/pkgconfig"
  flags=$(pkg-config --cflags --libs manta) || fail "pkg-config does not find manta"
  mkdir "$work/pkg"
  # pkg-config quotes blanks for the shell, so the flags go through eval.
  eval "quietly \"\$CXX\" -std=c++20 -O1 \"\$here/consumer/main.cpp\" -o \"\$work/pkg/consumer\" $flags"
  LD_LIBRARY_PATH=$libdir runs "$work/pkg/consumer"
fi

# All examples are configured with one of the packages, the smallest one with each; some are built, for
# they take most of the time, and the tree's own build has all of them.
for list in "$source_dir"/examples/*/CMakeLists.txt; do
  example=$(basename "$(dirname "$list")")
  case $linkage-$3-$example in
    *-hello) ;;
    shared-* | static-*clang*) continue ;;
  esac
  configure "$source_dir/examples/$example" "$work/$example" -DCMAKE_PREFIX_PATH="$prefix"
  case $example in
    hello | evolution_strategies | crash_proof)
      build "$work/$example"
      echo "ok: examples/$example builds from the package"
      ;;
    *) echo "ok: examples/$example finds the package" ;;
  esac
done
