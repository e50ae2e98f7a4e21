# SPDX-License-Identifier: Apache-2.0
# The body of a manta_compile_fail test: cmake -Dcompiler= -Dinclude= -Dheaders= -Dfile= -Dregex= -P
# this. With -Drefusal_only=ON the code that must compile is left to the test with another compiler.
# With -Dprepare=ON, and the first three alone, it is what has to run before the tests with this
# compiler: the public headers are read once, into the folder `headers`, since that is nearly all of
# such a compilation. Not with Clang, whose version 14 breaks down when it refuses some of the files
# with headers so read.
set(command "${compiler}" -std=c++20 "-I${include}")
set(first "${headers}/first.hpp")
if(prepare)
  file(WRITE "${first}" "#include <manta/manta.hpp>\n")
  execute_process(COMMAND "${compiler}" --version OUTPUT_VARIABLE version)
  if(NOT version MATCHES "clang")
    execute_process(COMMAND ${command} -x c++-header "${first}" -o "${first}.gch"
      COMMAND_ERROR_IS_FATAL ANY)
  endif()
  return()
endif()
list(APPEND command -fsyntax-only -include "${first}")

if(NOT refusal_only)
  execute_process(COMMAND ${command} "${file}" RESULT_VARIABLE status ERROR_VARIABLE messages)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${file} must compile without MANTA_BREACH, and does not:\n${messages}")
  endif()
endif()

execute_process(COMMAND ${command} -DMANTA_BREACH "${file}"
  RESULT_VARIABLE status ERROR_VARIABLE messages)
if(status EQUAL 0)
  message(FATAL_ERROR "${file} compiles with MANTA_BREACH; it has to be refused with: ${regex}")
endif()
string(REGEX MATCHALL "[^\n]*error:[^\n]*" errors "${messages}")
if(NOT errors MATCHES "${regex}")
  message(FATAL_ERROR
    "${file} is refused, but no error line matches '${regex}'; the compiler says:\n${messages}")
endif()
