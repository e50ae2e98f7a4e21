# SPDX-License-Identifier: Apache-2.0
# manta_warnings(target...): our warnings on our own targets. Private, so that no user inherits them;
# errors only where MANTA_WERROR is on (the dev preset and CI), so that a newer compiler's new
# warning never breaks a user's build.
function(manta_warnings)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE
      -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
      $<$<CXX_COMPILER_ID:Clang,AppleClang>:-Wthread-safety>
      $<$<BOOL:${MANTA_WERROR}>:-Werror>)
  endforeach()
endfunction()
