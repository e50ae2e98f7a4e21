# SPDX-License-Identifier: Apache-2.0
# manta_find_linked(problem name [version]): makes the target manta::NAME (headers and shared libraries
# of capnp, with its RPC and KJ, of rocksdb or of openssl) and sets manta_NAME_version and
# manta_NAME_libraries, or sets `problem` to a sentence that says what is missing. Used by manta's own
# build and by the package of a static libmanta, which asks for the version that it was compiled with:
# names and C++ interfaces of the first two change with each. OpenSSL's is C and stays within a major
# version, which is all that counts of it here.
#
# find_package is not used. Cap'n Proto's stops a project of C++ alone ("libatomic not found") where
# the compiler is GCC, and a package must not ask its users for another language; Debian's
# configuration of RocksDB asks for the development files of every compression library and of gflags,
# which only who links the archive needs.
function(manta_find_linked problem name)
  set(${problem} "" PARENT_SCOPE)
  if(TARGET manta::${name})
    return()
  endif()
  if(name STREQUAL "capnp")
    set(product "Cap'n Proto")
    set(header capnp/message.h)
    set(libraries capnp-rpc capnp kj-async kj)
    set(version_header capnp/common.h)
    set(version_lines "define CAPNP_VERSION_M")
    set(package libcapnp-dev)
  elseif(name STREQUAL "rocksdb")
    set(product "RocksDB")
    set(header rocksdb/db.h)
    set(libraries rocksdb)
    set(version_header rocksdb/version.h)
    set(version_lines "define ROCKSDB_(MAJ|MIN|PAT)")
    set(package librocksdb-dev)
  elseif(name STREQUAL "openssl")
    set(product "OpenSSL")
    set(header openssl/ssl.h)
    set(libraries ssl crypto)
    set(version_header openssl/opensslv.h)
    set(version_lines "define OPENSSL_VERSION_(MAJOR|MINOR|PATCH)")
    set(package libssl-dev)
  else()
    message(FATAL_ERROR
      "manta_find_linked: asked for ${name}, known are capnp, rocksdb and openssl")
  endif()
  find_path(manta_${name}_include ${header})
  set(parts ${name}_include)
  set(files)
  foreach(library IN LISTS libraries)
    # By the whole name: without it an archive could be taken, which is not position independent.
    find_library(manta_${library}_library lib${library}${CMAKE_SHARED_LIBRARY_SUFFIX})
    list(APPEND parts ${library}_library)
    list(APPEND files "${manta_${library}_library}")
  endforeach()
  foreach(part IN LISTS parts)
    mark_as_advanced(manta_${part})
    if(NOT manta_${part})
      set(${problem}
        "${product}'s headers and shared libraries were looked for, and manta_${part} not found; \
install them (Debian: apt-get install ${package}) or name their prefix in CMAKE_PREFIX_PATH"
        PARENT_SCOPE)
      return()
    endif()
  endforeach()
  file(STRINGS "${manta_${name}_include}/${version_header}" lines REGEX "${version_lines}")
  string(REGEX REPLACE "[^0-9]+" "." version "${lines}")
  string(REGEX MATCH "[0-9]+[.][0-9]+[.][0-9]+" version "${version}")
  if(name STREQUAL "openssl")
    string(REGEX MATCH "^[0-9]+" version "${version}")
  endif()
  set(manta_${name}_version "${version}" PARENT_SCOPE)
  set(manta_${name}_libraries "${libraries}" PARENT_SCOPE)
  if(ARGC GREATER 2 AND NOT ARGV2 VERSION_EQUAL "${version}")
    if(NOT version)
      set(version "another")
    endif()
    set(${problem}
      "${product} ${ARGV2} was looked for, which libmanta is compiled with, and ${version} found in \
${manta_${name}_include}; install that version or build manta with this one" PARENT_SCOPE)
    return()
  endif()
  add_library(manta::${name} INTERFACE IMPORTED GLOBAL)
  set_target_properties(manta::${name} PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${manta_${name}_include}"
    INTERFACE_LINK_LIBRARIES "${files}")
endfunction()
