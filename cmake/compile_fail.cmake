# SPDX-License-Identifier: Apache-2.0
# The body of a manta_compile_fail test: cmake -Dcompiler= -Dinclude= -Dfile= -Dregex= -P this.
set(command "${compiler}" -std=c++20 -fsyntax-only "-I${include}")

execute_process(COMMAND ${command} "${file}" RESULT_VARIABLE status ERROR_VARIABLE messages)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${file} must compile without MANTA_BREACH, and does not:\n${messages}")
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
