# SPDX-License-Identifier: Apache-2.0
# How tests are made. Each label is one program, so that the test framework is linked a few times
# only; each case is one CTest, so that a crash or a hang costs that case alone and has its name.
#
#   manta_test_suite(unit base/result_test.cpp ...)    files below test/, sorted; with ROCKSDB before
#                                                      them those that have one on a disk, with
#                                                      ALONE those that are compiled one by one
#   manta_in_copy_mode(e2e)                            the suite's cases once more, MANTA_CHECK=copy
#   manta_in_processes_mode(e2e)                       those tagged [anywhere], in isolated workers
#   manta_in_nodes_mode(e2e "~[one_node]")             those that the specification names, in two nodes
#   manta_compile_fail(name file.cpp "regex")          see there
#   manta_script_test(name label script argument...)   passes when the POSIX shell script exits with 0

find_package(Catch2 2.13 REQUIRED)
include(Catch)

add_library(manta_test_main OBJECT main.cpp)
target_link_libraries(manta_test_main PUBLIC
  Catch2::Catch2 fmt::fmt-header-only manta::manta)
target_compile_features(manta_test_main PUBLIC cxx_std_20)
# The framework is not optimised, which takes minutes, but instrumented: inline functions of the
# standard library that it has, too, may be taken from its object.
set_source_files_properties(main.cpp PROPERTIES COMPILE_OPTIONS "-O0")
# Tests reach the insides through src/, and see what the library's own sources see.
target_include_directories(manta_test_main PUBLIC
  "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/test")

# How long one case may take, in seconds; sanitizers and one busy core included.
set(MANTA_TEST_TIMEOUT 120 CACHE STRING "Seconds until a test case counts as hung")

# A sanitizer run counts only if that sanitizer catches the planted bug: every case needs the
# fixture which shows that.
if(MANTA_SANITIZER STREQUAL "thread")
  set(planted_bug race)
  set(planted_report "ThreadSanitizer: data race")
elseif(MANTA_SANITIZER STREQUAL "address")
  set(planted_bug overflow)
  set(planted_report "AddressSanitizer: heap-buffer-overflow")
elseif(MANTA_SANITIZER)
  message(FATAL_ERROR "MANTA_SANITIZER is '${MANTA_SANITIZER}'; it may be address or thread")
endif()
if(MANTA_SANITIZER)
  add_executable(planted_${planted_bug} tidy/planted_${planted_bug}.cpp)
  target_link_libraries(planted_${planted_bug} PRIVATE Threads::Threads)
  target_compile_features(planted_${planted_bug} PRIVATE cxx_std_20)
  add_test(NAME sanitizer.catches_planted_${planted_bug} COMMAND planted_${planted_bug})
  set_tests_properties(sanitizer.catches_planted_${planted_bug} PROPERTIES
    PASS_REGULAR_EXPRESSION "${planted_report}"
    FIXTURES_SETUP sanitizer
    LABELS unit)
  set(suite_needs FIXTURES_REQUIRED sanitizer)
endif()

# RocksDB is not built for ThreadSanitizer, which sees what it copies and not what it locks: there
# what libraries do that are not instrumented is left out, in a program of its own.
function(manta_test_suite label)
  cmake_parse_arguments(PARSE_ARGV 1 suite "ROCKSDB;ALONE" "" "")
  if(suite_ROCKSDB AND MANTA_SANITIZER STREQUAL "thread")
    set(suite_environment ENVIRONMENT
      "TSAN_OPTIONS=halt_on_error=1 second_deadlock_stack=1 ignore_noninstrumented_modules=1")
  endif()
  set(target test_${label})
  add_executable(${target} ${suite_UNPARSED_ARGUMENTS})
  target_link_libraries(${target} PRIVATE manta_test_main)
  manta_warnings(${target})
  if(NOT suite_ALONE)
    manta_unity(${target})
  endif()
  catch_discover_tests(${target}
    TEST_PREFIX "${label}."
    PROPERTIES LABELS ${label} TIMEOUT ${MANTA_TEST_TIMEOUT} ${suite_environment} ${suite_needs})
endfunction()

# Every case of the suite a second time, as copy.LABEL.CASE with the label copy: in the check-copy
# mode, in which all calls, results and puts go through bytes. The program is the same. Catch names
# its list of tests by the arguments, not by the prefix, so "*", which means all, keeps the two apart.
function(manta_in_copy_mode label)
  catch_discover_tests(test_${label}
    TEST_SPEC "*"
    TEST_PREFIX "copy.${label}."
    PROPERTIES LABELS copy ENVIRONMENT MANTA_CHECK=copy TIMEOUT ${MANTA_TEST_TIMEOUT} ${suite_needs})
endfunction()

# The suite's cases that have the tag [anywhere], as processes.LABEL.CASE with the label processes: in
# isolated workers. A case in which no such worker did anything has failed (test/main.cpp). The others
# share variables with their tasks, or use what goes to no other process yet; test/README.md.
function(manta_in_processes_mode label)
  catch_discover_tests(test_${label}
    TEST_SPEC "[anywhere]"
    TEST_PREFIX "processes.${label}."
    PROPERTIES LABELS processes ENVIRONMENT MANTA_ISOLATION=processes TIMEOUT ${MANTA_TEST_TIMEOUT}
      ${suite_needs})
endfunction()

# The suite's cases in two nodes, as nodes.LABEL.CASE with the label nodes: every task that may run in
# another node does so, and a case of which nothing does has failed, unless a tag stays: says why
# (test/main.cpp, test/README.md). Which cases is said as Catch does; those that count on one node alone
# are tagged [one_node].
function(manta_in_nodes_mode label cases)
  catch_discover_tests(test_${label}
    TEST_SPEC "${cases}"
    TEST_PREFIX "nodes.${label}."
    PROPERTIES LABELS nodes TIMEOUT ${MANTA_TEST_TIMEOUT}
      ENVIRONMENT MANTA_TEST_MODE=nodes ${suite_needs})
endfunction()

# The code between `#ifdef MANTA_BREACH` and `#endif` in the file must be refused with an error line
# that matches the regex; the rest alone must compile, so that the refusal has no other cause. A
# fourth argument is the compiler; else it is the build's own.
function(manta_compile_fail name file regex)
  set(compiler "${CMAKE_CXX_COMPILER}")
  if(ARGC GREATER 3)
    set(compiler "${ARGV3}")
  endif()
  string(MAKE_C_IDENTIFIER "${compiler}" compiler_name)
  set(refusal_only OFF)
  if(name MATCHES "^(.+)[.]clang$" AND TEST compile_fail.${CMAKE_MATCH_1}.gcc)
    set(refusal_only ON)
  endif()
  if(NOT TEST compile_fail.headers_of_${compiler_name})
    add_test(NAME compile_fail.headers_of_${compiler_name}
      COMMAND "${CMAKE_COMMAND}"
        "-Dcompiler=${compiler}"
        "-Dinclude=${PROJECT_SOURCE_DIR}/include"
        "-Dheaders=${CMAKE_CURRENT_BINARY_DIR}/headers_of_${compiler_name}"
        -Dprepare=ON
        -P "${PROJECT_SOURCE_DIR}/cmake/compile_fail.cmake")
    set_tests_properties(compile_fail.headers_of_${compiler_name} PROPERTIES
      FIXTURES_SETUP headers_of_${compiler_name} LABELS unit TIMEOUT ${MANTA_TEST_TIMEOUT})
  endif()
  add_test(NAME compile_fail.${name}
    COMMAND "${CMAKE_COMMAND}"
      "-Dcompiler=${compiler}"
      "-Dinclude=${PROJECT_SOURCE_DIR}/include"
      "-Dheaders=${CMAKE_CURRENT_BINARY_DIR}/headers_of_${compiler_name}"
      "-Dfile=${CMAKE_CURRENT_SOURCE_DIR}/${file}"
      "-Dregex=${regex}"
      -Drefusal_only=${refusal_only}
      -P "${PROJECT_SOURCE_DIR}/cmake/compile_fail.cmake")
  set_tests_properties(compile_fail.${name} PROPERTIES
    FIXTURES_REQUIRED headers_of_${compiler_name} LABELS unit TIMEOUT ${MANTA_TEST_TIMEOUT})
endfunction()

function(manta_script_test name label script)
  add_test(NAME ${label}.${name} COMMAND sh "${CMAKE_CURRENT_SOURCE_DIR}/${script}" ${ARGN})
  set_tests_properties(${label}.${name} PROPERTIES LABELS ${label} TIMEOUT 900)
endfunction()
