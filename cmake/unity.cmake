# SPDX-License-Identifier: Apache-2.0
# manta_unity(target): the target's sources in a few units of compilation, since most of a source's
# time goes into headers that all of them have. What is in a source's unnamed namespace needs a name
# that its neighbours have not; tests are in a namespace of their file each. Two warnings mean nothing
# here: that a local shadows another source's variable, and GCC's that a class with members from an
# unnamed namespace is in a header, which it takes each source of a unit for. A build with
# MANTA_UNITY=OFF looks at each source alone: see CONTRIBUTING.md.
function(manta_unity target)
  if(NOT MANTA_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  target_compile_options(${target} PRIVATE -Wno-shadow
    $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()
