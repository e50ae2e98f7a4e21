# SPDX-License-Identifier: Apache-2.0
# What the fuzz targets run: the sources that bytes from outside reach, and no more, so that the
# fuzzer's coverage is that of these and the build takes a fraction of libmanta's. Included where the
# schema's generated files are known.
set(fuzzed_sources ${manta_sources})
list(FILTER fuzzed_sources INCLUDE REGEX "^src/(base|codec|spec|wire)/")
add_library(manta_fuzzed STATIC EXCLUDE_FROM_ALL ${fuzzed_sources} ${all_schema_files})
target_compile_features(manta_fuzzed PUBLIC cxx_std_20)
target_include_directories(manta_fuzzed
  PUBLIC include src
  PRIVATE SYSTEM "${schema_dir}")
target_link_libraries(manta_fuzzed
  PUBLIC Threads::Threads
  PRIVATE fmt::fmt-header-only manta::capnp manta::openssl)
manta_warnings(manta_fuzzed)
