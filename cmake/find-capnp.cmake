# SPDX-License-Identifier: Apache-2.0
# manta_find_capnp(problem [version]): makes the target manta::capnp (headers and the shared libraries
# of Cap'n Proto and KJ) and sets manta_capnp_version, or sets `problem` to a sentence that says what
# is missing. Used by manta's own build and by the package of a static libmanta, which asks for the
# version that it was compiled with: names and C++ interface change with each.
#
# find_package(CapnProto) is not used: it stops a project of C++ alone ("libatomic not found") where
# the compiler is GCC, and a package must not ask its users for another language.
function(manta_find_capnp problem)
  set(${problem} "" PARENT_SCOPE)
  if(TARGET manta::capnp)
    return()
  endif()
  find_path(manta_capnp_include capnp/message.h)
  # By the whole name: without it an archive that lies beside could be taken.
  find_library(manta_capnp_library libcapnp${CMAKE_SHARED_LIBRARY_SUFFIX})
  find_library(manta_kj_library libkj${CMAKE_SHARED_LIBRARY_SUFFIX})
  mark_as_advanced(manta_capnp_include manta_capnp_library manta_kj_library)
  foreach(part IN ITEMS capnp_include capnp_library kj_library)
    if(NOT manta_${part})
      set(${problem}
        "Cap'n Proto's headers and shared libraries were looked for, and manta_${part} not found; \
install them (Debian: apt-get install libcapnp-dev) or name their prefix in CMAKE_PREFIX_PATH"
        PARENT_SCOPE)
      return()
    endif()
  endforeach()
  file(STRINGS "${manta_capnp_include}/capnp/common.h" lines REGEX "define CAPNP_VERSION_M")
  string(REGEX REPLACE "[^0-9]+" "." version "${lines}")
  string(REGEX MATCH "[0-9]+[.][0-9]+[.][0-9]+" version "${version}")
  set(manta_capnp_version "${version}" PARENT_SCOPE)
  if(ARGC GREATER 1 AND NOT ARGV1 VERSION_EQUAL version)
    set(${problem}
      "Cap'n Proto ${ARGV1} was looked for, with which libmanta was compiled, and ${version} found in \
${manta_capnp_include}; install that version or build manta with this one" PARENT_SCOPE)
    return()
  endif()
  add_library(manta::capnp INTERFACE IMPORTED GLOBAL)
  set_target_properties(manta::capnp PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${manta_capnp_include}"
    INTERFACE_LINK_LIBRARIES "${manta_capnp_library};${manta_kj_library}")
endfunction()
