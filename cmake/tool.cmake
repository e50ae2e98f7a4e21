# SPDX-License-Identifier: Apache-2.0
# The program `manta`: its .cpp files, sorted; a test compares the list with src/tool.
set(manta_tool_sources
  src/tool/control.cpp
  src/tool/escape.cpp
  src/tool/main.cpp
  src/tool/nodes.cpp
  src/tool/ranks.cpp
  src/tool/run.cpp
)

add_executable(manta_tool ${manta_tool_sources})
target_compile_features(manta_tool PRIVATE cxx_std_20)
target_include_directories(manta_tool PRIVATE src)
target_link_libraries(manta_tool PRIVATE manta CLI11::CLI11 fmt::fmt-header-only)
set_target_properties(manta_tool PROPERTIES OUTPUT_NAME manta CXX_EXTENSIONS OFF)
manta_warnings(manta_tool)
manta_unity(manta_tool)
# A shared libmanta hides its insides, so the tool has the room that it works on once more. Installed
# it finds the library from its own place.
get_target_property(manta_type manta TYPE)
if(manta_type STREQUAL "SHARED_LIBRARY")
  set(manta_tool_rooms ${manta_sources})
  # Folders, not what the rows in them mean; tokens; where a job has its sockets; words of errors.
  set(manta_tool_files "control/(checks|history|rocks_[a-z]+)|node/user_folder|spec/texts")
  string(APPEND manta_tool_files "|wire/(endpoint|secret|socket_place|token)")
  list(FILTER manta_tool_rooms INCLUDE REGEX "^src/(${manta_tool_files})[.]cpp$")
  target_sources(manta_tool PRIVATE ${manta_tool_rooms})
  target_link_libraries(manta_tool PRIVATE manta::rocksdb manta::openssl)
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY "${CMAKE_INSTALL_FULL_BINDIR}"
    OUTPUT_VARIABLE manta_tool_libdir)
  set_target_properties(manta_tool PROPERTIES INSTALL_RPATH "$ORIGIN/${manta_tool_libdir}")
endif()
if(MANTA_INSTALL)
  install(TARGETS manta_tool DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
