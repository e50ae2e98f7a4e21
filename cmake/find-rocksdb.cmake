# SPDX-License-Identifier: Apache-2.0
# manta_find_rocksdb(problem [version]): makes the target manta::rocksdb (headers and shared library)
# and sets manta_rocksdb_version, or sets `problem` to a sentence that says what is missing. Used by
# manta's own build and by the package of a static libmanta, which asks for the version that it was
# compiled with: the C++ interface changes with each.
#
# find_package(RocksDB) is not used: Debian's configuration asks for the development files of every
# compression library and of gflags, which only who links the archive needs.
function(manta_find_rocksdb problem)
  set(${problem} "" PARENT_SCOPE)
  if(TARGET manta::rocksdb)
    return()
  endif()
  find_path(manta_rocksdb_include rocksdb/db.h)
  # By the whole name: without it the archive could be taken, which is not position independent.
  find_library(manta_rocksdb_library librocksdb${CMAKE_SHARED_LIBRARY_SUFFIX})
  mark_as_advanced(manta_rocksdb_include manta_rocksdb_library)
  foreach(part IN ITEMS rocksdb_include rocksdb_library)
    if(NOT manta_${part})
      set(${problem}
        "RocksDB's headers and shared library were looked for, and manta_${part} not found; install \
them (Debian: apt-get install librocksdb-dev) or name their prefix in CMAKE_PREFIX_PATH"
        PARENT_SCOPE)
      return()
    endif()
  endforeach()
  file(STRINGS "${manta_rocksdb_include}/rocksdb/version.h" lines REGEX "define ROCKSDB_(MAJ|MIN|PAT)")
  string(REGEX REPLACE "[^0-9]+" "." version "${lines}")
  string(REGEX MATCH "[0-9]+[.][0-9]+[.][0-9]+" version "${version}")
  set(manta_rocksdb_version "${version}" PARENT_SCOPE)
  if(ARGC GREATER 1 AND NOT ARGV1 VERSION_EQUAL version)
    set(${problem}
      "RocksDB ${ARGV1} was looked for, with which libmanta was compiled, and ${version} found in \
${manta_rocksdb_include}; install that version or build manta with this one" PARENT_SCOPE)
    return()
  endif()
  add_library(manta::rocksdb INTERFACE IMPORTED GLOBAL)
  set_target_properties(manta::rocksdb PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${manta_rocksdb_include}"
    INTERFACE_LINK_LIBRARIES "${manta_rocksdb_library}")
endfunction()
