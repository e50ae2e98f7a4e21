# SPDX-License-Identifier: Apache-2.0
# Every third-party package that is linked or included, and why it is here. What a test or a bench
# alone needs is found beside it, so that who only links manta never has to have it.

# Threads: the executor's worker threads. Public: the headers start and join threads, too.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# cereal: its header access.hpp, by which a class's own serialize, save and load functions are found,
# private ones, too. Public, the only one beside Threads: whether a class has such functions is asked
# where the user's templates are compiled. What they would cost a user is two small headers; the
# archives, and how std's types are written, are ours. From 1.3.1 on, whose target is cereal::cereal.
# A copy of the header in include/ was rejected: a class that befriends cereal::access means the one
# of the user's own cereal.
if(NOT TARGET cereal::cereal)
  find_package(cereal 1.3.1 QUIET)
endif()
if(NOT TARGET cereal::cereal)
  message(FATAL_ERROR "manta: cereal's headers, version 1.3.1 or later, were looked for and not found; "
    "install them (Debian: apt-get install libcereal-dev) or name their prefix in CMAKE_PREFIX_PATH")
endif()

# fmt: error messages and reports, in .cpp files alone; std::format exists neither in GCC 12 nor in
# Clang 14. Header-only and private: the functions it needs are compiled into libmanta, so neither a
# static nor a shared package asks its users for libfmt, and a program that uses another version of
# fmt is not disturbed (fmt's inline namespace carries its version). Linking libfmt was rejected:
# a static package would have to find the same fmt again at each user's place.
if(NOT TARGET fmt::fmt-header-only)
  find_package(fmt 9 REQUIRED)
endif()

# Cap'n Proto and KJ: the schema of what processes say to each other (src/wire), which old and new
# builds read, and whose reading costs no copy; its RPC and KJ's event loop carry them over sockets.
# Shared libraries: Debian's archives are not position independent, and libmanta may end in a plugin.
# Private, and nothing of them is in include/; but who links a static libmanta has to find them again,
# so the search is a file that is installed, too.
include("${CMAKE_CURRENT_LIST_DIR}/find-linked.cmake")
manta_find_linked(capnp_problem capnp)
find_program(capnp_compiler capnp)
find_program(capnp_cxx_plugin capnpc-c++)
mark_as_advanced(capnp_compiler capnp_cxx_plugin)
if(capnp_problem)
  message(FATAL_ERROR "manta: ${capnp_problem}")
elseif(NOT capnp_compiler OR NOT capnp_cxx_plugin)
  message(FATAL_ERROR "manta: the programs capnp and capnpc-c++ were looked for, found: "
    "${capnp_compiler}, ${capnp_cxx_plugin}; install Cap'n Proto's compiler "
    "(Debian: apt-get install capnproto)")
endif()

# RocksDB: the control store on a disk (src/control): a log with checksums, tables that compact
# themselves, snapshots and checkpoints, for which nothing of our own could be trusted for years. As
# with Cap'n Proto the shared library, private, and found again by who links a static libmanta.
manta_find_linked(rocksdb_problem rocksdb)
if(rocksdb_problem)
  message(FATAL_ERROR "manta: ${rocksdb_problem}")
endif()

# OpenSSL: what keeps a cluster's processes to themselves (src/wire): TLS between machines, and what is
# derived from the token. Nothing of that should be anybody's own work. The shared library, private, as
# the two above: who mends its defects is the system, not who builds manta. CMake's FindOpenSSL would
# do, but the package's one search for all three says the same of what is missing.
manta_find_linked(openssl_problem openssl 3)
if(openssl_problem)
  message(FATAL_ERROR "manta: ${openssl_problem}")
endif()

# xxHash: checksums of objects that are spilled to a disk (src/store) or go to another machine
# (src/bulk), at the speed of memory. Its one header is compiled into libmanta; nothing of it is linked
# or asked of users.
find_path(manta_xxhash_include xxhash.h)
mark_as_advanced(manta_xxhash_include)
if(NOT manta_xxhash_include)
  message(FATAL_ERROR "manta: the header xxhash.h was looked for and not found; install it "
    "(Debian: apt-get install libxxhash-dev) or name its prefix in CMAKE_PREFIX_PATH")
endif()

# Asio, standalone: says when the sockets of src/bulk are ready, over which the bytes of objects go
# between machines. Header-only and private, in one source, under a namespace of our own; a program
# that uses another Asio is not disturbed, and users of the installed package need none. KJ's loop, which
# is here anyway, was rejected: it is the messages' own, and sends what a turn has written together.
find_path(manta_asio_include asio.hpp)
mark_as_advanced(manta_asio_include)
if(NOT manta_asio_include)
  message(FATAL_ERROR "manta: the header asio.hpp was looked for and not found; install it "
    "(Debian: apt-get install libasio-dev) or name its prefix in CMAKE_PREFIX_PATH")
endif()

# CLI11: the command line of the program `manta` (src/tool): verbs within verbs, help and messages for
# wrong use, which getopt leaves to its user. Headers only and private; libmanta never includes it.
if(MANTA_BUILD_TOOL AND NOT TARGET CLI11::CLI11)
  find_package(CLI11 2.1 QUIET)
  if(NOT TARGET CLI11::CLI11)
    message(FATAL_ERROR "manta: CLI11's headers, version 2.1 or later, were looked for and not found; "
      "install them (Debian: apt-get install libcli11-dev), name their prefix in CMAKE_PREFIX_PATH, or "
      "leave the program manta out with -DMANTA_BUILD_TOOL=OFF")
  endif()
endif()
