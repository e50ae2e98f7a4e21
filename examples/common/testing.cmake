# SPDX-License-Identifier: Apache-2.0
# How the examples' tests run their program. Included by an example's CMakeLists.txt it gives
#
#   example_test(name program last-line argument...)   exit code 0, and the last line of the output
#                                                      matches the regular expression;
#                                                      once more as copy.NAME, label copy, with
#                                                      all values sent through bytes
#   example_refuses(program case...)                   each case (arguments divided by a blank)
#                                                      ends with code 2 and one line on stderr
#
# and run as a script it is what these two call.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(examples_testing "${CMAKE_CURRENT_LIST_FILE}")
  function(example_test name program last)
    string(REPLACE ";" " " words "${ARGN}")
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} "-Dprogram=$<TARGET_FILE:${program}>"
      "-Dlast=${last}" "-Dwords=${words}" -P "${examples_testing}")
    set_tests_properties(${name} PROPERTIES TIMEOUT 300)
    add_test(NAME copy.${name} COMMAND ${CMAKE_COMMAND} "-Dprogram=$<TARGET_FILE:${program}>"
      "-Dlast=${last}" "-Dwords=${words}" -P "${examples_testing}")
    set_tests_properties(copy.${name} PROPERTIES TIMEOUT 300 LABELS copy
      ENVIRONMENT MANTA_CHECK=copy)
  endfunction()
  function(example_refuses program)
    string(REPLACE ";" "|" cases "${ARGN}")
    add_test(NAME ${program}.refuses COMMAND ${CMAKE_COMMAND}
      "-Dprogram=$<TARGET_FILE:${program}>" "-Dcases=${cases}" -P "${examples_testing}")
    set_tests_properties(${program}.refuses PROPERTIES TIMEOUT 60)
  endfunction()
  return()
endif()

if(DEFINED cases)
  string(REPLACE "|" ";" cases "${cases}")
  foreach(case IN LISTS cases)
    string(REPLACE " " ";" arguments "${case}")
    execute_process(COMMAND ${program} ${arguments} RESULT_VARIABLE code OUTPUT_VARIABLE out
      ERROR_VARIABLE err)
    if(NOT code EQUAL 2 OR NOT err MATCHES "^[^\n]+\n$")
      message(FATAL_ERROR "'${case}': wanted code 2 and one line, found ${code}, '${err}'\n${out}")
    endif()
  endforeach()
  return()
endif()

string(REPLACE " " ";" arguments "${words}")
execute_process(COMMAND ${program} ${arguments} RESULT_VARIABLE code OUTPUT_VARIABLE out
  ERROR_VARIABLE err)
string(REGEX MATCH "[^\n]*\n$" found "${out}")
string(STRIP "${found}" found)
message(STATUS "${found}")
if(NOT code EQUAL 0 OR NOT found MATCHES "^${last}$")
  message(FATAL_ERROR "exit code ${code}, wanted 0; wanted as the last line '${last}'\n"
    "${out}${err}")
endif()
