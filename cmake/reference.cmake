# SPDX-License-Identifier: Apache-2.0
# The reference of the public interface, where doxygen is: see Doxyfile.in.
find_program(doxygen_program doxygen)
mark_as_advanced(doxygen_program)
if(NOT doxygen_program)
  return()
endif()
configure_file("${CMAKE_CURRENT_LIST_DIR}/Doxyfile.in" "${PROJECT_BINARY_DIR}/Doxyfile" @ONLY)
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/reference")
add_custom_target(reference
  COMMAND "${doxygen_program}" "${PROJECT_BINARY_DIR}/Doxyfile"
  COMMENT "Reference: ${PROJECT_BINARY_DIR}/reference/html/index.html"
  VERBATIM)
