# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# What run.sh, test.sh and .ci/run share; read with `.` by a script in a folder of the checkout.
# Sets `root`, the checkout, and goes there. Each script sets a trap or counts by itself, so that its
# last line tells how it ended, whichever step stopped it.

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
export DEBIAN_FRONTEND=noninteractive

say() { echo "manta: $*"; }

# Runs a command and says so first.
step() {
  say "+ $*"
  "$@"
}

have() { # <probe>: cmd:NAME, file:PATH
  case $1 in
    cmd:*) command -v "${1#cmd:}" >/dev/null 2>&1 ;;
    file:*) [ -e "${1#file:}" ] ;;
  esac
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n env DEBIAN_FRONTEND=noninteractive "$@"; fi
}

# need PACKAGE=PROBE...: installs the Debian packages whose probe finds nothing.
need() {
  missing=""
  for item in "$@"; do
    have "${item#*=}" || missing="$missing ${item%%=*}"
  done
  if [ -z "$missing" ]; then
    say "every package that this needs is here"
    return 0
  fi
  if ! command -v apt-get >/dev/null 2>&1; then
    say "missing:$missing (Debian's names); there is no apt-get here, so install them yourself"
    return 1
  fi
  step as_root apt-get update -q </dev/null
  # shellcheck disable=SC2086  # a list of package names
  step as_root apt-get install -q -y --no-install-recommends $missing </dev/null
}

# What more than one of them needs, as `need` takes it; without quotes, since it is a list.
# shellcheck disable=SC2034  # for who reads this
{
  mpi_start=openmpi-bin=cmd:mpirun # of ranks
  mpi_build=libopenmpi-dev=file:/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h
  # What the benchmarks are compiled with beside Open MPI, which not every machine can have.
  rivals="libtbb-dev=file:/usr/include/oneapi/tbb.h libcaf-dev=file:/usr/include/caf/all.hpp"
}

# What building the library and a program takes.
need_compiler() {
  need g++=cmd:g++ cmake=cmd:cmake ninja-build=cmd:ninja \
    libfmt-dev=file:/usr/include/fmt/format.h \
    capnproto=cmd:capnp libcapnp-dev=file:/usr/include/capnp/message.h \
    librocksdb-dev=file:/usr/include/rocksdb/db.h \
    libssl-dev=file:/usr/include/openssl/ssl.h \
    libasio-dev=file:/usr/include/asio.hpp \
    libxxhash-dev=file:/usr/include/xxhash.h \
    libcli11-dev=file:/usr/include/CLI/App.hpp \
    libcereal-dev=file:/usr/include/cereal/access.hpp "$@"
}

jobs() { nproc 2>/dev/null || echo 2; }
