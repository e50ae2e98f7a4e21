# SPDX-License-Identifier: Apache-2.0
# The C++ of the Cap'n Proto schemas, made below the build folder and compiled into libmanta. It is
# not ours: no warnings, no tidy, no format; and it is not installed, since no public header shows it.
set(schema_dir "${CMAKE_CURRENT_BINARY_DIR}/generated")
file(MAKE_DIRECTORY "${schema_dir}")
set(all_schema_files)
foreach(schema IN ITEMS control/records wire/mailbox wire/protocol)
  set(schema_files "${schema_dir}/${schema}.capnp.c++" "${schema_dir}/${schema}.capnp.h")
  add_custom_command(
    OUTPUT ${schema_files}
    COMMAND "${capnp_compiler}" compile
      "-o${capnp_cxx_plugin}:${schema_dir}"
      "--src-prefix=${PROJECT_SOURCE_DIR}/src"
      "--import-path=${manta_capnp_include}"
      "${PROJECT_SOURCE_DIR}/src/${schema}.capnp"
    DEPENDS "${PROJECT_SOURCE_DIR}/src/${schema}.capnp" "${capnp_compiler}"
    COMMENT "Making C++ from src/${schema}.capnp"
    VERBATIM)
  set_source_files_properties(${schema_files} PROPERTIES COMPILE_OPTIONS "-w" SKIP_LINTING ON)
  target_sources(manta PRIVATE ${schema_files})
  list(APPEND all_schema_files ${schema_files})
endforeach()
target_include_directories(manta SYSTEM PRIVATE "${schema_dir}")
target_link_libraries(manta PRIVATE manta::capnp)
