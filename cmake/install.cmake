# SPDX-License-Identifier: Apache-2.0
# The package: headers, library, `manta::manta` for find_package and manta.pc for pkg-config. No
# absolute path is written into any of it, so an installed tree may be moved.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/manta")

install(DIRECTORY include/manta
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.hpp")
install(TARGETS manta
  EXPORT manta-targets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT manta-targets NAMESPACE manta:: DESTINATION "${package_dir}")

# A static libmanta has its users link what it needs itself; a shared one has found it already.
get_target_property(manta_type manta TYPE)
if(manta_type STREQUAL "STATIC_LIBRARY")
  set(config_needs [=[
include("${CMAKE_CURRENT_LIST_DIR}/find-linked.cmake")
foreach(manta_need IN ITEMS
    "capnp @manta_capnp_version@" "rocksdb @manta_rocksdb_version@" "openssl @manta_openssl_version@")
  string(REPLACE " " ";" manta_need "${manta_need}")
  manta_find_linked(manta_problem ${manta_need})
  if(manta_problem)
    set(manta_FOUND FALSE)
    set(manta_NOT_FOUND_MESSAGE "manta is a static library here, to be linked with what it was made with: ${manta_problem}")
    return()
  endif()
endforeach()
]=])
  string(CONFIGURE "${config_needs}" config_needs @ONLY)
  # The versions are exact: the libraries' names and C++ interfaces change with each. OpenSSL's is C.
  list(TRANSFORM manta_capnp_libraries APPEND " = ${manta_capnp_version}" OUTPUT_VARIABLE pc_needs)
  list(JOIN pc_needs ", " pc_needs)
  math(EXPR next_openssl "${manta_openssl_version} + 1")
  string(APPEND pc_needs ", rocksdb = ${manta_rocksdb_version}, "
    "openssl >= ${manta_openssl_version}, openssl < ${next_openssl}")
  set(pc_needs "Requires: ${pc_needs}\n")
  install(FILES cmake/find-linked.cmake DESTINATION "${package_dir}")
endif()
configure_package_config_file(cmake/manta-config.cmake.in manta-config.cmake
  INSTALL_DESTINATION "${package_dir}"
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may break; so 0.1.3 serves who asks for 0.1, and 0.2 does not.
write_basic_package_version_file(manta-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  "${CMAKE_CURRENT_BINARY_DIR}/manta-config.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/manta-config-version.cmake"
  DESTINATION "${package_dir}")

# pkg-config finds the prefix from the place of the file itself.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}"
  OUTPUT_VARIABLE pc_libdir)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}"
  OUTPUT_VARIABLE pc_includedir)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
  BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig"
  OUTPUT_VARIABLE pc_up)
configure_file(cmake/manta.pc.in manta.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/manta.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
